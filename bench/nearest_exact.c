/* SPDX-License-Identifier: MIT
**
** nearest_exact.c -- the exact answer, everything in memory: one query per
** call, and 256 in one call.
*/
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nearest.h"

enum { SINGLES = 16 };

static struct group *new_group(const struct hunt *hunt, const char *how,
                               int threads) {
  return figure_group(
      hunt->figure, path("%s, %s, %s", how, hunt->what, hunt_threads(threads)),
      "queries/s", NAN);
}

static int is_sql(const struct finder_kind *kind) {
  return kind == &finder_emb_sql || kind == &finder_sqlite_vec;
}

/* sqlite-vec uses one thread, emb's statements use all. */
static int takes_part(const struct finder_kind *kind, int threads) {
  return kind == &finder_sqlite_vec ? threads == 1
         : kind == &finder_emb_sql  ? threads == processors()
                                    : 1;
}

static void one_query(const struct hunt *hunt, const struct hunter *hunters,
                      int count, int threads) {
  struct group *group = new_group(hunt, "exact", threads);
  struct hunter these[HUNTERS_MAX];
  int n = 0;
  for (int i = 0; i < count; i++) {
    if (takes_part(hunters[i].kind, threads)) {
      these[n++] = hunters[i];
    }
  }
  hunt_compare(hunt, group, these, n, 1, threads);
  group_ratio(group, "emb C", "bare read", AT_LEAST, threads == 1 ? 0.85 : 0);
  group_ratio(group, "emb C", "FAISS flat", AT_LEAST, 2.5);
  group_ratio(group, "emb C", "sqlite-vec", AT_LEAST, 5);
  group_ratio(group, "emb SQL", "emb C", AT_LEAST, 0);
}

static void many_queries(const struct hunt *hunt, const struct hunter *hunters,
                         int count, int threads) {
  struct group *group = new_group(hunt, "exact in one call", threads);
  struct hunter these[HUNTERS_MAX];
  int n = 0;
  for (int i = 0; i < count; i++) {
    if (!is_sql(hunters[i].kind) && hunters[i].kind != &finder_read) {
      these[n++] = hunters[i];
    }
  }
  hunt_compare(hunt, group, these, n, hunt->points.asked, threads);
  group_ratio(group, "emb C", "FAISS flat", AT_LEAST, 2);
}

void hunt_exact(struct hunt *hunt) {
  static const struct finder_kind *const kinds[] = {
      &finder_read,       &finder_emb,        &finder_emb_sql,
      &finder_faiss_flat, &finder_sqlite_vec,
  };
  struct hunter hunters[HUNTERS_MAX];
  int count = 0;
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
    count += hunter_open(hunt, kinds[i], &hunters[count]);
  }
  for (int i = 0; i < count; i++) {
    if (hunters[i].kind == &finder_emb) {
      hunt_verify(hunt, &hunters[i], hunt->points.asked, hunt->points.asked);
    }
    if (hunters[i].kind == &finder_emb || hunters[i].kind == &finder_emb_sql) {
      hunt_verify(hunt, &hunters[i], SINGLES, 1);
    }
  }
  for (int threads = 1; threads <= processors() && threads <= 2; threads++) {
    one_query(hunt, hunters, count, threads);
    many_queries(hunt, hunters, count, threads);
  }
  for (int i = 0; i < count; i++) {
    hunter_close(&hunters[i]);
  }
}
