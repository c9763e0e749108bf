/* SPDX-License-Identifier: MIT
**
** pieces.c -- a loop over a long vector in pieces, between which an interrupt
** ends it.  A vector of one piece is not delayed by the question.
*/
#include "fn.h"

SQLITE_EXTENSION_INIT3

#define PIECE ((uint32_t)(EXT_ARG_BYTES / sizeof(float)))

/* 1: interrupted, and the error is the result. */
static int piece_stops(struct ext_pieces *piece) {
  struct ext_conn asked = {.db = sqlite3_context_db_handle(piece->context),
                           .ticked_us = piece->ticked_us};
  char *err = NULL;
  int rc;
  piece->stopped = ext_link_interrupted(&asked);
  piece->ticked_us = asked.ticked_us;
  if (piece->stopped) {
    rc = ext_error(&err, SQLITE_INTERRUPT, "interrupted");
    ext_result_error(piece->context, rc, err);
  }
  return piece->stopped;
}

int ext_pieces_next(struct ext_pieces *piece) {
  uint32_t left = piece->all - piece->at - piece->n;
  emb_assert(!piece->stopped);
  if (left == 0 || (piece->n && piece_stops(piece)))
    return 0;
  piece->at += piece->n;
  piece->n = left < PIECE ? left : PIECE;
  return 1;
}
