/* SPDX-License-Identifier: MIT
**
** data.c -- registers the folders of ext/data/.
*/
#include "data.h"

#include "choose/choose.h"
#include "dataset/samples.h"
#include "join/join.h"
#include "models/models.h"
#include "pipeline/pipeline.h"
#include "engine/base/seed.h"
SQLITE_EXTENSION_INIT3

int ext_data_register_functions(sqlite3 *db) {
  int rc = ext_words_register(db);
  if (rc == SQLITE_OK)
    rc = ext_choose_register(db);
  return rc == SQLITE_OK ? ext_models_register(db) : rc;
}

int ext_data_register(struct ext_conn *conn) {
  static int (*const registers[])(struct ext_conn *) = {
      ext_join_register, ext_choose_chosen_register, ext_samples_register,
      ext_pipeline_register};
  int rc = SQLITE_OK;
  for (size_t i = 0; i < sizeof registers / sizeof *registers; i++)
    if (rc == SQLITE_OK || EMB_SEED(SEED_DATA_ERROR_OVERWRITTEN))
      rc = registers[i](conn);
  return rc;
}
