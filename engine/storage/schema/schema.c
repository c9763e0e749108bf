/* SPDX-License-Identifier: MIT
**
** schema.c -- see schema.h.
*/
#include "schema.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/near.h"
#include "engine/base/text.h"
#include "engine/emb.h"

static const char *const types[] = {"FLOAT", "FLOAT16"};
static const char *const inserts[] = {"", "put", "update", "lookup"};
static const char *const tracks[] = {"", "", "wall", "data"};
static const char *const evicts[] = {"", "lru", "lfu"};
static const char *const metrics[] = {"l2", "cosine", "dot"};
enum { METRICS_KNOWN = sizeof metrics / sizeof metrics[0] };

_Static_assert(sizeof(emb_track) == 8 && offsetof(emb_track, frequency) == 4,
               "part of a record");

/* Appends at *at and moves it; 0: no room. */
__attribute__((format(printf, 3, 4))) static int
schema_add(char **at, const char *end, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(*at, (size_t)(end - *at), format, args);
  va_end(args);
  if (n < 0 || n >= end - *at) {
    return 0;
  }
  *at += n;
  return 1;
}

/* ---- making -------------------------------------------------------------- */

static uint32_t schema_stored_bytes(const struct segment *segment) {
  return segment->dim * (segment->type == EMB_F16 ? 2 : 4);
}

/* Computes all offsets, once the segments are known. */
static void schema_lay_out(struct schema *schema) {
  uint32_t at = 0;
  schema->dim = 0;
  schema->state_floats = 0;
  schema->optimized = 0;
  schema->initialized = 0;
  for (uint32_t i = 0; i < schema->count; i++) {
    struct segment *segment = &schema->segments[i];
    segment->first = schema->dim;
    segment->stored_at = at;
    schema->dim += segment->dim;
    at += (schema_stored_bytes(segment) + 3) / 4 * 4;
  }
  schema->state_at = at;
  for (uint32_t i = 0; i < schema->count; i++) {
    struct segment *segment = &schema->segments[i];
    segment->state_at = at;
    segment->state_floats =
        segment->optimized ? optim_state_floats(&segment->optim, segment->dim)
                           : 0;
    at += segment->state_floats * 4;
    schema->state_floats += segment->state_floats;
    schema->optimized |= segment->optimized;
    schema->initialized |= segment->init.kind != INIT_ZEROS;
  }
  schema->track_at = at;
}

/* Sets the dimension and type; the rest as for a plain vector. */
static int set_segment(struct segment *segment, uint32_t dim, uint32_t type,
                       emb_err *err) {
  memset(segment, 0, sizeof *segment);
  if (dim < 1 || dim > EMB_DIM_MAX) {
    return err_set(err, EMB_RANGE, "dimension must be between 1 and %d, got %u",
                   EMB_DIM_MAX, dim);
  }
  if (type > EMB_F16) {
    return err_set(err, EMB_RANGE, "unknown vector type %u", type);
  }
  segment->dim = dim;
  segment->type = type;
  return EMB_OK;
}

void schema_plain(struct schema *schema, uint32_t dim, uint32_t type) {
  memset(schema, 0, sizeof *schema);
  schema->count = 1;
  schema->segments[0].dim = dim;
  schema->segments[0].type = type;
  schema->insert_on = EMB_INSERT_ON_PUT;
  schema->track = EMB_TRACK_NONE;
  schema_lay_out(schema);
}

int schema_is_plain(const struct schema *schema) {
  return schema->count == 1 && !schema->optimized && !schema->initialized &&
         schema->segments[0].metric == EMB_L2 && !schema->segments[0].indexed &&
         schema->insert_on == EMB_INSERT_ON_PUT && !schema_tracks(schema);
}

static int schema_check(const struct schema *schema, emb_err *err) {
  if (schema->dim > EMB_DIM_MAX) {
    return err_set(err, EMB_RANGE,
                   "the dimensions of all vectors must be at most %d together, "
                   "got %u",
                   EMB_DIM_MAX, schema->dim);
  }
  return EMB_OK;
}

/* Sets what rows track, and when rows are admitted, expire and are evicted. */
static int schema_retention(struct schema *schema, const emb_config *c,
                            emb_err *err) {
  if (c->track > EMB_TRACK_DATA) {
    return err_set(err, EMB_RANGE, "unknown track %u", c->track);
  }
  int rc = c->ttl ? ttl__parse(&schema->ttl, c->ttl, err) : EMB_OK;
  rc = rc || !c->admission
           ? rc
           : admission__parse(&schema->admission, c->admission, err);
  if (c->evict > EMB_EVICT_LFU) {
    return err_set(err, EMB_RANGE, "unknown evict %u", c->evict);
  }
  schema->capacity = c->capacity == EMB_CAPACITY_NONE ? 0 : c->capacity;
  schema->evict = c->evict ? c->evict : EMB_EVICT_LRU;
  int forgets =
      ttl_any(&schema->ttl) || schema->admission.kind || schema->capacity;
  schema->track = c->track  ? c->track
                  : forgets ? EMB_TRACK_WALL
                            : EMB_TRACK_NONE;
  return rc || !forgets || schema_tracks(schema)
             ? rc
             : err_set(err, EMB_RANGE,
                       "a table with ttl, admission or capacity must track "
                       "its rows");
}

static int parse_metric(const char *text, uint32_t *metric, emb_err *err) {
  for (uint32_t i = 0; i < METRICS_KNOWN; i++) {
    if (near_is(metrics[i], text)) {
      *metric = i;
      return EMB_OK;
    }
  }
  return err_set(err, EMB_RANGE,
                 "unknown metric: %s; expected l2, cosine or dot", text);
}

/* text: "none", or options as in engine/math/ivf/options.h. */
static int schema_set_index(struct segment *to, const char *text,
                            emb_err *err) {
  to->indexed = !near_is("none", text);
  return to->indexed ? ivf_parse(&to->index, text, err) : EMB_OK;
}

/* The largest float16. */
#define HALF_MAX 65504

int schema_init(struct schema *schema, const emb_config *c, emb_err *err) {
  emb_segment one = {.dim = c->dim, .type = c->type};
  const emb_segment *from = c->segment_count ? c->segments : &one;
  int rc;
  memset(schema, 0, sizeof *schema);
  schema->count = c->segment_count ? c->segment_count : 1;
  if (schema->count > EMB_SEGMENTS_MAX) {
    return err_set(err, EMB_RANGE, "at most %d vectors per row, got %u",
                   EMB_SEGMENTS_MAX, c->segment_count);
  }
  if (c->insert_on > EMB_INSERT_ON_LOOKUP) {
    return err_set(err, EMB_RANGE, "unknown insert_on %u", c->insert_on);
  }
  schema->insert_on = c->insert_on;
  schema->seed = c->seed;
  rc = schema_retention(schema, c, err);
  if (rc) {
    return rc;
  }
  for (uint32_t i = 0; i < schema->count; i++) {
    struct segment *to = &schema->segments[i];
    const char *optimizer =
        from[i].optimizer ? from[i].optimizer : c->optimizer;
    const char *initializer =
        from[i].initializer ? from[i].initializer : c->initializer;
    const char *metric = from[i].metric ? from[i].metric : c->metric;
    const char *index = from[i].index ? from[i].index : c->index;
    rc = set_segment(to, from[i].dim, from[i].type, err);
    to->optimized = optimizer && !near_is("none", optimizer);
    rc = rc || !to->optimized ? rc : optim_parse(&to->optim, optimizer, err);
    rc = rc || !initializer ? rc : init_parse(&to->init, initializer, err);
    rc = rc || !metric ? rc : parse_metric(metric, &to->metric, err);
    rc = rc || !index ? rc : schema_set_index(to, index, err);
    if (!rc && to->type == EMB_F16 && init_largest(&to->init) > HALF_MAX) {
      rc = err_set(err, EMB_RANGE,
                   "initializer %s: elements up to %g are too large for "
                   "float16, whose maximum is %d",
                   initializer, init_largest(&to->init), HALF_MAX);
    }
    if (rc) {
      return rc;
    }
  }
  schema_lay_out(schema);
  if (!schema->insert_on) {
    schema->insert_on =
        schema->optimized ? EMB_INSERT_ON_UPDATE : EMB_INSERT_ON_PUT;
  }
  rc = schema_check(schema, err);
  emb_check(rc || schema_valid(schema));
  return rc;
}

void schema__describe(const struct schema *schema, char *to, size_t size) {
  char *at = to;
  *to = 0;
  for (uint32_t i = 0; i < schema->count; i++) {
    const struct segment *segment = &schema->segments[i];
    if (!schema_add(&at, to + size, "%s%s[%u]", i ? ", " : "",
                    types[segment->type], segment->dim)) {
      break;
    }
  }
}

void schema_types(const struct schema *schema, char *to) {
  char *at = to;
  for (uint32_t i = 0; i < schema->count; i++) {
    (void)schema_add(&at, to + SCHEMA_TYPES_BYTES, "%s%s", i ? ", " : "",
                     schema->segments[i].type == EMB_F16 ? "float16"
                                                         : "float32");
  }
}

static void describe_optimizer(const struct segment *segment, char *to,
                               size_t size) {
  if (segment->optimized) {
    optim_print(&segment->optim, to, size);
  } else {
    snprintf(to, size, "none");
  }
}

int schema__same_vectors(const struct schema *a, const struct schema *b) {
  int same = a->count == b->count;
  for (uint32_t i = 0; same && i < a->count; i++) {
    same = a->segments[i].dim == b->segments[i].dim &&
           a->segments[i].type == b->segments[i].type;
  }
  return same;
}

/* Completes the requested schema with the store's own settings where the
** configuration has none. */
static int schema_complete(struct schema *want, const struct schema *has,
                           const emb_config *c, emb_err *err) {
  emb_segment segments[EMB_SEGMENTS_MAX];
  emb_config all = *c;
  if (!c->dim && !c->segment_count) {
    for (uint32_t i = 0; i < has->count; i++) {
      segments[i] = (emb_segment){.dim = has->segments[i].dim,
                                  .type = has->segments[i].type};
    }
    all.segments = segments;
    all.segment_count = has->count;
  }
  if (!c->insert_on) {
    all.insert_on = has->insert_on;
  }
  if (!c->seed) {
    all.seed = has->seed;
  }
  if (!c->track) {
    all.track = has->track;
  }
  return schema_init(want, &all, err);
}

int schema_accept(struct schema *schema, const emb_config *c, const char *dir,
                  emb_err *err) {
  struct schema want;
  int rc = schema_complete(&want, schema, c, err);
  if (rc) {
    return rc;
  }
  if (!schema__same_vectors(&want, schema)) {
    char has[160], asked[160];
    schema__describe(schema, has, sizeof has);
    schema__describe(&want, asked, sizeof asked);
    return err_set(err, EMB_MISMATCH, "%s has %s, not %s", dir, has, asked);
  }
  if (!c->ttl) {
    want.ttl = schema->ttl;
  }
  if (!c->admission) {
    want.admission = schema->admission;
  }
  if (!c->capacity) {
    want.capacity = schema->capacity;
  }
  if (!c->evict) {
    want.evict = schema->evict;
  }
  if (schema_tracks(&want) != schema_tracks(schema)) {
    return err_set(err, EMB_MISMATCH,
                   schema_tracks(schema)
                       ? "%s tracks its rows; track= cannot be removed"
                       : "%s does not track its rows; track= cannot be added",
                   dir);
  }
  for (uint32_t i = 0; i < schema->count; i++) {
    struct segment *to = &want.segments[i];
    const struct segment *own = &schema->segments[i];
    const emb_segment *said = c->segment_count ? &c->segments[i] : NULL;
    if (!c->optimizer && !(said && said->optimizer)) {
      to->optim = own->optim;
      to->optimized = own->optimized;
    } else if (to->optimized != own->optimized ||
               to->optim.kind != own->optim.kind) {
      char has[OPTIM_TEXT_MAX], asked[OPTIM_TEXT_MAX];
      describe_optimizer(own, has, sizeof has);
      describe_optimizer(to, asked, sizeof asked);
      return err_set(err, EMB_MISMATCH, "%s has the optimizer %s, not %s", dir,
                     has, asked);
    }
    if (!c->initializer && !(said && said->initializer)) {
      to->init = own->init;
    }
    if (!c->metric && !(said && said->metric)) {
      to->metric = own->metric;
    }
    if (!c->index && !(said && said->index)) {
      to->indexed = own->indexed;
      to->index = own->index;
    }
  }
  schema_lay_out(&want);
  if (want.state_floats != schema->state_floats) {
    return err_set(
        err, EMB_MISMATCH,
        "%s: parameters that change the optimizer's state cannot be changed",
        dir);
  }
  emb_check(schema_valid(&want));
  *schema = want;
  return EMB_OK;
}

void schema_layout(const struct schema *schema, struct layout *layout) {
  const struct segment *last = &schema->segments[schema->count - 1];
  uint32_t type = schema->segments[0].type;
  for (uint32_t i = 1; i < schema->count; i++) {
    type = type == EMB_F32 && schema->segments[i].type == EMB_F32
               ? EMB_F32
               : LAYOUT_MIXED;
  }
  uint32_t vectors = last->stored_at + schema_stored_bytes(last);
  uint32_t all = schema_tracks(schema)  ? schema->track_at + sizeof(emb_track)
                 : schema->state_floats ? schema->track_at
                                        : vectors;
  layout_init(layout, schema->dim, type, vectors, all);
}

/* ---- text ---------------------------------------------------------------- */

int schema_print(const struct schema *schema, char *to, emb_err *err) {
  char *at = to, *end = to + SCHEMA_TEXT_BYTES;
  int fits = 1;
  *to = 0;
  for (uint32_t i = 0; i < schema->count; i++) {
    const struct segment *segment = &schema->segments[i];
    char text[OPTIM_TEXT_MAX];
    fits = fits &&
           schema_add(&at, end, "%s[%u]", types[segment->type], segment->dim);
    if (segment->metric != EMB_L2) {
      fits =
          fits && schema_add(&at, end, " metric=%s", metrics[segment->metric]);
    }
    if (segment->indexed) {
      ivf_print(&segment->index, text, sizeof text);
      fits = fits && schema_add(&at, end, " index=%s", text);
    }
    if (segment->optimized) {
      optim_print(&segment->optim, text, sizeof text);
      fits = fits && schema_add(&at, end, " optimizer=%s", text);
    }
    init_print(&segment->init, text, sizeof text);
    fits = fits && schema_add(&at, end, " initializer=%s\n", text);
  }
  fits = fits && schema_add(&at, end, "insert_on=%s\nseed=%llu\n",
                            inserts[schema->insert_on],
                            (unsigned long long)schema->seed);
  if (schema_tracks(schema)) {
    fits = fits && schema_add(&at, end, "track=%s\n", tracks[schema->track]);
  }
  if (ttl_any(&schema->ttl)) {
    char text[TTL_TEXT_MAX];
    ttl__print(&schema->ttl, text, sizeof text);
    fits = fits && schema_add(&at, end, "ttl=%s\n", text);
  }
  if (schema->admission.kind) {
    char text[ADMISSION_TEXT_MAX];
    admission_print(&schema->admission, text, sizeof text);
    fits = fits && schema_add(&at, end, "admission=%s\n", text);
  }
  if (schema->capacity) {
    fits = fits && schema_add(&at, end, "capacity=%llu evict=%s\n",
                              (unsigned long long)schema->capacity,
                              evicts[schema->evict]);
  }
  return fits ? EMB_OK
              : err_set(err, EMB_RANGE,
                        "the vectors' optimizers and initializers take more "
                        "than %d bytes of text",
                        SCHEMA_TEXT_BYTES - 1);
}

/* Copies a word, including any parenthesised arguments, to text. */
static int schema_take(const char **at, char *text, size_t size) {
  size_t n = strcspn(*at, " \n(");
  if ((*at)[n] == '(') {
    n += strcspn(*at + n, ")\n");
    n += (*at)[n] == ')';
  }
  if (n == 0 || n >= size) {
    return 0;
  }
  memcpy(text, *at, n);
  text[n] = 0;
  *at += n;
  return 1;
}

static int read_dim(const char **at, uint32_t *dim) {
  uint64_t n;
  if (**at == '0' || !text_digits(at, EMB_DIM_MAX, &n)) {
    return 0;
  }
  *dim = (uint32_t)n;
  return text_word(at, "]");
}

/* Reads a number without leading zeros. */
static int schema_read_number(const char **at, uint64_t *number) {
  const char *from = *at;
  return text_digits(at, UINT64_MAX, number) &&
         (*from != '0' || *at == from + 1);
}

/* Copies what follows `name`, up to the end of the line, to text.  -1: there is
** no such name. */
static int take_line(const char **at, const char *name, char *text,
                     size_t size) {
  size_t n;
  if (!text_word(at, name)) {
    return -1;
  }
  n = strcspn(*at, "\n");
  if (n >= size || (*at)[n] != '\n') {
    return 0;
  }
  memcpy(text, *at, n);
  text[n] = 0;
  *at += n + 1;
  return 1;
}

/* Parses capacity=... evict=..., if present. */
static int parse_capacity(struct schema *schema, const char **at) {
  schema->evict = EMB_EVICT_LRU;
  if (!text_word(at, "capacity=")) {
    return 1;
  }
  if (!schema_read_number(at, &schema->capacity) || !schema->capacity ||
      schema->capacity == EMB_CAPACITY_NONE || !text_word(at, " evict=")) {
    return 0;
  }
  schema->evict = text_word(at, "lfu") ? EMB_EVICT_LFU : EMB_EVICT_LRU;
  return (schema->evict == EMB_EVICT_LFU || text_word(at, "lru")) &&
         text_word(at, "\n");
}

/* Parses ttl=..., admission=..., if present. */
static int parse_rules(struct schema *schema, const char **at) {
  char text[TTL_TEXT_MAX];
  int is = take_line(at, "ttl=", text, sizeof text);
  if (is == 0 || (is > 0 && (ttl__parse(&schema->ttl, text, NULL) ||
                             !ttl_any(&schema->ttl)))) {
    return 0;
  }
  is = take_line(at, "admission=", text, sizeof text);
  return (is < 0 ||
          (is > 0 &&
           admission__parse(&schema->admission, text, NULL) == EMB_OK &&
           schema->admission.kind != ADMISSION_NONE)) &&
         parse_capacity(schema, at);
}

/* Parses track=..., if present; 0: not from schema_print. */
static int parse_track(struct schema *schema, const char **at) {
  schema->track = EMB_TRACK_NONE;
  if (!text_word(at, "track=")) {
    return 1;
  }
  schema->track = text_word(at, "wall")   ? EMB_TRACK_WALL
                  : text_word(at, "data") ? EMB_TRACK_DATA
                                          : EMB_TRACK_NONE;
  return schema_tracks(schema) && text_word(at, "\n") &&
         parse_rules(schema, at);
}

/* Parses metric=..., if present. */
static int read_metric(struct segment *segment, const char **at) {
  char text[16];
  return !text_word(at, " metric=") ||
         (schema_take(at, text, sizeof text) &&
          parse_metric(text, &segment->metric, NULL) == EMB_OK &&
          segment->metric != EMB_L2);
}

/* Parses index=..., if present. */
static int read_index(struct segment *segment, const char **at) {
  char text[IVF_TEXT_MAX];
  return !text_word(at, " index=") ||
         (schema_take(at, text, sizeof text) &&
          ivf_parse(&segment->index, text, NULL) == EMB_OK &&
          (segment->indexed = 1));
}

/* Parses one line; 0: not from schema_print. */
static int parse_segment(struct segment *segment, const char **at) {
  char text[OPTIM_TEXT_MAX];
  uint32_t dim, type = (uint32_t)text_word(at, "FLOAT16[");
  return (type || text_word(at, "FLOAT[")) && read_dim(at, &dim) &&
         set_segment(segment, dim, type, NULL) == EMB_OK &&
         read_metric(segment, at) && read_index(segment, at) &&
         (!text_word(at, " optimizer=") ||
          (schema_take(at, text, sizeof text) &&
           optim_parse(&segment->optim, text, NULL) == EMB_OK &&
           (segment->optimized = 1))) &&
         text_word(at, " initializer=") && schema_take(at, text, sizeof text) &&
         init_parse(&segment->init, text, NULL) == EMB_OK &&
         text_word(at, "\n");
}

static int parse_form(struct schema *schema, const char *at) {
  memset(schema, 0, sizeof *schema);
  while (!text_word(&at, "insert_on=")) {
    if (schema->count == EMB_SEGMENTS_MAX ||
        !parse_segment(&schema->segments[schema->count], &at)) {
      return 0;
    }
    schema->count++;
  }
  schema->insert_on = EMB_INSERT_ON_PUT;
  while (schema->insert_on <= EMB_INSERT_ON_LOOKUP &&
         !text_word(&at, inserts[schema->insert_on])) {
    schema->insert_on++;
  }
  if (!schema->count || schema->insert_on > EMB_INSERT_ON_LOOKUP ||
      !text_word(&at, "\nseed=") || !schema_read_number(&at, &schema->seed) ||
      !text_word(&at, "\n") || !parse_track(schema, &at) || *at) {
    return 0;
  }
  schema_lay_out(schema);
  int good = schema_check(schema, NULL) == EMB_OK;
  emb_check(!good || schema_valid(schema));
  return good;
}

int schema_parse(struct schema *schema, const char *text, emb_err *err) {
  return parse_form(schema, text)
             ? EMB_OK
             : err_set(err, EMB_CORRUPT, "the schema cannot be understood: %s",
                       text);
}

/* ---- values -------------------------------------------------------------- */

void schema_encode(const struct schema *schema, const struct vec_ops *vec,
                   void *value, const float *row, uint32_t parts) {
  for (uint32_t i = 0; i < schema->count; i++) {
    const struct segment *segment = &schema->segments[i];
    void *to = (char *)value + segment->stored_at;
    if (!schema_has_part(parts, i)) {
      continue;
    }
    if (segment->type == EMB_F16) {
      vec->to_f16(to, row + segment->first, segment->dim);
      if (segment->dim % 2 && i + 1 < schema->count) {
        ((uint16_t *)to)[segment->dim] = 0; /* pad to the next segment */
      }
    } else {
      memcpy(to, row + segment->first, segment->dim * sizeof(float));
    }
  }
}

void schema_decode(const struct schema *schema, const struct vec_ops *vec,
                   float *row, const void *value) {
  for (uint32_t i = 0; i < schema->count; i++) {
    const struct segment *segment = &schema->segments[i];
    const void *from = (const char *)value + segment->stored_at;
    if (segment->type == EMB_F16) {
      vec->from_f16(row + segment->first, from, segment->dim);
    } else {
      memcpy(row + segment->first, from, segment->dim * sizeof(float));
    }
  }
}

void schema_initial(const struct schema *schema, int64_t key, float *row) {
  if (!schema->initialized) {
    memset(row, 0, schema->dim * sizeof *row);
    return;
  }
  for (uint32_t i = 0; i < schema->count; i++) {
    const struct segment *segment = &schema->segments[i];
    init_fill(&segment->init, schema->seed + i, key, segment->dim,
              row + segment->first);
  }
}

/* Does the optimizer compute the vector from its state? */
static int vector_follows_state(const struct segment *segment) {
  return segment->optim.kind == OPTIM_FTRL ||
         segment->optim.kind == OPTIM_GROUP_FTRL;
}

void schema_initial_state(const struct schema *schema, void *value,
                          const float *row, int changed_only, uint32_t parts) {
  for (uint32_t i = 0; i < schema->count; i++) {
    const struct segment *segment = &schema->segments[i];
    if (segment->state_floats && schema_has_part(parts, i) &&
        (!changed_only || vector_follows_state(segment))) {
      optim_init(&segment->optim, segment->dim, row + segment->first,
                 (float *)(void *)((char *)value + segment->state_at));
    }
  }
}

int schema_is_finite(const struct schema *schema, const struct vec_ops *vec,
                     const void *value) {
  for (uint32_t i = 0; i < schema->count; i++) {
    const struct segment *segment = &schema->segments[i];
    const void *from = (const char *)value + segment->stored_at;
    if (segment->type == EMB_F32 &&
        vec->find_bad(from, segment->dim) < segment->dim) {
      return 0;
    }
    for (uint32_t k = 0; segment->type == EMB_F16 && k < segment->dim; k++) {
      if ((((const uint16_t *)from)[k] & 0x7c00) == 0x7c00) {
        return 0;
      }
    }
  }
  const float *state =
      (const float *)(const void *)((const char *)value + schema->state_at);
  return vec->find_bad(state, schema->state_floats) == schema->state_floats;
}
