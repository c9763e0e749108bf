/* SPDX-License-Identifier: MIT
**
** fail_sql.c -- the SQL steps during which something fails, and the
** examination afterwards: see fail_sql.h.
*/
#include "fail_sql.h"

#include "stacks.h"

#include <signal.h>

static const struct fail_sql_step {
  const char *sql;
  int writes; /* changes p and items */
  int begins; /* a scene */
} fail_steps[FAIL_STEPS] = {
    {"SELECT emb_dot(vector, " FAIL_ONE ") FROM items WHERE key = 7", 0, 1},
    {"SELECT sum(emb_dot(vector, " FAIL_ONE ")) FROM items "
     "WHERE key IN (1, 5, 9, 77, 5000)",
     0, 0},
    {"SELECT length(vectors), hex(found) FROM items('[3,8,4000]')", 0, 0},
    {"BEGIN; INSERT INTO p VALUES(401, 3), (402, 4); "
     "INSERT INTO items SELECT id, emb_scale(" FAIL_ONE ", val) FROM p "
     "WHERE id > 400; "
     "UPDATE p SET val = 9 WHERE id IN (4, 5, 6); "
     "UPDATE items SET vector = emb_scale(" FAIL_ONE ", 9) "
     "WHERE key IN (4, 5, 6); COMMIT",
     1, 1},
    {"SELECT count(*), sum(emb_dot(vector, " FAIL_ONE ")) FROM items", 0, 0},
    {"SELECT key FROM items WHERE key BETWEEN 90 AND 95 ORDER BY key DESC", 0,
     0},
    {"SELECT emb_dot(vector, " FAIL_ONE ") FROM items WHERE key = 401", 0, 0},
    {"SELECT emb_dot(emb_get('items', '[11]'), " FAIL_ONE "), "
     "length(emb_peek('items', '[12,13,-1]'))",
     0, 1},
    {"SELECT emb_dot(emb_bag('items', '[11,12,11]', '[0]', 'sum', "
     "'[1,2,-1]'), " FAIL_ONE "), "
     "length(emb_bag('items', '[-1]', '[0,0]', 'mean'))",
     0, 0},
    {"CREATE VIRTUAL TABLE IF NOT EXISTS trained USING emb(vector FLOAT[2], "
     "memory='4MB', optimizer='sgd(lr=1)'); "
     "INSERT OR REPLACE INTO trained(key, vector) VALUES(1, '[1,2]'), "
     "(2, '[3,4]'); "
     "SELECT emb_bag_apply('trained', '[1,2,1]', '[0,2]', 'mean', "
     "'[0,0,0,0]'); "
     "SELECT emb_to_json(emb_bag('trained', '[1,2,1]', '[0,2]', 'sqrtn')); "
     "DROP TABLE trained",
     0, 1},
    /* One that failed tells each wait so: only a new one works. */
    {"SELECT count(*) FROM emb_lookahead('items', '[20,21,22,23]'); "
     "SELECT emb_lookahead_wait('items') > 0",
     0, 1},
    {"SELECT key, round(distance, 3), emb_dot(vector, " FAIL_ONE ") FROM items "
     "WHERE vector MATCH " FAIL_ONE " AND k = 4 AND key IN (2, 3, 5, 7, 11)",
     0, 0},
    {"SELECT count(*) FROM (SELECT key FROM items WHERE vector MATCH " FAIL_ONE
     " ORDER BY distance LIMIT 200)",
     0, 1},
    {"SELECT query, rank FROM emb_nearest('items', 'rows', 2, 'radius=1e9') "
     "WHERE query < 3 ORDER BY 1, 2",
     0, 0},
    {"SELECT count(vector) FROM emb_sample('items', 20, 'uniform', "
     "'seed=1', '[1,2,3]')",
     0, 1},
    {"SELECT length(emb_sample_keys('items', 1000000)) > 0, length(keys) "
     "FROM emb_sample_batch('items', 10, 'log-uniform', 'range=40')",
     0, 0},
    {"SELECT length(emb_prefetch_synchronize('items', "
     "emb_prefetch('items', '[30,31,32]')))",
     0, 0},
    {"SELECT sum(value) FROM emb_each('[1,2,4]')", 0, 1},
    {"SELECT count(*) > 20 FROM emb_stats('items')", 0, 0},
    {"SELECT name, state FROM emb_tables", 0, 0},
    {"BEGIN; INSERT INTO items(items, arg) VALUES('set memory', '6MB'); "
     "INSERT INTO items(items, arg) VALUES('set timeout', 6000); COMMIT; "
     "SELECT options FROM emb_tables WHERE name = 'items'",
     0, 1},
    {"INSERT INTO items(items, arg) VALUES('memory', '9MB')", 0, 0},
    {"INSERT INTO items(items, arg) VALUES('set memory', NULL)", 0, 0},
    {"BEGIN; DELETE FROM p WHERE id < 4; DELETE FROM items WHERE key < 4; "
     "SAVEPOINT a; UPDATE p SET val = 2 WHERE id = 50; "
     "UPDATE items SET vector = emb_scale(" FAIL_ONE ", 2) WHERE key = 50; "
     "ROLLBACK TO a; "
     "INSERT OR REPLACE INTO p VALUES(60, 12); "
     "INSERT OR REPLACE INTO items VALUES(60, emb_scale(" FAIL_ONE ", 12)); "
     "COMMIT",
     1, 1},
    {"BEGIN; UPDATE p SET val = val + 1 WHERE id BETWEEN 100 AND 120; "
     "UPDATE items SET vector = emb_add(vector, " FAIL_ONE ") "
     "WHERE key BETWEEN 100 AND 120; ROLLBACK",
     0, 0},
    {"INSERT INTO items(items) VALUES('checkpoint')", 0, 0},
    {"BEGIN; UPDATE p SET val = val + 1 WHERE id BETWEEN 100 AND 120; "
     "UPDATE items SET vector = emb_add(vector, " FAIL_ONE ") "
     "WHERE key BETWEEN 100 AND 120; COMMIT",
     1, 1},
    {"INSERT INTO items(items) VALUES('optimize')", 0, 0},
    {"CREATE VIRTUAL TABLE IF NOT EXISTS extra USING emb(vector FLOAT[2] "
     "metric=dot index='ivf(lists=2, code=none)', memory='4MB', index=none, "
     "+label INTEGER INDEXED, +note)",
     0, 1},
    {"INSERT OR REPLACE INTO extra VALUES(1, '[1,2]', 5, 'a'), "
     "(2, '[3,4]', 6, NULL); "
     "UPDATE OR REPLACE extra SET key = 3, note = 'b' WHERE label = 6",
     0, 0},
    {"SELECT key, distance, note FROM extra WHERE vector MATCH '[1,1]' AND "
     "k = 3 AND probes = 2 AND label IN (5, 6) AND note IS NOT NULL",
     0, 0},
    {"SELECT * FROM emb_nearest('extra', '[[1,1],[2,0]]', 1, 'probes=1')", 0,
     0},
    {"INSERT INTO extra(extra, arg) VALUES('set vector.index', 'ivf(code=1)')",
     0, 0},
    {"SELECT emb_to_json(emb_sum(vector)) FROM extra", 0, 0},
    {"INSERT INTO extra(extra, arg) VALUES('set memory', '5MB'), "
     "('set vector.index', NULL), ('set vector.metric', 'l2')",
     0, 0},
    {"ALTER TABLE extra RENAME TO other", 0, 0},
    {"SELECT key, emb_to_json(vector), note FROM other WHERE label > 4", 0, 0},
    {"SELECT options FROM emb_tables WHERE name = 'other'", 0, 0},
    {"DROP TABLE other", 0, 0},
    {"SELECT emb_gc() >= 0", 0, 0},
};

int sql_say(struct fail_sql *w, int line, const char *format, ...) {
  char text[700];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return test_check(0, __FILE__, line, "%s: %s (%s %s)", w->what, text,
                    w->f.fired ? failing_name(w->f.first) : "",
                    w->f.first_path);
}

static int sql_row(void *arg, int n, char **values, char **names) {
  struct sql_text *t = arg;
  (void)names;
  for (int i = 0; i < n && t->length < sizeof t->text - 1; i++)
    t->length +=
        (size_t)snprintf(t->text + t->length, sizeof t->text - t->length, "%s|",
                         values[i] ? values[i] : "NULL");
  return 0;
}

int sql_run(struct fail_sql *w, const char *sql, struct sql_text *out) {
  out->length = 0;
  out->text[0] = '\0';
  int rc = sqlite3_exec(w->db, sql, sql_row, out, NULL);
  /* SQLite returns this where it has no memory for a column's text. */
  return rc == SQLITE_ROW ? sqlite3_extended_errcode(w->db) : rc;
}

int64_t sql_number(struct fail_sql *w, const char *sql) {
  struct sql_text out;
  int rc = sql_run(w, sql, &out);
  SQL_CHECK(w, rc == SQLITE_OK, "%s gave %d: %s", sql, rc,
            sqlite3_errmsg(w->db));
  return strtoll(out.text, NULL, 10);
}

int sql_open(struct fail_sql *w) {
  int rc = sqlite3_open(w->file, &w->db);
  if (rc == SQLITE_OK)
    rc = sqlite3_emb_init(w->db, NULL, NULL);
  if (rc == SQLITE_OK)
    rc = sqlite3_extended_result_codes(w->db, 1);
  return rc;
}

void sql_close(struct fail_sql *w) {
  int rc = sqlite3_close(w->db);
  SQL_CHECK(w, rc == SQLITE_OK, "sqlite3_close gave %d", rc);
  w->db = NULL;
}

/* A step; 0: it failed. */
static int sql_step(struct fail_sql *w, int i) {
  struct sql_text out;
  int rc = sql_run(w, fail_steps[i].sql, &out);
  int fired = w->fired(w);
  if (rc == SQLITE_OK) {
    if (w->wanted[i] == NULL)
      w->wanted[i] = strdup(out.text);
    else if (!fired || w->again)
      SQL_CHECK(w, strcmp(out.text, w->wanted[i]) == 0,
                "%.60s gives %s and not %s", fail_steps[i].sql, out.text,
                w->wanted[i]);
    return 1;
  }
  const char *text = sqlite3_errmsg(w->db);
  SQL_CHECK(w, fired, "%.60s gave %d without a cause: %s", fail_steps[i].sql,
            rc, text);
  /* A table of an earlier step may not have been made. */
  int missing = rc == SQLITE_ERROR && !w->again && text &&
                strstr(text, "no such table: ");
  SQL_CHECK(w, missing || w->code_is_right(rc), "%.60s gave %d: %s",
            fail_steps[i].sql, rc, text);
  SQL_CHECK(w, text && text[0], "%.60s gave %d without a text",
            fail_steps[i].sql, rc);
  return 0;
}

void sql_may_be(struct fail_sql *w, int64_t state, int surely) {
  w->state_count = surely ? 0 : w->state_count;
  w->states[w->state_count++] = state;
}

/* The state of p after the step, as found by the run in which nothing fails. */
int64_t sql_after[FAIL_STEPS];

static void sql_steps(struct fail_sql *w, int learn) {
  int known = 1; /* all writes so far have been done */
  for (int i = w->from; i < w->to && !w->stop; i++) {
    int done = sql_step(w, i);
    if (!done && !sqlite3_get_autocommit(w->db))
      (void)sqlite3_exec(w->db, "ROLLBACK", NULL, NULL, NULL);
    if (!done && w->again) {
      done = sql_step(w, i);
      SQL_CHECK(w, done, "a second %.60s gave %d: %s", fail_steps[i].sql,
                sqlite3_errcode(w->db), sqlite3_errmsg(w->db));
      if (!done && !sqlite3_get_autocommit(w->db))
        (void)sqlite3_exec(w->db, "ROLLBACK", NULL, NULL, NULL);
    }
    if (learn)
      sql_after[i] = sql_number(w, FAIL_STATE);
    if (fail_steps[i].writes) {
      if (!done && !known)
        return; /* its result from this state is not known */
      if (!known)
        return;
      sql_may_be(w, sql_after[i], done);
      known &= done;
      if (!known)
        return; /* the next steps would start from another state */
    }
  }
}

void sql_check_all(struct fail_sql *w) {
  struct sql_text out;
  if (!SQL_CHECK(w, sql_open(w) == SQLITE_OK, "it does not open again"))
    return;
  int rc =
      sql_run(w, "INSERT INTO items(items) VALUES('integrity-check')", &out);
  SQL_CHECK(w, rc == SQLITE_OK, "integrity-check gave %d: %s", rc,
            sqlite3_errmsg(w->db));
  (void)sql_number(w, "SELECT emb_gc()");
  int64_t state = sql_number(w, FAIL_STATE);
  int may = 0;
  for (int i = 0; i < w->state_count; i++)
    may |= state == w->states[i];
  SQL_CHECK(w, may, "p is in a state that no commit has left");
  int64_t bad = sql_number(
      w, "SELECT count(*) FROM p LEFT JOIN items i ON i.key = p.id "
         "WHERE emb_dot(i.vector, " FAIL_ONE ") IS NOT 64.0 * p.val");
  SQL_CHECK(w, bad == 0, "%d keys differ from their rows", (int)bad);
  bad = sql_number(
      w, "SELECT (SELECT count(*) FROM p) - (SELECT count(*) FROM items)");
  SQL_CHECK(w, bad == 0, "%d rows more than keys", (int)bad);
  rc = sql_run(w, "INSERT OR REPLACE INTO items VALUES(1, " FAIL_ONE ")", &out);
  SQL_CHECK(w, rc == SQLITE_OK, "a write afterwards gave %d: %s", rc,
            sqlite3_errmsg(w->db));
  sql_close(w);
}

void sql_run_all(struct fail_sql *w, int learn) {
  (void)snprintf(fail_watched, sizeof fail_watched, "%s", w->what);
  (void)signal(SIGALRM, fail_alarm);
  (void)alarm(120);
  fail_remove(w->dir);
  fail_copy(w->base, w->dir);
  w->stop = 0;
  w->state_count = 0;
  sql_may_be(w, sql_after[0], 1);
  sqlite3_int64 before = sqlite3_memory_used();
  int rc = sql_open(w);
  if (rc != SQLITE_OK) {
    SQL_CHECK(w, w->fired(w) && w->code_is_right(rc), "open gave %d", rc);
    if (w->again) {
      (void)sqlite3_close(w->db);
      rc = sql_open(w);
      SQL_CHECK(w, rc == SQLITE_OK, "a second open gave %d", rc);
    }
  }
  if (rc == SQLITE_OK)
    sql_steps(w, learn);
  if (w->memory)
    w->disarm(w);
  sql_close(w);
  w->disarm(w);
  SQL_CHECK(w, failing_out(&w->f) == 0, "the engine kept %d things",
            (int)failing_out(&w->f));
  SQL_CHECK(w, sqlite3_memory_used() <= before, "%d bytes were lost",
            (int)(sqlite3_memory_used() - before));
  if (!w->stop)
    sql_check_all(w);
  (void)alarm(0);
}

/* The steps from..to-1. */
static int sql_fail(void *arg, uint64_t n, int forever) {
  struct fail_sql *w = arg;
  w->again = w->memory && !forever;
  w->arm(w, n, forever);
  sql_run_all(w, 0);
  w->again = 0;
  return w->fired(w);
}

void sql_each(struct fail_sql *w, const char *name, const char *counted) {
  uint64_t runs = 0;
  for (w->from = 0; w->from < FAIL_STEPS; w->from = w->to) {
    w->to = w->from + 1;
    while (w->to < FAIL_STEPS &&
           (help_long() > 1 || !fail_steps[w->to].begins)) {
      w->to++;
    }
    (void)snprintf(w->what, sizeof w->what, "nothing fails");
    sql_run_all(w, 1);
    runs += stacks_each(fail_steps[w->from].sql, 4, FAIL_STRIDE, sql_fail, w);
  }
  printf("%-26s %5d %s\n", name, (int)runs, counted);
  test_count(counted, runs);
}

struct fail_sql *sql_start(const char *dir) {
  struct fail_sql *w = calloc(1, sizeof *w);
  struct sql_text out;
  if (!CHECK(w != NULL) || dir == NULL)
    return NULL;
  (void)snprintf(w->dir, sizeof w->dir, "%s/run", dir);
  (void)snprintf(w->base, sizeof w->base, "%s/base", dir);
  (void)snprintf(w->file, sizeof w->file, "%s/base/app.db", dir);
  (void)snprintf(w->what, sizeof w->what, "base");
  (void)mkdir(w->base, 0777);
  failing_init(&w->f, &env_posix, test_state.seed);
  env_set_default(&w->f.env);
  int rc = sql_open(w);
  rc = rc ? rc
          : sql_run(w,
                    "CREATE TABLE v(one BLOB);"
                    "INSERT INTO v SELECT CAST(emb_f32('[' || "
                    "rtrim(replace(hex(zeroblob(32)), '0', '1,'), ',') || "
                    "']') AS BLOB);"
                    "CREATE TABLE p(id INTEGER PRIMARY KEY, val INTEGER);"
                    "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[64], "
                    "memory='4MB');"
                    "BEGIN;"
                    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 "
                    "FROM n WHERE i < 300) INSERT INTO p SELECT i, i % 50 + 1 "
                    "FROM n;"
                    "INSERT INTO items SELECT id, emb_scale(" FAIL_ONE
                    ", val) FROM p; COMMIT",
                    &out);
  SQL_CHECK(w, rc == SQLITE_OK, "gave %d: %s", rc, sqlite3_errmsg(w->db));
  sql_after[0] = sql_number(w, FAIL_STATE);
  sql_close(w);
  (void)snprintf(w->file, sizeof w->file, "%s/run/app.db", dir);
  return w;
}

void sql_end(struct fail_sql *w) {
  if (w == NULL)
    return;
  for (int i = 0; i < FAIL_STEPS; i++)
    free(w->wanted[i]);
  env_set_default(&env_posix);
  failing_free(&w->f);
  free(w);
}
