/* SPDX-License-Identifier: MIT
**
** backup_valid.c -- checks that the steps of a backup come in the order of
** backup.c, and that a moment's connections are as moment.c says.  Only in
** builds with self-checks (engine/base/debug.h).
**
**   before step      the moment       each part has
**   MARK             none             a session
**   DATABASE         is read; others  a session and a frozen backup
**                    may commit
**   STORES           is over          the same
**   COMPLETE         is over          a copy
**   PUBLISH          is over          a copy
*/
#include "backup.h"
SQLITE_EXTENSION_INIT3

#if EMB_DEBUG > 0
#include <string.h>

int ext_moment_valid(const struct ext_moment *m) {
  int is_own_connection = m->reader == m->conn->db;
  emb_assert(!m->own || is_own_connection);
  emb_assert(!m->lock || (m->locked && m->lock != m->conn->db));
  emb_assert(!m->lock || (!is_own_connection && m->lock != m->reader));
  emb_assert(!m->lock ||
             sqlite3_txn_state(m->lock, "main") == SQLITE_TXN_WRITE);
  emb_assert(!m->reader ||
             strcmp(m->source, is_own_connection ? m->schema : "main") == 0);
  return 1;
}

static void check_backup_part(const struct backup *b,
                              const struct backup_part *part,
                              enum backup_step step) {
  emb_assert(part->link && part->link->conn == b->conn);
  emb_assert(part->link->cursors > 0); /* not closed meanwhile */
  emb_assert(part->session != NULL);
  emb_assert(!part->base || b->again);
  emb_assert(!part->backup ==
             (step != BACKUP_DATABASE && step != BACKUP_STORES));
  emb_assert(!part->shadow == (step == BACKUP_MARK));
  emb_assert(!part->made == (step < BACKUP_COMPLETE));
  emb_assert(!part->made || part->to);
}

int ext_backup_may(const struct backup *b, enum backup_step step) {
  emb_assert(b->out && b->made_new); /* the target is locked */
  emb_assert(!b->half);
  emb_assert(!b->olds || b->again);
  emb_assert(!b->moment.lock);
  emb_assert(!b->moment.reader == (step != BACKUP_DATABASE));
  for (size_t i = 0; i < b->n; i++)
    check_backup_part(b, &b->parts[i], step);
  return 1;
}

#endif
