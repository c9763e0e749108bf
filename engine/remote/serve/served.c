/* SPDX-License-Identifier: MIT
**
** served.c -- see served.h.
**
** Each call puts its arguments in the order of its line in shape.c, and is
** asked as any other; what stands here in more than three lines has structures
** of pointers, or paths.  Objects are in remote.c and remote_scan.c.
*/
#include "served.h"

#include <string.h>

#include "link.h"
#include "remote.h"
#include "stat_row.h"
#include "tickets.h"

int served__ask(emb_session *s, int call, const union word *w) {
  uint64_t result;
  int rc = session_begin(s);
  rc = rc ? rc : link__ask(s, call, 0, w, &result);
  return rc ? rc : (int)(uint32_t)result;
}

/* Of a call that returns a number: 0 where there is no answer. */
static uint64_t ask_number(emb_session *s, int call, const union word *w) {
  uint64_t result;
  if (session_begin(s)) {
    return 0;
  }
  int rc = link__ask(s, call, 0, w, &result);
  if (rc == EMB_LOST) {
    s->owed = s->err;
  }
  return rc ? 0 : result;
}

/* ---- rows and transactions ----------------------------------------------- */

int served_own(emb_session *session) {
  return served__ask(session, CALL_own, NULL);
}

int served_set_memory(emb_session *session, uint64_t bytes) {
  const union word w[REQUEST_ARGS] = {{.u = bytes}};
  return served__ask(session, CALL_set_memory, w);
}

int served_get(emb_session *session, const int64_t *keys, size_t n,
               float *vectors, uint8_t *found, uint64_t *versions) {
  const union word w[REQUEST_ARGS] = {
      {.c = keys}, {.u = n}, {.p = vectors}, {.p = found}, {.p = versions}};
  return served__ask(session, CALL_get, w);
}

int served_peek(emb_session *session, const int64_t *keys, size_t n,
                float *vectors, uint8_t *found, uint64_t *versions) {
  const union word w[REQUEST_ARGS] = {
      {.c = keys}, {.u = n}, {.p = vectors}, {.p = found}, {.p = versions}};
  return served__ask(session, CALL_peek, w);
}

int served_exists(emb_session *session, const int64_t *keys, size_t n,
                  uint8_t *found) {
  const union word w[REQUEST_ARGS] = {{.c = keys}, {.u = n}, {.p = found}};
  return served__ask(session, CALL_exists, w);
}

int served_put(emb_session *session, const int64_t *keys, size_t n,
               const float *vectors, uint64_t *versions) {
  const union word w[REQUEST_ARGS] = {
      {.c = keys}, {.u = n}, {.c = vectors}, {.p = versions}};
  return served__ask(session, CALL_put, w);
}

int served_put_parts(emb_session *session, const int64_t *keys, size_t n,
                     const float *vectors, uint32_t parts, uint64_t *versions) {
  const union word w[REQUEST_ARGS] = {
      {.c = keys}, {.u = n}, {.c = vectors}, {.u = parts}, {.p = versions}};
  return served__ask(session, CALL_put_parts, w);
}

int served_rmw(emb_session *session, const int64_t *keys, size_t n,
               const float *deltas, uint8_t *found, uint64_t *versions) {
  const union word w[REQUEST_ARGS] = {
      {.c = keys}, {.u = n}, {.c = deltas}, {.p = found}, {.p = versions}};
  return served__ask(session, CALL_rmw, w);
}

int served_tracks(emb_session *session, const int64_t *keys, size_t n,
                  emb_track *tracks, uint8_t *found) {
  const union word w[REQUEST_ARGS] = {
      {.c = keys}, {.u = n}, {.p = tracks}, {.p = found}};
  return served__ask(session, CALL_tracks, w);
}

int served_delete(emb_session *session, const int64_t *keys, size_t n,
                  uint8_t *found) {
  const union word w[REQUEST_ARGS] = {{.c = keys}, {.u = n}, {.p = found}};
  return served__ask(session, CALL_delete, w);
}

int served_clocks(emb_session *session, const int64_t *keys, size_t n,
                  uint32_t *clocks) {
  const union word w[REQUEST_ARGS] = {{.c = keys}, {.u = n}, {.p = clocks}};
  return served__ask(session, CALL_clocks, w);
}

/* The numbers of look-aheads go on from owner to owner: those that were begun
** there follow link->aheads_before.  One of an owner before is over, with what
** it fetched: it was advice. */
static int is_aheads(const emb_session *s, uint64_t number) {
  return number > s->link->aheads_before;
}

int served_lookahead(emb_session *session, const int64_t *keys, size_t n,
                     int dest, emb_ahead *result) {
  emb_ahead here;
  const union word w[REQUEST_ARGS] = {
      {.c = keys}, {.u = n}, {.i = dest}, {.p = &here}};
  int rc = served__ask(session, CALL_lookahead, w);
  if (!rc) {
    here.number += session->link->aheads_before;
    session->ahead_last = here.number;
  }
  if (!rc && result) {
    *result = here;
  }
  return rc;
}

int served_lookahead_progress(emb_session *session, uint64_t number,
                              emb_ahead *result) {
  const union word w[REQUEST_ARGS] = {
      {.u = number - session->link->aheads_before}, {.p = result}};
  if (number && number <= session->ahead_last && !is_aheads(session, number)) {
    *result = (emb_ahead){.number = number, .done = 1};
    return session_begin(session);
  }
  int rc = served__ask(session, CALL_lookahead_progress, w);
  result->number = number;
  return rc;
}

int served_lookahead_wait(emb_session *session, uint64_t number) {
  const union word w[REQUEST_ARGS] = {
      {.u = number - session->link->aheads_before}};
  if (number && number <= session->ahead_last && !is_aheads(session, number)) {
    return session_begin(session);
  }
  return served__ask(session, CALL_lookahead_wait, w);
}

int served_begin(emb_session *session) {
  return served__ask(session, CALL_begin, NULL);
}

int served_txn_put(emb_session *session, const int64_t *keys, size_t n,
                   const float *vectors) {
  const union word w[REQUEST_ARGS] = {{.c = keys}, {.u = n}, {.c = vectors}};
  return served__ask(session, CALL_txn_put, w);
}

int served_txn_put_parts(emb_session *session, const int64_t *keys, size_t n,
                         const float *vectors, uint32_t parts) {
  const union word w[REQUEST_ARGS] = {
      {.c = keys}, {.u = n}, {.c = vectors}, {.u = parts}};
  return served__ask(session, CALL_txn_put_parts, w);
}

int served_txn_put_if(emb_session *session, int64_t key, const float *vector,
                      uint32_t parts, int present, int *done) {
  const union word w[REQUEST_ARGS] = {
      {.i = key}, {.c = vector}, {.u = parts}, {.i = present}, {.p = done}};
  return served__ask(session, CALL_txn_put_if, w);
}

int served_txn_move(emb_session *session, int64_t from, int64_t to,
                    int *found) {
  const union word w[REQUEST_ARGS] = {{.i = from}, {.i = to}, {.p = found}};
  return served__ask(session, CALL_txn_move, w);
}

int served_txn_delete(emb_session *session, const int64_t *keys, size_t n,
                      uint8_t *found) {
  const union word w[REQUEST_ARGS] = {{.c = keys}, {.u = n}, {.p = found}};
  return served__ask(session, CALL_txn_delete, w);
}

int served_savepoint(emb_session *session, int i) {
  const union word w[REQUEST_ARGS] = {{.i = i}};
  return served__ask(session, CALL_savepoint, w);
}

int served_rollback_to(emb_session *session, int i) {
  const union word w[REQUEST_ARGS] = {{.i = i}};
  return served__ask(session, CALL_rollback_to, w);
}

int served_savepoint_release(emb_session *session, int i) {
  const union word w[REQUEST_ARGS] = {{.i = i}};
  return served__ask(session, CALL_savepoint_release, w);
}

int served_snapshot(emb_session *session, const char *name) {
  const union word w[REQUEST_ARGS] = {{.c = name}};
  return served__ask(session, CALL_snapshot, w);
}

int served_snapshot_drop(emb_session *session, const char *name) {
  const union word w[REQUEST_ARGS] = {{.c = name}};
  return served__ask(session, CALL_snapshot_drop, w);
}

int served_snapshots(emb_session *session, emb_snapshot_info *infos, size_t max,
                     size_t *n) {
  const union word w[REQUEST_ARGS] = {{.p = infos}, {.u = max}, {.p = n}};
  return served__ask(session, CALL_snapshots, w);
}

int served_delta_ack(emb_session *session, const char *consumer,
                     uint64_t upto) {
  const union word w[REQUEST_ARGS] = {{.c = consumer}, {.u = upto}};
  return served__ask(session, CALL_delta_ack, w);
}

int served_delta_position(emb_session *session, emb_delta_place *place) {
  const union word w[REQUEST_ARGS] = {{.p = place}};
  return served__ask(session, CALL_delta_position, w);
}

int served_delta_begin(emb_session *session, const char *consumer, int where,
                       uint64_t keep_bytes) {
  const union word w[REQUEST_ARGS] = {
      {.c = consumer}, {.i = where}, {.u = keep_bytes}};
  return served__ask(session, CALL_delta_begin, w);
}

int served_delta_drop(emb_session *session, const char *consumer) {
  const union word w[REQUEST_ARGS] = {{.c = consumer}};
  return served__ask(session, CALL_delta_drop, w);
}

int served_delta_consumers(emb_session *session, emb_consumer *consumers,
                           size_t max, size_t *n) {
  const union word w[REQUEST_ARGS] = {{.p = consumers}, {.u = max}, {.p = n}};
  return served__ask(session, CALL_delta_consumers, w);
}

int served_expire(emb_session *session, uint64_t *removed) {
  const union word w[REQUEST_ARGS] = {{.p = removed}};
  return served__ask(session, CALL_expire, w);
}

int served_evict(emb_session *session, uint64_t *removed) {
  const union word w[REQUEST_ARGS] = {{.p = removed}};
  return served__ask(session, CALL_evict, w);
}

int served_lookup(emb_session *session, const int64_t *keys, size_t n,
                  float *vectors, uint8_t *found) {
  const union word w[REQUEST_ARGS] = {
      {.c = keys}, {.u = n}, {.p = vectors}, {.p = found}};
  return served__ask(session, CALL_lookup, w);
}

int served_flush_gradients(emb_session *session, uint64_t *steps) {
  const union word w[REQUEST_ARGS] = {{.p = steps}};
  return served__ask(session, CALL_flush_gradients, w);
}

int served_pending(emb_session *session, emb_pending_key *keys, size_t max,
                   size_t *n) {
  const union word w[REQUEST_ARGS] = {{.p = keys}, {.u = max}, {.p = n}};
  return served__ask(session, CALL_pending, w);
}

int served_checkpoint(emb_session *session) {
  return served__ask(session, CALL_checkpoint, NULL);
}

int served_warm(emb_session *session) {
  return served__ask(session, CALL_warm, NULL);
}

int served_optimize(emb_session *session) {
  return served__ask(session, CALL_optimize, NULL);
}
static uint64_t lr_word(const emb_update *how) {
  uint32_t bits = 0;
  if (how) {
    memcpy(&bits, &how->lr, sizeof bits);
  }
  return bits;
}

int served_apply_gradients(emb_session *session, const int64_t *keys, size_t n,
                           const float *gradients, const emb_update *how,
                           const emb_rows *to) {
  int reads = how && how->read;
  const union word w[REQUEST_ARGS] = {{.c = keys},
                                      {.u = n},
                                      {.c = gradients},
                                      {.u = lr_word(how)},
                                      {.u = how ? how->step : 0},
                                      {.u = reads ? n : 0},
                                      {.c = reads ? how->read : NULL},
                                      {.p = to ? to->found : NULL},
                                      {.p = to ? to->versions : NULL}};
  return served__ask(session, CALL_apply_gradients, w);
}

int served_txn_apply_gradients(emb_session *session, const int64_t *keys,
                               size_t n, const float *gradients,
                               const emb_update *how, uint8_t *found) {
  int reads = how && how->read;
  const union word w[REQUEST_ARGS] = {{.c = keys},
                                      {.u = n},
                                      {.c = gradients},
                                      {.u = lr_word(how)},
                                      {.u = how ? how->step : 0},
                                      {.u = reads ? n : 0},
                                      {.c = reads ? how->read : NULL},
                                      {.p = found}};
  return served__ask(session, CALL_txn_apply_gradients, w);
}

/* -1: the session's error, or it has no link any more. */
int64_t served_count(emb_session *session) {
  uint64_t result = 0;
  int rc = session_begin(session);
  rc = rc ? rc : link__ask(session, CALL_count, 0, NULL, &result);
  return rc || session->err.code ? -1 : (int64_t)result;
}

/* What the owner knows when it has to, is sent with each request. */
void served_statement(emb_session *session, uint64_t number) {
  session->leases.statement = number;
}

/* Nothing is counted without a bound. */
static int has_leases(const emb_session *s) {
  return (s->link->holds & (SLOT_HAS_LEASES | SLOT_HAS_TICKETS)) != 0;
}

size_t served_release_statement(emb_session *session) {
  return has_leases(session) ? ask_number(session, CALL_release_statement, NULL)
                             : 0;
}

size_t served_release(emb_session *session) {
  return has_leases(session) ? ask_number(session, CALL_release, NULL) : 0;
}

size_t served_leases(const emb_session *session) {
  return has_leases(session)
             ? ask_number((emb_session *)(uintptr_t)session, CALL_leases, NULL)
             : 0;
}

void served_lease_mark(emb_session *session, int mark) {
  const union word w[REQUEST_ARGS] = {{.u = mark != 0}};
  session->leases.mark = mark;
  if (core_bounded(session->core)) {
    (void)ask_number(session, CALL_lease_mark, w);
  }
}

size_t served_release_marked(emb_session *session) {
  return has_leases(session) ? ask_number(session, CALL_release_marked, NULL)
                             : 0;
}

int served_in_transaction(const emb_session *session) {
  return (session->link->holds & SLOT_HAS_TXN) != 0;
}

int served_prepare(emb_session *session, uint64_t *number) {
  const union word w[REQUEST_ARGS] = {{.p = number}};
  int rc = served__ask(session, CALL_prepare, w);
  session->prepared_number = rc ? 0 : *number;
  return rc;
}

int served_commit(emb_session *session) {
  return served__ask(session, CALL_commit, NULL);
}

void served_rollback(emb_session *session) {
  if (session->link->holds & SLOT_HAS_TXN) {
    (void)ask_number(session, CALL_rollback, NULL);
  }
}

/* ---- files --------------------------------------------------------------- */

/* Another process has another working directory. */
int served__absolute(emb_session *s, const char *path, char to[PATH_BYTES]) {
  int os = s->core->env->absolute(s->core->env, path, to, PATH_BYTES);
  return os ? session_error(s, EMB_CANTOPEN, "path too long: %s", path)
            : EMB_OK;
}

int served_delta_export(emb_session *session, const char *consumer,
                        const char *path, const emb_delta_options *how,
                        emb_delta_file *about) {
  char full[PATH_BYTES];
  const union word w[REQUEST_ARGS] = {{.c = consumer},
                                      {.c = full},
                                      {.c = how ? how->text : NULL},
                                      {.c = how ? how->columns : NULL},
                                      {.u = how && how->join},
                                      {.p = about}};
  int rc = served__absolute(session, path, full);
  return rc ? rc : served__ask(session, CALL_delta_export, w);
}

int served_delta_apply(emb_session *session, const char *path,
                       const emb_delta_options *how, emb_delta_file *about) {
  const emb_file_keys *keys = how ? how->keys : NULL;
  char full[PATH_BYTES];
  const union word w[REQUEST_ARGS] = {{.c = full},
                                      {.c = how ? how->text : NULL},
                                      {.c = how ? how->columns : NULL},
                                      {.u = how && how->join},
                                      {.p = about},
                                      {.u = 0},
                                      {.u = keys != NULL},
                                      {.u = keys ? keys->file : 0},
                                      {.c = keys ? keys->keys : NULL},
                                      {.u = keys ? keys->n : 0}};
  int rc = served__absolute(session, path, full);
  return rc ? rc : served__ask(session, CALL_delta_apply, w);
}

int served_snapshot_export(emb_session *session, const char *name,
                           const char *path, const char *options,
                           uint64_t *rows, uint64_t *bytes) {
  char full[PATH_BYTES];
  const union word w[REQUEST_ARGS] = {
      {.c = name}, {.c = full}, {.c = options}, {.p = rows}, {.p = bytes}};
  int rc = served__absolute(session, path, full);
  return rc ? rc : served__ask(session, CALL_snapshot_export, w);
}

int served_snapshot_restore(emb_session *session, const char *path,
                            uint64_t *rows) {
  char full[PATH_BYTES];
  const union word w[REQUEST_ARGS] = {{.c = full}, {.p = rows}};
  int rc = served__absolute(session, path, full);
  return rc ? rc : served__ask(session, CALL_snapshot_restore, w);
}

int served_snapshot_restore_keys(emb_session *session, const char *path,
                                 const emb_file_keys *keys, uint64_t *rows) {
  char full[PATH_BYTES];
  const union word w[REQUEST_ARGS] = {{.c = full},
                                      {.p = rows},
                                      {.u = 0},
                                      {.u = keys != NULL},
                                      {.u = keys ? keys->file : 0},
                                      {.c = keys ? keys->keys : NULL},
                                      {.u = keys ? keys->n : 0}};
  int rc = served__absolute(session, path, full);
  return rc ? rc : served__ask(session, CALL_snapshot_restore_keys, w);
}

int served_evicted(emb_session *session, uint64_t since, size_t max,
                   const emb_rows *to, size_t *n) {
  const union word w[REQUEST_ARGS] = {{.u = since},         {.u = max},
                                      {.p = to->keys},      {.p = to->ops},
                                      {.p = to->positions}, {.p = n}};
  return served__ask(session, CALL_evicted, w);
}

int served_verify(emb_session *session, void (*report)(void *, const char *),
                  void *arg) {
  session->link->report = report;
  session->link->report_arg = arg;
  int rc = served__ask(session, CALL_verify, NULL);
  if (session->link) {
    session->link->report = NULL;
  }
  return rc;
}

void served_close(emb_session *s) {
  link__close(s);
  tickets__free(s);
}
