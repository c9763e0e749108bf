/* SPDX-License-Identifier: MIT
**
** rot_pages.c -- whole pages and files of a store are damaged, go missing, or
** come from another store: no read is ever wrong.
**
** Like rot.c, with larger damage.  A unit is a slot of the manifest, the head
** or a page of the log, or a block of the index file.  Content comes from
** another place of the same file, from the same place at an earlier time (the
** story's last checkpoint), or from another store of the same story.
*/
#include "damage_help.h"

#include "engine/table/session/session.h"

enum {
  TRUNCATED, /* the file ends at a unit's beginning or within it */
  ZEROED,    /* units */
  ONES,
  SWAPPED,
  DUPLICATED, /* over another of the same file */
  OLDER,      /* its earlier content */
  FOREIGN,
  EXTENT,  /* a whole extent over another, or at the end of the log */
  LONGER,  /* garbage at the file's end */
  MISSING, /* files */
  EMPTY,
  DIRECTORY,
  LINK_NOWHERE,
  LINK_FOREIGN,
  FIFO, /* that nobody writes to */
  OLDER_FILE,
  FOREIGN_FILE,
  MIXED_AGES,  /* some files from an older time */
  OTHER_INDEX, /* from another generation, under this one's name */
  KINDS
};

static const char *const kinds[KINDS] = {"truncated",
                                         "unit zeroed",
                                         "unit of ones",
                                         "units swapped",
                                         "unit duplicated",
                                         "unit of an older time",
                                         "unit of another store",
                                         "extent duplicated",
                                         "file longer",
                                         "file missing",
                                         "file empty",
                                         "directory for a file",
                                         "link to nothing",
                                         "link to another store",
                                         "FIFO for a file",
                                         "file of an older time",
                                         "file of another store",
                                         "files of different times",
                                         "index file of another time"};

static uint64_t tally[KINDS][VERDICTS + 1];

/* The story, told twice, and the files to damage. */
static struct {
  struct damage_store d;
  struct damage_store other;
  struct files now; /* the damaged files */
  char copy[512], foreign[512];
} t;

/* ---- one damage ---------------------------------------------------------- */

static size_t unit_bytes(const struct file *file) {
  return strcmp(file->name, "manifest") == 0 ? MANIFEST_SLOT
         : strcmp(file->name, "log") == 0    ? t.d.layout.page_bytes
                                             : 65536;
}

/* Unit 0 of the log is its head. */
static size_t units(const struct file *file) {
  size_t bytes = unit_bytes(file), head = 0;
  if (strcmp(file->name, "log") == 0)
    head = LOG_FILE_HEAD;
  return file->size < head
             ? 0
             : (head != 0) + (file->size - head + bytes - 1) / bytes;
}

static size_t unit_at(const struct file *file, size_t unit, size_t *bytes) {
  size_t at = unit * unit_bytes(file);
  *bytes = unit_bytes(file);
  if (strcmp(file->name, "log") == 0) {
    at = unit ? LOG_FILE_HEAD + (unit - 1) * *bytes : 0;
    *bytes = unit ? *bytes : LOG_FILE_HEAD;
  }
  if (*bytes > file->size - at)
    *bytes = file->size - at;
  return at;
}

/* Whether the log's bytes [from, to) hold data that is not durable. */
static int has_tail(const struct file *file, size_t from, size_t to) {
  for (size_t i = 0; i < t.d.page_count; i++)
    if (strcmp(file->name, "log") == 0 && t.d.pages[i].offset < to &&
        t.d.pages[i].offset + t.d.layout.page_bytes > from &&
        t.d.pages[i].number >= t.d.tail_page)
      return 1;
  return 0;
}

/* The files in t.copy are damaged: judges them, and puts the files back. */
static enum verdict judge(int kind, const char *what, int may_cut) {
  enum verdict verdict =
      damage_judge(&t.d, t.copy, what, 0, may_cut, test_random() % 4 == 0);
  tally[kind][verdict]++;
  if (verdict == CUT)
    test_check(may_cut, __FILE__, __LINE__, "%s: %s: what was durable is cut",
               t.d.story->name, what);
  CHECK(files_write(&t.d.files, t.copy));
  return verdict;
}

static void judge_unit(int kind, const struct file *file, size_t from,
                       size_t to) {
  char what[200];
  (void)snprintf(what, sizeof what, "%s: %s at byte %zu", file->name,
                 kinds[kind], from);
  CHECK(files_write_one(file, t.copy));
  enum verdict verdict = judge(kind, what, has_tail(file, from, to));
  /* One slot of the manifest is enough. */
  int may_refuse = strcmp(file->name, "manifest") != 0 || kind == FOREIGN ||
                   to - from > MANIFEST_SLOT;
  test_check(may_refuse || (verdict != REFUSED && verdict != READ), __FILE__,
             __LINE__, "%s: %s: verdict %d", t.d.story->name, what, verdict);
}

/* ---- units --------------------------------------------------------------- */

static void fill_unit(struct file *file, size_t unit, int kind,
                      const struct file *source, size_t source_unit) {
  size_t bytes, source_bytes, at = unit_at(file, unit, &bytes);
  char *kept = malloc(bytes + 1);
  memcpy(kept, file->bytes + at, bytes);
  if (source && source_unit < units(source)) {
    size_t source_at = unit_at(source, source_unit, &source_bytes);
    if (source_bytes > bytes)
      source_bytes = bytes;
    memcpy(file->bytes + at, source->bytes + source_at, source_bytes);
  } else {
    memset(file->bytes + at, kind == ONES ? 0xff : 0, bytes);
  }
  judge_unit(kind, file, at, at + bytes);
  memcpy(file->bytes + at, kept, bytes);
  free(kept);
}

static void swap_units(struct file *file, size_t a, size_t b) {
  size_t a_bytes, b_bytes;
  size_t a_at = unit_at(file, a, &a_bytes), b_at = unit_at(file, b, &b_bytes);
  size_t bytes = a_bytes < b_bytes ? a_bytes : b_bytes;
  char what[200];
  for (int round = 0; round < 2; round++) {
    for (size_t i = 0; i < bytes; i++) {
      char c = file->bytes[a_at + i];
      file->bytes[a_at + i] = file->bytes[b_at + i];
      file->bytes[b_at + i] = c;
    }
    if (round)
      return;
    (void)snprintf(what, sizeof what, "%s: bytes %zu and %zu swapped",
                   file->name, a_at, b_at);
    CHECK(files_write_one(file, t.copy));
    judge(SWAPPED, what,
          has_tail(file, a_at, a_at + bytes) ||
              has_tail(file, b_at, b_at + bytes));
  }
}

/* Of few units each, of many a share. */
static int is_chosen(size_t unit, size_t n) {
  return n <= 8 || (unit + (size_t)test_state.seed) % help_share() == 0;
}

static void damage_units(struct file *file) {
  size_t n = units(file);
  const char *name = strncmp(file->name, "index-0", 7) ? file->name : "index-0";
  struct file *older = files_find(&t.d.older, name);
  struct file *foreign = files_find(&t.other.files, name);
  struct files unchanged = {.n = 0};
  struct file *same = NULL;
  if (CHECK(files_copy(&unchanged, &t.d.files)))
    same = files_find(&unchanged, name);
  for (size_t unit = 0; unit < n; unit++) {
    if (!is_chosen(unit, n))
      continue;
    fill_unit(file, unit, ZEROED, NULL, 0);
    fill_unit(file, unit, ONES, NULL, 0);
    if (older)
      fill_unit(file, unit, OLDER, older, unit);
    if (foreign)
      fill_unit(file, unit, FOREIGN, foreign, unit);
    for (unsigned i = 0; n > 1 && i < 2 * help_long(); i++) {
      size_t with = (unit + 1 + test_random() % (n - 1)) % n;
      fill_unit(file, unit, DUPLICATED, same, with);
      swap_units(file, unit, with);
    }
  }
  files_free(&unchanged);
}

/* ---- lengths ------------------------------------------------------------- */

static void truncate_at(struct file *file, size_t size) {
  size_t whole = file->size;
  if (size >= whole)
    return;
  file->size = size;
  judge_unit(TRUNCATED, file, size, whole);
  file->size = whole;
}

static void change_length(struct file *file) {
  for (size_t unit = 0, n = units(file); unit < n; unit++) {
    size_t bytes, at = unit_at(file, unit, &bytes);
    if (!is_chosen(unit, n))
      continue;
    truncate_at(file, at);
    truncate_at(file, at + 1);
    truncate_at(file, at + test_random() % bytes);
    truncate_at(file, at + bytes - 1);
  }
  size_t more = 1 + test_random() % 500000, whole = file->size;
  char *longer = realloc(file->bytes, whole + more);
  if (!CHECK(longer != NULL))
    return;
  file->bytes = longer;
  for (size_t i = 0; i < more; i++)
    longer[whole + i] = (char)test_random();
  file->size = whole + more;
  judge_unit(LONGER, file, whole, whole);
  file->size = whole;
}

/* An extent, or only its first page, also stands at a second place. */
static void duplicate_extents(struct file *log) {
  size_t bytes = t.d.layout.extent_bytes, whole = log->size;
  size_t n = (whole - LOG_FILE_HEAD + bytes - 1) / bytes;
  char *longer = calloc(1, LOG_FILE_HEAD + (n + 1) * bytes);
  if (!CHECK(longer != NULL))
    return;
  for (size_t from = 0; from < n; from++)
    for (size_t to = 0; to <= n; to++)
      for (int part = 0; part < 2 && from != to; part++) {
        size_t at = LOG_FILE_HEAD + from * bytes;
        size_t some = part ? t.d.layout.page_bytes : bytes;
        struct file changed = *log;
        if (test_random() % help_share() != 0)
          continue;
        some = some < whole - at ? some : whole - at;
        changed.bytes = longer;
        memcpy(longer, log->bytes, whole);
        memset(longer + whole, 0, LOG_FILE_HEAD + (n + 1) * bytes - whole);
        memcpy(longer + LOG_FILE_HEAD + to * bytes, log->bytes + at, some);
        changed.size = LOG_FILE_HEAD + (to == n ? n + 1 : n) * bytes;
        judge_unit(EXTENT, &changed, LOG_FILE_HEAD + to * bytes,
                   LOG_FILE_HEAD + to * bytes + some);
      }
  free(longer);
}

/* ---- files --------------------------------------------------------------- */

static void judge_file(int kind, const char *name) {
  char what[200];
  (void)snprintf(what, sizeof what, "%s: %s", name, kinds[kind]);
  judge(kind, what, strcmp(name, "log") == 0);
}

static void replace_file(int kind, const struct file *by, const char *name) {
  struct file file;
  if (by == NULL)
    return;
  file = *by;
  (void)snprintf(file.name, sizeof file.name, "%s", name);
  CHECK(files_write_one(&file, t.copy));
  judge_file(kind, name);
}

static void damage_file(const struct file *file) {
  char path[600], target[600];
  const char *name = strncmp(file->name, "index-0", 7) ? file->name : "index-0";
  struct file empty = {.bytes = file->bytes};
  (void)snprintf(path, sizeof path, "%s/%s", t.copy, file->name);
  (void)snprintf(target, sizeof target, "%s/%s", t.foreign, file->name);
  CHECK(unlink(path) == 0);
  judge_file(MISSING, file->name);
  replace_file(EMPTY, &empty, file->name);
  CHECK(unlink(path) == 0 && mkdir(path, 0700) == 0);
  judge_file(DIRECTORY, file->name);
  CHECK(unlink(path) == 0 && symlink("nothing", path) == 0);
  judge_file(LINK_NOWHERE, file->name);
  CHECK(unlink(path) == 0 && symlink(target, path) == 0);
  judge_file(LINK_FOREIGN, file->name);
  CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0);
  judge_file(FIFO, file->name);
  replace_file(FOREIGN_FILE, files_find(&t.other.files, name), file->name);
  replace_file(strcmp(name, "index-0") ? OLDER_FILE : OTHER_INDEX,
               files_find(&t.d.older, name), file->name);
}

/* ---- ages ---------------------------------------------------------------- */

static void put_older(struct files *from, unsigned set, unsigned both) {
  static const char *const names[] = {"manifest", "log", "index-0"};
  CHECK(files_write(&t.d.files, t.copy));
  for (int i = 0; i < 3; i++) {
    const struct file *older = files_find(from, names[i]);
    const struct file *newer = files_find(&t.d.files, names[i]);
    char path[600];
    if (!(set >> i & 1) || older == NULL)
      continue;
    (void)snprintf(path, sizeof path, "%s/%s", t.copy, newer->name);
    CHECK(both || unlink(path) == 0);
    CHECK(files_write_one(older, t.copy));
  }
}

/* Some of the files are older, in all combinations; the older index file may
** be there next to the newer one. */
static void mix_ages(struct files *from, const char *age, int may_cut) {
  for (unsigned set = 1; set < 8 && from->n; set++)
    for (unsigned both = 0; both <= (set >> 2 & 1); both++) {
      char what[200];
      (void)snprintf(what, sizeof what, "%s:%s%s%s%s", age,
                     set & 1 ? " manifest" : "", set & 2 ? " log" : "",
                     set & 4 ? " index" : "",
                     both ? " beside the newer one" : "");
      put_older(from, set, both);
      enum verdict verdict = damage_judge(&t.d, t.copy, what, 0, may_cut, 0);
      tally[MIXED_AGES][verdict]++;
    }
  CHECK(files_write(&t.d.files, t.copy));
}

/* With files of the last checkpoint: every key is as it is now, or every key
** is as it was then. */
static void mix_with_last(void) {
  struct oracle *now = t.d.o, kept = *now;
  for (int64_t key = 0; key < DAMAGE_KEYS; key++) {
    now->before[key] = now->older[key];
    now->order[key] = now->value[key] != now->older[key];
  }
  mix_ages(&t.d.older, "older", 1);
  *now = kept;
}

/* With files of an earlier checkpoint, since which extents were freed:
** recovery may end at any point between it and now.  A coordinator sees that
** from the transaction's number; here every key has a value that it had since
** then. */
static void mix_with_first(void) { mix_ages(&t.d.oldest, "much older", 2); }

/* ---- stories ------------------------------------------------------------- */

/* The other store's files are unchanged: nothing was written through a link. */
static void check_foreign(void) {
  struct files files;
  CHECK(files_read(&files, t.foreign));
  for (size_t i = 0; i < t.other.files.n; i++) {
    struct file *want = &t.other.files.list[i];
    struct file *have = files_find(&files, want->name);
    CHECK(have && have->size == want->size &&
          memcmp(have->bytes, want->bytes, want->size) == 0);
  }
  CHECK_EQ_INT(files.n, t.other.files.n);
  files_free(&files);
}

static void tell_and_damage(const struct story *story) {
  (void)snprintf(t.copy, sizeof t.copy, "%s", damage_path("copy"));
  (void)snprintf(t.foreign, sizeof t.foreign, "%s", damage_path("foreign"));
  if (damage_tell(&t.d, story, damage_path("origin")) &&
      damage_tell(&t.other, story, t.foreign) &&
      CHECK(files_copy(&t.now, &t.d.files)) &&
      CHECK(files_write(&t.d.files, t.copy))) {
    for (size_t i = 0; i < t.now.n; i++) {
      damage_file(&t.now.list[i]);
      if (t.now.list[i].size == 0)
        continue;
      change_length(&t.now.list[i]);
      damage_units(&t.now.list[i]);
    }
    duplicate_extents(files_find(&t.now, "log"));
    mix_with_last();
    mix_with_first();
    check_foreign();
  }
  files_free(&t.now);
  damage_forget(&t.d);
  damage_forget(&t.other);
}

TEST(closed) { tell_and_damage(&damage_stories[0]); }
TEST(closed_of_several_extents) { tell_and_damage(&damage_stories[1]); }
TEST(closed_at_its_first_checkpoint) { tell_and_damage(&damage_stories[2]); }
TEST(killed_after_a_commit) { tell_and_damage(&damage_stories[3]); }
TEST(killed_before_the_commit) { tell_and_damage(&damage_stories[4]); }
TEST(killed_before_a_checkpoint) { tell_and_damage(&damage_stories[5]); }
TEST(killed_with_a_tail) { tell_and_damage(&damage_stories[6]); }
TEST(killed_in_its_second_life) { tell_and_damage(&damage_stories[7]); }
TEST(killed_with_extents_to_find) { tell_and_damage(&damage_stories[8]); }
TEST(killed_with_a_transaction_open) { tell_and_damage(&damage_stories[9]); }

/* An open that creates a store where it finds none must not overwrite one. */
TEST(creating_where_the_manifest_is_lost) {
  emb_config config = damage_config(&damage_stories[0]);
  emb_store *store = NULL;
  emb_session *s = NULL;
  emb_err err;
  const char *dir = damage_path("origin");
  if (!damage_tell(&t.d, &damage_stories[0], dir))
    return;
  CHECK(unlink(help_path("origin/manifest")) == 0);
  CHECK_EQ_INT(emb_open(dir, &config, &store, &err), EMB_CORRUPT);
  CHECK(strstr(err.text, "/manifest") != NULL);
  CHECK(files_write_one(files_find(&t.d.files, "manifest"), dir));
  CHECK_EQ_INT(damage_judge(&t.d, dir, "manifest put back", 0, 0, 0), ALIKE);
  CHECK(unlink(help_path("origin/manifest")) == 0);
  config.flags |= EMB_OPEN_EXCLUSIVE;
  if (help_open(dir, &config, &store, &s)) {
    CHECK_EQ_INT(emb_count(s), 0);
    help_close(store, s);
  }
  damage_forget(&t.d);
}

static void count_report(void *arg, const char *line) {
  ++*(int *)arg;
  CHECK(strstr(line, "not the same in memory") != NULL);
}

/* A record in the cache differs from the disk's. */
TEST(damage_in_memory) {
  const char *dir = damage_path("origin");
  emb_config config = damage_config(&damage_stories[1]);
  emb_store *store = NULL;
  emb_session *s = NULL;
  uint32_t cached = 0;
  int reported = 0;
  if (!damage_tell(&t.d, &damage_stories[1], dir) ||
      !help_open(dir, &config, &store, &s))
    return;
  for (int64_t key = 0; key < DAMAGE_KEYS; key++) {
    uint64_t word;
    float vector[256];
    OK(s, emb_get(s, &key, 1, vector, NULL, NULL));
    if (index_find(&s->core->index, key, hash_key(key), &word) &&
        (word & WORD_CACHED) && ++cached == 100)
      key_rec(s->core, word)->vector[77] ^= 1;
  }
  CHECK(cached >= 100);
  OK(s, emb_verify(s, damage_no_report, NULL));
  OK(s, emb_verify(s, count_report, &reported));
  CHECK_EQ_INT(reported, 1);
  help_close(store, s);
  damage_forget(&t.d);
}

/* A correct store of a later format is refused because of its number and left
** unchanged. */
TEST(unknown_format_is_refused) {
  const char *dir = damage_path("origin");
  emb_config config = damage_config(&damage_stories[0]);
  emb_store *store = NULL;
  emb_err err;
  struct files after;
  if (!damage_tell(&t.d, &damage_stories[0], dir))
    return;
  struct manifest *m = files_manifest(&t.d.files);
  m->format = 4711;
  m->sum = hash_sum((char *)m + 8, MANIFEST_SLOT - 8, 0, 0);
  CHECK(files_write(&t.d.files, dir));
  for (int create = 0; create < 2; create++) {
    config.flags = create ? EMB_OPEN_STEP | EMB_OPEN_CREATE : EMB_OPEN_STEP;
    CHECK_EQ_INT(emb_open(dir, &config, &store, &err), EMB_NOTADB);
    CHECK(strstr(err.text, ": its files have format 4711, and this emb") !=
          NULL);
  }
  if (CHECK(files_read(&after, dir)))
    for (size_t i = 0; i < t.d.files.n; i++) {
      struct file *file = files_find(&after, t.d.files.list[i].name);
      CHECK(file && file->size == t.d.files.list[i].size &&
            memcmp(file->bytes, t.d.files.list[i].bytes, file->size) == 0);
    }
  files_free(&after);
  damage_forget(&t.d);
}

TEST(table) {
  uint64_t all = 0;
  printf("%-28s %7s %8s %6s %7s %6s %8s %7s\n", "", "damages", "refused",
         "read", "verify", "cut", "counted", "unused");
  for (int k = 0; k < KINDS; k++) {
    uint64_t sum = 0;
    for (int v = 0; v <= VERDICTS; v++)
      sum += tally[k][v];
    printf("%-28s %7" PRIu64 " %8" PRIu64 " %6" PRIu64 " %7" PRIu64 " %6" PRIu64
           " %8" PRIu64 " %7" PRIu64 "\n",
           kinds[k], sum, tally[k][REFUSED], tally[k][READ], tally[k][VERIFY],
           tally[k][CUT], tally[k][COUNTED], tally[k][ALIKE]);
    all += sum;
  }
  test_count("pages and files damaged", all);
}
