/* SPDX-License-Identifier: MIT
**
** init.c -- the entry points through which SQLite loads emb.
**
** ENTRY     sqlite3_emb_init          everything
**           sqlite3_emb_data_init     choosing training data (data/), without
**                                     the tables of module emb
**           sqlite3_emb_nofile_init   vector arithmetic only: for hosts that
**                                     run other people's SQL
**           Each of them registers emb_help, too.
** WITHOUT   -DEMB_OMIT_DATA leaves data/ and its entry point out.
** DYNAMIC   SELECT load_extension('./emb'), .load ./emb and the like.  The
**           library stays loaded for the life of the process, because its
**           connections share stores, and these have threads.
** TWO       A process may contain two SQLite libraries: the system's, and one
**           in a program or a Python module.  All calls of SQLite go through
**           one pointer, sqlite3_api, so claim_host refuses the second library:
**           it needs a copy of this file.
** STATIC    Compile with -DSQLITE_CORE, then sqlite3_emb_init(db, NULL, NULL)
**           or sqlite3_auto_extension((void (*)(void))sqlite3_emb_init).
*/
#include "ext/help/help.h"
#include "ext/tvf/tvf.h"
#ifndef EMB_OMIT_DATA
#include "ext/data/data.h"
#endif
#ifndef SQLITE_CORE
#include <dlfcn.h>
#endif
SQLITE_EXTENSION_INIT1

/* The first SQLite with sqlite3_vtab_in. */
#define EXT_SQLITE_MIN 3038000

#define EXPORT __attribute__((visibility("default")))

EXPORT int sqlite3_emb_init(sqlite3 *db, char **message,
                            const sqlite3_api_routines *api);
EXPORT int sqlite3_emb_nofile_init(sqlite3 *db, char **message,
                                   const sqlite3_api_routines *api);
#ifndef EMB_OMIT_DATA
EXPORT int sqlite3_emb_data_init(sqlite3 *db, char **message,
                                 const sqlite3_api_routines *api);
#endif

#ifdef SQLITE_CORE
#define RESULT_LOADED SQLITE_OK
#else
#define RESULT_LOADED SQLITE_OK_LOAD_PERMANENTLY
#endif

/* Whatever headers it was compiled with, what counts is the SQLite library that
** loads the extension: calling a function it lacks would jump to address 0. */
static int check_version(char **message) {
  if (sqlite3_libversion_number() >= EXT_SQLITE_MIN)
    return SQLITE_OK;
  if (message)
    *message = sqlite3_mprintf("emb: SQLite 3.38 or newer is needed, this is "
                               "%s",
                               sqlite3_libversion());
  return SQLITE_ERROR;
}

/* Sets sqlite3_api, unless it belongs to another SQLite library that is still
** in the process: that one's connections would then get this one's calls, which
** expect other structures. */
static int claim_host(char **message, const sqlite3_api_routines *api) {
#ifndef SQLITE_CORE
  const sqlite3_api_routines *host = NULL;
  Dl_info place;
  if (__atomic_compare_exchange_n(&sqlite3_api, &host, api, 0, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE) ||
      host == api)
    return SQLITE_OK;
  if (dladdr(host, &place) != 0) {
    if (message)
      *message = api->mprintf("emb: another SQLite library in this process has "
                              "loaded this file; load a copy of the file");
    return SQLITE_ERROR;
  }
  SQLITE_EXTENSION_INIT2(api);
#endif
  (void)message;
  (void)api;
  return SQLITE_OK;
}

/* Registering a function again returns SQLITE_BUSY while a statement runs, such
** as the SELECT load_extension(...) that is loading us, and is harmless
** otherwise.  (Do not test for a function by preparing a statement that uses
** it: that may read the database and wait for its lock, which Python does not
** expect when loading an extension.) */
static int register_vector_functions(sqlite3 *db) {
  int rc = ext_register_vector_functions(db);
  if (rc == SQLITE_OK)
    rc = ext_help_register(db);
#ifndef EMB_OMIT_DATA
  if (rc == SQLITE_OK)
    rc = ext_data_register_functions(db);
#endif
  return rc == SQLITE_BUSY && !EMB_SEED(SEED_VECTORS_NOT_LOADED_AGAIN)
             ? SQLITE_OK
             : rc;
}

/* Common part of all entry points.  They do not call each other, because SQLite
** loads libraries with global symbols: with two copies of this library in a
** process, the second would call the first one's entry point. */
static int init_start(sqlite3 *db, char **message,
                      const sqlite3_api_routines *api) {
  int rc = claim_host(message, api);
  if (rc == SQLITE_OK)
    rc = check_version(message);
  return rc == SQLITE_OK ? register_vector_functions(db) : rc;
}

/* Registers the modules and functions that use tables, once: after an error a
** second call could not replace those that were registered. */
static int register_tables(struct ext_conn *conn) {
  static int (*const registers[])(struct ext_conn *) = {
      ext_signal_register,       ext_fn_store_register,
      ext_fn_async_register,     ext_fn_file_register,
      ext_fn_delta_register,     ext_fn_serve_register,
      ext_fn_lookup_register,    ext_fn_sample_register,
      ext_tvf_file_register,     ext_tvf_lookahead_register,
      ext_tvf_snapshot_register, ext_tvf_delta_register,
      ext_tvf_evicted_register,  ext_tvf_keys_register,
      ext_tvf_nearest_register,  ext_tvf_stats_register,
      ext_tvf_describe_register, ext_tvf_tables_register,
      ext_tvf_backup_register,   ext_tvf_progress_register,
      ext_tvf_clients_register,  ext_tvf_serve_register,
      ext_tvf_pending_register,  ext_tvf_sample_register,
      ext_fn_bag_register};
  int rc;
  /* Each module and function holds a reference, and so does our caller. */
  emb_assert(!conn->has_tables || conn->refs > 1);
  if (conn->has_tables)
    return conn->tables_rc;
  conn->has_tables = 1;
  conn->refs++;
  rc = sqlite3_create_module_v2(conn->db, "emb", ext_vtab_module(), conn,
                                ext_conn_unref);
  for (size_t i = 0; i < sizeof registers / sizeof registers[0]; i++)
    if (rc == SQLITE_OK)
      rc = registers[i](conn);
  conn->tables_rc = rc;
  return rc;
}

/* Registers the functions that choose training data. */
static int register_data(struct ext_conn *conn) {
#ifndef EMB_OMIT_DATA
  emb_assert(!conn->has_data || conn->refs > 1);
  if (!conn->has_data) {
    conn->has_data = 1;
    conn->data_rc = ext_data_register(conn);
  }
  return conn->data_rc;
#else
  (void)conn;
  return SQLITE_OK;
#endif
}

static int register_on(sqlite3 *db, char **message, int tables) {
  struct ext_conn *conn = ext_conn_ref(db);
  int rc = SQLITE_OK;
  if (conn == NULL)
    return SQLITE_NOMEM;
  if (tables)
    rc = register_tables(conn);
  if (rc == SQLITE_OK)
    rc = register_data(conn);
  ext_conn_unref(conn);
  if (rc == SQLITE_BUSY && message)
    *message =
        sqlite3_mprintf("emb: this connection already has a function of the "
                        "same name as one of emb's, and a statement runs: "
                        "load emb into a new connection, before it gets "
                        "functions of its own");
  return rc == SQLITE_OK ? RESULT_LOADED : rc;
}

int sqlite3_emb_nofile_init(sqlite3 *db, char **message,
                            const sqlite3_api_routines *api) {
  return init_start(db, message, api);
}

int sqlite3_emb_init(sqlite3 *db, char **message,
                     const sqlite3_api_routines *api) {
  int rc = init_start(db, message, api);
  return rc == SQLITE_OK ? register_on(db, message, 1) : rc;
}

#ifndef EMB_OMIT_DATA
int sqlite3_emb_data_init(sqlite3 *db, char **message,
                          const sqlite3_api_routines *api) {
  int rc = init_start(db, message, api);
  return rc == SQLITE_OK ? register_on(db, message, 0) : rc;
}
#endif
