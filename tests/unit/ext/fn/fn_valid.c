/* SPDX-License-Identifier: MIT
**
** fn_valid.c -- the assertions of functions whose state outlives a call fire.
*/
#include "cursor_spy.h"
#include "death.h"
#include "sql_help.h"

#include "ext/fn/fn_state.h"

static sqlite3 *open_items(struct ext_conn **conn) {
  sqlite3 *db = sql_connect(":memory:", 0);
  sql_runs(db, "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[1]);"
               "INSERT INTO items VALUES(1, '[1]'), (2, '[2]')");
  *conn = ext_conn_ref(db);
  return db;
}

static void close_items(sqlite3 *db, struct ext_conn *conn) {
  ext_conn_unref(conn);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

/* ---- aggregates ---------------------------------------------------------- */

/* The state that a function asked for last. */
static void *state;

void *sqlite3_aggregate_context(sqlite3_context *context, int bytes) {
  void *(*next)(sqlite3_context *, int);
  void *symbol = dlsym(RTLD_NEXT, "sqlite3_aggregate_context");
  memcpy(&next, &symbol, sizeof next);
  return state = next(context, bytes);
}

/* Each returns its argument; the state is that after the row before. */
static void during_sum(sqlite3_context *context, int argc,
                       sqlite3_value **argv) {
  struct sum *sum = state;
  (void)argc;
  if (sum) {
    CHECK(ext_sum_valid(sum));
    CHECK_FIRES(sum->total = NULL; ext_sum_valid(sum));
    CHECK_FIRES(sum->error = NULL; ext_sum_valid(sum));
    CHECK_FIRES(sum->rows = -1; ext_sum_valid(sum));
    CHECK_FIRES(sum->total = NULL; sum->dim = 0; ext_sum_valid(sum));
  }
  sqlite3_result_value(context, argv[0]);
}

static void during_pack(sqlite3_context *context, int argc,
                        sqlite3_value **argv) {
  struct pack *pack = state;
  (void)argc;
  if (pack) {
    CHECK(ext_pack_valid(pack));
    CHECK_FIRES(pack->n = pack->capacity + 1; ext_pack_valid(pack));
    CHECK_FIRES(pack->keys = NULL; ext_pack_valid(pack));
  }
  sqlite3_result_value(context, argv[0]);
}

TEST(aggregates) {
  struct ext_conn *conn;
  sqlite3 *db = open_items(&conn);
  sqlite3_create_function_v2(db, "during_sum", 1, SQLITE_UTF8, NULL, during_sum,
                             NULL, NULL, NULL);
  sqlite3_create_function_v2(db, "during_pack", 1, SQLITE_UTF8, NULL,
                             during_pack, NULL, NULL, NULL);
  sql_integer(db, "SELECT length(emb_sum(during_sum(vector))) FROM items");
  state = NULL;
  sql_integer(db, "SELECT length(emb_pack(during_pack(key))) FROM items");
  close_items(db, conn);
}

/* ---- emb_each ------------------------------------------------------------ */

TEST(elements) {
  struct ext_conn *conn;
  sqlite3 *db = open_items(&conn);
  struct each_cursor *c;
  sqlite3_stmt *row = spy_on(db, "SELECT value FROM emb_each('[1, 2]')", &c);
  const sqlite3_module *module = c->base.pVtab->pModule;
  CHECK(ext_each_valid(c));
  CHECK_FIRES(c->row = 3; ext_each_valid(c));
  CHECK_FIRES(c->keys = (int64_t *)(void *)c->floats; ext_each_valid(c));
  CHECK_FIRES(c->floats = NULL; ext_each_valid(c));
  CHECK_FIRES(c->argument = NULL; ext_each_valid(c));
  CHECK_FIRES(c->row = 2; module->xNext(&c->base));
  CHECK_FIRES(c->row = 2; module->xColumn(&c->base, NULL, 0));
  CHECK_FIRES(module->xFilter(&c->base, 1, NULL, 0, NULL));
  sqlite3_finalize(row);
  close_items(db, conn);
}

/* ---- tickets and versions ------------------------------------------------ */

TEST(tickets) {
  struct ext_conn *conn;
  sqlite3 *db = open_items(&conn);
  int64_t id = 1;
  char memory[1];
  sql_integer(db, "SELECT emb_prefetch('items', '[1]')");
  sql_integer(db, "SELECT emb_write_back('items', '[1]', '[5]')");
  sql_integer(db, "SELECT emb_put('items', '[1]', '[5]')");
  struct ext_link *link = conn->links;
  struct ext_ticket *reads = link->prefetches, *writes = link->write_backs;
  CHECK(reads && writes && ext_fn_link_valid(link));
  CHECK_FIRES(reads->number = 0; ext_fn_link_valid(link));
  CHECK_FIRES(reads->ids = &id; ext_fn_link_valid(link));
  CHECK_FIRES(reads->texts.n = 1; ext_fn_link_valid(link));
  CHECK_FIRES(reads->ids = &id; reads->texts.memory = memory;
              reads->texts.n = reads->n; ext_fn_link_valid(link));
  CHECK_FIRES(writes->vectors = reads->vectors; ext_fn_link_valid(link));
  CHECK_FIRES(link->put_capacity = 0; ext_fn_link_valid(link));
  CHECK_FIRES(link->put_n = link->put_capacity + 1; ext_fn_link_valid(link));
  sql_integer(db, "SELECT length(emb_prefetch_synchronize('items'))");
  sql_integer(db, "SELECT emb_write_back_synchronize('items')");
  CHECK(ext_fn_link_valid(link));
  close_items(db, conn);
}

/* ---- calls --------------------------------------------------------------- */

static struct ext_conn *called;

static int nothing(struct ext_table *table, void *arg, char **err) {
  (void)table, (void)arg, (void)err;
  return SQLITE_OK;
}

/* own(table, n): arguments as those of emb_sample_keys. */
static void own(sqlite3_context *context, int argc, sqlite3_value **argv) {
  sqlite3_value *arguments[5] = {argv[0], argv[1]};
  struct ext_sample ask = {0};
  char *err = NULL;
  (void)argc;
  CHECK(ext_fn_conn(context) == called);
  CHECK_FIRES(called->calls = 0; ext_fn_conn(context));
  CHECK_EQ_INT(ext_sample_read(called, arguments, &ask, &err), SQLITE_OK);
  CHECK(ext_sample_valid(&ask));
  CHECK_FIRES(ask.table->held = 0; ext_sample_valid(&ask));
  CHECK_FIRES(ask.n = EMB_SAMPLE_MAX + 1u; ext_sample_valid(&ask));
  CHECK_FIRES(ask.how.without_count = 1; ext_sample_valid(&ask));
  CHECK_FIRES(ask.how.range = 5; ext_sample_valid(&ask));
  CHECK_FIRES(ask.how.seed = 5; ext_sample_valid(&ask));
  CHECK_FIRES(ask.table->held = 0;
              ext_fn_same_schema(ask.table, nothing, NULL, &err));
  ext_sample_free(&ask);
  sqlite3_result_int(context, 1);
}

TEST(calls) {
  static const struct ext_function functions[] = {{"own", 2, own}};
  sqlite3 *db = open_items(&called);
  CHECK_EQ_INT(ext_fn_register(called, functions, 1), SQLITE_OK);
  sql_integer(db, "SELECT own('items', 2)");
  close_items(db, called);
  CHECK_ALL_FIRED("ext/fn/fn.c");
}

TEST(serving) {
  char path[500];
  struct ext_serve serve = {0};
  struct ext_table *table;
  char *err = NULL;
  (void)snprintf(path, sizeof path, "%s/serve.db", test_dir());
  sqlite3 *db = sql_connect(path, 0);
  struct ext_conn *conn = ext_conn_ref(db);
  sql_runs(db, "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[1])");
  ext_call_begin(conn);
  CHECK_EQ_INT(ext_table_find(conn, "items", &table, &err), SQLITE_OK);
  CHECK_EQ_INT(ext_serve_open(&serve, conn, table, &err), SQLITE_OK);
  CHECK(ext_serve_valid(&serve));
  CHECK_FIRES(ext_serve_open(&serve, conn, table, &err));
  CHECK_FIRES(serve.name = NULL; ext_serve_keep(&serve, 0, &err));
  CHECK_FIRES(serve.db = db; ext_serve_keep(&serve, 0, &err));
  CHECK_FIRES(serve.conn = serve.own; ext_serve_keep(&serve, 0, &err));
  ext_serve_close(&serve);
  CHECK_FIRES(ext_serve_keep(&serve, 0, &err)); /* closed */
  ext_call_end(conn);
  close_items(db, conn);
  CHECK_ALL_FIRED("ext/fn/fn_valid.c");
}
