/* SPDX-License-Identifier: MIT
**
** near_help.h -- a table of vectors around some centres, with an index of
** neighbours, and checks of its answers.
*/
#ifndef EMB_NEAR_HELP_H
#define EMB_NEAR_HELP_H

#include "store_help.h"

enum { NEAR_DIM = 16, NEAR_KEYS = 4000, NEAR_K = 10, NEAR_LISTS = 20 };

struct near {                  /* the table as it should be */
  unsigned version[NEAR_KEYS]; /* 0: the key is not there */
};

/* The vector that a key has at a version, from 1 on. */
void near_vector(float *to, int64_t key, unsigned version);
int near_row_is(const float *vector, int64_t key, unsigned version);

/* With steps, unless flags say otherwise.  index NULL: the store's own. */
int near_open(const char *dir, const char *index, uint32_t flags,
              emb_store **store, emb_session **s);
/* Puts keys [from, end), in the model, too. */
int near_put(emb_session *s, struct near *model, int64_t from, int64_t end,
             unsigned version);
int near_delete(emb_session *s, struct near *model, int64_t from, int64_t end);

/* Steps, or waits, until the index is ready and nothing is behind; 0, and a
** failed check: it is not. */
int near_settle(emb_store *store);

/* Asks the index for the neighbours of n vectors like those of the table, in
** NEAR_LISTS of its lists.  Every answer
** must be right.  Returns the share of the nearest rows that were found. */
double near_recall(emb_session *s, const struct near *model, int n);
/* Checks that each of these rows is the nearest to itself. */
void near_finds(emb_session *s, const struct near *model, int64_t from,
                int64_t end);
/* emb_verify must report nothing, or a line with this text. */
void near_verifies(emb_session *s, const char *text);

#endif
