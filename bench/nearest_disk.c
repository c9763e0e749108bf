/* SPDX-License-Identifier: MIT
**
** nearest_disk.c -- a table eight times as large as its memory.  The exact
** answer is compared with a sequential read of its file, of as many bytes as
** are not in memory.  With an index: recall, 4 KiB pages read per query (by the
** system's count), and queries per second against the device's random reads.
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "finder_emb.h"
#include "keys.h"
#include "nearest.h"
#include "store.h"

enum { LARGER = 8, EFFORTS = 5, READS = 8192, PAGE = 4096 };
static const int efforts[EFFORTS] = {8, 16, 32, 64, 128};
static const double WANTED = 0.95;
/* The target is 200 queries/s at 80,000 reads/s. */
static const char PER_400[] = "random reads / 400";

static struct finder_options disk_options(const struct hunt *hunt,
                                          const char *name) {
  struct finder_options options = hunt_options(hunt, name);
  options.memory_bytes =
      hunt->points.n * hunt->points.dim * sizeof(float) / LARGER;
  return options;
}

static void exact(const struct hunt *hunt) {
  struct finder_options options = disk_options(hunt, "emb C");
  struct emb_finder *emb = emb_finder_open(&options, 0);
  settle();
  int64_t log = emb_finder_figure(emb, "log_bytes");
  int64_t rows = emb_finder_figure(emb, "rows_in_memory");
  double beyond = 1 - (double)rows / (double)hunt->points.n;
  options.memory_bytes = (uint64_t)(beyond * (double)log);
  struct hunter hunters[] = {{&finder_device, finder_device.open(&options)},
                             {&finder_emb, emb}};
  figure_note(hunt->figure,
              "on disk: %zu vectors of %zu elements, budget %.0f MiB, file %.0f"
              " MiB, %.0f %% of the rows in memory",
              hunt->points.n, hunt->points.dim,
              (double)emb_finder_figure(emb, "memory_bytes") / 0x1p20,
              (double)log / 0x1p20, 100 - 100 * beyond);
  hunt_verify(hunt, &hunters[1], hunt->points.asked, hunt->points.asked);
  for (int threads = 1; threads <= processors() && threads <= 2; threads++) {
    struct group *group = figure_group(
        hunt->figure, path("exact, on disk, %s", hunt_threads(threads)),
        "queries/s", NAN);
    hunt_compare(hunt, group, hunters, 2, 1, threads);
    group_ratio(group, "emb C", "sequential read", AT_LEAST,
                threads == 1 ? 0 : 0.9);
  }
  hunter_close(&hunters[0]);
  hunter_close(&hunters[1]);
}

/* ---- with an index ------------------------------------------------------- */

/* Random reads per second. */
static double device_reads(const struct hunt *hunt) {
  struct store_options options = {.dim = hunt->points.dim};
  float *nothing = need(1, sizeof(*nothing));
  snprintf(options.directory, sizeof(options.directory), "%s/device",
           hunt->options->data);
  make_directory(options.directory);
  void *store = store_device_read.open(&options);
  void *session = store_device_read.session_open(store);
  double start = now(), took = 0;
  size_t reads = 0;
  for (; took < 2 * hunt->seconds; took = now() - start) {
    store_device_read.get(session, NULL, READS, nothing);
    reads += READS;
  }
  store_device_read.session_close(session);
  store_device_read.close(store);
  free(nothing);
  return (double)reads / took;
}

/* The least effort that reaches the target recall, or else the greatest. */
static int choose(const struct hunt *hunt, const struct hunter *hunter,
                  double *recall) {
  int i = 0;
  while ((*recall = hunt_recall(hunt, hunter, ASKED, efforts[i])) < WANTED &&
         i + 1 < EFFORTS) {
    i++;
  }
  return efforts[i];
}

static void indexed(const struct hunt *hunt) {
  struct finder_options options = disk_options(hunt, "emb C");
  struct emb_finder *emb = emb_finder_open(&options, EMB_FINDER_INDEX);
  struct hunter hunter = {&finder_emb_index, emb};
  double recall;
  index_wait(emb);
  settle();
  int effort = choose(hunt, &hunter, &recall);
  figure_note(hunt->figure,
              "indexed, on disk: %d probes, recall %.3f, index"
              " %.1f MiB",
              effort, recall, (double)index_bytes(emb) / 0x1p20);
  for (int threads = 1; threads <= processors() && threads <= 2; threads++) {
    const char *what = path("indexed, on disk, %s", hunt_threads(threads));
    struct group *rates = figure_group(hunt->figure, what, "queries/s", NAN);
    struct group *pages =
        figure_group(hunt->figure, what, "pages a query", NAN);
    for (int round = 0; round < hunt->options->rounds; round++) {
      settle();
      uint64_t before = disk_bytes_read();
      struct turn turn = hunt_turn(hunt, &hunter, 1, threads, effort);
      double read = (double)(disk_bytes_read() - before) / PAGE;
      group_add(rates, "emb index", round, turn.rate, &turn.usage);
      group_add(pages, "emb index", round, read / (double)turn.queries, NULL);
      group_add(rates, PER_400, round, device_reads(hunt) / 400, NULL);
    }
    group_ratio(rates, "emb index", PER_400, AT_LEAST, 5);
    group_bound(pages, "emb index", AT_MOST, 25);
  }
  struct group *group =
      figure_group(hunt->figure, "indexed, on disk", "recall@10", NAN);
  group_add(group, "emb index", 0, recall, NULL);
  group_bound(group, "emb index", AT_LEAST, WANTED);
  hunter_close(&hunter);
}

void hunt_on_disk(struct hunt *hunt) {
  hunt_find_truth(hunt);
  exact(hunt);
  if (index_is_possible()) {
    indexed(hunt);
  } else {
    figure_note(hunt->figure, "on disk: emb has no index");
  }
}
