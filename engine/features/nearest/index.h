/* SPDX-License-Identifier: MIT
**
** index.h -- the index of nearest neighbours of a store: how it follows the
** table.
**
** engine/math/ivf/ implements an index.  These files keep the indexes of a
** store, one for each vector with index=, in step with its rows:
**
**   observe.c    called for each change of a row (kernel/observe.h)
**   maintain.c   the task: builds the index and brings it up to date
**   build.c      an index under construction
**   refresh.c    a pass over the lists, for rows changed by training steps
**   load.c       loads the index from its file and brings it up to date
**   save.c       writes the file (saved.h)
**   measure.c    measures the recall; asked.c keeps queries for it
**   effort.c     chooses how a search uses the index
**   verify.c     the check that the index agrees with the table
**   indexed.c    searches
**
** An entry only says that a row may be near; the row itself is compared by its
** current value.  So the index must ensure only that every row is found:
**
**   added, put   the key goes to `recent`, whose rows are compared with each
**                query, until the task has put it into its list
**   a step       sets the row's bit in `dirty`; from time to time the task goes
**                through the lists and moves such rows to the right list.
**                Until then a row is found in its old list.  A row put while
**                RECENT_PUTS keys are in `recent` is treated likewise
**   removed      the entry dies immediately
**
** INVARIANT N1  While the index is ready, a key of the table is in the lists of
**               every index or in `recent`.
**           N2  An entry whose key is not in the table dies.  Either the entry
**               existed when the row was removed, or the task adds it from a
**               row it had read before.  The task detects the latter by
**               `removals`, a count per hash of the key, which it reads before
**               the row; the key then becomes recent again.
** WHO       The process that owns the store, and one that reads a store that no
**           process writes to: its rows do not change until it loads another
**           checkpoint, and then it starts over.  If another process owns the
**           store, that process answers, or all rows are compared.
** STATES    off          no vector has an index, or another process owns the
**                        store
**           waiting      there are fewer rows than INDEX_ROWS
**           memory       the index would not fit into memory=
**           failed       it could not be built; retried after a while
**           loading      from its file
**           sampling, training, filling      being built
**           measuring    its recall, before it is used (measure.h)
**           ready        searches use it.  When the table has grown fourfold a
**                        new index is built next to the one in use
** THREADS   The observer: any session, under a key's latch.  The task: one
**           thread at a time, under `lock`.  Searches: any thread, with
**           nearest__use of a set.
** LOCKS     After `lock`, own.lock may be taken, but never ckpt_lock; use_lock
**           and recent_lock are taken last, for a few instructions.
*/
#ifndef EMB_NEAREST_INDEX_H
#define EMB_NEAREST_INDEX_H

#include "asked.h"
#include "engine/math/ivf/ivf.h"
#include "engine/math/ivf/recall.h"
#include "engine/storage/kernel/observe.h"
#include "engine/table/scan/scan.h"
#include "engine/table/session/session.h"
#include "measure.h"
#include "saved.h"
#include "walk.h"

#define INDEX_ROWS 1024       /* fewer are compared one by one */
#define RECENT_PUTS 65536     /* rows put beyond these become dirty */
#define RECENT_COMPARED 65536 /* if more, all rows are compared */
#define RECENT_KEYS 1021      /* per piece */
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
  INDEX_MEASURING,
  INDEX_READY,
};

struct recent { /* a piece of the queue */
  struct recent *next;
  uint64_t number; /* of the piece */
  uint32_t n;      /* keys; recent_lock */
  int64_t keys[RECENT_KEYS];
};

struct dirty { /* bits, by hash of the key */
  uint64_t mask;
  /* The words in which steps set bits now.  Written by the task (release), read
  ** by observers inside the epoch (acquire). */
  _Atomic uint32_t now;
  /* Set by observers, cleared by the task; relaxed, as the task waits for the
  ** epoch between the two. */
  _Atomic uint64_t *words[2];
};

struct index_set { /* the indexes of a store */
  struct ivf ivf[EMB_SEGMENTS_MAX];
  struct ivf_writer writers[EMB_SEGMENTS_MAX]; /* the task's */
  uint64_t trained_rows; /* of the table when it was built */
  double trained_error;  /* mean square residual then; over all indexes */
  uint32_t users;        /* searches; use_lock */
  /* The recall that was measured; written by the task under use_lock. */
  struct recall_curve curves[EMB_SEGMENTS_MAX];
  /* Since then, the task's: rows put into lists; queries asked until then. */
  uint64_t changed[EMB_SEGMENTS_MAX], asked_seen[EMB_SEGMENTS_MAX];
};

struct building { /* build.c */
  struct index_set *set;
  int is_loaded; /* from the file */
  float *sample[EMB_SEGMENTS_MAX];
  struct ivf_training training[EMB_SEGMENTS_MAX];
  int is_training[EMB_SEGMENTS_MAX];
  int64_t *keys; /* of the sample */
  size_t wanted, count, at, sampled;
  uint32_t removals[REMOVALS]; /* before the current piece of the fill */
  uint32_t segment;            /* being trained */
  struct walk walk;
};

struct renewal { /* a pass over the lists, for dirty rows */
  int is_on;
  uint32_t segment, list, block;
  uint32_t old;  /* of the dirty words */
  uint64_t bits; /* set in them; `behind` counts them until the end */
  uint64_t ended_us;
};

struct nearest_index {
  emb_store *store;
  struct observer observer;
  int observes; /* lock */
  /* Are events recorded?  Written by the task (and by a reset, alone), read by
  ** observers. */
  _Atomic int follows;
  _Atomic int state; /* enum index_state; the task's, read by any */
  /* `recent` has lost a key: the index must be rebuilt.  Set by observers,
  ** cleared by the task. */
  _Atomic int incomplete;
  _Atomic int was_reset; /* the store was reloaded; cleared by the task */
  _Atomic int may_be;    /* may it exist in this process?; for emb_stats */

  spin_lock recent_lock;
  struct recent *first, *last; /* recent_lock */
  uint32_t first_at;           /* keys of `first` already done; recent_lock */
  uint64_t recent_number;      /* of the last piece; recent_lock */
  _Atomic uint64_t recent_count;
  _Atomic(struct dirty *) dirty;
  _Atomic uint64_t behind; /* approximate number of bits set */
  _Atomic uint32_t removals[REMOVALS];
  /* The set in use and the set being built, or NULL: observers remove keys from
  ** both.  Written by the task, which waits for the epoch before it frees the
  ** old one. */
  _Atomic(struct index_set *) sets[2];
  struct asked asked[EMB_SEGMENTS_MAX];

  pthread_mutex_t use_lock;
  pthread_mutex_t lock; /* the task's; protects all that follows */
  emb_session *s;
  float *rows, *part;
  uint8_t *found;
  struct building making;
  struct renewal sweep;
  struct loading loading;
  struct saving saving;
  struct measuring measuring;
  uint64_t measure_us; /* not before */
  int is_recents_turn; /* was it, in the last piece? */
  uint64_t again_us;   /* not before */
  emb_err why;         /* of INDEX_FAILED, INDEX_MEMORY */
  int was_asked_for;   /* was the file, since the store was loaded? */
  int is_saved;        /* there is a file, of this state: */
  uint64_t saved_mark, saved_rows;
  uint64_t changed; /* rows put into lists since, with repetitions */
  uint64_t save_us; /* not before */

  /* For emb_stats; relaxed. */
  _Atomic int file_state; /* enum saved_state */
  _Atomic uint64_t rebuilds, saves, candidates, searches, bytes, indexed, lists;
  _Atomic uint64_t promised, recall, measured_at, measured;
};
enum { SET_USED, SET_MADE };

static inline struct nearest_index *nearest_of(const emb_store *store) {
  return store->features[FEATURE_nearest];
}

extern const struct store_file file_nearest; /* load.c */

/* For emb_verify: reports everything that does not agree.  Waits for the
** task. */
int nearest_check(emb_session *s, void (*report)(void *, const char *),
                  void *arg);
/* maintain.c.  The set that searches may use until nearest__unuse; NULL if
** there is none. */
struct index_set *nearest__use(struct nearest_index *x);
void nearest__unuse(struct nearest_index *x, struct index_set *set);

/* nearest_valid.c: only in self-checking builds.  Between pieces, under
** `lock`. */
int nearest_valid(const struct nearest_index *x);
int index_set_valid(const struct nearest_index *x, const struct index_set *set);
/* Under recent_lock. */
int recent_valid(const struct nearest_index *x);
int dirty_valid(const struct dirty *dirty);

static inline struct index_set *index_set_at(const struct nearest_index *x,
                                             int i) {
  return atomic_load_explicit(&x->sets[i], memory_order_acquire);
}
static inline int index_has(const struct nearest_index *x, uint32_t segment) {
  const struct schema *schema = &x->store->core.schema;
  return segment < schema->count && schema->segments[segment].indexed;
}

/* The first indexed segment of a store that has one. */
static inline uint32_t indexed_first(const struct nearest_index *x) {
  uint32_t k = 0;
  while (!index_has(x, k)) {
    k++;
  }
  return k;
}

/* ---- observe.c ----------------------------------------------------------- */

/* After this returns every change is recorded.  EMB_FULL. */
int nearest_observe__begin(struct nearest_index *x);
void nearest_observe__end(struct nearest_index *x);
/* Drops all recent keys. */
void nearest_observe__clear(struct nearest_index *x);
/* Makes a key recent.  0: out of memory; `incomplete` is set. */
int nearest_observe__add(struct nearest_index *x, int64_t key);
/* Copies the oldest recent keys, at most `most`; they stay in the queue. */
size_t nearest_observe__oldest(struct nearest_index *x, int64_t *keys,
                               size_t most);
/* Drops the n oldest keys. */
void nearest_observe__done(struct nearest_index *x, size_t n);
/* Copies the keys of the piece *number, or of the next one after it, and sets
** *number to continue behind it.  At most RECENT_KEYS; 0: there is none. */
size_t nearest_observe__piece(struct nearest_index *x, uint64_t *number,
                              int64_t *keys);
/* Allocates bits for a table of `rows` rows, all clear.  0: out of memory. */
int nearest_observe__dirty(struct nearest_index *x, uint64_t rows);
/* Steps set bits in the other words from now on.  Returns the index of the old
** words. */
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
/* Marks a row that may be in the wrong list. */
void nearest_observe__dirty_key(struct nearest_index *x, int64_t key);

/* ---- build.c ------------------------------------------------------------- */

/* saved: per segment, or NULL: centres and shells are chosen by the number of
** rows.  Returns NULL if out of memory. */
struct index_set *build__new_set(struct nearest_index *x, uint64_t rows,
                                 const struct saved_part *const *saved);
void build__free_set(struct nearest_index *x, struct index_set *set);
/* Do indexes of this many rows fit into memory=? 0: no, and x->why is set. */
int build__fits(struct nearest_index *x, uint64_t rows);
/* Is the key in all indexes of a set? */
int build__has(const struct nearest_index *x, struct index_set *set,
               int64_t key);
/* Puts the rows of n keys, at most IVF_ROWS, into the lists where they belong
** by their current values. */
int build__apply(struct nearest_index *x, const int64_t *keys, size_t n);
/* Does one piece of building an index; *done: it is complete. */
int build__begin(struct nearest_index *x);
int build__piece(struct nearest_index *x, int *done);
void build__end(struct nearest_index *x);

/* ---- refresh.c ----------------------------------------------------------- */

/* Is a pass due, or under way? */
int refresh__due(struct nearest_index *x);
/* Are more rows dirty than an answer may miss? */
int refresh__is_far_behind(struct nearest_index *x);
uint64_t refresh__rest_us(struct nearest_index *x);
/* Handles some keys. */
int refresh__piece(struct nearest_index *x, struct index_set *set);

/* ---- load.c, save.c ------------------------------------------------------ */

/* EMB_CANTOPEN: there is no file; another error: the file cannot be used.
** x->why has the reason. */
int load__begin(struct nearest_index *x);
/* Does one piece; *done: the set being built is complete.  After an error
** loading has ended. */
int load__piece(struct nearest_index *x, int *done);
/* Ends loading with result rc. */
void load__end(struct nearest_index *x, int rc);

/* Notes that n keys were put into lists. */
void save__note(struct nearest_index *x, const int64_t *keys, size_t n);
/* Microseconds until the next save; TASKS_NEVER: not before something
** changes. */
uint64_t save__rest_us(struct nearest_index *x);
/* Does one piece.  0: it could not begin. */
int save__piece(struct nearest_index *x, struct index_set *set);
/* Abandons the file being written. */
void save__end(struct nearest_index *x);

#endif
