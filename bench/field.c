/* SPDX-License-Identifier: MIT
**
** field.c -- stores on disk under a memory limit; see field.h.
*/
#include "field.h"

#include <stdio.h>
#include <string.h>

#include "limit.h"

enum { DIM = 64 };

/* Beyond the store's memory: program, libraries, stacks, and the buffers for
** the vectors read. */
#define SLACK_BYTES (UINT64_C(32) << 20)
/* RocksDB cannot be confined to its caches: compactions and pinned blocks come
** on top, and at a tight limit it is killed.  It reads and writes with
** O_DIRECT, so it has no use for the remaining memory. */
#define ROCKSDB_BYTES (UINT64_C(384) << 20)

size_t field_keys(const struct options *options) {
  return options->keys ? options->keys : options->quick ? 300000 : 8000000;
}

/* An eighth of the vectors. */
uint64_t field_memory(const struct options *options, size_t keys) {
  (void)options;
  return (uint64_t)keys * DIM * sizeof(float) / 8;
}

static int is_emb(const struct store_kind *kind) {
  return kind == &store_emb || kind == &store_emb_sql;
}

/* Would this store, having no limit of its own, use all memory? */
static int needs_limit(const struct store_kind *kind) {
  return kind == &store_lmdb || kind == &store_sqlite;
}

void field_open(struct field *field, const struct options *options,
                struct figure *figure, const struct store_kind *const *kinds,
                size_t keys, uint64_t memory_bytes) {
  int limits = limit_possible();
  uint64_t index = 24 * keys;
  memset(field, 0, sizeof(*field));
  field->keys = keys;
  figure_note(figure,
              "%zu keys, %.0f MiB of vectors; %.0f MiB of memory for each"
              " store, index and page cache included",
              keys, (double)keys * DIM * 4 / 0x1p20,
              (double)memory_bytes / 0x1p20);
  if (limits) {
    figure_note(figure,
                "each store in a process and memory control group of its own:"
                " limit %.0f MiB more for program and buffers (RocksDB: %.0f"
                " MiB more)",
                (double)SLACK_BYTES / 0x1p20, (double)ROCKSDB_BYTES / 0x1p20);
  } else {
    figure_note(figure, "no memory control group here: LMDB and SQLite, which"
                        " would use all of the page cache, are left out");
  }
  for (; *kinds; kinds++) {
    const struct store_kind *kind = *kinds;
    if ((options->only && !strstr(kind->name, options->only)) ||
        (!limits && needs_limit(kind))) {
      continue;
    }
    struct store_options store = {.extension = options->extension,
                                  .dim = DIM,
                                  .keys = keys,
                                  .memory_bytes = memory_bytes};
    snprintf(store.directory, sizeof(store.directory), "%s/%s", options->data,
             kind->name);
    make_directory(store.directory);
    if (kind == &store_emb_sql) { /* loaded after emb C */
      store.budget_bytes = memory_bytes - index;
    }
    if (kind != &store_device_read && kind != &store_device_write) {
      double start = now();
      uint64_t bytes = load_store_apart(kind, &store);
      index = bytes ? bytes : index;
      printf("   %s: loaded in %.1f s\n", kind->name, now() - start);
      fflush(stdout);
    }
    field->kinds[field->count] = kind;
    field->players[field->count++] = contestant_new(
        kind, NULL, &store,
        !limits ? 0
                : memory_bytes +
                      (kind == &store_rocksdb ? ROCKSDB_BYTES : SLACK_BYTES));
  }
  for (int i = 0; i < field->count; i++) {
    contestant_open(field->players[i], 1);
  }
}

void field_warm(struct field *field, const struct workload *workload) {
  for (int i = 0; i < field->count; i++) {
    contestant_run(field->players[i], workload);
  }
}

void field_compare(struct field *field, const struct options *options,
                   struct group *group, const struct workload *workload,
                   void (*each)(void *arg, int player, int round,
                                const struct result *result),
                   void *arg) {
  for (int round = 0; round < options->rounds; round++) {
    for (int i = 0; i < field->count; i++) {
      int k = (i + round) % field->count;
      int writes = workload->pattern != GET, reads = workload->pattern != PUT;
      if ((writes && !field->kinds[k]->put) ||
          (reads && !field->kinds[k]->get)) {
        continue;
      }
      struct contestant *player = field->players[k];
      struct result r = contestant_run(player, workload);
      if (contestant_dead(player)) {
        continue;
      }
      group_add(group, contestant_name(player), round, r.keys_per_second,
                &r.usage);
      if (each) {
        each(arg, k, round, &r);
      }
    }
  }
}

struct contestant *field_find(struct field *field, const char *name) {
  for (int i = 0; i < field->count; i++) {
    if (!strcmp(contestant_name(field->players[i]), name)) {
      return contestant_dead(field->players[i]) ? NULL : field->players[i];
    }
  }
  return NULL;
}

static void note_player(struct field *field, int i, struct figure *figure) {
  struct contestant *c = field->players[i];
  const char *name = contestant_name(c);
  if (contestant_dead(c)) {
    figure_note(figure, "%s was killed at its memory limit", name);
    return;
  }
  uint64_t peak, resident = contestant_resident(c, &peak);
  char more[128] = "";
  if (is_emb(field->kinds[i])) {
    snprintf(more, sizeof(more), "; index %.0f MiB, budget %.0f MiB",
             (double)contestant_figure(c, "index_bytes") / 0x1p20,
             (double)contestant_figure(c, "memory_bytes") / 0x1p20);
  }
  figure_note(figure,
              "%s: %s; resident %.0f MiB, peak with page cache %.0f MiB%s",
              name, field->kinds[i]->about, (double)resident / 0x1p20,
              (double)peak / 0x1p20, more);
}

void field_close(struct field *field, struct figure *figure) {
  for (int i = 0; i < field->count; i++) {
    note_player(field, i, figure);
    contestant_close(field->players[i]);
  }
}
