/* SPDX-License-Identifier: MIT
**
** value.c -- see value.h.
*/
#include "value.h"
#include "engine/table/jobs/cold.h"

#include <string.h>

void value_saw_time(struct core *core, uint32_t now) {
  uint32_t newest = atomic_load_explicit(&core->newest, memory_order_relaxed);
  while (now > newest && !atomic_compare_exchange_weak_explicit(
                             &core->newest, &newest, now, memory_order_relaxed,
                             memory_order_relaxed)) {
  }
}

void value_begin_call(emb_session *s) {
  struct core *core = s->core;
  if (schema_tracks(&core->schema)) {
    s->clock.now = s->clock.time ? s->clock.time : core_time(core);
    value_saw_time(core, s->clock.now);
  }
}

int value_adds(const emb_session *s, const struct row_change *change) {
  return change->kind == CHANGE_SET || change->kind >= CHANGE_CREATE ||
         s->core->schema.insert_on != EMB_INSERT_ON_PUT;
}

int value_admits(emb_session *s, const struct row_change *change, int64_t key,
                 uint32_t times) {
  struct core *core = s->core;
  int free = change->kind == CHANGE_SET || change->kind == CHANGE_COPY ||
             core->schema.admission.kind == ADMISSION_NONE;
  if (free ||
      admission_pass(&core->admission, hash_key(key), times, &s->random)) {
    return 1;
  }
  count_add(&core->counters.filtered_keys, 1);
  count_add(&core->counters.filtered_updates,
            change->kind == CHANGE_CREATE ? 0 : times);
  return 0;
}

/* The initial value of an absent key, before the change. */
static void value_begin(emb_session *s, int64_t key, void *to) {
  const struct schema *schema = &s->core->schema;
  schema_initial(schema, key, s->scratch_f32);
  schema_encode(schema, s->core->vec, to, s->scratch_f32, 0);
  schema_initial_state(schema, to, s->scratch_f32, 0, 0);
  if (schema_tracks(schema)) {
    schema_set_track(schema, to, (emb_track){0, 0});
  }
}

/* Sets the vectors, or parts of them, to `row`, which is not in the value. */
static void value_set(emb_session *s, const float *row, uint32_t parts,
                      void *value) {
  schema_encode(&s->core->schema, s->core->vec, value, row, parts);
  schema_initial_state(&s->core->schema, value, row, 1, parts);
}

static int value_add(emb_session *s, const float *row, void *value) {
  const struct schema *schema = &s->core->schema;
  const struct vec_ops *vec = s->core->vec;
  float *sum = s->scratch_f32;
  schema_decode(schema, vec, sum, value);
  vec->add(sum, sum, row, schema->dim);
  value_set(s, sum, 0, value);
  return schema_is_finite(schema, vec, value);
}

static int value_step(emb_session *s, const struct row_change *change,
                      const float *gradient, const float *read,
                      struct optim_step *how, void *value) {
  const struct schema *schema = &s->core->schema;
  int rc = EMB_OK;
  how->lr = change->how.lr;
  how->step = change->how.step;
  for (uint32_t i = 0; !rc && i < schema->count; i++) {
    const struct segment *segment = &schema->segments[i];
    void *vector = (char *)value + segment->stored_at;
    float *state = (float *)(void *)((char *)value + segment->state_at);
    const float *by = gradient + segment->first;
    how->read = read ? read + segment->first : NULL;
    if (segment->optimized && schema_has_part(change->parts, i)) {
      rc = segment->type == EMB_F16
               ? optim_apply_f16(&segment->optim, segment->dim, vector, state,
                                 by, how)
               : optim_apply(&segment->optim, segment->dim, vector, state, by,
                             how);
    }
  }
  return !rc;
}

static void track_update(emb_session *s, uint32_t times, void *value) {
  const struct schema *schema = &s->core->schema;
  schema_set_track(schema, value,
                   value_track(s, schema_track(schema, value), times));
}

/* A lookup counts, but leaves the time of the last update unchanged. */
static void track_lookup(emb_session *s, uint32_t times, void *value) {
  const struct schema *schema = &s->core->schema;
  emb_track before = schema_track(schema, value);
  emb_track after = value_track(s, before, times);
  after.updated_at = before.updated_at;
  schema_set_track(schema, value, after);
}

int value_make(emb_session *s, const struct row_change *change,
               const struct value_row *row, const void *old, void *to) {
  struct optim_step how = {.key = row->key, .version = row->version};
  emb_assert(old != to);
  if (change->kind == CHANGE_COPY) {
    memcpy(to, change->value, s->core->layout.value_bytes);
    return 1;
  }
  if (change->kind == CHANGE_SET && !change->parts &&
      !s->core->schema.state_floats) {
    schema_set_track(&s->core->schema, to, /* value_set writes the rest */
                     old ? schema_track(&s->core->schema, old)
                         : (emb_track){0, 0});
  } else if (old) {
    memcpy(to, old, s->core->layout.value_bytes);
  } else {
    value_begin(s, row->key, to);
  }
  if (schema_tracks(&s->core->schema)) {
    if (change->kind == CHANGE_LOOKUP && old) {
      track_lookup(s, row->times, to);
    } else {
      track_update(s, change->kind == CHANGE_CREATE ? 0 : row->times, to);
    }
  }
  switch (change->kind) {
  case CHANGE_SET: /* its elements were checked */
    value_set(s, row->says, change->parts, to);
    return 1;
  case CHANGE_ADD:
    return value_add(s, row->says, to);
  case CHANGE_STEP:
    return value_step(s, change, row->says, row->read, &how, to);
  default:
    return 1;
  }
}

/* With several segments a later step could fail after the first was applied. */
int value__works_in_place(const emb_session *s,
                          const struct row_change *change) {
#if FENCE_TSAN
  (void)s;
  (void)change;
  return 0; /* concurrent readers would see plain stores */
#else
  const struct schema *schema = &s->core->schema;
  return change->kind == CHANGE_SET ||
         (change->kind == CHANGE_STEP && schema->count == 1);
#endif
}

int value__update(emb_session *s, const struct row_change *change,
                  const struct value_row *row, void *value) {
  struct optim_step how = {.key = row->key, .version = row->version};
  int good = 1;
  emb_assert(value__works_in_place(s, change));
  if (change->kind == CHANGE_SET) {
    value_set(s, row->says, change->parts, value);
  } else {
    good = value_step(s, change, row->says, row->read, &how, value);
  }
  if (good && schema_tracks(&s->core->schema)) {
    track_update(s, row->times, value);
  }
  return good;
}

/* ---- values from disk ---------------------------------------------------- */

int loaded_init(emb_session *s, struct loaded *loaded) {
  struct env *env = s->core->env;
  loaded->values = NULL; /* allocated when first needed */
  loaded->at = env->allocate(
      env, s->chunk * (sizeof *loaded->at + sizeof *loaded->rows));
  if (!loaded->at) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  loaded->rows = (uint32_t *)(void *)(loaded->at + s->chunk);
  return EMB_OK;
}

void loaded_free(emb_session *s, struct loaded *loaded) {
  s->core->env->release(s->core->env, loaded->values);
  s->core->env->release(s->core->env, loaded->at);
}

static int keep_record(emb_session *s, void *arg, uint32_t row, int64_t key,
                       const struct rec *rec) {
  struct loaded *loaded = arg;
  size_t bytes = s->core->layout.value_bytes;
  (void)key;
  memcpy(loaded->values + (size_t)row * bytes, rec->vector, bytes);
  return EMB_OK;
}

int loaded_read(emb_session *s, struct loaded *loaded, const int64_t *keys,
                uint32_t cold, uint32_t *again) {
  struct env *env = s->core->env;
  uint32_t before = *again;
  emb_assert(cold <= s->chunk);
  if (!loaded->values) {
    loaded->values =
        env->resize(env, NULL, s->chunk * (size_t)s->core->layout.value_bytes);
  }
  if (!loaded->values) {
    return session_error(s, EMB_NOMEM, "out of memory");
  }
  for (uint32_t i = 0; i < cold; i++) {
    loaded->at[s->cold[i].row] = s->cold[i].address;
  }
  int rc =
      cold_read(s,
                &(struct cold_batch){
                    .keys = keys, .n = cold, .use = keep_record, .arg = loaded},
                again);
  for (uint32_t i = before; i < *again; i++) {
    loaded->at[s->rows[i]] = 0;
  }
  return rc;
}
