/* SPDX-License-Identifier: MIT
**
** filter.c -- xFilter: evaluates the arguments of a plan and positions the
** cursor on the first row.
*/
#include "table_cursor.h"
SQLITE_EXTENSION_INIT3

#include <stdlib.h>
#include <string.h>

/* Maximum number of rows of a table that is scanned in key order by default. */
#define KEY_ORDER_MAX 10000

#define KEYS_BYTES (256 * 1024)
#define CHUNK_ROWS_MAX 4096
#define CHUNK_ROWS_FIRST 16

/* The maximum number of rows in a chunk. */
static size_t chunk_rows(size_t dim, int flags) {
  size_t rows = CHUNK_ROWS_MAX;
  if (flags & (EXT_PLAN_VECTORS | EXT_PLAN_LAZY))
    rows = KEYS_BYTES / (dim * sizeof(float));
  if (rows > CHUNK_ROWS_MAX)
    rows = CHUNK_ROWS_MAX;
  return rows ? rows : 1;
}

static void start_anew(struct ext_cursor *cursor, int flags) {
  if (cursor->link) /* else it is at its beginning already */
    ext_cursor_rewind(cursor);
  cursor->flags = flags;
  cursor->lazy = 0;
  cursor->peek = 0;
  cursor->counts = 0;
}

static void start_chunks(struct ext_cursor *cursor) {
  cursor->rows_max = chunk_rows(
      ext_vtab(ext_cursor_table(cursor))->options.config.dim, cursor->flags);
  cursor->rows = CHUNK_ROWS_FIRST;
  if (cursor->rows > cursor->rows_max)
    cursor->rows = cursor->rows_max;
}

static int check_key_value(struct ext_table *table, sqlite3_value *value,
                           char **err) {
  return ext_key_comparable(value, ext_vtab(table)->key_what, err);
}

static int add_to_list(struct ext_cursor *cursor, int64_t key) {
  if (cursor->list_n == cursor->list_capacity) {
    size_t more = cursor->list_capacity ? 2 * cursor->list_capacity : 1;
    int64_t *list = sqlite3_realloc64(cursor->list, more * sizeof *list);
    if (list == NULL)
      return SQLITE_NOMEM;
    cursor->list = list;
    cursor->list_capacity = more;
  }
  cursor->list[cursor->list_n++] = key;
  return SQLITE_OK;
}

/* A list being read.  With an earlier list, only keys that occur in both are
** kept. */
struct filter_list {
  struct ext_cursor *cursor;
  int is_first;
  int64_t *before;
  size_t before_n;
};

static void filter_list_begin(struct filter_list *list,
                              struct ext_cursor *cursor, int is_first) {
  *list = (struct filter_list){cursor, is_first, cursor->list, cursor->list_n};
  cursor->list = NULL;
  cursor->list_n = cursor->list_capacity = 0;
}

static int filter_list_offer(void *arg, int64_t key) {
  struct filter_list *list = arg;
  return list->is_first ||
                 (list->before_n && bsearch(&key, list->before, list->before_n,
                                            sizeof key, ext_keys_order))
             ? add_to_list(list->cursor, key)
             : SQLITE_OK;
}

/* Values of IN between two checks for an interrupt. */
enum { FILTER_VALUES = 4096 };

/* Called with the number of values read so far. */
static int filter_poll(struct ext_cursor *cursor, size_t n, char **err) {
  return n % FILTER_VALUES == 0 && ext_link_interrupted(cursor->link->conn)
             ? ext_error(err, SQLITE_INTERRUPT, "interrupted")
             : SQLITE_OK;
}

/* Sorts the list and removes duplicates.  rc: of the reading; after an error
** the list need not be sorted. */
static int filter_list_end(struct filter_list *list, int rc, char **err) {
  struct ext_cursor *cursor = list->cursor;
  size_t n = 0;
  sqlite3_free(list->before);
  if (rc == SQLITE_OK)
    rc = ext_link_sort(cursor->link->conn, cursor->list, cursor->list_n,
                       sizeof *cursor->list, ext_keys_order, err);
  if (rc != SQLITE_OK)
    return rc;
  for (size_t i = 0; i < cursor->list_n; i++)
    if (n == 0 || cursor->list[n - 1] != cursor->list[i])
      cursor->list[n++] = cursor->list[i];
  cursor->list_n = n;
  return SQLITE_OK;
}

/* Reads the values of IN as sorted keys without duplicates. */
static int read_in(struct ext_cursor *cursor, sqlite3_value *in, int is_first,
                   char **err) {
  struct ext_table *table = ext_cursor_table(cursor);
  struct filter_list list;
  sqlite3_value *value;
  size_t n = 0;
  int rc = SQLITE_OK;
  filter_list_begin(&list, cursor, is_first);
  for (int next = sqlite3_vtab_in_first(in, &value); rc == SQLITE_OK;
       next = sqlite3_vtab_in_next(in, &value)) {
    int64_t key;
    if (next != SQLITE_OK) {
      rc = next == SQLITE_DONE ? SQLITE_OK : next;
      break;
    }
    rc = check_key_value(table, value, err);
    if (rc == SQLITE_OK)
      rc = filter_poll(cursor, ++n, err);
    if (rc == SQLITE_OK && ext_range_key(value, &key))
      rc = filter_list_offer(&list, key);
  }
  return filter_list_end(&list, rc, err);
}

/* Adds the number of a text.  If the value is numeric, adds the numbers of all
** texts that may equal it; SQLite checks them again. */
static int offer_text(struct filter_list *list, sqlite3_value *value,
                      char **err) {
  struct ext_dict *dict = list->cursor->link->dict;
  struct ext_text text;
  size_t absent;
  int64_t key;
  int rc;
  switch (sqlite3_value_type(value)) {
  case SQLITE_TEXT:
    rc = ext_text_from_value(value, "", &text, err);
    if (rc == SQLITE_OK)
      rc = ext_dict_find(dict, &text, 1, &key, &absent, err);
    return rc == SQLITE_OK && key ? filter_list_offer(list, key) : rc;
  case SQLITE_INTEGER:
  case SQLITE_FLOAT:
    return ext_dict_equal(dict, value, filter_list_offer, list, err);
  default:
    return SQLITE_OK;
  }
}

/* Reads key = ?, or the values of IN, for a text key. */
static int read_texts(struct ext_cursor *cursor, sqlite3_value *from, int is_in,
                      int is_first, char **err) {
  struct filter_list list;
  sqlite3_value *value = from;
  int rc = SQLITE_OK;
  filter_list_begin(&list, cursor, is_first);
  if (!is_in)
    rc = offer_text(&list, value, err);
  for (int next = is_in ? sqlite3_vtab_in_first(from, &value) : SQLITE_DONE;
       rc == SQLITE_OK && next != SQLITE_DONE;
       next = sqlite3_vtab_in_next(from, &value))
    rc = next == SQLITE_OK ? offer_text(&list, value, err) : next;
  return filter_list_end(&list, rc, err);
}

/* Removes keys from the list that the other comparisons exclude. */
static void narrow_list(struct ext_cursor *cursor,
                        const struct ext_range *range) {
  size_t n = 0;
  for (size_t i = 0; i < cursor->list_n; i++)
    if (cursor->list[i] >= range->lo && cursor->list[i] <= range->hi)
      cursor->list[n++] = cursor->list[i];
  cursor->list_n = n;
  for (size_t i = 0; cursor->flags & EXT_PLAN_DESC && i < n / 2; i++) {
    int64_t key = cursor->list[i];
    cursor->list[i] = cursor->list[n - 1 - i];
    cursor->list[n - 1 - i] = key;
  }
}

static int read_mode(struct ext_cursor *cursor, sqlite3_value *value,
                     char **err) {
  const char *mode = (const char *)sqlite3_value_text(value);
  int nearest = cursor->flags & EXT_PLAN_NEAREST;
  if (nearest && mode && sqlite3_stricmp(mode, "exact") == 0)
    ext_near_exact(cursor);
  else if (mode && sqlite3_stricmp(mode, "peek") != 0)
    return ext_error(err, SQLITE_ERROR, "unknown mode: %s; expected %speek",
                     mode, nearest ? "exact or " : "");
  cursor->peek |= mode != NULL;
  return SQLITE_OK;
}

static int read_snapshot(struct ext_cursor *cursor, sqlite3_value *value,
                         char **err) {
  const char *name;
  int rc = ext_arg_snapshot_name(value, &name, err);
  if (rc != SQLITE_OK)
    return rc;
  if (cursor->flags & EXT_PLAN_LAZY)
    return ext_error(err, SQLITE_ERROR, "a snapshot cannot be updated");
  cursor->snap_name = sqlite3_mprintf("%s", name);
  if (cursor->snap_name == NULL)
    return SQLITE_NOMEM;
  rc = emb_snapshot_open(cursor->link->session, name, &cursor->snap);
  if (rc)
    return ext_link_error(cursor->link, rc, err);
  cursor->peek = 1;
  return SQLITE_OK;
}

/* The combined constraints of a plan's arguments. */
struct request {
  struct ext_range range;
  int has_list;
  int has_key;         /* key = ? */
  int by_columns;      /* the list comes from auxiliary columns */
  sqlite3_value *keys; /* of a batch */
  sqlite3_int64 offset;
};

static int read_plan(struct ext_cursor *cursor, const char *plan,
                     sqlite3_value **argv, struct request *request,
                     char **err) {
  struct ext_table *table = ext_cursor_table(cursor);
  const char *aux = strchr(plan, ';');
  int rc = SQLITE_OK;
  for (int i = 0; plan[i] && plan[i] != ';' && rc == SQLITE_OK; i++) {
    switch (plan[i]) {
    case 'k':
      request->keys = argv[i];
      break;
    case 'm':
      rc = read_mode(cursor, argv[i], err);
      break;
    case 's':
      rc = read_snapshot(cursor, argv[i], err);
      break;
    case 'v':
    case 'n':
    case 'p':
    case 'r':
    case 'a':
    case 'b':
    case 'c':
    case 'd':
    case 'e':
    case 'L':
    case 'O':
      rc = ext_near_argument(cursor, plan[i], argv[i], err);
      break;
    case 'B':
    case 'I':
      rc = ext_aux_ask(&cursor->aux, &aux, argv[i], plan[i] == 'I');
      break;
    case 'o':
      request->offset = sqlite3_value_int64(argv[i]);
      break;
    case 'i':
      rc = read_in(cursor, argv[i], !request->has_list, err);
      request->has_list = 1;
      break;
    case 't':
    case 'T':
      rc = read_texts(cursor, argv[i], plan[i] == 'T', !request->has_list, err);
      request->has_list = 1;
      break;
    case '=':
      rc = check_key_value(table, argv[i], err);
      ext_range_narrow(&request->range, '=', argv[i]);
      request->has_key = 1;
      break;
    default:
      rc = check_key_value(table, argv[i], err);
      ext_range_narrow(&request->range, plan[i], argv[i]);
    }
  }
  return rc;
}

/* Skips rows without reading their vectors. */
static int filter_skip(struct ext_cursor *cursor, sqlite3_int64 offset,
                       char **err) {
  while (offset > 0) {
    size_t rows = CHUNK_ROWS_MAX, n = 0;
    int rc;
    if ((uint64_t)offset < rows)
      rows = (size_t)offset;
    if (!ext_cursor_reserve(cursor, rows))
      return SQLITE_NOMEM;
    rc = emb_scan_next_rows(cursor->scan, rows,
                            &(emb_rows){.keys = cursor->keys}, &n);
    if (rc)
      return ext_link_error(ext_cursor_table(cursor)->link, rc, err);
    if (n == 0)
      break;
    offset -= (sqlite3_int64)n;
  }
  return SQLITE_OK;
}

/* The scan order if the statement asks for none.  Storage order reads the whole
** log sequentially; key order reads single records.  So a range that is narrow
** relative to the table is scanned in key order.  So is a small table, like an
** ordinary one: UPDATE ... SET key = key - 1 then meets no key that is still
** taken. */
static int scan_order(const struct ext_cursor *cursor, uint64_t count,
                      const struct ext_range *range) {
  int order = cursor->flags & EXT_PLAN_ORDER;
  uint64_t span = (uint64_t)range->hi - (uint64_t)range->lo;
  if (order == EMB_SCAN_ANY && (count <= KEY_ORDER_MAX || span < count / 16))
    order = EMB_SCAN_ASC;
  if (order == EMB_SCAN_ANY &&
      !(cursor->flags & (EXT_PLAN_VECTORS | EXT_PLAN_VERSIONS |
                         EXT_PLAN_TRACKS | EXT_PLAN_LAZY)))
    order = EMB_SCAN_KEYS;
  return order;
}

/* On a table with a staleness bound a list is one Get: all of its reads count
** or none, and a waiting Get holds nothing.  An UPDATE does not say in advance
** which vectors it will read, so it reads them one by one, in ascending order
** so that two UPDATEs do not wait for each other.  The list is also read by one
** Get if lookups create rows of texts, before the check that the texts still
** exist. */
static void count_list(struct ext_cursor *cursor,
                       const struct request *request) {
  struct ext_link *link = ext_cursor_table(cursor)->link;
  cursor->counts = !cursor->peek && !request->by_columns &&
                   (request->has_key || request->has_list);
  if (!cursor->counts ||
      !(link->bounded || ext_keys_appear(ext_cursor_table(cursor))))
    return;
  if (cursor->flags & EXT_PLAN_LAZY && link->bounded) {
    cursor->lazy = cursor->flags;
    cursor->rows_max = 1;
  } else if (cursor->flags & EXT_PLAN_VECTORS) {
    cursor->rows_max = cursor->list_n;
  }
}

static int start_scan(struct ext_cursor *cursor, struct request *request,
                      char **err) {
  struct ext_link *link = ext_cursor_table(cursor)->link;
  const struct ext_range *range = &request->range;
  sqlite3_int64 count;
  int rc = ext_link_count_now(link, &count, err);
  if (rc != SQLITE_OK)
    return rc;
  rc = emb_scan_open(link->session, range->lo, range->hi,
                     scan_order(cursor, (uint64_t)count, range), &cursor->scan);
  if (rc) {
    cursor->scan = NULL;
    return ext_link_error(link, rc, err);
  }
  rc = filter_skip(cursor, request->offset, err);
  request->offset = 0;
  return rc;
}

/* Evaluates conditions on auxiliary columns: by an index on them, if possible,
** or as a filter for a search for neighbours. */
static int filter_aux(struct ext_cursor *cursor, struct request *request,
                      char **err) {
  int64_t *keys = NULL;
  size_t n = 0;
  int done = 0, rc;
  if (cursor->aux.where == NULL || request->keys)
    return SQLITE_OK;
  if (cursor->flags & EXT_PLAN_NEAREST)
    return ext_near_aux(cursor, err);
  rc = ext_aux_list(ext_cursor_table(cursor), &cursor->aux, &keys, &n, &done,
                    err);
  if (rc != SQLITE_OK || !done)
    return rc;
  sqlite3_free(cursor->list);
  cursor->list = keys;
  cursor->list_n = cursor->list_capacity = n;
  request->has_list = request->by_columns = 1;
  /* A leftover of a removed row must not create the row again. */
  cursor->peek |= ext_inserts_on_lookup(ext_cursor_table(cursor));
  return SQLITE_OK;
}

static int filter_start(struct ext_cursor *cursor, struct request *request,
                        char **err) {
  struct ext_range *range = &request->range;
  int rc = SQLITE_OK;
  if (request->keys && cursor->flags & EXT_PLAN_NEAREST)
    return ext_error(err, SQLITE_ERROR,
                     "either MATCH or a list of keys as an argument, not both; "
                     "write AND %s IN (...)",
                     ext_vtab(ext_cursor_table(cursor))->options.key);
  if (request->keys) {
    cursor->counts = !cursor->peek;
    return ext_batch_read(cursor, request->keys, err);
  }
  rc = filter_aux(cursor, request, err);
  if (rc != SQLITE_OK)
    return rc;
  if (request->has_list)
    narrow_list(cursor, range);
  if (cursor->flags & EXT_PLAN_NEAREST)
    ext_near_among(cursor, range, request->has_list);
  else if (request->has_list)
    ; /* the list is complete */
  else if (range->lo == range->hi)
    rc = add_to_list(cursor, range->lo);
  else if (range->lo < range->hi && cursor->snap) {
    cursor->snap_scan = 1;
    cursor->snap_lo = range->lo;
    cursor->snap_hi = range->hi;
  } else if (range->lo < range->hi)
    rc = start_scan(cursor, request, err);
  if (rc == SQLITE_OK && cursor->list_n && !(cursor->flags & EXT_PLAN_NEAREST))
    count_list(cursor, request);
  emb_check(rc != SQLITE_OK || ext_cursor_list_valid(cursor));
  if (rc == SQLITE_OK)
    rc = ext_cursor_fill(cursor, err);
  return rc;
}

/* Not inlined, nor is filter_looking: with their variables in the frame of
** xFilter, and the division of chunk_rows done for key = ? too, a SELECT by key
** and a row of a join took 5 % longer, an UPDATE 2 %. */
__attribute__((noinline)) static int filter_plan(struct ext_cursor *cursor,
                                                 const char *plan,
                                                 sqlite3_value **argv,
                                                 char **err) {
  struct request request = {.offset = 0};
  int rc = SQLITE_OK;
  start_chunks(cursor);
  ext_range_all(&request.range);
  if (cursor->flags & EXT_PLAN_NEAREST)
    rc = ext_near_start(cursor, plan, err);
  if (rc == SQLITE_OK)
    rc = read_plan(cursor, plan, argv, &request, err);
  if (rc == SQLITE_OK)
    rc = filter_start(cursor, &request, err);
  for (;
       rc == SQLITE_OK && request.offset > 0 && !ext_cursor_eof(&cursor->base);
       request.offset--)
    rc = ext_cursor_next(&cursor->base);
  return rc;
}

/* Runs a plan of key = ? alone, on a table without a bound; 0: another plan. */
static int filter_one(struct ext_cursor *cursor, const char *plan,
                      sqlite3_value *value, int *rc, char **err) {
  struct ext_text text;
  size_t absent;
  int64_t key;
  if (plan[0] == 0 || plan[1] || cursor->link->bounded)
    return 0;
  if (plan[0] == '=' && sqlite3_value_type(value) == SQLITE_INTEGER &&
      !cursor->peek) {
    *rc = ext_cursor_read_key(cursor, sqlite3_value_int64(value), err);
    return 1;
  }
  if (plan[0] != 't' || sqlite3_value_type(value) != SQLITE_TEXT ||
      cursor->peek)
    return 0;
  *rc = ext_text_from_value(value, "", &text, err);
  if (*rc == SQLITE_OK)
    *rc = ext_dict_find(cursor->link->dict, &text, 1, &key, &absent, err);
  if (*rc == SQLITE_OK && key)
    *rc = ext_cursor_read_key(cursor, key, err);
  return 1;
}

static int filter_run(struct ext_cursor *cursor, const char *plan, int argc,
                      sqlite3_value **argv, char **err) {
  int rc = SQLITE_OK;
  return filter_one(cursor, plan, argc ? argv[0] : NULL, &rc, err)
             ? rc
             : filter_plan(cursor, plan, argv, err);
}

/* The same on a table whose lookups may create rows. */
__attribute__((noinline)) static int filter_looking(struct ext_cursor *cursor,
                                                    const char *plan, int argc,
                                                    sqlite3_value **argv,
                                                    char **err) {
  struct ext_table *table = ext_cursor_table(cursor);
  struct ext_keys keys = {0};
  int rc = ext_cursor_look(cursor, plan, argv, &keys, err);
  if (rc == SQLITE_OK)
    rc = filter_run(cursor, plan, argc, argv, err);
  if (rc == SQLITE_OK && keys.settles)
    rc = ext_keys_settle(table, &keys, err);
  ext_keys_free(&keys);
  return rc;
}

int ext_cursor_filter(sqlite3_vtab_cursor *base, int flags, const char *plan,
                      int argc, sqlite3_value **argv) {
  struct ext_cursor *cursor = (struct ext_cursor *)base;
  struct ext_table *table = ext_cursor_table(cursor);
  char *err = NULL;
  int rc;
  if (flags & EXT_PLAN_LAZY && !cursor->is_update) {
    cursor->is_update = 1; /* xFilter may be called per row of a join */
    ext_vtab(table)->update_reads = 0;
  }
  start_anew(cursor, flags);
  if (flags & EXT_PLAN_NEAREST)
    plan = strrchr(plan, ':') + 1;
  emb_assert(strcspn(plan, ";") == (size_t)argc); /* as plan.c writes it */
  rc = ext_txn_read(table, &err);
  if (rc == SQLITE_OK)
    rc = ext_keys_begin(table, &err);
  if (rc == SQLITE_OK) {
    cursor->link = table->link;
    cursor->link->cursors++;
    if (flags & EXT_PLAN_TRACKS &&
        emb_tracking(table->link->store) == EMB_TRACK_NONE)
      cursor->flags &= ~EXT_PLAN_TRACKS;
    rc = ext_inserts_on_lookup(table)
             ? filter_looking(cursor, plan, argc, argv, &err)
             : filter_run(cursor, plan, argc, argv, &err);
  }
  return err ? ext_vtab_error(&table->base, rc, err) : rc;
}
