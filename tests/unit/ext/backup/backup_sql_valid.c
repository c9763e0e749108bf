/* SPDX-License-Identifier: MIT
**
** backup_sql_valid.c -- the assertions of a backup fire: its steps in another
** order, and the connections of a moment mixed up.
*/
#include "death.h"
#include "sql_help.h"

#include "ext/backup/backup.h"

static char *err;

/* A database in WAL mode with one table; a statement is reading it, as the one
** that calls emb_backup() would. */
static sqlite3 *open_items(const char *name, sqlite3_stmt **reading) {
  char path[500];
  (void)snprintf(path, sizeof path, "%s/%s", test_dir(), name);
  sqlite3 *db = sql_connect(path, 0);
  sql_runs(db, "PRAGMA journal_mode = WAL;"
               "CREATE VIRTUAL TABLE items USING emb(vector FLOAT[1]);"
               "INSERT INTO items VALUES(1, '[1]')");
  CHECK_EQ_INT(
      sqlite3_prepare_v2(db, "SELECT * FROM sqlite_schema", -1, reading, NULL),
      SQLITE_OK);
  CHECK_EQ_INT(sqlite3_step(*reading), SQLITE_ROW);
  return db;
}

TEST(a_moment) {
  sqlite3_stmt *reading;
  sqlite3 *db = open_items("moment.db", &reading);
  struct ext_conn *conn = ext_conn_ref(db);
  struct ext_moment m;
  CHECK_EQ_INT(ext_moment_begin(&m, conn, "main", &err), SQLITE_OK);
  CHECK(m.lock && m.reader && ext_moment_valid(&m));
  CHECK_FIRES(m.own = 1; ext_moment_open_up(&m, &err));
  CHECK_FIRES(m.locked = 0; ext_moment_open_up(&m, &err));
  CHECK_FIRES(m.lock = m.reader; ext_moment_open_up(&m, &err));
  CHECK_FIRES(sql_runs(m.lock, "ROLLBACK"); ext_moment_open_up(&m, &err));
  CHECK_FIRES(m.source = "temp"; ext_moment_open_up(&m, &err));
  CHECK_EQ_INT(ext_moment_open_up(&m, &err), SQLITE_OK);
  ext_moment_end(&m);
  sqlite3_finalize(reading);
  ext_conn_unref(conn);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

static void name_files(struct backup *b, const char *name) {
  b->target = sqlite3_mprintf("%s/%s", test_dir(), name);
  b->target_emb = sqlite3_mprintf("%s-emb", b->target);
  b->new = sqlite3_mprintf("%s-backup-new", b->target);
  b->new_emb = sqlite3_mprintf("%s-backup-new-emb", b->target);
}

static void forget(struct backup *b) {
  for (size_t i = 0; i < b->n; i++) {
    emb_session_close(b->parts[i].session);
    b->parts[i].link->cursors--;
    sqlite3_free(b->parts[i].name);
    sqlite3_free(b->parts[i].shadow);
    sqlite3_free(b->parts[i].dir);
    sqlite3_free(b->parts[i].to_dir);
    sqlite3_free(b->parts[i].to);
  }
  CHECK_EQ_INT(sqlite3_close(b->out), SQLITE_OK);
  sqlite3_free(b->parts);
  sqlite3_free(b->target);
  sqlite3_free(b->target_emb);
  sqlite3_free(b->new);
  sqlite3_free(b->new_emb);
}

TEST(the_steps) {
  sqlite3_stmt *reading;
  sqlite3 *db = open_items("steps.db", &reading);
  struct backup b = {.conn = ext_conn_ref(db), .schema = "main"};
  struct ext_conn *conn = b.conn;
  name_files(&b, "copy.db");
  ext_call_begin(conn);
  CHECK_EQ_INT(ext_backup_tables(&b, &err), SQLITE_OK);
  CHECK_FIRES(ext_backup_moment(&b, &err)); /* the target is not locked */
  CHECK_EQ_INT(ext_backup_target(&b, &err), SQLITE_OK);
  CHECK_FIRES(ext_backup_moment(&b, &err)); /* there are no sessions */
  CHECK_EQ_INT(ext_backup_sessions(&b, &err), SQLITE_OK);
  struct backup_part *part = b.parts;
  CHECK(b.n == 1 && ext_backup_may(&b, BACKUP_MARK));
  CHECK_FIRES(b.half = 1; ext_backup_moment(&b, &err));
  CHECK_FIRES(b.olds = 1; ext_backup_moment(&b, &err));
  CHECK_FIRES(b.moment.lock = db; ext_backup_moment(&b, &err));
  CHECK_FIRES(b.moment.reader = db; ext_backup_moment(&b, &err));
  CHECK_FIRES(part->link = NULL; ext_backup_moment(&b, &err));
  CHECK_FIRES(part->link->cursors = 0; ext_backup_moment(&b, &err));
  CHECK_FIRES(part->base = b.target; ext_backup_moment(&b, &err));
  CHECK_FIRES(part->shadow = b.target; ext_backup_moment(&b, &err));
  CHECK_EQ_INT(ext_backup_moment(&b, &err), SQLITE_OK);
  CHECK_FIRES(ext_backup_moment(&b, &err));
  CHECK_FIRES(ext_backup_stores(&b, &err)); /* the moment is still read */
  CHECK_FIRES(part->made = 1; ext_backup_database(&b, &err));
  CHECK_EQ_INT(ext_backup_database(&b, &err), SQLITE_OK);
  CHECK_FIRES(ext_backup_complete(&b, &err)); /* there is no copy */
  CHECK_EQ_INT(ext_backup_stores(&b, &err), SQLITE_OK);
  CHECK_FIRES(ext_backup_stores(&b, &err));
  CHECK_FIRES(part->to = NULL; ext_backup_complete(&b, &err));
  CHECK_EQ_INT(ext_backup_complete(&b, &err), SQLITE_OK);
  CHECK(ext_backup_may(&b, BACKUP_PUBLISH));
  forget(&b);
  ext_call_end(conn);
  sqlite3_finalize(reading);
  ext_conn_unref(conn);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  CHECK_ALL_FIRED("ext/backup/backup_valid.c");
}
