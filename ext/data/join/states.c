/* SPDX-License-Identifier: MIT
**
** states.c -- the state of each request: two bits, in the table `states`.
**
** Requests are numbered in the order in which they came, so requests of one
** time are in few chunks, and a call that settles many writes few pages.  A
** chunk missing from the table has only waiting requests.  Chunks that were
** read stay in memory, up to a part of it; beyond that all are freed, and read
** again.
*/
#include "join_call.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* Chunks may take 1 / STATES_PART of the joiner's memory. */
#define STATES_PART 16

void ext_join_free_states(struct ext_joiner *joiner) {
  for (size_t i = 0; i < joiner->chunks_n; i++)
    sqlite3_free(joiner->chunks[i]);
  sqlite3_free(joiner->chunks);
  joiner->chunks = NULL;
  joiner->chunks_n = joiner->chunks_loaded = 0;
  joiner->chunks_first = 0;
}

static int states_write(struct join_call *call, int64_t number,
                        struct join_chunk *chunk) {
  sqlite3_stmt *write;
  int rc = ext_join_statement(call, JOIN_CHUNK_WRITE, &write);
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_bind_int64(write, 1, number);
  sqlite3_bind_blob(write, 2, chunk->states, JOIN_CHUNK_BYTES, SQLITE_STATIC);
  rc = ext_join_do(call, write);
  chunk->changed = rc != SQLITE_OK;
  return rc;
}

int ext_join_save_states(struct join_call *call) {
  struct ext_joiner *joiner = call->joiner;
  int rc = SQLITE_OK;
  for (size_t i = 0; i < joiner->chunks_n && rc == SQLITE_OK; i++)
    if (joiner->chunks[i] && joiner->chunks[i]->changed)
      rc = states_write(call, joiner->chunks_first + (int64_t)i,
                        joiner->chunks[i]);
  if (rc == SQLITE_OK && joiner->chunks_loaded * sizeof(struct join_chunk) >
                             joiner->memory / STATES_PART)
    ext_join_free_states(joiner);
  return rc;
}

/* Extends the list to the chunk.  Known requests only move forward, so a list
** that begins too late is rare: the list is rebuilt. */
static int states_reach(struct join_call *call, int64_t number) {
  struct ext_joiner *joiner = call->joiner;
  struct join_chunk **chunks;
  size_t n;
  int rc = SQLITE_OK;
  if (joiner->chunks_n && number < joiner->chunks_first) {
    rc = ext_join_save_states(call);
    ext_join_free_states(joiner);
  }
  if (joiner->chunks_n == 0)
    joiner->chunks_first = number;
  n = (size_t)(number - joiner->chunks_first) + 1;
  if (rc != SQLITE_OK || n <= joiner->chunks_n)
    return rc;
  n += n / 2;
  chunks = sqlite3_realloc64(joiner->chunks, n * sizeof(void *));
  if (chunks == NULL)
    return SQLITE_NOMEM;
  memset(chunks + joiner->chunks_n, 0, (n - joiner->chunks_n) * sizeof(void *));
  joiner->chunks = chunks;
  joiner->chunks_n = n;
  return SQLITE_OK;
}

static int states_read(struct join_call *call, int64_t number,
                       struct join_chunk *chunk) {
  sqlite3_stmt *read;
  int row = 0;
  int rc = ext_join_statement(call, JOIN_CHUNK_READ, &read);
  if (rc != SQLITE_OK)
    return rc;
  sqlite3_bind_int64(read, 1, number);
  rc = ext_join_step(call, read, &row);
  if (rc == SQLITE_OK && row) {
    const void *states = sqlite3_column_blob(read, 0);
    if (states && sqlite3_column_bytes(read, 0) == JOIN_CHUNK_BYTES)
      memcpy(chunk->states, states, JOIN_CHUNK_BYTES);
    else
      rc = ext_error(call->err, SQLITE_CORRUPT_VTAB,
                     "%s_states has no %d bytes in chunk %lld",
                     call->joiner->name, JOIN_CHUNK_BYTES, (long long)number);
  }
  (void)sqlite3_reset(read);
  return rc;
}

/* The chunk of request number n. */
static int states_chunk(struct join_call *call, int64_t n,
                        struct join_chunk **chunk) {
  struct ext_joiner *joiner = call->joiner;
  int64_t number = n / JOIN_CHUNK;
  int rc = SQLITE_OK;
  if (n < 1 || n >= *join_number(call, JOIN_NEXT_REQUEST))
    return ext_error(call->err, SQLITE_CORRUPT_VTAB,
                     "%s_requests has a request %lld that was not counted",
                     call->joiner->name, (long long)n);
  if (joiner->chunks_loaded * sizeof(struct join_chunk) >
      joiner->memory / STATES_PART)
    rc = ext_join_save_states(call);
  if (rc == SQLITE_OK)
    rc = states_reach(call, number);
  if (rc != SQLITE_OK)
    return rc;
  *chunk = joiner->chunks[number - joiner->chunks_first];
  if (*chunk)
    return SQLITE_OK;
  *chunk = sqlite3_malloc64(sizeof **chunk);
  if (*chunk == NULL)
    return SQLITE_NOMEM;
  memset(*chunk, 0, sizeof **chunk);
  rc = states_read(call, number, *chunk);
  if (rc != SQLITE_OK) {
    sqlite3_free(*chunk);
    return rc;
  }
  joiner->chunks[number - joiner->chunks_first] = *chunk;
  joiner->chunks_loaded++;
  return SQLITE_OK;
}

int ext_join_state(struct join_call *call, int64_t n, enum join_state *state) {
  struct join_chunk *chunk;
  int rc = states_chunk(call, n, &chunk);
  int i = (int)(n % JOIN_CHUNK);
  if (rc == SQLITE_OK)
    *state = (enum join_state)(chunk->states[i / 4] >> i % 4 * 2 & 3);
  return rc;
}

int ext_join_set_state(struct join_call *call, int64_t n,
                       enum join_state state) {
  struct join_chunk *chunk;
  int rc = states_chunk(call, n, &chunk);
  int i = (int)(n % JOIN_CHUNK);
  emb_assert(state != JOIN_IS_WAITING); /* no request waits again */
  if (rc != SQLITE_OK)
    return rc;
  chunk->states[i / 4] = (uint8_t)((chunk->states[i / 4] & ~(3 << i % 4 * 2)) |
                                   (int)state << i % 4 * 2);
  chunk->changed = 1;
  return SQLITE_OK;
}
