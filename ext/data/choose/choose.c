/* SPDX-License-Identifier: MIT
**
** choose.c -- the list of the functions that choose what to train on.
*/
#include "choose.h"
SQLITE_EXTENSION_INIT3

int ext_choose_register(sqlite3 *db) {
  static int (*const registers[])(sqlite3 *) = {
      ext_choose_random_register, ext_choose_entropy_register,
      ext_choose_coreset_register, ext_choose_drift_register};
  int rc = SQLITE_OK;
  for (size_t i = 0; i < sizeof registers / sizeof *registers; i++)
    if (rc == SQLITE_OK)
      rc = registers[i](db);
  return rc;
}
