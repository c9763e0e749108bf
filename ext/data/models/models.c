/* SPDX-License-Identifier: MIT
**
** models.c -- the list of the functions about models.
*/
#include "models.h"
SQLITE_EXTENSION_INIT3

int ext_models_register(sqlite3 *db) {
  static int (*const registers[])(sqlite3 *) = {ext_models_evaluate_register,
                                                ext_models_classes_register,
                                                ext_models_diff_register};
  int rc = SQLITE_OK;
  for (size_t i = 0; i < sizeof registers / sizeof *registers; i++)
    if (rc == SQLITE_OK)
      rc = registers[i](db);
  return rc;
}
