/* SPDX-License-Identifier: MIT
**
** clientdata.c -- per-connection data of modules whose types conn.h does not
** know.
*/
#include "conn.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

struct ext_clientdata {
  const char *name; /* static */
  void *data;
  void (*free)(void *);
  struct ext_clientdata *next;
};

int ext_conn_set_clientdata(struct ext_conn *conn, const char *name, void *data,
                            void (*free)(void *)) {
  struct ext_clientdata *kept = sqlite3_malloc64(sizeof *kept);
  if (kept == NULL) {
    free(data);
    return SQLITE_NOMEM;
  }
  *kept = (struct ext_clientdata){name, data, free, conn->clientdata};
  conn->clientdata = kept;
  return SQLITE_OK;
}

void *ext_conn_get_clientdata(const struct ext_conn *conn, const char *name) {
  const struct ext_clientdata *kept = conn->clientdata;
  while (kept && strcmp(kept->name, name) != 0)
    kept = kept->next;
  return kept ? kept->data : NULL;
}

void ext_conn_free_clientdata(struct ext_conn *conn) {
  while (conn->clientdata) {
    struct ext_clientdata *kept = conn->clientdata;
    conn->clientdata = kept->next;
    kept->free(kept->data);
    sqlite3_free(kept);
  }
}
