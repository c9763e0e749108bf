/* SPDX-License-Identifier: MIT
**
** remote_nearest.c -- emb_nearest and emb_snapshot_nearest in a client.
*/
#include "remote.h"

#include "engine/features/nearest/nearest.h"

/* w begins with the queries and their number; the dimension is the owner's to
** know, too. */
static void nearest_words(union word w[REQUEST_ARGS], const emb_session *s,
                          size_t k, const emb_nearest_how *how,
                          const emb_neighbours *to) {
  const struct schema *schema = &s->core->schema;
  size_t n = w[2].u;
  w[1].u =
      how->segment < schema->count ? n * schema->segments[how->segment].dim : 0;
  w[3].c = how;
  w[4].c = how->keys;
  w[5].u = how->key_count;
  w[6].c = how->apart;
  w[7].u = how->apart ? n : 0;
  w[8].u = n * k;
  w[9].p = to->keys;
  w[10].p = to->distances;
  w[11].p = to->counts;
  w[12].c = how->filter ? how->filter->block : NULL;
  w[13].u = how->filter ? filter_block(how->filter) : 0;
  w[14].p = to->vectors;
  w[15].p = to->versions;
}

int served_nearest(emb_session *session, const float *queries, size_t n,
                   size_t k, const emb_nearest_how *how,
                   const emb_neighbours *to) {
  const emb_nearest_how all = {0};
  union word w[REQUEST_ARGS] = {{.c = queries}, {.u = 0}, {.u = n}};
  uint64_t result;
  int rc = session_begin(session);
  rc = rc ? rc : nearest_check_size(session, n, k);
  if (rc) {
    return rc;
  }
  nearest_words(w, session, k, how ? how : &all, to);
  rc = link__ask(session, CALL_nearest, 0, w, &result);
  return rc ? rc : (int)(uint32_t)result;
}

int served_snapshot_nearest(emb_snap *snap, const float *queries, size_t n,
                            size_t k, const emb_nearest_how *how,
                            const emb_neighbours *to) {
  const emb_nearest_how all = {0};
  emb_session *s = ((struct remote *)(void *)snap)->s;
  union word w[REQUEST_ARGS] = {{.c = queries}, {.u = 0}, {.u = n}};
  int rc = session_begin(s);
  rc = rc ? rc : nearest_check_size(s, n, k);
  if (rc) {
    return rc;
  }
  nearest_words(w, s, k, how ? how : &all, to);
  return remote__ask_code(snap, CALL_snapshot_nearest, w);
}
