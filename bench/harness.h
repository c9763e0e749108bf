/* SPDX-License-Identifier: MIT
**
** harness.h -- shared by all benchmarks: options, clocks, processors, rounds,
** and the table of results.
**
** FIGURE    One comparison is one struct figure: groups of series, each with a
**           value per round.  Compared values come from the same round of the
**           same run: the ratio is taken within each round, and its median,
**           minimum and maximum over the rounds are reported.  figure_done
**           prints the figure and writes <out>/<name>.tsv, which
**           bench/report.tcl turns into tables and plots.
** ERRORS    These are programs: any error ends them with a message.
*/
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

#include <stddef.h>
#include <stdint.h>

struct options {
  int quick;             /* small sizes: a smoke test with numbers */
  int rounds;            /* per value */
  double seconds;        /* minimum length of one measurement */
  size_t keys;           /* 0: the benchmark chooses */
  const char *data;      /* directory for files, on a real disk */
  const char *out;       /* directory for results */
  const char *extension; /* emb.so */
  const char *base;      /* another emb.so to compare with, or NULL */
  const char *trainer;   /* program built from sql/examples/wordnet/ */
  const char *only;      /* NULL, or: only series whose name contains this */
};

/* ---- basics -------------------------------------------------------------- */

void die(const char *format, ...)
    __attribute__((noreturn, format(printf, 1, 2)));
/* calloc; ends the program on failure. */
void *need(size_t count, size_t size);
/* Zeroed memory for data, shared with children; in huge pages if the kernel has
** them. */
void *need_huge(size_t bytes);
void drop_huge(void *memory, size_t bytes);
/* Touches as much free memory as this, and frees it again.  A virtual machine's
** host takes free memory back within seconds; the next to touch it waits up to
** 3 s per GB instead of 0.14.  Call right before what takes new memory is
** timed. */
void touch_memory(size_t bytes);

double now(void); /* seconds, monotonic */
void nap(double seconds);

/* Binds the calling thread to this processor, modulo their number. */
void pin(int number);
/* Runs the work in a thread bound to the first processor, and waits.  Threads
** that a store starts inherit the binding of the thread that opens it, so
** stores must be opened outside. */
void run_pinned(void (*work)(void *arg), void *arg);
int processors(void);

/* Processor time in seconds. */
double cpu_of_thread(void);
double cpu_of_process(void);
/* Of the whole machine, including interrupts and stolen time. */
double cpu_of_machine(void);
/* Bytes this process caused to be written to or read from disk. */
uint64_t disk_bytes_written(void);
uint64_t disk_bytes_read(void);
/* Memory of this process, in bytes. */
uint64_t resident_bytes(void);
uint64_t resident_peak_bytes(void);

/* Waits until the process has been idle for a moment (or 30 s), so that
** background work left by one contestant does not run in the next one's
** round. */
void settle(void);

/* Paths. */
const char *path(const char *format, ...) /* in a ring of static buffers */
    __attribute__((format(printf, 1, 2)));
void make_directory(const char *directory);
void remove_tree(const char *directory);
uint64_t tree_bytes(const char *directory); /* on disk: allocated blocks */
/* Writes everything below the directory to disk and drops it from the page
** cache. */
void forget_tree(const char *directory);

/* ---- results ------------------------------------------------------------- */

/* Cost of a measurement.  Cores: processor seconds per second. */
struct usage {
  double cores;          /* this contestant's process, all its threads */
  double cores_engine;   /* of these, not in threads that call it */
  double cores_others;   /* the rest of the machine; near 0 if quiet */
  double p50_us, p99_us; /* latency of one call with a batch */
};

enum relation { AT_LEAST, AT_MOST };
/* Values of a series at most. */
enum { FIGURE_ROUNDS = 256 };

struct figure;
struct group;

struct figure *figure_new(const struct options *options, const char *name,
                          const char *title);
void figure_note(struct figure *figure, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Groups are plotted as dots, one panel each.  With an axis they are plotted as
** points of lines instead; x is the group's position on the axis. */
void figure_axis(struct figure *figure, const char *label);
/* As figure_axis, but positions are integers from 0, labelled with the text
** after the comma in the groups' names. */
void figure_steps(struct figure *figure, const char *label);
struct group *figure_group(struct figure *figure, const char *name,
                           const char *unit, double x);

/* One value of one round; usage may be NULL. */
void group_add(struct group *group, const char *series, int round, double value,
               const struct usage *usage);
/* Reports the ratio of two series of the group; target 0: no target. */
void group_ratio(struct group *group, const char *above, const char *below,
                 enum relation relation, double target);
/* Sets a target for the median of one series. */
void group_bound(struct group *group, const char *series,
                 enum relation relation, double target);

void figure_done(struct figure *figure);

#endif
