/* SPDX-License-Identifier: MIT
**
** erase.c -- immediate deletion.
**
** The entry leaves the index immediately.  For recovery there is a tombstone:
** the key, in a page of its own kind, above every record of the key.
*/
#include "engine/storage/kernel/row_write.h"
#include "engine/table/jobs/begin.h"
#include "engine/table/owner/own.h"
#include "engine/table/bound/bound.h"

static int erase_row(emb_session *s, int64_t key, uint32_t call,
                     uint8_t *found) {
  struct core *core = s->core;
  struct entry *entry;
  uint64_t word, hash = hash_key(key);
  switch (key_latch(core, key, hash, &entry, &word)) {
  case KEY_INTENT:
    return ROW_HELD;
  case KEY_ABSENT:
    *found = 0;
    return EMB_OK;
  }
  if (!word_address(word)) { /* removed earlier, while leased */
    key_unlatch(entry, word);
    *found = 0;
    return EMB_OK;
  }
  int rc = tomb_write(core, key, key_log_address(core, word), 0);
  if (rc) {
    key_unlatch(entry, word);
    return rc;
  }
  if (call) {
    word = bound_put(s, key, hash, call, word);
  }
  row_remove(core, key, hash, entry, word, ROW_REMOVED);
  *found = 1;
  return EMB_OK;
}

int local_delete(emb_session *s, const int64_t *keys, size_t n,
                 uint8_t *found) {
  int rc = begin_write(s);
  rc = rc ? rc : own_claim(s);
  uint64_t waited = 0;
  uint32_t call = core_bounded(s->core) ? lease_next_call(&s->leases) : 0;
  size_t i = 0;
  while (!rc && i < n) {
    size_t end = i + s->chunk < n ? i + s->chunk : n;
    epoch_enter(&s->core->epoch, s->slot);
    for (; !rc && i < end; i++) {
      uint8_t was;
      rc = erase_row(s, keys[i], call, &was);
      if (rc) {
        break;
      }
      if (found) {
        found[i] = was;
      }
    }
    epoch_leave(s->slot);
    if (rc == ROW_ROOM) {
      rc = session_wait_kept(s);
    } else if (rc == ROW_HELD) {
      rc = s->txn ? session_error(s, EMB_LOCKED,
                                  "key %lld was changed by this connection's "
                                  "open transaction",
                                  (long long)keys[i])
                  : session_wait_key(s, keys[i], &waited);
    }
    rc = rc || i == n ? rc : session_poll(s);
  }
  bound_signal(s, 1);
  count_add(&s->core->counters.delete_keys, i);
  return rc;
}
