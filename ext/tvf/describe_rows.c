/* SPDX-License-Identifier: MIT
**
** describe_rows.c -- the rows of emb_describe that describe, in words.
**
** Each row has a function.  A value that does not exist is 'none', and a
** number that could be counted is an INTEGER; sql/manual/metrics.md lists the
** rows.
*/
#include "describe.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* ---- words --------------------------------------------------------------- */

char *ext_describe_size(sqlite3_int64 bytes) {
  static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
  double size = (double)bytes / 1024;
  size_t i = 0;
  if (bytes < 1024)
    return sqlite3_mprintf("%lld bytes", bytes);
  while (size >= 1023.95 && i + 1 < sizeof units / sizeof units[0])
    size /= 1024, i++;
  return sqlite3_mprintf("%.1f %s", size, units[i]);
}

static char *describe_age(sqlite3_int64 seconds) {
  seconds = seconds > 0 ? seconds : 0; /* clocks may differ */
  return seconds < 120        ? sqlite3_mprintf("%lld s ago", seconds)
         : seconds < 2 * 3600 ? sqlite3_mprintf("%lld min ago", seconds / 60)
         : seconds < 2 * 86400
             ? sqlite3_mprintf("%lld h ago", seconds / 3600)
             : sqlite3_mprintf("%lld days ago", seconds / 86400);
}

char *ext_describe_quote(const char *name) {
  int is_plain = *name && !(*name >= '0' && *name <= '9');
  for (const char *c = name; *c; c++)
    is_plain =
        is_plain && ((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                     (*c >= '0' && *c <= '9') || *c == '_');
  is_plain = is_plain && !sqlite3_keyword_check(name, (int)strlen(name));
  return is_plain ? sqlite3_mprintf("%s", name)
                  : sqlite3_mprintf("\"%w\"", name);
}

char *ext_describe_full_name(const struct ext_table *table) {
  if (sqlite3_stricmp(table->schema, "main") == 0 &&
      strchr(table->name, '.') == NULL)
    return sqlite3_mprintf("%s", table->name);
  return sqlite3_mprintf("%s.%s", table->schema, table->name);
}

/* Appends a size. */
static void append_size(sqlite3_str *text, sqlite3_int64 bytes) {
  char *size = ext_describe_size(bytes);
  sqlite3_str_appendall(text, size ? size : "");
  sqlite3_free(size);
}

/* ---- adding rows --------------------------------------------------------- */

static struct describe_row *describe_new(struct describe_rows *rows,
                                         const char *name, char *remark) {
  struct describe_row *list =
      sqlite3_realloc64(rows->list, (rows->n + 1) * sizeof *list);
  if (list == NULL) {
    rows->rc = SQLITE_NOMEM;
    sqlite3_free(remark);
    return NULL;
  }
  rows->list = list;
  list[rows->n] = (struct describe_row){.name = name, .remark = remark};
  return &list[rows->n++];
}

void ext_describe_add(struct describe_rows *rows, const char *name, char *value,
                      char *remark) {
  struct describe_row *row = describe_new(rows, name, remark);
  if (row)
    row->value = value;
  else
    sqlite3_free(value);
  if (value == NULL)
    rows->rc = SQLITE_NOMEM;
}

static void describe_number(struct describe_rows *rows, const char *name,
                            sqlite3_int64 number, char *remark) {
  struct describe_row *row = describe_new(rows, name, remark);
  if (row)
    row->number = number;
}

static char *describe_none(void) { return sqlite3_mprintf("none"); }

/* NULL if nothing was appended. */
static char *describe_end_text(struct describe_rows *rows, sqlite3_str *text) {
  if (sqlite3_str_errcode(text) == SQLITE_NOMEM)
    rows->rc = SQLITE_NOMEM;
  return sqlite3_str_finish(text);
}

/* ---- what the table is --------------------------------------------------- */

static void describe_count(const struct describe_facts *facts,
                           struct describe_rows *rows) {
  describe_number(
      rows, "rows", facts->rows,
      sqlite3_mprintf("%lld in memory",
                      ext_describe_number(facts, "rows_in_memory")));
}

static void describe_dimensions(const struct describe_facts *facts,
                                struct describe_rows *rows) {
  const struct ext_options *options = &ext_vtab(facts->table)->options;
  uint32_t n = ext_vectors(options);
  sqlite3_str *text = sqlite3_str_new(NULL);
  for (uint32_t i = 0; i < n; i++)
    sqlite3_str_appendf(text, "%s%s %u %s", i ? ", " : "", options->vectors[i],
                        options->segments[i].dim,
                        options->segments[i].type == EMB_F16 ? "float16"
                                                             : "float32");
  sqlite3_str_appendf(text, "; %lld bytes per row",
                      ext_describe_number(facts, "record_bytes"));
  describe_number(rows, "dimensions", ext_describe_number(facts, "dimensions"),
                  describe_end_text(rows, text));
}

static void describe_state(const struct describe_facts *facts,
                           struct describe_rows *rows) {
  sqlite3_int64 errors = ext_describe_number(facts, "background_errors");
  if (ext_describe_number(facts, "failed"))
    ext_describe_add(
        rows, "state", sqlite3_mprintf("failed"),
        sqlite3_mprintf("writes are refused until the store is reopened: %s",
                        ext_describe_text(facts, "failed_reason")));
  else
    ext_describe_add(
        rows, "state", sqlite3_mprintf("%s", facts->state),
        errors == 0
            ? NULL
            : sqlite3_mprintf(
                  "%lld errors of background work, the newest %z: %s", errors,
                  describe_age(
                      ext_describe_number(facts, "background_error_ms_ago") /
                      1000),
                  ext_describe_text(facts, "background_error")));
}

/* ---- memory and disk ----------------------------------------------------- */

static void describe_memory(const struct describe_facts *facts,
                            struct describe_rows *rows) {
  static const struct {
    const char *metric, *what;
  } besides[] = {{"index_bytes", "keys"},
                 {"nearest_bytes", "the index"},
                 {"sample_bytes", "draws by frequency"}};
  sqlite3_int64 live = ext_describe_number(facts, "live_bytes");
  const char *before = "; in addition ";
  sqlite3_str *text = sqlite3_str_new(NULL);
  sqlite3_str_appendall(text, "all rows need ");
  append_size(text, live + live / 8);
  for (size_t i = 0; i < sizeof besides / sizeof besides[0]; i++) {
    sqlite3_int64 bytes = ext_describe_number(facts, besides[i].metric);
    if (bytes == 0)
      continue;
    sqlite3_str_appendall(text, before);
    before = ", ";
    append_size(text, bytes);
    sqlite3_str_appendf(text, " for %s", besides[i].what);
  }
  ext_describe_add(
      rows, "memory",
      sqlite3_mprintf(
          "%z of %z",
          ext_describe_size(ext_describe_number(facts, "log_bytes_in_memory") +
                            ext_describe_number(facts, "cache_bytes")),
          ext_describe_size(ext_describe_number(facts, "memory_bytes"))),
      describe_end_text(rows, text));
}

static char *describe_percent(sqlite3_int64 permille) {
  return sqlite3_mprintf("%lld.%lld %%", permille / 10, permille % 10);
}

static void describe_hits(const struct describe_facts *facts,
                          struct describe_rows *rows) {
  sqlite3_int64 recent = ext_describe_number(facts, "hit_permille_recent");
  sqlite3_int64 ever = ext_describe_number(facts, "hit_permille");
  if (ever < 0)
    ext_describe_add(rows, "hit rate", describe_none(),
                     sqlite3_mprintf("no row was read"));
  else if (recent < 0)
    ext_describe_add(rows, "hit rate", describe_percent(ever),
                     sqlite3_mprintf("since the store was opened"));
  else
    ext_describe_add(
        rows, "hit rate", describe_percent(recent),
        sqlite3_mprintf("recently; %z since the store was opened; %z with "
                        "twice the memory",
                        describe_percent(ever),
                        describe_percent(ext_describe_number(
                            facts, "hit_permille_twice_memory"))));
}

static void describe_disk(const struct describe_facts *facts,
                          struct describe_rows *rows) {
  sqlite3_int64 log = ext_describe_number(facts, "log_bytes");
  ext_describe_add(
      rows, "disk",
      ext_describe_size(facts->disk_bytes < 0 ? log : facts->disk_bytes),
      sqlite3_mprintf(
          "%s; rows take %z of the %z used in its log",
          facts->disk_bytes < 0 ? "a temporary file"
                                : ext_describe_text(facts, "directory"),
          ext_describe_size(ext_describe_number(facts, "live_bytes")),
          ext_describe_size(log)));
}

/* ---- who uses it --------------------------------------------------------- */

static void describe_owner_row(const struct describe_facts *facts,
                               struct describe_rows *rows) {
  sqlite3_int64 process = ext_describe_number(facts, "owner_pid");
  sqlite3_int64 since = ext_describe_number(facts, "owner_since");
  int is_own = ext_describe_number(facts, "owner") != 0;
  char *remark = NULL;
  if (facts->is_silent)
    remark = sqlite3_mprintf("does not answer, so nothing else is known");
  else if (since)
    remark = sqlite3_mprintf("since %z", describe_age(facts->now - since));
  ext_describe_add(rows, "owner",
                   is_own    ? sqlite3_mprintf("this process, %lld", process)
                   : process ? sqlite3_mprintf("process %lld", process)
                             : describe_none(),
                   remark);
}

/* The first in the list is the owner. */
static void describe_clients(const struct describe_facts *facts,
                             struct describe_rows *rows) {
  sqlite3_str *text = sqlite3_str_new(NULL);
  for (size_t i = 1; i < facts->client_count; i++)
    sqlite3_str_appendf(text, "%sprocess %lld: %llu calls", i > 1 ? ", " : "",
                        facts->clients[i].process, facts->clients[i].calls);
  describe_number(rows, "clients",
                  facts->client_count ? (sqlite3_int64)facts->client_count - 1
                                      : 0,
                  describe_end_text(rows, text));
}

static void describe_snapshots(const struct describe_facts *facts,
                               struct describe_rows *rows) {
  sqlite3_str *text = sqlite3_str_new(NULL);
  for (size_t i = 0; i < facts->snapshot_count; i++) {
    const emb_snapshot_info *snapshot = &facts->snapshots[i];
    sqlite3_str_appendf(text, "%s%s: %lld rows%s, keeps ", i ? ", " : "",
                        snapshot->name, snapshot->keys,
                        snapshot->damaged ? " (damaged)" : "");
    append_size(text, (sqlite3_int64)snapshot->bytes);
  }
  describe_number(rows, "snapshots", (sqlite3_int64)facts->snapshot_count,
                  describe_end_text(rows, text));
}

static void describe_consumers(const struct describe_facts *facts,
                               struct describe_rows *rows) {
  static const char *const states[] = {"", " (lost)", " (damaged)"};
  sqlite3_str *text = sqlite3_str_new(NULL);
  if (facts->are_consumers_hidden) {
    sqlite3_str_appendall(text, "not listed in a transaction that has changed "
                                "the table");
    ext_describe_add(rows, "consumers", sqlite3_mprintf("not known"),
                     describe_end_text(rows, text));
    return;
  }
  for (size_t i = 0; i < facts->consumer_count; i++) {
    const emb_consumer *consumer = &facts->consumers[i];
    sqlite3_str_appendf(text, "%s%s%s: keeps ", i ? ", " : "", consumer->name,
                        states[consumer->state]);
    append_size(text, (sqlite3_int64)consumer->kept_bytes);
  }
  describe_number(rows, "consumers", (sqlite3_int64)facts->consumer_count,
                  describe_end_text(rows, text));
}

/* ---- the index ----------------------------------------------------------- */

static char *describe_lists(const struct describe_facts *facts,
                            struct describe_rows *rows) {
  sqlite3_int64 in_lists = ext_describe_number(facts, "nearest_rows");
  sqlite3_int64 queries = ext_describe_number(facts, "nearest_queries");
  sqlite3_int64 candidates = ext_describe_number(facts, "nearest_candidates");
  sqlite3_str *text = sqlite3_str_new(NULL);
  sqlite3_str_appendf(text,
                      "%lld rows in %lld lists, %lld not yet in a list, about "
                      "%lld changed since; ",
                      in_lists, ext_describe_number(facts, "nearest_lists"),
                      ext_describe_number(facts, "nearest_recent"),
                      ext_describe_number(facts, "nearest_behind"));
  append_size(text, ext_describe_number(facts, "nearest_bytes"));
  sqlite3_str_appendf(text, "; file: %s",
                      ext_describe_text(facts, "nearest_file"));
  if (queries)
    sqlite3_str_appendf(text, "; %lld rows compared per query",
                        candidates / queries);
  return describe_end_text(rows, text);
}

static void describe_index(const struct describe_facts *facts,
                           struct describe_rows *rows) {
  const char *state = ext_describe_text(facts, "nearest_index");
  if (ext_describe_indexed(facts, 0) < 0)
    ext_describe_add(rows, "index", describe_none(),
                     sqlite3_mprintf("searches compare all rows"));
  else if (strcmp(state, "ready") == 0)
    ext_describe_add(rows, "index", sqlite3_mprintf("ready"),
                     describe_lists(facts, rows));
  else
    ext_describe_add(rows, "index", sqlite3_mprintf("%s", state),
                     sqlite3_mprintf("searches compare all rows"));
}

/* The option for as many lists as a search probes now: 20 queries in one call
** may be faster without the index. */
static char *describe_lists_probed(const struct describe_facts *facts,
                                   int vector) {
  emb_search_plan plan;
  int rc = emb_nearest_plan(facts->table->link->session, (uint32_t)vector, 10,
                            0, 0, &plan);
  return rc || plan.is_exact ? sqlite3_mprintf("")
                             : sqlite3_mprintf(", probes=%u", plan.probes);
}

/* The SQL that measures it again, for 20 rows drawn at random, by reading the
** whole table. */
static char *describe_recall_sql(const struct describe_facts *facts,
                                 int vector) {
  char *lists = describe_lists_probed(facts, vector);
  const struct ext_options *options = &ext_vtab(facts->table)->options;
  const char *column = options->vectors[vector];
  char *name = ext_describe_full_name(facts->table);
  char *schema = ext_describe_quote(facts->table->schema);
  char *table = ext_describe_quote(facts->table->name);
  char *key = ext_describe_quote(options->key);
  char *quoted = ext_describe_quote(column);
  char *sql = NULL;
  if (name && schema && table && key && quoted && lists)
    sql = sqlite3_mprintf(
        "WITH q(v) AS MATERIALIZED (SELECT json_group_array(json(emb_to_json("
        "t.%s))) FROM emb_sample(%Q, 20) AS s JOIN %s.%s AS t ON t.%s = s.key) "
        "SELECT count(*) / 200.0 AS recall FROM (SELECT query, key FROM "
        "emb_nearest(%Q, (SELECT v FROM q), 10, 'column=%q%s') INTERSECT "
        "SELECT "
        "query, key FROM emb_nearest(%Q, (SELECT v FROM q), 10, 'column=%q, "
        "mode=exact'))",
        quoted, name, schema, table, key, name, column, lists, name, column);
  sqlite3_free(lists);
  sqlite3_free(name);
  sqlite3_free(schema);
  sqlite3_free(table);
  sqlite3_free(key);
  sqlite3_free(quoted);
  return sql;
}

/* The recall for ten neighbours, as measured for the index. */
static char *describe_recall_found(const struct describe_facts *facts,
                                   int vector) {
  const struct ext_table *table = facts->table;
  const struct ext_options *options = &ext_vtab(table)->options;
  emb_search_plan plan;
  char *age, *text;
  if (emb_nearest_plan(table->link->session, (uint32_t)vector, 10, 0, 0,
                       &plan) ||
      plan.at == 0)
    return sqlite3_mprintf("%s: not measured", options->vectors[vector]);
  if (plan.recall > 0 && plan.measured <= 0)
    return sqlite3_mprintf("%s: exact, as no number of lists finds %!g",
                           options->vectors[vector], plan.recall);
  age = describe_age(facts->now - plan.at);
  text = plan.recall > 0
             ? sqlite3_mprintf(
                   "%s: %.3f of %!g promised%s, measured %s",
                   options->vectors[vector], plan.measured, plan.recall,
                   plan.is_exact ? ", but exact is faster" : "", age)
             : sqlite3_mprintf("%s: %.3f, none promised, measured %s",
                               options->vectors[vector], plan.measured, age);
  sqlite3_free(age);
  return text;
}

static void describe_recall(const struct describe_facts *facts,
                            struct describe_rows *rows) {
  int vector = ext_describe_indexed(facts, 0);
  if (vector < 0 ||
      strcmp(ext_describe_text(facts, "nearest_index"), "ready") != 0) {
    ext_describe_add(rows, "recall", describe_none(),
                     sqlite3_mprintf("without an index searches are exact"));
    return;
  }
  for (; vector >= 0;
       vector = ext_describe_indexed(facts, (uint32_t)vector + 1))
    ext_describe_add(rows, "recall", describe_recall_found(facts, vector),
                     describe_recall_sql(facts, vector));
}

static void describe_checkpoint(const struct describe_facts *facts,
                                struct describe_rows *rows) {
  if (facts->checkpointed_at < 0)
    ext_describe_add(rows, "checkpoint", describe_none(),
                     sqlite3_mprintf("the table is temporary"));
  else
    ext_describe_add(
        rows, "checkpoint", describe_age(facts->now - facts->checkpointed_at),
        sqlite3_mprintf("%lld since the store was opened",
                        ext_describe_number(facts, "checkpoints")));
}

void ext_describe_rows(const struct describe_facts *facts,
                       struct describe_rows *rows) {
  static void (*const all[])(const struct describe_facts *,
                             struct describe_rows *) = {
      describe_count,     describe_dimensions, describe_state,
      describe_memory,    describe_hits,       describe_disk,
      describe_owner_row, describe_clients,    describe_snapshots,
      describe_consumers, describe_index,      describe_recall,
      describe_checkpoint};
  if (facts->is_silent)
    describe_owner_row(facts, rows);
  else
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
      all[i](facts, rows);
}
