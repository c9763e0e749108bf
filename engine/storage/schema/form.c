/* SPDX-License-Identifier: MIT
**
** form.c -- see form.h.
*/
#include "form.h"

#include <string.h>

static const uint32_t widths[] = {4, 2, 1, 1};

static uint32_t form_stored_bytes(const struct segment *segment) {
  return segment->dim * (segment->type == EMB_F16 ? 2 : 4);
}

static uint32_t column_bytes(const struct form *form,
                             const struct segment *segment) {
  return form->encoding == QUANT_F32
             ? form_stored_bytes(segment)
             : (uint32_t)quant_bytes((enum quant_type)form->encoding,
                                     segment->dim);
}

/* Computes the columns that a head must have. */
static uint32_t form_columns(const struct form *form, struct pack_column *to) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < form->file.count; i++) {
    const struct segment *segment = &form->file.segments[i];
    uint32_t width = form->encoding == QUANT_F32 && segment->type == EMB_F16
                         ? 2
                         : widths[form->encoding];
    to[n++] = (struct pack_column){column_bytes(form, segment), width};
  }
  if (form->state) {
    to[n++] = (struct pack_column){form->file.state_floats * 4, 4};
  }
  if (form->track) {
    to[n++] = (struct pack_column){sizeof(emb_track), 4};
  }
  return n;
}
_Static_assert(EMB_SEGMENTS_MAX + 2 <= PACK_COLUMNS_MAX, "columns");
_Static_assert(SCHEMA_TEXT_BYTES == PACK_SCHEMA_BYTES, "text in the head");

int form_write(struct form *form, const struct schema *table,
               const struct vec_ops *vec, const struct pack_options *options,
               struct pack_head *head, emb_err *err) {
  memset(form, 0, sizeof *form);
  form->table = table;
  form->vec = vec;
  form->file = *table;
  for (uint32_t i = 0; i < table->count; i++) {
    form->file.segments[i].metric = EMB_L2; /* not a property of rows */
  }
  form->encoding = options->encoding;
  form->state = options->state && table->state_floats;
  form->keeps_state = form->state;
  form->track = schema_tracks(table);
  head->encoding = options->encoding;
  head->flags |=
      (form->state ? PACK_STATE : 0u) | (form->track ? PACK_TRACK : 0u);
  head->column_count = form_columns(form, head->columns);
  form->value_bytes = pack_value_bytes(head);
  emb_check(form_valid(form));
  return schema_print(&form->file, head->schema, err);
}

/* ---- reading: does it fit? ----------------------------------------------- */

static int check_head(const struct form *form, const struct pack_head *head,
                      const char *path, emb_err *err) {
  struct pack_column want[PACK_COLUMNS_MAX] = {{0, 0}};
  uint32_t n = form_columns(form, want);
  return (form->state && !form->file.state_floats) ||
                 (form->track && !schema_tracks(&form->file)) ||
                 head->column_count != n ||
                 memcmp(want, head->columns, n * sizeof *want) != 0
             ? err_set(err, EMB_CORRUPT,
                       "%s is damaged at byte 272: its columns do not match "
                       "its schema",
                       path)
             : EMB_OK;
}

static int check_state(const struct schema *file, const struct schema *table,
                       const char *path, emb_err *err) {
  for (uint32_t i = 0; i < table->count; i++) {
    const struct segment *a = &file->segments[i], *b = &table->segments[i];
    if (a->optimized != b->optimized || a->optim.kind != b->optim.kind ||
        a->state_floats != b->state_floats) {
      char has[OPTIM_TEXT_MAX] = "none", want[OPTIM_TEXT_MAX] = "none";
      if (a->optimized) {
        optim_print(&a->optim, has, sizeof has);
      }
      if (b->optimized) {
        optim_print(&b->optim, want, sizeof want);
      }
      return err_set(err, EMB_MISMATCH,
                     "%s holds the state of the optimizer %s, the table has %s",
                     path, has, want);
    }
  }
  return EMB_OK;
}

static int form_check_table(struct form *form, const char *path, emb_err *err) {
  const struct schema *table = form->table;
  if (!schema__same_vectors(&form->file, table)) {
    char has[160], want[160];
    schema__describe(&form->file, has, sizeof has);
    schema__describe(table, want, sizeof want);
    return err_set(err, EMB_MISMATCH, "%s holds %s, the table has %s", path,
                   has, want);
  }
  form->keeps_state = form->state && table->state_floats;
  return form->keeps_state ? check_state(&form->file, table, path, err)
                           : EMB_OK;
}

int form_read(struct form *form, const struct schema *table,
              const struct vec_ops *vec, const struct pack_head *head,
              const char *path, emb_err *err) {
  memset(form, 0, sizeof *form);
  form->vec = vec;
  form->encoding = head->encoding;
  form->state = (head->flags & PACK_STATE) != 0;
  form->track = (head->flags & PACK_TRACK) != 0;
  form->value_bytes = pack_value_bytes(head);
  int rc = head->encoding > QUANT_INT4
               ? EMB_CORRUPT
               : schema_parse(&form->file, head->schema, NULL);
  if (rc) {
    return err_set(err, EMB_CORRUPT,
                   "%s is damaged at byte 512: its schema is invalid", path);
  }
  form->table = table ? table : &form->file;
  rc = check_head(form, head, path, err);
  rc = rc ? rc : form_check_table(form, path, err);
  emb_check(rc || form_valid(form));
  return rc;
}

/* ---- values -------------------------------------------------------------- */

int form_encode(const struct form *form, const void *value, char *row,
                float *scratch) {
  const struct schema *schema = form->table;
  if (form->encoding != QUANT_F32) {
    schema_decode(schema, form->vec, scratch, value);
  }
  for (uint32_t i = 0; i < schema->count; i++) {
    const struct segment *segment = &schema->segments[i];
    uint32_t bytes = column_bytes(form, segment);
    if (form->encoding == QUANT_F32) {
      memcpy(row, (const char *)value + segment->stored_at, bytes);
    } else {
      int rc = quant_encode((enum quant_type)form->encoding, segment->dim,
                            scratch + segment->first, row);
      if (rc) {
        return rc;
      }
    }
    row += bytes;
  }
  if (form->state) {
    memcpy(row, (const char *)value + schema->state_at,
           schema->state_floats * 4);
    row += schema->state_floats * 4;
  }
  if (form->track) {
    memcpy(row, (const char *)value + schema->track_at, sizeof(emb_track));
  }
  return EMB_OK;
}

/* Decodes the vectors as float32, and moves *row past them. */
static int decode_vectors(const struct form *form, const char **row,
                          float *vectors) {
  const struct schema *schema = &form->file;
  for (uint32_t i = 0; i < schema->count; i++) {
    const struct segment *segment = &schema->segments[i];
    float *to = vectors + segment->first;
    int rc = EMB_OK;
    if (form->encoding != QUANT_F32) {
      rc =
          quant_decode((enum quant_type)form->encoding, segment->dim, *row, to);
    } else if (segment->type == EMB_F16) {
      rc = quant_decode(QUANT_F16, segment->dim, *row, to);
    } else {
      rc = quant_decode(QUANT_F32, segment->dim, *row, to);
    }
    if (rc) {
      return rc;
    }
    *row += column_bytes(form, segment);
  }
  return EMB_OK;
}

int form_vectors(const struct form *form, const char *row, float *vectors,
                 emb_track *track) {
  int rc = decode_vectors(form, &row, vectors);
  memset(track, 0, sizeof *track);
  if (!rc && form->track) {
    row += form->state ? form->file.state_floats * 4 : 0;
    memcpy(track, row, sizeof *track);
  }
  return rc;
}

int form_decode(const struct form *form, const char *row, void *value,
                float *scratch) {
  const struct schema *to = form->table;
  const char *at = row;
  int rc = decode_vectors(form, &at, scratch);
  if (rc) {
    return rc;
  }
  schema_encode(to, form->vec, value, scratch, 0);
  if (form->keeps_state && !EMB_SEED(SEED_OPTIMIZER_STATE_LOST)) {
    memcpy((char *)value + to->state_at, at, to->state_floats * 4);
  } else {
    schema_initial_state(to, value, scratch, 0, 0);
  }
  at += form->state ? form->file.state_floats * 4 : 0;
  if (schema_tracks(to)) {
    emb_track track = {0, 0};
    if (form->track) {
      memcpy(&track, at, sizeof track);
    }
    schema_set_track(to, value, track);
  }
  return schema_is_finite(to, form->vec, value) ? EMB_OK : EMB_CORRUPT;
}
