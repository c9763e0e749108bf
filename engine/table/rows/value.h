/* SPDX-License-Identifier: MIT
**
** value.h -- the new value of a row from the old one and what a call says.
**
** Put, rmw and apply_gradients differ in this only: what becomes of the vectors
** and the optimizers' state.  change.c (at once) and txn.c (in a transaction)
** decide where the old value comes from and where the new one goes.
*/
#ifndef EMB_ROWS_VALUE_H
#define EMB_ROWS_VALUE_H

#include "engine/table/session/session.h"

enum change_kind {
  CHANGE_SET,    /* the row, or parts of it; the state stays */
  CHANGE_ADD,    /* the vectors plus the row; the state stays */
  CHANGE_STEP,   /* one step of the optimizers with the row as gradient */
  CHANGE_CREATE, /* nothing where the key is there, else as it begins */
  CHANGE_LOOKUP, /* the same; and the row counts that it was looked up */
  CHANGE_COPY,   /* a stored value, in `value` */
};

struct row_change {
  enum change_kind kind;
  uint32_t parts;    /* of SET: segments, a bit each; 0: all */
  const float *rows; /* a row per key; none for CREATE */
  const void *value;
  const float *read;     /* rows the gradients were computed from, or NULL */
  const uint32_t *times; /* how many rows each stands for; NULL: as the batch
                            repeats its key */
  struct optim_step how; /* lr and step; the rest is the row's */
};

/* Values of rows of a chunk that were read from disk.  One is right as long as
** the key's log address is `at`, for what is on disk does not change. */
struct loaded {
  char *values;
  uint64_t *at;   /* per row, 0: not loaded */
  uint32_t *rows; /* scratch, as many */
};

/* Is a record more than what a Put says? */
static inline int value_is_wide(const struct layout *l) {
  return l->value_bytes != l->vector_bytes;
}

/* Room for a chunk of the session; EMB_NOMEM. */
int loaded_init(emb_session *s, struct loaded *loaded);
void loaded_free(emb_session *s, struct loaded *loaded);
/* Reads the rows s->cold[0..cold), which are rows of `keys`.  Those that moved
** meanwhile are appended to s->rows (*again counts them) and not loaded. */
int loaded_read(emb_session *s, struct loaded *loaded, const int64_t *keys,
                uint32_t cold, uint32_t *again);
static inline const void *loaded_value(const emb_session *s,
                                       const struct loaded *loaded,
                                       uint32_t row, uint64_t at) {
  return loaded->at[row] == at
             ? loaded->values + (size_t)row * s->core->layout.value_bytes
             : NULL;
}

/* The time of the writes of a call, which begins: the session's own, else what
** the store's clock says; kept in s->clock.now. */
void value_begin_call(emb_session *s);
/* There was a write at this time. */
void value_saw_time(struct core *core, uint32_t now);
/* What a row tracks after so many updates more; an old time does not make a row
** older. */
static inline emb_track value_track(const emb_session *s, emb_track t,
                                    uint32_t times) {
  t.updated_at = s->clock.now > t.updated_at ? s->clock.now : t.updated_at;
  t.frequency =
      t.frequency < UINT32_MAX - times ? t.frequency + times : UINT32_MAX;
  return t;
}
/* Is a key that is not there added? */
int value_adds(const emb_session *s, const struct row_change *change);
/* The same, asked once when it comes to it: does the table let in a key that
** came so many times?  If not, what the change says of it is dropped. */
int value_admits(emb_session *s, const struct row_change *change, int64_t key,
                 uint32_t times);
struct value_row {   /* a row of a batch */
  const float *says; /* what the change says of it */
  const float *read; /* as for the change */
  uint32_t times;    /* how many rows of the batch it stands for */
  int64_t key;
  uint64_t version; /* the new one */
};
/* Writes the value of a key to `to`.  old: NULL where the key was not there,
** and not `to`.  0: it would not be finite. */
int value_make(emb_session *s, const struct row_change *change,
               const struct value_row *row, const void *old, void *to);

/* Can the value be changed where it is, without a copy?  Then a change that
** fails leaves it as it was. */
int value__works_in_place(const emb_session *s,
                          const struct row_change *change);
/* As value_make, with the old value in `value`. */
int value__update(emb_session *s, const struct row_change *change,
                  const struct value_row *row, void *value);

#endif
