/* SPDX-License-Identifier: MIT
**
** schema.c -- fuzzes the schema in a manifest: an accepted schema is printed
** and reads back as the same, and gives sizes that a layout can have.
*/
#include "fuzz.h"

#include "engine/storage/schema/schema.h"
#include "engine/emb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct schema schema, again;
  static char first[SCHEMA_TEXT_BYTES], second[SCHEMA_TEXT_BYTES];
  struct layout layout;
  emb_err err = {0, ""};
  char *text = malloc(size + 1);
  if (text == NULL)
    return 0;
  memcpy(text, data, size);
  text[size] = 0;
  int rc = schema_parse(&schema, text, &err);
  if (rc == EMB_OK) {
    FUZZ_CHECK(schema.count >= 1 && schema.count <= EMB_SEGMENTS_MAX);
    FUZZ_CHECK(schema.dim >= 1 && schema.dim <= EMB_DIM_MAX);
    FUZZ_CHECK(schema_print(&schema, first, &err) == EMB_OK);
    FUZZ_CHECK(schema_parse(&again, first, &err) == EMB_OK);
    FUZZ_CHECK(schema_print(&again, second, &err) == EMB_OK);
    FUZZ_CHECK(strcmp(first, second) == 0);
    schema_layout(&schema, &layout);
    FUZZ_CHECK(layout.dim == schema.dim && layout.slots >= 1);
    FUZZ_CHECK(layout.value_bytes >= layout.vector_bytes &&
               layout.rec_bytes >= REC_HEAD_BYTES + layout.value_bytes);
  } else {
    FUZZ_CHECK(rc == EMB_CORRUPT && err.text[0]);
  }
  free(text);
  return 0;
}
