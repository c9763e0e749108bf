/* SPDX-License-Identifier: MIT
**
** fn_valid.c -- checks the states of functions that last longer than a call:
** aggregates, tickets of batches in flight, a store that is served.  Only in
** builds with self-checks (engine/base/debug.h).
*/
#include "fn_state.h"
SQLITE_EXTENSION_INIT3

#if EMB_DEBUG > 0

int ext_sum_valid(const struct sum *sum) {
  emb_assert(!sum->total == !sum->dim);
  emb_assert(!sum->total || sum->error == sum->total + sum->dim);
  emb_assert(sum->rows >= 0); /* xInverse takes away what xStep has added */
  emb_assert(!sum->rows || sum->dim);
  return 1;
}

int ext_pack_valid(const struct pack *pack) {
  emb_assert(pack->n <= pack->capacity);
  emb_assert(!pack->keys == !pack->capacity);
  return 1;
}

int ext_each_valid(const struct each_cursor *cursor) {
  emb_assert(cursor->row <= cursor->n);
  emb_assert(!cursor->floats || !cursor->keys);
  emb_assert(!cursor->n || cursor->floats || cursor->keys);
  /* A view points into the argument. */
  emb_assert(cursor->argument || (!cursor->floats && !cursor->keys));
  return 1;
}

static void check_ticket(const struct ext_ticket *ticket) {
  emb_assert(ticket->number > 0);
  emb_assert(!ticket->ids || ticket->texts.memory); /* the value is gone */
  emb_assert(ticket->texts.n == (ticket->ids ? ticket->n : 0));
}

int ext_fn_link_valid(const struct ext_link *link) {
  const struct ext_ticket *ticket = link->prefetches;
  for (; ticket; ticket = ticket->next) {
    check_ticket(ticket);
    emb_assert(ticket->vectors && !ticket->ids);
  }
  for (ticket = link->write_backs; ticket; ticket = ticket->next) {
    check_ticket(ticket);
    emb_assert(!ticket->vectors);
  }
  emb_assert(!link->put_versions == !link->put_capacity);
  emb_assert(!link->put_valid || link->put_n <= link->put_capacity);
  return 1;
}

int ext_serve_valid(const struct ext_serve *serve) {
  emb_assert(serve->db && serve->name && serve->own);
  emb_assert(serve->own->db == serve->db && serve->own->refs > 0);
  emb_assert(serve->own != serve->conn); /* the user's has locks */
  return 1;
}

int ext_sample_valid(const struct ext_sample *ask) {
  const emb_sample_how *how = &ask->how;
  emb_assert(ask->table && ask->table->held);
  emb_assert(ask->n <= EMB_SAMPLE_MAX);
  emb_assert(how->without == ask->without.at &&
             how->without_count == ask->without.n);
  emb_assert(!how->range || how->distribution == EMB_LOG_UNIFORM);
  emb_assert(how->flags & EMB_SAMPLE_SEEDED || !how->seed);
  return 1;
}

#endif
