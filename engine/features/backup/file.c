/* SPDX-License-Identifier: MIT
**
** file.c -- reads a file made by emb_snapshot_export, by key and as a whole,
** without a store.
**
** TEXTS    If the file has texts, each row comes with its text; to read a row
**          out of order, the texts before it are skipped.
** MEMORY   A block of rows in three forms (pack/read.h), a block of the index;
**          for texts, one block of texts and the longest text.
*/
#include "engine/storage/pack/emb_file.h"
#include "file.h"

#include <string.h>

#include "engine/table/owner/registry.h"

int emb_file_open(const char *path, emb_file **out, emb_err *err) {
  struct env *env = env_default();
  emb_file *file = env->allocate(env, sizeof *file);
  *out = NULL;
  if (!file) {
    return err_set(err, EMB_NOMEM, "out of memory");
  }
  file->env = env;
  int rc = pack_open(env, path, &file->reader, err);
  rc = rc ? rc
          : form_read(&file->form, NULL, vec_best(),
                      pack_reader_head(file->reader), path, err);
  if (rc) {
    emb_file_close(file);
  } else {
    *out = file;
  }
  return rc;
}

void emb_file_close(emb_file *file) {
  if (file) {
    pack_close(file->reader);
    file->env->release(file->env, file);
  }
}

void emb_file_about(const emb_file *file, emb_file_info *info) {
  const struct pack_head *head = pack_reader_head(file->reader);
  const struct pack_end *end = pack_reader_end(file->reader);
  memset(info, 0, sizeof *info);
  memcpy(info->name, head->name, sizeof info->name);
  memcpy(info->base_name, head->base_name, sizeof info->base_name);
  memcpy(info->uuid, head->uuid, sizeof info->uuid);
  info->dim = file->form.file.dim;
  info->bytes = end->file_bytes;
  info->tracks = file->form.track;
  info->has_index = (head->flags & PACK_INDEX) != 0;
  info->has_texts = (head->flags & PACK_TEXTS) != 0;
  info->id = head->id;
  for (int i = 0; i < PACK_OPS; i++) {
    info->rows += (int64_t)end->rows[i];
  }
}

/* Reads the text of row `at`. */
static int file_text(emb_file *file, uint64_t at, emb_file_row *to,
                     emb_err *err) {
  struct pack_text text = {NULL, 0};
  int rc = EMB_OK;
  if (pack_reader_head(file->reader)->flags & PACK_TEXTS) {
    if (file->text > at) {
      pack_rewind_texts(file->reader);
      file->text = 0;
    }
    for (; !rc && file->text <= at; file->text++) {
      rc = pack_next_text(file->reader, &text, err);
    }
  }
  to->text = text.at;
  to->text_bytes = text.n;
  return rc;
}

/* Fills in the next row, except its text and the parts in its value. */
static void file_key(emb_file *file, const struct pack_row *row,
                     emb_file_row *to) {
  file->row++;
  to->key = row->key;
  to->version = row->version;
  to->deleted = row->op != PACK_PUT;
  to->track = (emb_track){0, 0};
}

/* Adds the row's value; a deletion has a vector of zeros. */
static int file_value(emb_file *file, const struct pack_row *row,
                      emb_file_row *to, float *vector, emb_err *err) {
  file_key(file, row, to);
  memset(vector, 0, file->form.file.dim * sizeof *vector);
  return to->deleted ||
                 form_vectors(&file->form, row->value, vector, &to->track) == 0
             ? EMB_OK
             : err_set(err, EMB_CORRUPT, "key %lld of the file is not finite",
                       (long long)row->key);
}

static int file_take(emb_file *file, const struct pack_row *row,
                     emb_file_row *to, float *vector, emb_err *err) {
  int rc = file_text(file, file->row, to, err);
  return rc ? rc : file_value(file, row, to, vector, err);
}

int emb_file_next(emb_file *file, emb_file_row *row, float *vector, int *found,
                  emb_err *err) {
  const struct pack_row *from;
  int rc = pack_next(file->reader, &from, err);
  int some = !rc && from;
  rc = some ? file_take(file, from, row, vector, err) : rc;
  *found = some && !rc;
  return rc;
}

int emb_file_next_key(emb_file *file, emb_file_row *row, int *found,
                      emb_err *err) {
  const struct pack_row *from;
  int rc = pack_next(file->reader, &from, err);
  int some = !rc && from;
  if (some) {
    rc = file_text(file, file->row, row, err);
    file_key(file, from, row);
  }
  *found = some && !rc;
  return rc;
}

static void file_seek(emb_file *file, uint64_t row) {
  pack_seek(file->reader, row);
  file->row = row;
}

void emb_file_rewind(emb_file *file) { file_seek(file, 0); }

int emb_file_verify(emb_file *file, int (*stop)(void *), void *arg,
                    emb_err *err) {
  int rc = pack_verify(file->reader, stop, arg, err);
  file->row = file->text = 0;
  return rc;
}

/* Finds a key without an index, by reading all rows. */
static int find_by_scan(emb_file *file, int64_t key, uint64_t *at,
                        emb_err *err) {
  const struct pack_row *row;
  int rc;
  *at = 0;
  pack_seek(file->reader, 0);
  do {
    rc = pack_next(file->reader, &row, err);
    if (rc || (row && row->key == key)) {
      return rc;
    }
    ++*at;
  } while (row);
  *at = UINT64_MAX;
  return rc;
}

int emb_file_get(emb_file *file, int64_t key, emb_file_row *row, float *vector,
                 int *found, emb_err *err) {
  int indexed = (pack_reader_head(file->reader)->flags & PACK_INDEX) != 0;
  const struct pack_row *from;
  uint64_t at;
  int rc = indexed ? pack_find(file->reader, key, &at, err)
                   : find_by_scan(file, key, &at, err);
  *found = 0;
  if (rc || at == UINT64_MAX) {
    return rc;
  }
  file_seek(file, at);
  rc = pack_next(file->reader, &from, err);
  if (!rc && (!from || from->key != key)) {
    rc =
        err_set(err, EMB_CORRUPT,
                "the file is damaged: its index has a wrong entry for key %lld",
                (long long)key);
  }
  rc = rc ? rc : file_take(file, from, row, vector, err);
  *found = !rc;
  return rc;
}

int emb_file_get_text(emb_file *file, emb_file_row *row, float *vector,
                      int *found, emb_err *err) {
  const char *text = row->text;
  size_t bytes = row->text_bytes;
  const struct pack_row *from;
  uint64_t at = 0;
  *found = 0;
  for (;; at++) {
    int rc = file_text(file, at, row, err);
    if (rc || !row->text) {
      return rc;
    }
    if (row->text_bytes == bytes && memcmp(row->text, text, bytes) == 0) {
      break;
    }
  }
  file_seek(file, at);
  int rc = pack_next(file->reader, &from, err);
  int some = !rc && from;
  rc = some ? file_value(file, from, row, vector, err) : rc;
  *found = some && !rc;
  return rc;
}
