/* SPDX-License-Identifier: MIT
**
** remote_scan.c -- a client's scan, which outlives the owner where it was
** begun: if that owner leaves cleanly, the scan continues at the next owner, or
** in this process, and still returns each row once.
**
** In key order, the rest is what follows the last key returned.  Otherwise the
** scan restarts there and skips the rows already returned.  For this it
** remembers the keys returned, at most SCAN_REMEMBERED (8 MiB).  An owner waits
** for a scan that has returned more (as it does for a transaction); a scan that
** is not over by then ends with EMB_LOST.  A scan whose owner has died ends
** with EMB_ABORT, because rows it has returned may be lost.
**
** STATES    there -> rest       its owner has left                [go_on]
**           there -> there      more keys than are remembered     [forget_keys]
**
** `rest` is a scan of emb.h like any other, and may itself be a client's scan.
*/
#include "remote.h"

#include "engine/table/bank/needs.h"
#include "route.h"

#include <stdlib.h>
#include <string.h>

struct remote_scan {
  struct remote remote; /* first */
  int64_t lo, hi;
  int order;
  int is_counted; /* in link->objects: lost with its owner */
  int is_over;
  int64_t last;  /* if in key order; valid if came is not 0 */
  int64_t *keys; /* if not in key order: the keys returned */
  size_t came, room;
  emb_scan *rest;
};

int remote_scan_open(emb_session *session, int64_t lo, int64_t hi, int order,
                     emb_scan **scan) {
  struct args_scan_open args = args_of_scan_open(session, lo, hi, order, scan);
  int rc;
  struct remote_scan *r =
      remote__open(session, CALL_scan_open, &args, sizeof *r, &rc);
  if (r) {
    r->lo = lo;
    r->hi = hi;
    r->order = order;
  }
  *scan = (emb_scan *)(void *)r;
  return rc;
}

static int scan_is_ordered(const struct remote_scan *r) {
  return r->order == EMB_SCAN_ASC || r->order == EMB_SCAN_DESC;
}

/* From here on the scan is lost with its owner. */
static void forget_keys(struct remote_scan *r) {
  struct env *env = r->remote.s->core->env;
  env->release(env, r->keys);
  r->keys = NULL;
  r->is_counted = 1;
  r->remote.s->link->objects++;
}

static void remember_keys(struct remote_scan *r, const int64_t *keys,
                          size_t n) {
  struct env *env = r->remote.s->core->env;
  if (!n || r->is_counted) {
    return;
  }
  if (scan_is_ordered(r)) {
    r->last = keys[n - 1];
    r->came += n;
    return;
  }
  if (r->came + n > r->room) {
    size_t room = (r->came + n) * 2;
    room = room < SCAN_REMEMBERED ? room : SCAN_REMEMBERED;
    int64_t *more = r->came + n <= room
                        ? env->resize(env, r->keys, room * sizeof *more)
                        : NULL;
    if (!more) {
      forget_keys(r);
      return;
    }
    r->keys = more;
    r->room = room;
  }
  memcpy(r->keys + r->came, keys, n * sizeof *keys);
  r->came += n;
}

static int remote_by_key(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

/* Opens the rest of the scan at the next owner. */
static int go_on(struct remote_scan *r) {
  int64_t lo = r->lo, hi = r->hi;
  if (r->came && scan_is_ordered(r)) {
    int is_last = r->order == EMB_SCAN_ASC ? r->last >= hi : r->last <= lo;
    r->is_over |= is_last;
    lo = r->order == EMB_SCAN_ASC && !is_last ? r->last + 1 : lo;
    hi = r->order == EMB_SCAN_DESC && !is_last ? r->last - 1 : hi;
  }
  if (r->is_over) {
    return EMB_OK;
  }
  if (r->keys) {
    qsort(r->keys, r->came, sizeof *r->keys, remote_by_key);
  }
  emb_session *s = r->remote.s;
  int rc;
  ROUTE(s, rc, bank_enter(s, BANK_ALL, NULL, 0),
        remote_scan_open(s, lo, hi, r->order, &r->rest),
        local_scan_open(s, lo, hi, r->order, &r->rest));
  return rc;
}

/* Moves the new ones among n rows to the front. */
static size_t leave_out(const struct remote_scan *r, const emb_rows *to,
                        size_t n) {
  size_t dim = r->remote.s->core->layout.dim, left = 0;
  for (size_t i = 0; i < n; i++) {
    if (bsearch(&to->keys[i], r->keys, r->came, sizeof *r->keys,
                remote_by_key)) {
      continue;
    }
    if (left != i) {
      to->keys[left] = to->keys[i];
      if (to->vectors) {
        memcpy(to->vectors + left * dim, to->vectors + i * dim,
               dim * sizeof *to->vectors);
      }
      if (to->versions) {
        to->versions[left] = to->versions[i];
      }
      if (to->tracks) {
        to->tracks[left] = to->tracks[i];
      }
    }
    left++;
  }
  return left;
}

static int next_of_rest(struct remote_scan *r, size_t max, const emb_rows *to,
                        size_t *n) {
  size_t got = 0;
  int rc = EMB_OK;
  *n = 0;
  while (!r->is_over && !*n && !rc) {
    rc = route_is_remote(r->rest)
             ? remote_scan_next_rows(r->rest, max, to, &got)
             : local_scan_next_rows(r->rest, max, to, &got);
    r->is_over = !rc && !got;
    *n = r->keys ? leave_out(r, to, got) : got;
  }
  return rc;
}

static int next_there(struct remote_scan *r, size_t max, const emb_rows *to,
                      size_t *n) {
  struct args_scan_next_rows args = args_of_scan_next_rows(NULL, max, to, n);
  emb_session *s = r->remote.s;
  uint64_t result;
  int rc = session_begin(s);
  if (!rc && !remote__is_there(&r->remote)) {
    return r->is_counted || r->remote.serial <= s->route.died_serial
               ? remote__has_gone(&r->remote)
               : CALL_ELSEWHERE;
  }
  rc = rc ? rc
          : link__ask(s, CALL_scan_next_rows, r->remote.number, &args, &result);
  rc = rc ? rc : (int)(uint32_t)result;
  if (!rc) {
    remember_keys(r, to->keys, *n);
  }
  return rc;
}

int remote_scan_next_rows(emb_scan *scan, size_t max, const emb_rows *to,
                          size_t *n) {
  struct remote_scan *r = (void *)scan;
  *n = 0;
  if (!r->rest && !r->is_over) {
    int rc = next_there(r, max, to, n);
    rc = rc == CALL_ELSEWHERE ? go_on(r) : rc;
    if (rc || (!r->rest && !r->is_over)) {
      return rc;
    }
  }
  return next_of_rest(r, max, to, n);
}

void remote_scan_close(emb_scan *scan) {
  struct remote_scan *r = (void *)scan;
  if (!r) {
    return;
  }
  struct env *env = r->remote.s->core->env;
  if (route_is_remote(r->rest)) {
    remote_scan_close(r->rest);
  } else {
    local_scan_close(r->rest);
  }
  env->release(env, r->keys);
  if (r->is_counted && remote__is_there(&r->remote) &&
      r->remote.s->link->objects) {
    r->remote.s->link->objects--;
  }
  remote__close(&r->remote, CALL_scan_close);
}
