/* SPDX-License-Identifier: MIT
**
** texts.c -- adds the texts of its keys to a file of rows: emb_file_add_texts.
**
**   1  a new file with the same head, except the flags          [pack_create]
**   2  the rows, block by block, in stored form              [pack_copy_rows]
**   3  a second pass over their keys: the caller supplies the text of each
**   4  the file is made durable and, when the caller says so, gets its name
**
** Called by ext/table/keys_file.c, in the process that has the texts, which
** need not be the one that has the store.  So no store is involved here.
** FAILURE  The new file is removed.
** THREADS  One at a time.
*/
#include "engine/storage/pack/emb_file.h"
#include "file.h"

struct emb_file_writer {
  struct env *env;
  struct pack_writer *pack;
};

static int texts_of_rows(emb_file *file, const emb_file_texts *how,
                         struct pack_writer *w, emb_err *err) {
  emb_file_row row;
  struct pack_text text;
  int found = 1, rc = EMB_OK;
  emb_file_rewind(file);
  for (uint64_t n = 0; !rc && found; n++) {
    if (n % 1024 == 0 && how->stop && how->stop(how->arg)) {
      return err_set(err, EMB_INTERRUPT, "interrupted");
    }
    rc = emb_file_next_key(file, &row, &found, err);
    if (!rc && found) {
      rc = how->text(how->arg, &row, &text.at, &text.n, err);
      rc = rc ? rc : pack_add_text(w, &text, err);
    }
  }
  return rc;
}

static int texts_write(emb_file *file, const char *path,
                       const emb_file_texts *how, struct pack_writer **w,
                       emb_err *err) {
  struct pack_head head = *pack_reader_head(file->reader);
  struct pack_options options;
  int rc = pack_options_parse(&options, how->options,
                              PACK_TAKES_INDEX | PACK_TAKES_BASE, err);
  head.flags = (head.flags & ~(uint32_t)PACK_INDEX) | PACK_TEXTS;
  rc =
      rc ? rc : pack_create(file->env, path, &head, (int)options.level, w, err);
  rc = rc ? rc : pack_copy_rows(*w, file->reader, how->stop, how->arg, err);
  rc = rc ? rc : texts_of_rows(file, how, *w, err);
  return rc ? rc : pack_complete(*w, err);
}

int emb_file_add_texts(emb_file *file, const char *path,
                       const emb_file_texts *how, emb_file_writer **writer,
                       emb_err *err) {
  struct env *env = file->env;
  emb_file_writer *made = env->allocate(env, sizeof *made);
  *writer = NULL;
  err_clear(err);
  if (!made) {
    return err_set(err, EMB_NOMEM, "out of memory");
  }
  made->env = env;
  int rc = texts_write(file, path, how, &made->pack, err);
  if (rc) {
    emb_file_abandon(made);
  } else {
    *writer = made;
  }
  return rc;
}

int emb_file_finish(emb_file_writer *writer, uint64_t *bytes, emb_err *err) {
  struct pack_writer *pack = writer->pack;
  err_clear(err);
  writer->env->release(writer->env, writer);
  return pack_finish(pack, bytes, err);
}

void emb_file_abandon(emb_file_writer *writer) {
  if (writer) {
    pack_abandon(writer->pack);
    writer->env->release(writer->env, writer);
  }
}
