/* SPDX-License-Identifier: MIT
**
** delta_export.c -- writes a delta to a file (pack/pack.h).
**
** The rows are those that emb_delta_next would return, in the same order.  The
** consumer's file records that this delta was sent only when the file is
** complete, durable and has its name: so a file that does not exist is never
** acknowledged.  But the consumer's file is also written beforehand, next to
** the old one: then only two renames remain, which need no resource that could
** run out.
**
** The file of emb_delta_write is only the input for another file, so it gets
** its name when it is complete, and nothing is noted in the consumer's file
** yet.
*/
#include "engine/storage/schema/form.h"
#include "engine/table/jobs/progress.h"
#include "engine/storage/pack/options.h"
#include "delta.h"

#include <string.h>

#define ROWS_BYTES (1u << 20)
#define ROWS_MAX 4096

_Static_assert(EMB_CONSUMER_NAME_MAX < PACK_NAME_BYTES, "name in the head");
_Static_assert(PACK_PUT + 1 == EMB_DELTA_PUT &&
                   PACK_DELETE + 1 == EMB_DELTA_DELETE &&
                   PACK_EXPIRE + 1 == EMB_DELTA_EXPIRE &&
                   PACK_EVICT + 1 == EMB_DELTA_EVICT,
               "operations");

struct writing {
  emb_session *s;
  emb_delta *delta;
  struct pack_options options;
  struct form form;
  struct pack_writer *pack;
  size_t room; /* rows */
  struct delta_rows rows;
  char *row;      /* of the file */
  float *scratch; /* a row of floats */
  emb_delta_file *about;
  int begun; /* progress is reported */
};

void delta__label(const char *columns, char label[PACK_NAME_BYTES]) {
  size_t n = columns ? strlen(columns) : 0;
  memset(label, 0, PACK_NAME_BYTES);
  if (n < PACK_NAME_BYTES) {
    memcpy(label, columns ? columns : "", n);
  } else {
    static const char digits[] = "0123456789abcdef";
    uint64_t sum = XXH3_64bits(columns, n);
    size_t at = PACK_NAME_BYTES - 18;
    memcpy(label, columns, at);
    label[at++] = '#';
    for (int shift = 60; shift >= 0; shift -= 4) {
      label[at++] = digits[sum >> shift & 15];
    }
  }
}

static int delta_export_make_room(struct writing *w) {
  struct core *core = w->s->core;
  struct env *env = core->env;
  size_t bytes = core->layout.value_bytes, n = ROWS_BYTES / bytes;
  w->room = n < 1 ? 1 : n > ROWS_MAX ? ROWS_MAX : n;
  w->rows.keys = env->allocate(env, w->room * sizeof *w->rows.keys);
  w->rows.ops = env->allocate(env, w->room);
  w->rows.versions = env->allocate(env, w->room * sizeof *w->rows.versions);
  w->rows.values = env->allocate(env, w->room * bytes);
  w->row = env->allocate(env, (size_t)w->form.value_bytes + 8);
  w->scratch = env->allocate(env, core->layout.dim * sizeof *w->scratch);
  return w->rows.keys && w->rows.ops && w->rows.versions && w->rows.values &&
                 w->row && w->scratch
             ? EMB_OK
             : session_error(w->s, EMB_NOMEM, "out of memory");
}

static void free_room(struct writing *w) {
  struct env *env = w->s->core->env;
  env->release(env, w->rows.keys);
  env->release(env, w->rows.ops);
  env->release(env, w->rows.versions);
  env->release(env, w->rows.values);
  env->release(env, w->row);
  env->release(env, w->scratch);
}

static int fill_head(struct writing *w, const emb_delta_options *how,
                     struct pack_head *head) {
  const struct core *core = w->s->core;
  const emb_delta *delta = w->delta;
  memset(head, 0, sizeof *head);
  head->kind = PACK_DELTA;
  memcpy(head->uuid, core->uuid, sizeof head->uuid);
  head->number = delta->consumer.acks + UINT64_C(1);
  head->base =
      (struct pack_mark){delta->consumer.acked.end, delta->consumer.acked.end,
                         delta->consumer.acked.version};
  head->end =
      (struct pack_mark){delta->mark.end, delta->mark.end, delta->mark.version};
  memcpy(head->name, delta->consumer.name, sizeof delta->consumer.name);
  delta__label(how->columns, head->base_name);
  return form_write(&w->form, &core->schema, core->vec, &w->options, head,
                    &w->s->err);
}

static int delta_export_write_row(struct writing *w, size_t i) {
  emb_session *s = w->s;
  uint8_t op = w->rows.ops[i];
  struct pack_row row = {.key = w->rows.keys[i],
                         .version = w->rows.versions[i],
                         .op = op - UINT32_C(1)};
  if (op == EMB_DELTA_PUT) {
    const char *value = w->rows.values + i * s->core->layout.value_bytes;
    int rc = form_encode(&w->form, value, w->row, w->scratch);
    if (rc) {
      return session_error(s, rc, "key %lld does not fit into float16",
                           (long long)row.key);
    }
    row.value = w->row;
  }
  w->about->puts += op == EMB_DELTA_PUT;
  w->about->deletions += op != EMB_DELTA_PUT;
  progress_at(s, w->begun, (uint64_t)(w->about->puts + w->about->deletions));
  return pack_add(w->pack, &row, &s->err);
}

static int delta_export_write_rows(struct writing *w) {
  size_t n;
  int rc;
  do {
    rc = delta__read(w->delta, w->room, &w->rows, &n);
    for (size_t i = 0; !rc && i < n; i++) {
      rc = delta_export_write_row(w, i);
    }
  } while (!rc && n);
  return rc;
}

static int give_name(void *arg) {
  struct writing *w = arg;
  struct pack_writer *pack = w->pack;
  w->pack = NULL;
  return pack_finish(pack, &w->about->bytes, &w->s->err);
}

/* Ends the complete file: gives it its name, and notes it as sent or not. */
static int delta_export_end(struct writing *w, int sends) {
  int rc = pack_complete(w->pack, &w->s->err);
  if (!sends || EMB_SEED(SEED_DELTA_NOT_NOTED_AS_SENT) ||
      EMB_SEED(SEED_DELTA_NAMED_BEFORE_SENT)) {
    rc = rc ? rc : give_name(w);
    rc = rc || !sends || EMB_SEED(SEED_DELTA_NOT_NOTED_AS_SENT)
             ? rc
             : delta_complete(w->delta);
  } else {
    rc = rc ? rc : delta__complete_with(w->delta, give_name, w);
  }
  if (w->pack) {
    pack_abandon(w->pack);
  }
  return rc;
}

static int delta_export_write_file(struct writing *w, const char *path,
                                   const emb_delta_options *how, int sends) {
  emb_session *s = w->s;
  struct pack_head head;
  int rc = pack_options_parse(&w->options, how->text, 0, &s->err);
  rc = rc ? rc : fill_head(w, how, &head);
  rc = rc ? rc : delta_export_make_room(w);
  rc = rc ? rc
          : pack_create(s->core->env, path, &head, (int)w->options.level,
                        &w->pack, &s->err);
  if (rc) {
    return rc;
  }
  rc = delta_export_write_rows(w);
  if (rc) {
    pack_abandon(w->pack);
    return rc;
  }
  w->about->number = head.number;
  w->about->from = head.base.page;
  w->about->to = head.end.page;
  return delta_export_end(w, sends);
}

static int delta_export_run(struct writing *w, const char *path,
                            const emb_delta_options *how, int sends) {
  static const emb_delta_options plain = {0};
  w->begun = progress_begin(w->s, "delta export", "rows", 0);
  int rc = delta_export_write_file(w, path, how ? how : &plain, sends);
  progress_end(w->s, w->begun);
  free_room(w);
  return rc;
}

int local_delta_write(emb_delta *delta, const char *path,
                      const emb_delta_options *how, emb_delta_file *about) {
  emb_delta_file unused;
  struct writing w = {
      .s = delta->scan.s, .delta = delta, .about = about ? about : &unused};
  memset(w.about, 0, sizeof *w.about);
  return delta->complete ? session_error(w.s, EMB_MISUSE, "the delta was read")
                         : delta_export_run(&w, path, how, 0);
}

int local_delta_export(emb_session *s, const char *consumer, const char *path,
                       const emb_delta_options *how, emb_delta_file *about) {
  emb_delta_file unused;
  struct writing w = {.s = s, .about = about ? about : &unused};
  memset(w.about, 0, sizeof *w.about);
  int rc = local_delta_open(s, consumer, &w.delta);
  if (!rc) {
    rc = delta_export_run(&w, path, how, 1);
    local_delta_close(w.delta);
  }
  return rc;
}
