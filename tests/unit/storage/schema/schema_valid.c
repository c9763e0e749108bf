/* SPDX-License-Identifier: MIT
**
** schema_valid.c -- each assertion of the validity functions of
** engine/storage/schema/ fires.
*/
#include "death.h"

#include "engine/storage/schema/form.h"

static struct schema schema;
static emb_err err;

/* Two vectors with optimizers, in a table that forgets rows. */
static int make_schema(void) {
  emb_segment segments[2] = {{.dim = 3, .type = EMB_F16, .optimizer = "adam"},
                             {.dim = 8, .optimizer = "adagrad"}};
  emb_config config = {.segments = segments,
                       .segment_count = 2,
                       .capacity = 100,
                       .ttl = "30d, 5:7d, 8-15:none"};
  return CHECK_EQ_INT(schema_init(&schema, &config, &err), EMB_OK) &&
         CHECK(schema_valid(&schema));
}

TEST(a_schema) {
  struct schema *s = &schema;
  if (!make_schema())
    return;
  CHECK_FIRES(s->count = 0; schema_valid(s));
  CHECK_FIRES(s->insert_on = 0; schema_valid(s));
  CHECK_FIRES(s->segments[1].type = 9; schema_valid(s));
  CHECK_FIRES(s->segments[1].first++; schema_valid(s));
  CHECK_FIRES(s->segments[1].stored_at += 4; schema_valid(s));
  CHECK_FIRES(s->dim++; schema_valid(s));
  CHECK_FIRES(s->state_at += 4; schema_valid(s));
  CHECK_FIRES(s->segments[1].optimized = 0; schema_valid(s));
  CHECK_FIRES(s->segments[1].state_at += 4; schema_valid(s));
  CHECK_FIRES(s->state_floats++; schema_valid(s));
  CHECK_FIRES(s->track_at += 4; schema_valid(s));
  CHECK_FIRES(s->track = EMB_TRACK_NONE; schema_valid(s));
  CHECK_FIRES(s->evict = 0; schema_valid(s));
  CHECK_FIRES(s->ttl.count = 0x10000; schema_valid(s));
  CHECK_FIRES(s->ttl.slots[0].low = 6; schema_valid(s));
  CHECK_FIRES(s->ttl.slots[1] = s->ttl.slots[0]; schema_valid(s));
  CHECK_ALL_FIRED("engine/storage/schema/ttl_valid.c");
}

static int make_admission(struct admission *a) {
  const struct admission_rule rule = {
      .kind = ADMISSION_COUNT, .n = 3, .memory = 65536};
  return CHECK_EQ_INT(admission_init(a, &env_posix, &rule), EMB_OK);
}

TEST(counts_of_admission) {
  static struct admission a;
  uint64_t random = 1;
  if (!make_admission(&a))
    return;
  CHECK(!admission_pass(&a, 4711, 1, &random));
  CHECK_FIRES(a.rule.kind = ADMISSION_NONE; admission_valid(&a));
  CHECK_FIRES(a.tables[1] = NULL; admission_valid(&a));
  CHECK_FIRES(a.young = 2; admission_valid(&a));
  CHECK_FIRES(a.bytes += 64; admission_valid(&a));
  CHECK_FIRES(a.limit *= 2; admission_valid(&a));
  CHECK_FIRES(a.keys = a.limit + 1; admission_valid(&a));
  CHECK_ALL_FIRED("engine/storage/schema/admission_valid.c");
  CHECK_FIRES(a.keys = a.limit + 1; admission_pass(&a, 4712, 1, &random));
  CHECK_FIRES(a.limit *= 2; admission_resume(&a, 0, 0));
  CHECK(strstr(death_text(), "admission_valid.c") != NULL);
  admission_free(&a);
}

TEST(the_form_of_a_file) {
  static struct pack_head head;
  static struct form form;
  const struct pack_options options = {.encoding = QUANT_INT8, .state = 1};
  struct form *f = &form;
  if (!make_schema() ||
      !CHECK_EQ_INT(form_write(f, &schema, vec_best(), &options, &head, &err),
                    EMB_OK) ||
      !CHECK(form_valid(f)))
    return;
  CHECK_FIRES(f->encoding = QUANT_INT4 + 1; form_valid(f));
  CHECK_FIRES(f->file.segments[0].dim++; form_valid(f));
  CHECK_FIRES(f->file.state_floats = 0; form_valid(f));
  CHECK_FIRES(f->file.track = EMB_TRACK_NONE; form_valid(f));
  CHECK_FIRES(f->state = 0; form_valid(f));
  CHECK_FIRES(f->value_bytes++; form_valid(f));
  CHECK_ALL_FIRED("engine/storage/schema/form_valid.c");
  CHECK_ALL_FIRED("engine/storage/schema/schema_valid.c");
}
