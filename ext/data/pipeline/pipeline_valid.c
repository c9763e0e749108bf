/* SPDX-License-Identifier: MIT
**
** pipeline_valid.c -- checks that a scope, a pipeline and a policy's answer are
** as pipeline.h says.  Only in self-checking builds (engine/base/debug.h).
*/
#include "pipeline.h"
SQLITE_EXTENSION_INIT3

#if EMB_DEBUG > 0

#include <string.h>

static int pipeline_is_type(int type) {
  return type == SQLITE_INTEGER || type == SQLITE_FLOAT ||
         type == SQLITE_TEXT || type == SQLITE_NULL;
}

int ext_scope_valid(const struct ext_scope *scope) {
  emb_assert(scope->db);
  emb_assert(scope->n >= 0 && scope->n <= EXT_SCOPE_MAX);
  for (int i = 0; i < scope->n; i++) {
    const struct ext_given *given = &scope->given[i];
    emb_assert(pipeline_is_type(given->type));
    emb_assert((given->type == SQLITE_TEXT) == (given->text != NULL));
    for (int k = 0; k < i; k++)
      emb_assert(strcmp(given->name, scope->given[k].name) != 0);
  }
  return 1;
}

int ext_pipeline_valid(const struct ext_pipeline *pipeline) {
  const struct ext_scope *scope = &pipeline->scope;
  emb_assert(pipeline->conn->db == pipeline->db && scope->db == pipeline->db);
  emb_assert(pipeline->prefix && scope->prefix == pipeline->prefix);
  /* Statements find the pipeline's rows by these two. */
  emb_assert(scope->n >= 2 && strcmp(scope->given[1].name, "seed") == 0);
  emb_assert(strcmp(scope->given[0].name, "pipeline") == 0 &&
             scope->given[0].integer == pipeline->id);
  return ext_scope_valid(scope);
}

int ext_answer_valid(const struct ext_question *question,
                     const struct ext_answer *answer) {
  int decides = answer->verdict == EXT_YES || answer->verdict == EXT_NO;
  emb_assert(decides || answer->verdict == EXT_NOTHING ||
             answer->verdict == EXT_WAITS);
  emb_assert(!decides || answer->reason);
  emb_assert(answer->verdict != EXT_NOTHING || !answer->reason);
  emb_assert(!decides || (answer->position > question->evaluated &&
                          answer->position <= question->last));
  return 1;
}

#endif
