/* SPDX-License-Identifier: MIT
**
** value.h -- computes a row's new value from its old value and a call's
** arguments.
**
** Put, rmw and apply_gradients differ only in what they do to the vectors and
** the optimizer state.  change.c (immediate) and txn.c (in a transaction)
** decide where the old value comes from and where the new one goes.
*/
#ifndef EMB_ROWS_VALUE_H
#define EMB_ROWS_VALUE_H

#include "engine/table/session/session.h"

enum change_kind {
  CHANGE_SET,    /* the row, or parts of it; the state stays */
  CHANGE_ADD,    /* the vectors plus the row; the state stays */
  CHANGE_STEP,   /* one step of the optimizers with the row as gradient */
  CHANGE_CREATE, /* absent keys get initial values; present ones stay */
  CHANGE_LOOKUP, /* as CREATE; the row counts the lookup */
  CHANGE_COPY,   /* a stored value, in `value` */
};

struct row_change {
  enum change_kind kind;
  uint32_t parts;    /* for SET and STEP: segments, a bit each; 0: all */
  const float *rows; /* one row per key; none for CREATE */
  const void *value;
  const float *read;     /* rows the gradients were computed from, or NULL */
  const uint32_t *times; /* how many rows each stands for; NULL: as often as its
                            key occurs in the batch */
  struct optim_step how; /* lr and step; the rest is set per row */
};

/* Values of rows of a chunk that were read from disk.  A value is valid as long
** as the key's log address is `at`, because records on disk do not change. */
struct loaded {
  char *values;
  uint64_t *at;   /* per row, 0: not loaded */
  uint32_t *rows; /* scratch, one per row */
};

/* Does a record hold more than the vectors of a Put? */
static inline int value_is_wide(const struct layout *l) {
  return l->value_bytes != l->vector_bytes;
}

/* Allocates for one chunk of the session; EMB_NOMEM. */
int loaded_init(emb_session *s, struct loaded *loaded);
void loaded_free(emb_session *s, struct loaded *loaded);
/* Reads the rows s->cold[0..cold), which are rows of `keys`.  Rows whose
** records moved during the read are appended to s->rows (*again counts them)
** and not loaded. */
int loaded_read(emb_session *s, struct loaded *loaded, const int64_t *keys,
                uint32_t cold, uint32_t *again);
static inline const void *loaded_value(const emb_session *s,
                                       const struct loaded *loaded,
                                       uint32_t row, uint64_t at) {
  emb_assert(row < s->chunk);
  return loaded->at[row] == at
             ? loaded->values + (size_t)row * s->core->layout.value_bytes
             : NULL;
}

/* Sets s->clock.now at the start of a call: the session's own time if it has
** one, else the store's clock. */
void value_begin_call(emb_session *s);
/* Records that a write happened at this time. */
void value_saw_time(struct core *core, uint32_t now);
/* The track after `times` more updates; an older clock makes no row older. */
static inline emb_track value_track(const emb_session *s, emb_track t,
                                    uint32_t times) {
  t.updated_at = s->clock.now > t.updated_at ? s->clock.now : t.updated_at;
  t.frequency =
      t.frequency < UINT32_MAX - times ? t.frequency + times : UINT32_MAX;
  return t;
}
/* Does the change add absent keys? */
int value_adds(const emb_session *s, const struct row_change *change);
/* Does the table admit an absent key that occurred `times` times?  Asked once
** per row, when the key is about to be added.  If not, the change to it is
** dropped. */
int value_admits(emb_session *s, const struct row_change *change, int64_t key,
                 uint32_t times);
struct value_row {   /* a row of a batch */
  const float *says; /* the change's input for it */
  const float *read; /* as in struct row_change */
  uint32_t times;    /* rows of the batch it stands for */
  int64_t key;
  uint64_t version; /* the new one */
};
/* Writes the new value of a key to `to`.  old: the old value, NULL if the key
** is absent; must not be `to`.  0: the new value would not be finite. */
int value_make(emb_session *s, const struct row_change *change,
               const struct value_row *row, const void *old, void *to);

/* Can the value be changed in place, without a copy?  If so, a change that
** fails leaves it unchanged. */
int value__works_in_place(const emb_session *s,
                          const struct row_change *change);
/* As value_make, with the old value in `value`. */
int value__update(emb_session *s, const struct row_change *change,
                  const struct value_row *row, void *value);

#endif
