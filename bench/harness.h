/* SPDX-License-Identifier: MIT
**
** harness.h -- what all benchmarks share: options, clocks, processors, rounds,
** and the table of results.
**
** FIGURE    One comparison is one struct figure: groups of series, each with a
**           value per round.  Values that are compared come from the same
**           round of the same run: a ratio is taken within each round, and
**           then its median, minimum and maximum over the rounds.
**           figure_done prints the figure and writes <out>/<name>.tsv, which
**           bench/report.tcl turns into tables and plots.
** ERRORS    These are programs: what goes wrong ends them with a message.
*/
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

#include <stddef.h>
#include <stdint.h>

struct options {
  int quick;             /* small sizes: a smoke test with numbers */
  int rounds;            /* per value */
  double seconds;        /* of one measurement, at least */
  size_t keys;           /* 0: as the benchmark sees fit */
  const char *data;      /* directory for files, on a real disk */
  const char *out;       /* directory for results */
  const char *extension; /* emb.so */
  const char *base;      /* another emb.so to compare it with, or NULL */
  const char *trainer;   /* program that was made of sql/examples/wordnet/ */
  const char *only;      /* NULL, or: only series whose name contains this */
};

/* ---- the ground ---------------------------------------------------------- */

void die(const char *format, ...)
    __attribute__((noreturn, format(printf, 1, 2)));
/* calloc, or the end. */
void *need(size_t count, size_t size);
/* Zeroed memory for data: huge pages where the kernel has them, shared with
** children. */
void *need_huge(size_t bytes);
void drop_huge(void *memory, size_t bytes);

double now(void); /* seconds, monotonic */
void nap(double seconds);

/* Binds the calling thread to the processor of that number, modulo those
** there are. */
void pin(int number);
/* Runs the work in a thread bound to the first processor, and waits.  Threads
** that a store starts take over the binding of the one that opens it, so
** stores are opened outside. */
void run_pinned(void (*work)(void *arg), void *arg);
int processors(void);

/* Processor time in seconds. */
double cpu_of_thread(void);
double cpu_of_process(void);
/* Of the whole machine, interrupts and stolen time among it. */
double cpu_of_machine(void);
/* Bytes that this process caused to be written to or read from a disk. */
uint64_t disk_bytes_written(void);
uint64_t disk_bytes_read(void);
/* Memory of this process, in bytes. */
uint64_t resident_bytes(void);
uint64_t resident_peak_bytes(void);

/* Waits until the process has not worked for a moment (or 30 s): background
** work that one contestant left must not run in the round of the next. */
void settle(void);

/* Paths. */
const char *path(const char *format, ...) /* in a ring of static buffers */
    __attribute__((format(printf, 1, 2)));
void make_directory(const char *directory);
void remove_tree(const char *directory);
uint64_t tree_bytes(const char *directory); /* on disk: allocated blocks */
/* Writes everything below it to disk and takes it out of the page cache. */
void forget_tree(const char *directory);

/* ---- results ------------------------------------------------------------- */

/* What a measurement cost.  Cores: processor seconds per second. */
struct usage {
  double cores;          /* this contestant's process, all its threads */
  double cores_engine;   /* of these not in the threads that call it */
  double cores_others;   /* the rest of the machine; near 0 when it is quiet */
  double p50_us, p99_us; /* latency of one call with a batch */
};

enum relation { AT_LEAST, AT_MOST };

struct figure;
struct group;

struct figure *figure_new(const struct options *options, const char *name,
                          const char *title);
void figure_note(struct figure *figure, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Groups are plotted as dots, one panel each.  With an axis they are points
** of lines instead: x is the group's place on it. */
void figure_axis(struct figure *figure, const char *label);
/* The same; places are whole numbers from 0, and are labelled with what stands
** after the comma in the groups' names. */
void figure_steps(struct figure *figure, const char *label);
struct group *figure_group(struct figure *figure, const char *name,
                           const char *unit, double x);

/* One value of one round; usage may be NULL. */
void group_add(struct group *group, const char *series, int round, double value,
               const struct usage *usage);
/* The ratio of two series of the group; target 0: no target. */
void group_ratio(struct group *group, const char *above, const char *below,
                 enum relation relation, double target);
/* A target for the median of a series itself. */
void group_bound(struct group *group, const char *series,
                 enum relation relation, double target);

void figure_done(struct figure *figure);

#endif
