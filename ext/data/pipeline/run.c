/* SPDX-License-Identifier: MIT
**
** run.c -- emb_pipeline_run(pipeline [, prefix]): advances to the next trigger.
**
** Returns the number of a trigger whose selection has been made, or NULL if
** there is nothing more to decide now.  Known samples are decided first, and
** only then is the source asked for new samples, so that many triggers cost one
** query:
**
**     while ((t = emb_pipeline_run('clicks')) is not NULL)
**       train on emb_selected('clicks', t)
**
** Training happens between two calls, because the next decision may depend on
** the model's quality and on how long the training took.
*/
#include "pipeline.h"
SQLITE_EXTENSION_INIT3

/* Checks early the policies that are used only later. */
static int run_check(struct ext_pipeline *pipeline, char **err) {
  struct ext_policy policy = {0};
  int rc = ext_policy_read(pipeline, "selection", pipeline->selection_policy,
                           &policy, err);
  if (rc == SQLITE_OK)
    rc = ext_downsampling_check(pipeline, &policy, err);
  ext_policy_free(&policy);
  return rc;
}

static int run_once(struct ext_pipeline *pipeline, sqlite3_int64 *trigger,
                    char **err) {
  sqlite3_int64 n = 0;
  int rc = run_check(pipeline, err);
  if (rc == SQLITE_OK)
    rc = ext_pipeline_decide(pipeline, trigger, err);
  if (rc != SQLITE_OK || *trigger >= 0)
    return rc;
  rc = ext_pipeline_inform(pipeline, &n, err);
  return rc == SQLITE_OK && n > 0 ? ext_pipeline_decide(pipeline, trigger, err)
                                  : rc;
}

static void fn_run(sqlite3_context *context, int argc, sqlite3_value **argv) {
  struct ext_pipeline pipeline;
  sqlite3_int64 trigger = -1;
  char *err = NULL;
  int rc = ext_pipeline_load(ext_fn_conn(context), argv[0],
                             argc > 1 ? argv[1] : NULL, &pipeline, &err);
  if (rc == SQLITE_OK)
    rc = ext_pipeline_begin(&pipeline, &err);
  if (rc == SQLITE_OK) {
    rc = run_once(&pipeline, &trigger, &err);
    if (rc == SQLITE_OK && trigger >= 0)
      rc = ext_pipeline_select(&pipeline, trigger, &err);
    rc = ext_pipeline_end(&pipeline, rc, &err);
  }
  ext_pipeline_free(&pipeline);
  if (rc != SQLITE_OK)
    ext_result_error(context, rc, err);
  else if (trigger >= 0)
    sqlite3_result_int64(context, trigger);
}

int ext_pipeline_register(struct ext_conn *conn) {
  static const struct ext_function functions[] = {
      {"emb_pipeline_create", 0, ext_fn_pipeline_create},
      {"emb_pipeline_create", 1, ext_fn_pipeline_create},
      {"emb_models_create", 0, ext_fn_models_create},
      {"emb_models_create", 1, ext_fn_models_create},
      {"emb_pipeline_run", 1, fn_run},
      {"emb_pipeline_run", 2, fn_run},
      {"emb_downsample", 2, ext_fn_downsample},
      {"emb_downsample", 3, ext_fn_downsample},
      {"emb_downsample", 4, ext_fn_downsample},
      {"emb_evaluation_intervals", 1, ext_fn_intervals},
      {"emb_evaluation_intervals", 2, ext_fn_intervals},
  };
  int rc =
      ext_fn_register(conn, functions, sizeof functions / sizeof functions[0]);
  if (rc == SQLITE_OK)
    rc = ext_selected_register(conn);
  return rc == SQLITE_OK ? ext_policies_register(conn) : rc;
}
