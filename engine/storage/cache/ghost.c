/* SPDX-License-Identifier: MIT
**
** ghost.c -- see ghost.h.
*/
#include "ghost.h"

#include <string.h>

#include "engine/base/debug.h"
#include "engine/emb.h"

#define FREQ_MAX 3 /* same as in a word */

#define ENTRIES_BYTES (GHOSTS_MAX * sizeof(struct ghost_entry))
#define BUCKETS_BYTES (GHOST_BUCKETS * sizeof(uint32_t))

int ghosts_init(struct ghosts *ghosts, struct env *env) {
  memset(ghosts, 0, sizeof *ghosts);
  ghosts->env = env;
  pthread_mutex_init(&ghosts->lock, NULL);
  /* Mapped lazily: a table that fits in its memory never touches these
  ** pages. */
  ghosts->entries = env->map(env, ENTRIES_BYTES, 0);
  ghosts->buckets = env->map(env, BUCKETS_BYTES, 0);
  atomic_store(&ghosts->mask, UINT64_MAX);
  return ghosts->entries && ghosts->buckets ? EMB_OK : EMB_NOMEM;
}

void ghosts_free(struct ghosts *ghosts) {
  if (ghosts->env) {
    ghosts->env->unmap(ghosts->env, ghosts->entries, ENTRIES_BYTES);
    ghosts->env->unmap(ghosts->env, ghosts->buckets, BUCKETS_BYTES);
    pthread_mutex_destroy(&ghosts->lock);
    ghosts->env = NULL;
  }
}

void ghosts_size(struct ghosts *ghosts, uint64_t records) {
  uint32_t shift = 0;
  while (records >> shift > GHOSTS_MAX) {
    shift++;
  }
  pthread_mutex_lock(&ghosts->lock);
  if (ghosts->made) {
    memset(ghosts->buckets, 0, BUCKETS_BYTES);
  }
  ghosts->count = ghosts->oldest = ghosts->newest = 0;
  ghosts->free = ghosts->made = 0;
  atomic_store(&ghosts->mask, (UINT64_C(1) << shift) - 1);
  pthread_mutex_unlock(&ghosts->lock);
}

/* ---- under the lock ------------------------------------------------------ */

static uint32_t *bucket_of(struct ghosts *ghosts, uint64_t hash) {
  /* Avoids the bits that are 0 in every sampled hash. */
  return &ghosts->buckets[(hash >> 32) % GHOST_BUCKETS];
}

/* Returns the link to the key's entry; the link is 0 if the key has none. */
static uint32_t *ghost_find(struct ghosts *ghosts, uint64_t hash) {
  uint32_t *at = bucket_of(ghosts, hash);
  while (*at && ghosts->entries[*at - 1].hash != hash) {
    at = &ghosts->entries[*at - 1].chain;
  }
  return at;
}

static void ghost_push(struct ghosts *ghosts, uint32_t i) {
  struct ghost_entry *entry = &ghosts->entries[i - 1];
  entry->older = ghosts->newest;
  entry->newer = 0;
  *(ghosts->newest ? &ghosts->entries[ghosts->newest - 1].newer
                   : &ghosts->oldest) = i;
  ghosts->newest = i;
}

static void ghost_pull(struct ghosts *ghosts, uint32_t i) {
  const struct ghost_entry *entry = &ghosts->entries[i - 1];
  *(entry->older ? &ghosts->entries[entry->older - 1].newer : &ghosts->oldest) =
      entry->newer;
  *(entry->newer ? &ghosts->entries[entry->newer - 1].older : &ghosts->newest) =
      entry->older;
}

static void ghost_drop(struct ghosts *ghosts, uint32_t *at) {
  uint32_t i = *at;
  emb_assert(i && i <= ghosts->made && ghosts->count > 0);
  *at = ghosts->entries[i - 1].chain;
  ghost_pull(ghosts, i);
  ghosts->entries[i - 1].chain = ghosts->free;
  ghosts->free = i;
  ghosts->count--;
}

/* Makes room for one entry: the hand passes over entries that were read. */
static void drop_one(struct ghosts *ghosts) {
  for (;;) {
    uint32_t i = ghosts->oldest;
    struct ghost_entry *entry = &ghosts->entries[i - 1];
    if (!entry->freq) {
      ghost_drop(ghosts, ghost_find(ghosts, entry->hash));
      return;
    }
    entry->freq--;
    ghost_pull(ghosts, i);
    ghost_push(ghosts, i);
  }
}

static uint64_t room_for(const struct ghosts *ghosts, uint64_t records) {
  uint64_t mask = atomic_load_explicit(&ghosts->mask, memory_order_relaxed);
  uint64_t room = records / (mask + 1);
  return room < GHOSTS_MAX ? room : GHOSTS_MAX;
}

/* Is there room?  A cache that is not full accepts every record offered. */
static int ghost_has_room(const struct ghosts *ghosts, uint64_t records) {
  return ghosts->count < room_for(ghosts, records);
}

static void ghost_add(struct ghosts *ghosts, uint64_t hash, uint64_t records) {
  uint64_t room = room_for(ghosts, records);
  while (ghosts->count && ghosts->count >= room) {
    drop_one(ghosts);
  }
  if (!room) {
    return;
  }
  uint32_t i = ghosts->free ? ghosts->free : ++ghosts->made;
  struct ghost_entry *entry = &ghosts->entries[i - 1];
  if (i == ghosts->free) {
    ghosts->free = entry->chain;
  }
  uint32_t *bucket = bucket_of(ghosts, hash);
  *entry = (struct ghost_entry){.hash = hash, .chain = *bucket};
  *bucket = i;
  ghost_push(ghosts, i);
  ghosts->count++;
}

/* ---- interface ----------------------------------------------------------- */

void ghosts_read(struct ghosts *ghosts, uint64_t hash, int promoted, int near,
                 uint64_t records) {
  pthread_mutex_lock(&ghosts->lock);
  uint32_t *at = ghost_find(ghosts, hash);
  if (*at || near) {
    atomic_fetch_add_explicit(
        &ghosts->spared,
        atomic_load_explicit(&ghosts->mask, memory_order_relaxed) + 1,
        memory_order_relaxed);
  }
  if (*at && promoted) {
    ghost_drop(ghosts, at);
  } else if (*at) {
    struct ghost_entry *entry = &ghosts->entries[*at - 1];
    entry->freq += entry->freq < FREQ_MAX;
  } else if (!promoted && (near || ghost_has_room(ghosts, records))) {
    ghost_add(ghosts, hash, records);
  }
  pthread_mutex_unlock(&ghosts->lock);
}

void ghosts_add(struct ghosts *ghosts, uint64_t hash, uint64_t records) {
  pthread_mutex_lock(&ghosts->lock);
  uint32_t *at = ghost_find(ghosts, hash);
  if (*at) {
    ghost_drop(ghosts, at);
  }
  ghost_add(ghosts, hash, records);
  pthread_mutex_unlock(&ghosts->lock);
}
