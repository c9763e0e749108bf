/* SPDX-License-Identifier: MIT
**
** async.c -- batches that run while the caller computes (CAM).
**
**   emb_prefetch(table, keys)                      starts a Get; its ticket
**   emb_prefetch_synchronize(table [, ticket])     its vectors, as emb_get
**   emb_write_back(table, keys, vectors)           starts a Put; its ticket
**   emb_apply_async(table, keys, gradients [, lr [, step [, updated_at]]])
**                                                  starts an emb_apply
**   emb_write_back_synchronize(table [, ticket])   number of keys of one of the
**                                                  last two
**
** Without a ticket argument, the oldest ticket not yet synchronized is meant;
** if there is none, the result is NULL, so the first pass of a loop needs no
** special case.
**
** A ticket belongs to the link, so it outlives the table object.  A prefetch
** writes into the memory of its ticket, which becomes the result without a
** copy.  The engine may write there until the ticket has ended or the session
** is closed, so the memory is not freed earlier.
**
** A row of a write-back may be written at any time until the ticket is
** synchronized.  Only then can the caller verify that the texts of its keys
** still exist (ext_keys_settle), so the ticket keeps them.  Gradients are the
** same, unless some of their texts are absent and stay so (ext_keys_grow).
*/
#include "fn_state.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

static struct ext_ticket *new_ticket(size_t n) {
  struct ext_ticket *ticket = sqlite3_malloc64(sizeof *ticket);
  if (ticket) {
    memset(ticket, 0, sizeof *ticket);
    ticket->n = n;
  }
  return ticket;
}

static void ticket_append(struct ext_ticket **list, struct ext_ticket *ticket) {
  while (*list)
    list = &(*list)->next;
  *list = ticket;
}

/* Returns the ticket of a call that has started a batch, or its error. */
static void result_ticket(sqlite3_context *context, struct ext_ticket *ticket,
                          int rc, char *err) {
  if (rc == SQLITE_OK) {
    sqlite3_result_int64(context, (sqlite3_int64)ticket->number);
  } else {
    if (ticket)
      ext_ticket_free(ticket);
    ext_result_error(context, rc, err);
  }
}

/* ---- starting ------------------------------------------------------------ */

static int ticket_prefetch(struct ext_table *table, const int64_t *keys,
                           struct ext_ticket *ticket, char **err) {
  struct ext_link *link = table->link;
  size_t size;
  int rc = ext_fn_new_vectors(table, ticket->n, &ticket->vectors, &size, err);
  if (rc != SQLITE_OK)
    return rc;
  ext_lease_begin(link, 0);
  rc = emb_prefetch(link->session, keys, ticket->n,
                    &(emb_rows){.vectors = ticket->vectors}, &ticket->number);
  if (rc)
    return ext_link_error(link, rc, err);
  ticket_append(&link->prefetches, ticket);
  emb_check(ext_fn_link_valid(link));
  return SQLITE_OK;
}

/* A batch to write: vectors, or gradients for the optimizer. */
struct async_write {
  struct ext_table *table;
  struct ext_keys keys;
  struct ext_floats rows;
  int steps;
  emb_update how;
};

static int ticket_write(struct async_write *w, struct ext_ticket *ticket,
                        char **err) {
  struct ext_link *link = w->table->link;
  const int64_t *keys = ticket->ids ? ticket->ids : w->keys.at;
  int rc, attempts = 0;
  do
    rc = w->steps ? emb_apply_async(link->session, keys, ticket->n, w->rows.at,
                                    &w->how, &ticket->number)
                  : emb_write_back(link->session, keys, ticket->n, w->rows.at,
                                   &ticket->number);
  while (ext_txn_again(w->table, &attempts, &rc, err));
  if (rc == SQLITE_OK)
    ticket_append(&link->write_backs, ticket);
  emb_check(ext_fn_link_valid(link));
  return rc;
}

/* Moves the texts and their numbers into the ticket. */
static int ticket_take_texts(struct ext_ticket *ticket, struct ext_keys *keys) {
  int rc = ext_texts_keep(&keys->texts);
  if (rc != SQLITE_OK)
    return rc;
  ticket->texts = keys->texts;
  ticket->ids = keys->at;
  ticket->removals = keys->removals;
  *keys = (struct ext_keys){0};
  return SQLITE_OK;
}

static int ticket_settle(struct ext_table *table, struct ext_ticket *ticket,
                         char **err) {
  struct ext_keys keys = {.at = ticket->ids,
                          .n = ticket->texts.n,
                          .texts = ticket->texts,
                          .removals = ticket->removals};
  return ticket->ids ? ext_keys_settle(table, &keys, err) : SQLITE_OK;
}

static void fn_prefetch(sqlite3_context *context, int argc,
                        sqlite3_value **argv) {
  struct ext_ticket *ticket = NULL;
  struct ext_keys keys = {0};
  struct ext_table *table;
  char *err = NULL;
  int is_started;
  int rc = ext_fn_table(ext_fn_conn(context), argv[0], &table, &err);
  (void)argc;
  if (rc == SQLITE_OK)
    rc = ext_fn_keys(table, argv[1], "keys", &keys, &err);
  if (rc == SQLITE_OK && (ticket = new_ticket(keys.n)) == NULL)
    rc = SQLITE_NOMEM;
  if (rc == SQLITE_OK)
    rc = ext_fn_keys_look(table, &keys, &err);
  if (rc == SQLITE_OK && ext_keys_come(table))
    rc = ext_fn_rows_begin(table, keys.at, keys.n, &err);
  if (rc == SQLITE_OK && keys.peeks)
    rc = ext_error(&err, SQLITE_READONLY,
                   "database \"%s\" is read-only, but with insert_on=lookup a "
                   "prefetch adds rows; use emb_get",
                   table->schema);
  if (rc == SQLITE_OK)
    rc = ticket_prefetch(table, keys.at, ticket, &err);
  is_started = rc == SQLITE_OK;
  if (rc == SQLITE_OK && keys.settles)
    rc = ext_keys_settle(table, &keys, &err);
  if (rc != SQLITE_OK && is_started)
    ticket = NULL; /* still in flight, owned by the list */
  ext_keys_free(&keys);
  result_ticket(context, ticket, rc, err);
}

/* Reads the arguments of a batch to write. */
static int async_write_read(struct async_write *w, struct ext_conn *conn,
                            int argc, sqlite3_value **argv, char **err) {
  int rc = ext_fn_table_to_write(conn, argv[0], &w->table, err);
  if (rc == SQLITE_OK && w->steps)
    rc = ext_fn_column_steps(w->table, EXT_FN_ALL_COLUMNS, err);
  if (rc == SQLITE_OK)
    rc = ext_fn_keys(w->table, argv[1], "keys", &w->keys, err);
  if (rc == SQLITE_OK)
    rc = ext_fn_vectors(argv[2], w->steps ? "gradients" : "vectors", w->table,
                        w->keys.n, &w->rows, err);
  if (rc == SQLITE_OK && w->steps)
    rc = ext_update_how(argc > 3 ? argv[3] : NULL, argc > 4 ? argv[4] : NULL,
                        &w->how, err);
  return rc;
}

/* Adds the texts of the keys, if the batch may make rows of them. */
static int async_write_add(struct async_write *w, char **err) {
  int rc;
  if (w->steps && !ext_keys_grow(w->table))
    return SQLITE_OK;
  rc = ext_fn_keys_add(w->table, &w->keys, err);
  return rc == SQLITE_OK
             ? ext_fn_rows_begin(w->table, w->keys.at, w->keys.n, err)
             : rc;
}

static void write_later(sqlite3_context *context, int argc,
                        sqlite3_value **argv, int steps) {
  struct async_write w = {.steps = steps};
  struct ext_ticket *ticket = NULL;
  char *err = NULL;
  int rc = async_write_read(&w, ext_fn_conn(context), argc, argv, &err);
  if (rc == SQLITE_OK)
    rc = async_write_add(&w, &err);
  if (rc == SQLITE_OK && (ticket = new_ticket(w.keys.n)) == NULL)
    rc = SQLITE_NOMEM;
  if (rc == SQLITE_OK && ext_vtab(w.table)->options.text_key &&
      w.keys.absent == 0)
    rc = ticket_take_texts(ticket, &w.keys);
  if (rc == SQLITE_OK && argc > 5)
    rc = ext_update_time(w.table, argv[5], &err);
  if (rc == SQLITE_OK) {
    rc = ticket_write(&w, ticket, &err);
    ext_update_time_end(w.table);
  }
  ext_floats_free(&w.rows);
  ext_keys_free(&w.keys);
  result_ticket(context, ticket, rc, err);
}

static void fn_write_back(sqlite3_context *context, int argc,
                          sqlite3_value **argv) {
  write_later(context, argc, argv, 0);
}

static void fn_apply_async(sqlite3_context *context, int argc,
                           sqlite3_value **argv) {
  write_later(context, argc, argv, 1);
}

/* ---- synchronizing ------------------------------------------------------- */

/* *at: the list position of the ticket that the argument (or NULL) means; NULL
** if there is none and none was asked for. */
static int ticket_find(struct ext_ticket **list, const char *what,
                       const struct ext_table *table, sqlite3_value *ticket,
                       struct ext_ticket ***at, char **err) {
  uint64_t number = 0;
  int rc;
  *at = !ticket && *list ? list : NULL;
  if (!ticket || sqlite3_value_type(ticket) == SQLITE_NULL)
    return SQLITE_OK;
  rc = ext_arg_number(ticket, "ticket", &number, err);
  if (rc != SQLITE_OK)
    return rc;
  while (*list && (*list)->number != number)
    list = &(*list)->next;
  *at = list;
  return *list ? SQLITE_OK
               : ext_error(err, SQLITE_ERROR,
                           "no %s of %s in flight has the ticket %lld", what,
                           table->name, sqlite3_value_int64(ticket));
}

/* Waits for the ticket at *at and removes it from the list.  A ticket that did
** not end (an interrupt) stays in the list, because the engine may still write
** to its memory.  *ticket belongs to the caller, even after an error. */
static int ticket_synchronize(struct ext_link *link, struct ext_ticket **at,
                              int (*wait)(emb_session *, uint64_t, uint64_t *),
                              struct ext_ticket **ticket, char **err) {
  uint64_t ended = 0;
  int rc;
  emb_check(ext_fn_link_valid(link));
  rc = wait(link->session, (*at)->number, &ended);
  if (ended) {
    *ticket = *at;
    *at = (*at)->next;
  }
  return rc ? ext_link_error(link, rc, err) : SQLITE_OK;
}

static void fn_prefetch_synchronize(sqlite3_context *context, int argc,
                                    sqlite3_value **argv) {
  struct ext_ticket *ticket = NULL, **at = NULL;
  struct ext_table *table;
  char *err = NULL;
  int rc = ext_fn_table(ext_fn_conn(context), argv[0], &table, &err);
  if (rc == SQLITE_OK)
    rc = ticket_find(&table->link->prefetches, "prefetch", table,
                     argc > 1 ? argv[1] : NULL, &at, &err);
  if (rc == SQLITE_OK && at) {
    ext_lease_begin(table->link, 0);
    rc = ticket_synchronize(table->link, at, emb_prefetch_synchronize, &ticket,
                            &err);
  }
  if (rc != SQLITE_OK) {
    ext_result_error(context, rc, err);
  } else if (ticket) {
    sqlite3_result_blob64(context, ticket->vectors,
                          ticket->n * ext_vtab(table)->options.config.dim *
                              sizeof(float),
                          sqlite3_free);
    ticket->vectors = NULL;
  }
  if (ticket)
    ext_ticket_free(ticket);
}

static void fn_write_back_synchronize(sqlite3_context *context, int argc,
                                      sqlite3_value **argv) {
  struct ext_ticket *ticket = NULL, **at = NULL;
  struct ext_table *table;
  char *err = NULL;
  int rc = ext_fn_table(ext_fn_conn(context), argv[0], &table, &err);
  if (rc == SQLITE_OK)
    rc = ticket_find(&table->link->write_backs, "write-back", table,
                     argc > 1 ? argv[1] : NULL, &at, &err);
  if (rc == SQLITE_OK && at)
    rc = ticket_synchronize(table->link, at, emb_write_back_synchronize,
                            &ticket, &err);
  if (rc == SQLITE_OK && ticket)
    rc = ticket_settle(table, ticket, &err);
  if (rc != SQLITE_OK)
    ext_result_error(context, rc, err);
  else if (ticket)
    sqlite3_result_int64(context, (sqlite3_int64)ticket->n);
  if (ticket)
    ext_ticket_free(ticket);
}

int ext_fn_async_register(struct ext_conn *conn) {
  static const struct ext_function functions[] = {
      {"emb_prefetch", 2, fn_prefetch},
      {"emb_prefetch_synchronize", 1, fn_prefetch_synchronize},
      {"emb_prefetch_synchronize", 2, fn_prefetch_synchronize},
      {"emb_write_back", 3, fn_write_back},
      {"emb_apply_async", 3, fn_apply_async},
      {"emb_apply_async", 4, fn_apply_async},
      {"emb_apply_async", 5, fn_apply_async},
      {"emb_apply_async", 6, fn_apply_async},
      {"emb_write_back_synchronize", 1, fn_write_back_synchronize},
      {"emb_write_back_synchronize", 2, fn_write_back_synchronize}};
  return ext_fn_register(conn, functions,
                         sizeof functions / sizeof functions[0]);
}
