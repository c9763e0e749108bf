/* SPDX-License-Identifier: MIT
**
** dict_sql.h -- private to dict/: declarations shared by its files.
*/
#ifndef EMB_EXT_DICT_SQL_H
#define EMB_EXT_DICT_SQL_H

#include "dict.h"

enum dict_statement {
  DICT_CHECK, /* removals, and the largest number */
  DICT_FIND,
  DICT_FIND_MARKED, /* marked texts only */
  DICT_MANY,        /* DICT_FIND of many texts */
  DICT_TEXT,
  DICT_AHEAD,
  DICT_UNMARK,
  DICT_ADD,
  DICT_STATEMENTS
};

/* Fewer texts than MIN are looked up one by one; more, in steps of STEP. */
#define DICT_MANY_MIN 8
#define DICT_MANY_STEP 64

struct ext_dict {
  sqlite3 *db; /* as of the last begin */
  char *schema, *table;
  sqlite3_stmt *statements[DICT_STATEMENTS]; /* NULL: not prepared */
  int keeps; /* a table object exists: statements may be kept */
  struct ext_cache *cache;
  int64_t removals;
  int64_t limit;  /* numbers up to this one are committed */
  int64_t newest; /* largest number assigned, committed or not */
  int marks;      /* the open transaction has marked texts */
  int64_t ahead;  /* texts up to this number were read ahead (ahead.c) */
  size_t owed;    /* texts that may be read ahead, earned by lookups */
  char *text;     /* the last text read from SQLite */
  size_t room;
};

/* ---- cache.c ------------------------------------------------------------- */

/* A longer text is not cached. */
#define KNOWN_TEXT_MAX (64u << 10)
/* Limits of a half: bytes of records, and slots in each direction. */
#define KNOWN_ARENA_MAX (EXT_DICT_BYTES / 4)
#define KNOWN_SLOTS_MAX (EXT_DICT_BYTES / 4 / 2 / sizeof(uint64_t))
#define KNOWN_PLACE_BITS 40

struct known_record {
  int64_t id;
  uint32_t n;
  char text[];
};

struct known_half {
  uint64_t *by_text, *by_id; /* slots; NULL at first */
  size_t slots;              /* a power of two */
  size_t records;
  char *arena;
  size_t used, room;
};

struct ext_cache {
  struct known_half young, old;
};

static inline uint64_t known_hash(int64_t id) {
  uint64_t x = (uint64_t)id * UINT64_C(0x9E3779B97F4A7C15);
  return x ^ x >> 32;
}

static inline uint64_t known_slot(uint64_t hash, size_t place) {
  return (hash >> KNOWN_PLACE_BITS << KNOWN_PLACE_BITS) | (place / 8 + 1);
}

static inline struct known_record *known_at(const struct known_half *half,
                                            uint64_t slot) {
  uint64_t place = slot & ((UINT64_C(1) << KNOWN_PLACE_BITS) - 1);
  return (struct known_record *)(void *)(half->arena + (place - 1) * 8);
}

static inline int known_tag(uint64_t slot, uint64_t hash) {
  return (slot ^ hash) >> KNOWN_PLACE_BITS == 0;
}
static inline size_t known_bytes(size_t n) {
  return (offsetof(struct known_record, text) + n + 7) / 8 * 8;
}

/* ---- dict_valid.c -------------------------------------------------------- */

/* Check the cache, whose every record must be found in both directions, and a
** dictionary between two calls.  Only in self-checking builds. */
int ext_cache_valid(const struct ext_cache *cache);
int ext_dict_valid(const struct ext_dict *dict);

/* ---- statement.c --------------------------------------------------------- */

/* Returns a statement ready to run, which the caller must pass to
** ext_dict_done. */
int ext_dict_statement(struct ext_dict *dict, enum dict_statement which,
                       sqlite3_stmt **statement, char **err);
/* Resets the statement.  rc: the result of its last step.  Returns SQLITE_OK,
** or the error. */
int ext_dict_done(struct ext_dict *dict, enum dict_statement which,
                  sqlite3_stmt *statement, int rc, char **err);
/* Binds a text, which may be empty. */
int ext_dict_bind(sqlite3_stmt *statement, int i, const struct ext_text *text);
void ext_dict_remember(struct ext_dict *dict, const struct ext_text *text,
                       int64_t id);

/* ---- many.c -------------------------------------------------------------- */

/* Looks up the texts whose ids[i] is 0, and caches those found.  The statement
** is DICT_MANY. */
int ext_dict_look_many(struct ext_dict *dict, sqlite3_stmt *statement,
                       const struct ext_text *texts, size_t n, int64_t *ids);

/* ---- ahead.c ------------------------------------------------------------- */

/* Reads texts ahead after a lookup has found `found` texts that the cache did
** not have. */
int ext_dict_ahead(struct ext_dict *dict, size_t found, char **err);

#endif
