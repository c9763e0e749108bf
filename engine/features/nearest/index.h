/* SPDX-License-Identifier: MIT
**
** index.h -- the index of nearest neighbours of a store: how it follows the
** table.
**
** engine/math/ivf/ has what an index is.  Here is what keeps those of a store,
** one for each vector with index=, in step with its rows:
**
**   observe.c    is called for each change of a row (kernel/observe.h)
**   maintain.c   the task: makes the index, and brings it up to date
**   build.c      the index that is being made
**   refresh.c    a pass over the lists, for rows that steps have changed
**   load.c       the index as its file has it, brought up to date
**   save.c       and the file (saved.h)
**   verify.c     the check that it agrees with the table
**   indexed.c    searches
**
** An entry only says that a row may be near; each is compared as it is.  So
** what must hold is that a row which is there is found:
**
**   added, put   its key goes to `recent`, whose rows are compared with each
**                query, until the task has put it into its list
**   a step       of a row sets its bit in `dirty`; the task goes through the
**                lists now and then and puts such rows where they belong. Until
**                then a row is found where it was.  So is a row that is put
**                while RECENT_PUTS keys are in `recent`
**   removed      its entry dies at once
**
** INVARIANT N1  A key of the table is in the lists of every index, or in
**               `recent`, while the index is ready.
**           N2  An entry whose key is not in the table dies: it was there when
**               the row was removed, or the task adds it from a row that it
**               had read before.  The latter it notices by `removals`, a count
**               for keys of one hash, which it reads before the row; then the
**               key becomes recent again.
** WHO       The process that owns the store; and one that reads a store which
**           nobody writes to: its rows do not change until it loads another
**           checkpoint, and then it begins anew.  Where another process owns
**           the store, that one answers, or all rows are compared.
** STATES    off          no vector has an index, or another process owns the
**                        store
**           waiting      there are fewer rows than INDEX_ROWS
**           memory       it would not fit into memory=
**           failed       it could not be made; tried again after a while
**           loading      from its file
**           sampling, training, filling      being made
**           ready        searches use it.  When the table has grown fourfold it
**                        is made anew, beside the one that is used
** THREADS   The observer: any session, under a key's latch.  The task: one
**           thread at a time, under `lock`.  Searches: any, with `use` of a
**           set.
** LOCKS     lock, then ckpt_lock never, own.lock perhaps; use_lock and
**           recent_lock are taken last, for some instructions.
*/
#ifndef EMB_NEAREST_INDEX_H
#define EMB_NEAREST_INDEX_H

#include "engine/math/ivf/ivf.h"
#include "engine/storage/kernel/observe.h"
#include "engine/table/scan/scan.h"
#include "engine/table/session/session.h"
#include "saved.h"

#define INDEX_ROWS 1024       /* fewer are compared one by one */
#define RECENT_PUTS 65536     /* rows put that are compared */
#define RECENT_COMPARED 65536 /* more: all rows are compared */
#define RECENT_KEYS 1021      /* in a piece */
#define REMOVALS 4096

enum index_state {
  INDEX_OFF,
  INDEX_WAITING,
  INDEX_MEMORY,
  INDEX_FAILED,
  INDEX_LOADING,
  INDEX_SAMPLING,
  INDEX_TRAINING,
  INDEX_FILLING,
  INDEX_READY,
};

struct recent { /* a piece of the queue */
  struct recent *next;
  uint64_t number; /* of the piece */
  uint32_t n;      /* keys; recent_lock */
  int64_t keys[RECENT_KEYS];
};

struct dirty { /* bits by hash of the key */
  uint64_t mask;
  /* Which words steps set bits in.  Written by the task (release), read by
  ** observers inside the epoch (acquire). */
  _Atomic uint32_t now;
  /* Set by observers, cleared by the task; relaxed: it waits for the epoch
  ** between the two. */
  _Atomic uint64_t *words[2];
};

struct index_set { /* the indexes of a store */
  struct ivf ivf[EMB_SEGMENTS_MAX];
  struct ivf_writer writers[EMB_SEGMENTS_MAX]; /* the task's */
  uint64_t trained_rows; /* of the table when it was made */
  double trained_error;  /* mean square of the residuals then; of all indexes */
  uint32_t users;        /* searches; use_lock */
};

struct building { /* build.c */
  struct index_set *set;
  float *sample[EMB_SEGMENTS_MAX];
  struct ivf_training training[EMB_SEGMENTS_MAX];
  int is_training[EMB_SEGMENTS_MAX];
  int64_t *keys; /* of the sample */
  size_t wanted, count, at, sampled;
  uint32_t removals[REMOVALS]; /* before the piece that is being filled in */
  uint32_t segment;            /* that is being trained */
  emb_scan *scan;              /* of the owner; else */
  struct gather gather;        /* keys of a part of the store's index, */
  uint32_t part;               /* the next one, */
  uint64_t gathered;           /* and how many of those keys are done */
};

struct renewal { /* a pass over the lists, for rows that are dirty */
  int is_on;
  uint32_t segment, list, block;
  uint32_t old;  /* of the dirty words */
  uint64_t bits; /* in them; `behind` counts them until the sweep's end */
  uint64_t ended_us;
};

struct nearest_index {
  emb_store *store;
  struct observer observer;
  int observes; /* lock */
  /* Events are recorded.  Written by the task (and by a reset, alone), read by
  ** observers. */
  _Atomic int follows;
  _Atomic int state; /* enum index_state; the task's, read by any */
  /* `recent` has lost a key: nothing but making the index anew helps.  Set by
  ** observers, cleared by the task. */
  _Atomic int incomplete;
  _Atomic int was_reset; /* the store was loaded anew; cleared by the task */
  _Atomic int may_be;    /* in this process; the task's, for emb_stats */

  spin_lock recent_lock;
  struct recent *first, *last; /* recent_lock */
  uint32_t first_at;           /* keys of the first piece that are done; same */
  uint64_t recent_number;      /* of the last piece; the same */
  _Atomic uint64_t recent_count;
  _Atomic(struct dirty *) dirty;
  _Atomic uint64_t behind; /* bits that were set, about */
  _Atomic uint32_t removals[REMOVALS];
  /* The one that is searched and the one that is being made, or NULL: observers
  ** remove keys from both.  Written by the task, which waits for the epoch
  ** before it frees what was there. */
  _Atomic(struct index_set *) sets[2];

  pthread_mutex_t use_lock;
  pthread_mutex_t lock; /* the task's, as all that follows */
  emb_session *s;
  float *rows, *part;
  uint8_t *found;
  struct building making;
  struct renewal sweep;
  struct loading loading;
  struct saving saving;
  int is_recents_turn; /* it was, last */
  uint64_t again_us;   /* not before */
  emb_err why;         /* failed, or memory */
  int was_asked_for;   /* the file, since the store was loaded */
  int is_saved;        /* there is one, of this state: */
  uint64_t saved_mark, saved_rows;
  uint64_t changed; /* rows that were put into lists since, with repetitions */
  uint64_t save_us; /* not before */

  /* For emb_stats; relaxed. */
  _Atomic int file_state; /* enum saved_state */
  _Atomic uint64_t rebuilds, saves, candidates, searches, bytes, indexed, lists;
};
enum { SET_USED, SET_MADE };

static inline struct nearest_index *nearest_of(const emb_store *store) {
  return store->features[FEATURE_nearest];
}

extern const struct store_file file_nearest; /* load.c */

/* emb_verify: what does not agree is reported.  Waits for the task. */
int nearest_check(emb_session *s, void (*report)(void *, const char *),
                  void *arg);
/* maintain.c.  The index that searches may use until nearest__unuse; NULL if
** there is none. */
struct index_set *nearest__use(struct nearest_index *x);
void nearest__unuse(struct nearest_index *x, struct index_set *set);

static inline struct index_set *index_set_at(struct nearest_index *x, int i) {
  return atomic_load_explicit(&x->sets[i], memory_order_acquire);
}
static inline int index_has(const struct nearest_index *x, uint32_t segment) {
  const struct schema *schema = &x->store->core.schema;
  return segment < schema->count && schema->segments[segment].indexed;
}

/* Of a store that has an index. */
static inline uint32_t indexed_first(const struct nearest_index *x) {
  uint32_t k = 0;
  while (!index_has(x, k)) {
    k++;
  }
  return k;
}

/* ---- observe.c ----------------------------------------------------------- */

/* From the return on every change is recorded.  EMB_FULL. */
int nearest_observe__begin(struct nearest_index *x);
void nearest_observe__end(struct nearest_index *x);
/* Forgets all that is recent. */
void nearest_observe__clear(struct nearest_index *x);
/* 0: no memory, which is noted. */
int nearest_observe__add(struct nearest_index *x, int64_t key);
/* The oldest keys, at most `most`, which stay. */
size_t nearest_observe__oldest(struct nearest_index *x, int64_t *keys,
                               size_t most);
/* The n oldest are done. */
void nearest_observe__done(struct nearest_index *x, size_t n);
/* Keys of the piece with number *number or the next one after it, which goes on
** behind that; at most RECENT_KEYS, 0: there is none. */
size_t nearest_observe__piece(struct nearest_index *x, uint64_t *number,
                              int64_t *keys);
/* Bits for a table of so many rows, all clear.  0: no memory. */
int nearest_observe__dirty(struct nearest_index *x, uint64_t rows);
/* From now on steps set bits elsewhere; which words have those so far. */
uint32_t nearest_observe__turn(struct nearest_index *x);
static inline int dirty_has(const struct dirty *dirty, uint32_t which,
                            int64_t key) {
  uint64_t bit = hash_key(key) & dirty->mask;
  return atomic_load_explicit(&dirty->words[which][bit / 64],
                              memory_order_relaxed) >>
             (bit % 64) &
         1;
}
void nearest_observe__clean(struct nearest_index *x, uint32_t which);
/* The row may not be where it belongs. */
void nearest_observe__dirty_key(struct nearest_index *x, int64_t key);

/* ---- build.c ------------------------------------------------------------- */

/* lists: of each segment, or NULL: as the rows ask for.  NULL: no memory. */
struct index_set *build__new_set(struct nearest_index *x, uint64_t rows,
                                 const uint32_t *lists);
void build__free_set(struct nearest_index *x, struct index_set *set);
/* What indexes of so many rows take, against memory=: 0, with x->why. */
int build__fits(struct nearest_index *x, uint64_t rows);
/* All indexes of a set have the key. */
int build__has(const struct nearest_index *x, struct index_set *set,
               int64_t key);
/* Puts rows where they belong: n keys, at most IVF_ROWS, as they are now. */
int build__apply(struct nearest_index *x, const int64_t *keys, size_t n);
/* One piece of making an index; *done: it is complete. */
int build__begin(struct nearest_index *x);
int build__piece(struct nearest_index *x, int *done);
void build__end(struct nearest_index *x);

/* ---- refresh.c ----------------------------------------------------------- */

/* A pass is due, or under way. */
int refresh__due(struct nearest_index *x);
/* More of the rows than an answer may do without. */
int refresh__is_far_behind(struct nearest_index *x);
uint64_t refresh__rest_us(struct nearest_index *x);
/* Some keys. */
int refresh__piece(struct nearest_index *x, struct index_set *set);

/* ---- load.c, save.c ------------------------------------------------------ */

/* EMB_CANTOPEN: there is no file; another error: it is of no use.  x->why says
** why. */
int load__begin(struct nearest_index *x);
/* One piece; *done: the set that is being made is complete.  After an error it
** has ended. */
int load__piece(struct nearest_index *x, int *done);
/* rc: what it has come to. */
void load__end(struct nearest_index *x, int rc);

/* n keys were put into lists. */
void save__note(struct nearest_index *x, const int64_t *keys, size_t n);
/* When it is to be written, if nothing changes: TASKS_NEVER. */
uint64_t save__rest_us(struct nearest_index *x);
/* One piece; 0: it could not begin. */
int save__piece(struct nearest_index *x, struct index_set *set);
/* What is being written is given up. */
void save__end(struct nearest_index *x);

#endif
