/* SPDX-License-Identifier: MIT
**
** policies.c -- the policies that emb comes with.
**
**     CREATE TABLE emb_policies(kind, name, about, options, sql)
**
** emb_pipeline_create copies them into the table `policy`, and their options
** into `policy_option`: from then on these tables are authoritative.
*/
#include "pipeline.h"
SQLITE_EXTENSION_INIT3

static int policies_begin(struct ext_tvf_cursor *base,
                          sqlite3_value **arguments, char **err) {
  (void)arguments, (void)err;
  base->n = ext_policy_texts_n;
  return SQLITE_OK;
}

static void policies_column(struct ext_tvf_cursor *base,
                            sqlite3_context *context, int i) {
  const struct ext_policy_text *text = &ext_policy_texts[base->at];
  const char *const columns[] = {text->kind, text->name, text->about,
                                 text->options, text->sql};
  sqlite3_result_text(context, columns[i], -1, SQLITE_STATIC);
}

static const struct ext_tvf policies = {
    .name = "emb_policies",
    .declaration = "CREATE TABLE x(kind TEXT, name TEXT, about TEXT, "
                   "options TEXT, sql TEXT)",
    .argument = 5,
    .cost = 50,
    .rows = 50,
    .cursor_size = sizeof(struct ext_tvf_cursor),
    .begin = policies_begin,
    .column = policies_column,
};

int ext_policies_register(struct ext_conn *conn) {
  return ext_tvf_register(conn, &policies);
}
