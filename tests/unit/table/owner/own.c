/* SPDX-License-Identifier: MIT
**
** own.c -- a process that cannot become the owner.
**
** The other process is a copy of the store that was made while the store was
** open: its files take the place of those of the store, as if another owner had
** died.
*/
#include "files.h"
#include "store_help.h"

#include "engine/table/owner/own.h"

#include <unistd.h>

enum { DIM = 4 };
#define UNREADABLE "consumer-0000000000000001"

static const emb_config config = {.dim = DIM, .flags = EMB_OPEN_CREATE};

static int put_row(emb_session *s, int64_t key) {
  float vector[DIM];
  help_vector(vector, DIM, key, 1);
  return emb_put(s, &key, 1, vector, NULL);
}

/* A store that was closed, "store", and its files after an owner has prepared a
** transaction and died, "died".  Returns the transaction's number. */
static uint64_t make_both(void) {
  emb_store *store;
  emb_session *s;
  uint64_t number = 0;
  const int64_t key = 2;
  float vector[DIM];
  help_vector(vector, DIM, key, 1);
  if (!help_open(help_path("store"), &config, &store, &s) ||
      !OK(s, put_row(s, 1)) || !help_close(store, s) ||
      !CHECK(files_copy_dir(help_path("later"), help_path("store"))) ||
      !help_open(help_path("later"), &config, &store, &s))
    return 0;
  OK(s, emb_begin(s));
  OK(s, emb_txn_put(s, &key, 1, vector));
  OK(s, emb_prepare(s, &number));
  CHECK(files_copy_dir(help_path("died"), help_path("later")));
  emb_rollback(s);
  help_close(store, s);
  return number;
}

/* Writes the files of "died" over those of "store", which stay open. */
static int die(void) {
  static struct files died;
  int good = CHECK(files_read(&died, help_path("died")));
  for (size_t i = 0; good && i < died.n; i++)
    good = CHECK(files_write_one(&died.list[i], help_path("store")));
  files_free(&died);
  return good;
}

static uint64_t generation(emb_store *store) {
  struct manifest m = {.generation = 0};
  CHECK_EQ_INT(manifest_read(store->core.env, store->core.dir, &m, NULL), 0);
  return m.generation;
}

/* A file cannot be read after the log has been.  The transaction in doubt is
** then another process's to decide: this one writes nothing. */
TEST(in_doubt_and_not_the_owner) {
  emb_store *store;
  emb_session *s;
  emb_err err;
  char unreadable[512];
  const int64_t keys[] = {1, 2};
  uint8_t found[2];
  float vectors[2 * DIM];
  uint64_t number = make_both();
  if (!CHECK(number != 0) ||
      !help_open(help_path("store"), &config, &store, &s))
    return;
  CHECK(!emb_is_owner(store));
  (void)snprintf(unreadable, sizeof unreadable, "%s/" UNREADABLE,
                 store->core.dir);
  if (!die() || !CHECK_EQ_INT(symlink(UNREADABLE, unreadable), 0))
    return;
  emb_look(store);
  CHECK(emb_peek(s, keys, 2, vectors, found, NULL) != EMB_OK);
  CHECK(!emb_is_owner(store));
  CHECK_EQ_INT(local_in_doubt(store), 0);
  CHECK(!store->own.doubt);
  uint64_t before = generation(store);
  CHECK_EQ_INT(own_resolve(store, number, 1, &err), EMB_OK);
  CHECK_EQ_INT(generation(store), before);
  CHECK_EQ_INT(unlink(unreadable), 0);
  OK(s, emb_peek(s, keys, 2, vectors, found, NULL));
  CHECK(emb_is_owner(store) && found[0] && !found[1]);
  CHECK_EQ_INT(emb_in_doubt(store), number);
  CHECK_EQ_INT(emb_resolve(store, number, 1, &err), EMB_OK);
  OK(s, emb_peek(s, keys, 2, vectors, found, NULL));
  CHECK(found[0] && found[1]);
  help_close(store, s);
}
