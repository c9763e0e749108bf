/* SPDX-License-Identifier: MIT
**
** stat_row.c -- emb_stats for a client, which gets it through remote_stats; see
** stat_row.h.
*/
#include "stat_row.h"

#include <string.h>

#include "engine/table/store/store.h"

size_t local_stat_rows(emb_store *store, struct stat_row *rows, size_t max) {
  struct env *env = store->core.env;
  size_t n = local_stats(store, NULL, 0);
  if (!max) {
    return n;
  }
  n = n < max ? n : max;
  emb_stat *some = env->allocate(env, n * sizeof *some);
  n = some ? local_stats(store, some, n) : 0;
  for (size_t i = 0; i < n; i++) {
    struct stat_row *row = &rows[i];
    const char *text = some[i].text ? some[i].text : "";
    memset(row, 0, sizeof *row);
    strncpy(row->name, some[i].name, sizeof row->name - 1);
    row->has_text = some[i].text != NULL;
    size_t length = strlen(text);
    if (length >= sizeof row->text) { /* do not cut within a character */
      length = sizeof row->text - 1;
      while (length && (text[length] & 0xC0) == 0x80) {
        length--;
      }
    }
    memcpy(row->text, text, length);
    row->value = some[i].value;
  }
  env->release(env, some);
  return n;
}
