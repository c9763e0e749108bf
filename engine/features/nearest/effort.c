/* SPDX-License-Identifier: MIT
**
** effort.c -- see effort.h.
**
** COST   In nanoseconds of processor time, fitted to searches of tables in
**        memory (2-core Xeon, AVX-512).  A pass over 300,000 rows of 64 floats
**        takes 3.3 ms, a row by key 140 ns.  Lists, with codes of 8 bits: 404
**        of 1,264, 100,000 rows of 64 elements, take 0.22 ms (the model says
**        0.22); 285 of 892, 50,000 of 256, 0.54 ms (0.44); 700 of 2,188,
**        300,000 of 64, 0.77 ms (0.50).  The model only needs to tell which of
**        two ways is faster where they differ by much.  The figures of a disk
**        are rough: 1.7 GB/s, 80,000 reads a second.
*/
#include "effort.h"

#include <math.h>

#include "engine/base/seed.h"
#include "engine/emb.h"

#define ROWS_MAX (1u << 22)
/* Codes of rows in their old lists are out of date, too: if all rows were
** behind, this many times as many more are compared. */
#define BEHIND_ROWS 3.0
#define BEHIND_MUCH 0.1

/* A pass over all rows, for each byte of a record; a list that is put in order;
** one that is probed, for each element, and besides; a code, for each byte, and
** besides; a candidate, looked up and compared, for each byte of its vector,
** and besides. */
#define PASS_BYTE_NS 0.045
#define ORDER_NS 5.0
#define LIST_ELEMENT_NS 3.7
#define LIST_NS 60.0
#define CODE_BYTE_NS 0.035
#define CODE_NS 0.5
#define ROW_BYTE_NS 0.3
#define ROW_NS 140.0
/* A product of two elements, where many queries are compared at once. */
#define PRODUCT_NS 0.017
/* Read from disk, in sequence and at random. */
#define DISK_BYTE_NS 0.6
#define DISK_READ_NS 12000.0

uint32_t effort__extra(uint32_t metric, uint32_t bits, size_t k) {
  size_t bit = metric == EMB_COSINE ? 2 * (k * 16 + 128) : k * 16 + 128;
  size_t extra = bits == 8   ? k / 2 + 6
                 : bits == 4 ? k * 2 + 16
                 : bits == 2 ? k * 3 + 24
                             : bit;
  return bits == 0 ? 0 : extra < ROWS_MAX ? (uint32_t)extra : ROWS_MAX;
}

uint32_t effort__lists(const struct ivf *ivf, uint32_t probes) {
  uint64_t lists = (uint64_t)probes * ivf->shells.count;
  return lists < ivf->lists.count ? (uint32_t)lists : ivf->lists.count;
}

uint32_t effort__centres(const struct ivf *ivf, uint32_t lists) {
  return (lists + ivf->shells.count - 1) / ivf->shells.count;
}

static uint32_t rows_usual(const struct ivf *ivf, size_t k) {
  size_t rows = k + effort__extra(ivf->form.metric, ivf->form.bits, k);
  return rows < ROWS_MAX ? (uint32_t)rows : ROWS_MAX;
}

/* The share of the table's extents that is on disk only. */
static double share_away(const struct core *core) {
  uint64_t first = atomic_load(&core->log.first);
  uint64_t end = (atomic_load(&core->log.tail) >> core->layout.extent_bits) + 1;
  double share = (double)atomic_load(&core->log.resident) /
                 (double)(end > first ? end - first : 1);
  return share < 1 ? 1 - share : 0;
}

/* Per query, of n. */
static double exact_ns(const struct core *core, const struct ivf *ivf,
                       double away, size_t n) {
  double pass =
      core->layout.rec_bytes * (PASS_BYTE_NS + away * DISK_BYTE_NS) / (double)n;
  double products = n > 1 ? ivf->form.dim * PRODUCT_NS : 0;
  return (double)atomic_load(&core->count) * fmax(pass, products);
}

static double indexed_ns(const struct ivf *ivf, const struct effort *effort,
                         double away) {
  double rows = (double)atomic_load_explicit(&ivf->rows, memory_order_relaxed);
  double code = (double)ivf_code_bytes(&ivf->form) * CODE_BYTE_NS + CODE_NS;
  double vector = ivf->form.dim * sizeof(float);
  double part = effort->probes / (double)ivf->lists.count;
  double compared = ivf->form.bits ? effort->rows : rows;
  compared = compared < rows * part ? compared : rows * part;
  return ivf->centres.count * vector * PASS_BYTE_NS +
         ivf->lists.count * ORDER_NS +
         effort->probes * (ivf->form.dim * LIST_ELEMENT_NS + LIST_NS) +
         (ivf->form.bits ? rows * part * code : 0) +
         compared * (vector * ROW_BYTE_NS + ROW_NS + away * DISK_READ_NS);
}

/* The share of the rows that training has moved and that are still in their old
** lists. */
static double share_behind(struct nearest_index *x) {
  double behind = (double)atomic_load(&x->behind);
  double rows = (double)atomic_load(&x->store->core.count);
  return behind < rows ? behind / rows : behind > 0;
}

/* The curve holds for searches without conditions, of rows in their lists.
** With conditions the nearest rows are farther away, and rows that have left
** their lists are missed more often: half of the misses are permitted. */
static int is_harder(const emb_nearest_how *how, double behind) {
  return how->filter ||
         (how->flags & (EMB_NEAREST_RANGE | EMB_NEAREST_KEYS)) != 0 ||
         behind > BEHIND_MUCH;
}

void effort__choose(struct nearest_index *x, struct index_set *set,
                    const emb_nearest_how *how, size_t n, size_t k,
                    struct effort *effort) {
  const struct ivf *ivf = &set->ivf[how->segment];
  const struct ivf_options *options =
      &x->store->core.schema.segments[how->segment].index;
  struct recall_point point = {0};
  uint32_t probes = how->probes       ? how->probes
                    : how->recall > 0 ? 0
                                      : (uint32_t)options->probes;
  if (probes) {
    *effort = (struct effort){.probes = effort__lists(ivf, probes),
                              .rows = rows_usual(ivf, k)};
    pthread_mutex_lock(&x->use_lock);
    effort->order = set->curves[how->segment].order;
    if (!how->probes) {
      (void)recall_pick(&set->curves[how->segment], 0, k, &effort->point);
    }
    pthread_mutex_unlock(&x->use_lock);
    return;
  }
  double recall = how->recall > 0 ? how->recall : options->recall;
  double behind = share_behind(x);
  pthread_mutex_lock(&x->use_lock);
  const struct recall_curve *curve = &set->curves[how->segment];
  uint32_t order = curve->order;
  int good =
      is_harder(how, behind) && recall_pick(curve, (1 + recall) / 2, k, &point);
  good = good || recall_pick(curve, recall, k, &point);
  pthread_mutex_unlock(&x->use_lock);
  if (!EMB_SEED(SEED_OLD_CODES_TRUSTED)) {
    point.rows += (uint32_t)(point.rows * BEHIND_ROWS * behind);
  }
  *effort =
      (struct effort){.probes = point.probes,
                      .order = order,
                      .rows = point.rows < ROWS_MAX ? point.rows : ROWS_MAX,
                      .recall = recall,
                      .point = point};
  double away = share_away(&x->store->core);
  effort->is_exact = !good || indexed_ns(ivf, effort, away) >
                                  exact_ns(&x->store->core, ivf, away, n);
}
