/* SPDX-License-Identifier: MIT
**
** begin.c -- the first line of every call that writes: waits for the session's
** background writes and, for maintenance, makes the process the owner.
*/
#include "job.h"
#include "begin.h"
#include "engine/table/owner/own.h"

int begin_write(emb_session *s) {
  int rc = session_begin(s);
  return rc || !s->tickets.first ? rc : job__settle_writes(s);
}

int begin_work(emb_session *s, const char *what) {
  int rc = begin_write(s);
  if (!rc && s->txn) {
    rc = session_error(s, EMB_LOCKED, "cannot %s inside a transaction", what);
  }
  return rc ? rc : own_claim(s);
}
