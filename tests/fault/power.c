/* SPDX-License-Identifier: MIT
**
** power.c -- the power fails at every event of a recorded piece of work.
**
** The work runs once, on a disk that records (tests/lib/disk.h).  Then, for
** the moment after each event, the disks that a power loss may leave are made
** and opened.  Writes and promises are noted with the number of events so
** far, so the notes up to a moment say what must be found then:
**
**   durable              checkpoint, prepare or close returned after it: this
**                        write, or a later one, is there
**   may be seen          immediate writes, and transactions that the engine
**                        commits alone, from the call on; of a transaction
**                        all or nothing, and none without those before it
**   decided              the coordinator has recorded the number of a prepared
**                        transaction: it is there after emb_resolve
**   rolled back, undone  never there
**
** Each write has its own number, which is in the vector.  The recovery of
** some disks is recorded, too, and loses power at one of its events: the rows
** that it had found must be found again.  On some disks the slot of the
** manifest that is in use rots, too: as long as the other slot is whole, all
** of this must hold.
**
** In a table whose rows expire and are evicted any row may be gone at any
** time.  The missing rows are noted after each action: that counts as a write
** that deletes them, and a row whose absence was durable does not come back.
** After each action a key without a row comes once more, too, and is counted:
** the counts found afterwards are those of some moment no earlier than the
** last checkpoint that returned.
**
** SEED repeats a run exactly.  LONG=n records n times as many pieces of work.
*/
#include "store_help.h"

#include "engine/storage/ckpt/manifest.h"
#include "engine/table/owner/registry.h"
#include "disk.h"
#include "hash_set.h"
#include "seen_help.h"

enum {
  KEYS = 96,
  WRITES = 20000,
  LEVELS = 3,
  BATCH = 12,
  ACTIONS = 150,
  SNAPS = 64,
  CHOICES = 4,
  CAPACITY = 64,
  SEEN = 16, /* keys that are only counted, above the others */
  COUNTS = 1024
};
enum { PUT = 1, DEL = 2 };

static const char dir[] = "/data/store";

/* ---- events -------------------------------------------------------------- */

enum note_kind {
  NOTE_PUT,     /* write `write` of key begins; it may be seen */
  NOTE_PENDING, /* the open transaction has `write` for key; 0: nothing */
  NOTE_DONE,    /* all writes begun are there while the program runs */
  NOTE_DURABLE, /* everything done is durable */
  NOTE_ALONE,   /* the engine commits the pending writes */
  NOTE_DECIDED, /* the coordinator recorded `number` */
  NOTE_END,     /* the pending writes were committed and are there */
  NOTE_FORGET,  /* or rolled back */
  NOTE_TAKEN,   /* snapshot number `key` is there, and holds the done writes */
  NOTE_DROPPED, /* it may be gone */
  NOTE_COUNT,   /* a key may be counted once more */
  NOTE_KEPT,    /* the counts are durable */
};

struct note {
  size_t events; /* this many had happened */
  enum note_kind kind;
  uint32_t key, write;
  uint64_t number;
};

/* Numbers of writes by key, 0: none. */
struct state {
  uint32_t begun[KEYS];   /* the newest outside a transaction */
  uint32_t now[KEYS];     /* the newest that is done */
  uint32_t durable[KEYS]; /* this one or a later one must be found */
  uint32_t pending[KEYS];
  uint32_t group;       /* of the last transaction that the engine committed */
  uint64_t decided;     /* the coordinator's record */
  uint32_t counts;      /* occurrences that were counted, */
  uint32_t kept;        /* and how many of them must be known */
  uint8_t snaps[SNAPS]; /* they must be there */
  uint8_t seen[WRITES]; /* by write: it may be found */
  uint32_t groups[WRITES]; /* by write: its transaction, 0 if none */
};

static struct work {
  uint32_t dim;
  int forgets; /* rows expire, and are evicted */
  size_t forgotten, counted;
  struct disk *disk;
  struct state state; /* at the end of the notes */
  struct write {
    uint32_t key, kind;
  } writes[WRITES];
  uint32_t write_count;
  struct note *notes;
  size_t note_count, note_room;
  uint32_t snapped[SNAPS][KEYS]; /* what they hold: `now` */
  uint32_t snap_count, snap_oldest;
  uint32_t counts[COUNTS]; /* keys, in the order of their occurrences */
  int64_t moved, compacted, shortened; /* results of live_and_shrink */
} work;

static void show(struct state *x, uint32_t group) {
  for (uint32_t k = 0; k < KEYS; k++)
    if (x->pending[k]) {
      x->seen[x->pending[k]] = 1;
      x->groups[x->pending[k]] = group;
    }
}

static void advance(struct state *x, const struct note *note) {
  switch (note->kind) {
  case NOTE_PUT:
    x->begun[note->key] = note->write;
    x->seen[note->write] = 1;
    break;
  case NOTE_PENDING:
    x->pending[note->key] = note->write;
    break;
  case NOTE_DONE:
    memcpy(x->now, x->begun, sizeof x->now);
    break;
  case NOTE_DURABLE:
    memcpy(x->durable, x->now, sizeof x->durable);
    break;
  case NOTE_ALONE:
    show(x, ++x->group);
    break;
  case NOTE_DECIDED:
    x->decided = note->number;
    show(x, 0);
    for (uint32_t k = 0; k < KEYS; k++)
      if (x->pending[k])
        x->durable[k] = x->pending[k];
    break;
  case NOTE_END:
    for (uint32_t k = 0; k < KEYS; k++)
      if (x->pending[k])
        x->begun[k] = x->now[k] = x->pending[k];
    memset(x->pending, 0, sizeof x->pending);
    break;
  case NOTE_FORGET:
    memset(x->pending, 0, sizeof x->pending);
    break;
  case NOTE_TAKEN:
    x->snaps[note->key] = 1;
    break;
  case NOTE_DROPPED:
    x->snaps[note->key] = 0;
    break;
  case NOTE_COUNT:
    x->counts++;
    break;
  case NOTE_KEPT:
    x->kept = x->counts;
    break;
  }
}

static void note(enum note_kind kind, uint32_t key, uint32_t write,
                 uint64_t number) {
  if (work.note_count == work.note_room) {
    work.note_room = work.note_room * 2 + 1024;
    work.notes = realloc(work.notes, work.note_room * sizeof *work.notes);
    if (work.notes == NULL)
      abort();
  }
  struct note *to = &work.notes[work.note_count++];
  *to = (struct note){disk_events(work.disk), kind, key, write, number};
  advance(&work.state, to);
}

/* ---- the work ------------------------------------------------------------ */

struct writer {
  emb_store *store;
  emb_session *txn, *direct;
  int open, level;    /* savepoints */
  uint8_t held[KEYS]; /* by the transaction, also after ROLLBACK TO */
  uint32_t marks[LEVELS][KEYS];
  uint32_t batch[BATCH]; /* the keys to write next */
};

static int64_t key_of(uint32_t i) {
  const int64_t corners[] = {INT64_MIN, INT64_MAX, 0, -1};
  return i < 4 ? corners[i] : (int64_t)i * 7919 - 9000000;
}

static int open_store(struct disk *disk, emb_store **store, emb_session **s) {
  emb_config c = {.dim = work.dim,
                  .flags = EMB_OPEN_CREATE | EMB_OPEN_STEP,
                  .memory_bytes = 4 << 20,
                  .timeout_ms = 10};
  if (work.forgets) {
    c.capacity = CAPACITY;
    c.evict = work.forgets % 2 ? EMB_EVICT_LRU : EMB_EVICT_LFU;
    c.ttl = "200s";
    c.admission = SEEN_RULE;
    c.insert_on = EMB_INSERT_ON_UPDATE;
  }
  env_set_default(disk_env(disk));
  return help_open(dir, &c, store, s);
}

static void write_batch(struct writer *w, int in_txn, uint32_t kind,
                        uint32_t n) {
  static float vectors[BATCH * 8192];
  emb_session *s = in_txn ? w->txn : w->direct;
  int64_t keys[BATCH];
  uint32_t first = work.write_count + 1;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t number = ++work.write_count, at = w->batch[i];
    work.writes[number] = (struct write){at, kind};
    w->held[at] |= (uint8_t)in_txn;
    keys[i] = key_of(at);
    help_vector(vectors + i * work.dim, work.dim, keys[i], (int32_t)number);
    if (!in_txn)
      note(NOTE_PUT, at, number, 0);
  }
  if (kind == PUT)
    OK(s, in_txn ? emb_txn_put(s, keys, n, vectors)
                 : emb_put(s, keys, n, vectors, NULL));
  else
    OK(s, in_txn ? emb_txn_delete(s, keys, n, NULL)
                 : emb_delete(s, keys, n, NULL));
  for (uint32_t i = first; in_txn && i <= work.write_count; i++)
    note(NOTE_PENDING, work.writes[i].key, i, 0);
  if (!in_txn)
    note(NOTE_DONE, 0, 0, 0);
}

static void write_some(struct writer *w, int in_txn) {
  uint32_t n = 0, most = 1 + test_below(BATCH);
  uint32_t kind = test_below(4) ? PUT : DEL;
  uint32_t at = test_below(KEYS), step = 1 + 2 * test_below(3);
  for (uint32_t i = 0; i < KEYS / 8 && n < most; i++, at = (at + step) % KEYS)
    if (in_txn || !w->held[at])
      w->batch[n++] = at;
  write_batch(w, in_txn, kind, n);
}

static void savepoint(struct writer *w) {
  if (w->level < LEVELS && test_below(2)) {
    OK(w->txn, emb_savepoint(w->txn, w->level));
    memcpy(w->marks[w->level++], work.state.pending, sizeof w->marks[0]);
    write_some(w, 1);
  } else if (w->level) {
    int to = (int)test_below((uint64_t)w->level);
    if (test_below(3)) {
      OK(w->txn, emb_rollback_to(w->txn, to));
      for (uint32_t k = 0; k < KEYS; k++)
        note(NOTE_PENDING, k, w->marks[to][k], 0);
      w->level = to + 1;
    } else {
      OK(w->txn, emb_savepoint_release(w->txn, to));
      w->level = to;
    }
  }
}

static void end_txn(struct writer *w, enum note_kind how) {
  if (how == NOTE_FORGET)
    emb_rollback(w->txn);
  else
    OK(w->txn, emb_commit(w->txn));
  note(how, 0, 0, 0);
  memset(w->held, 0, sizeof w->held);
  w->open = w->level = 0;
}

static void prepare(struct writer *w) {
  uint64_t number = 0;
  OK(w->txn, emb_prepare(w->txn, &number));
  if (number)
    note(NOTE_DURABLE, 0, 0, 0);
  if (test_below(4) == 0) { /* the coordinator cannot; it may continue */
    if (test_below(2))
      write_some(w, 1);
    else
      end_txn(w, NOTE_FORGET);
    return;
  }
  note(number ? NOTE_DECIDED : NOTE_ALONE, 0, 0, number);
  end_txn(w, NOTE_END);
}

static const char *snap_name(uint32_t number) {
  static char name[16];
  (void)snprintf(name, sizeof name, "n%u", number);
  return name;
}

static void take_or_drop(struct writer *w) {
  uint32_t number = work.snap_count;
  if (work.snap_oldest < number && (test_below(3) == 0 || number == SNAPS)) {
    note(NOTE_DROPPED, work.snap_oldest, 0, 0);
    OK(w->direct, emb_snapshot_drop(w->direct, snap_name(work.snap_oldest++)));
  } else if (number < SNAPS) {
    memcpy(work.snapped[number], work.state.now, sizeof work.state.now);
    work.snap_count++;
    OK(w->direct, emb_snapshot(w->direct, snap_name(number)));
    note(NOTE_TAKEN, number, 0, 0);
  }
}

/* Notes rows that are gone though they were not deleted. */
static void note_gone(struct writer *w) {
  uint8_t there[KEYS];
  int64_t keys[KEYS];
  for (uint32_t k = 0; k < KEYS; k++)
    keys[k] = key_of(k);
  OK(w->direct, emb_exists(w->direct, keys, KEYS, there));
  for (uint32_t k = 0; k < KEYS; k++)
    if (!there[k] && work.writes[work.state.now[k]].kind == PUT) {
      work.writes[++work.write_count] = (struct write){k, DEL};
      note(NOTE_PUT, k, work.write_count, 0);
      work.forgotten++;
    }
  note(NOTE_DONE, 0, 0, 0);
}

/* An occurrence of a key that is not admitted. */
static void count_one(struct writer *w) {
  static float zeros[8192];
  uint32_t at = KEYS + test_below(SEEN);
  int64_t key = key_of(at);
  uint8_t there = 1;
  work.counts[work.state.counts] = at;
  note(NOTE_COUNT, 0, 0, 0);
  OK(w->direct, emb_rmw(w->direct, &key, 1, zeros, &there, NULL));
  CHECK_EQ_INT(there, 0);
}

static void forget_some(struct writer *w) {
  OK(w->direct,
     test_below(2) ? emb_evict(w->direct, NULL) : emb_expire(w->direct, NULL));
  note_gone(w);
}

static void act(struct writer *w) {
  uint64_t what = test_below(100);
  int more;
  if (what < 28) {
    write_some(w, 0);
  } else if (what < 30) {
    if (work.forgets)
      forget_some(w);
    take_or_drop(w);
  } else if (what < 40) {
    if (test_below(4) == 0) /* a checkpoint because of the time */
      disk_env(work.disk)->sleep_us(disk_env(work.disk), 61000000);
    CHECK_EQ_INT(emb_step(w->store, &more), EMB_OK);
  } else if (what < 43) {
    OK(w->direct,
       what < 41 ? emb_optimize(w->direct) : emb_checkpoint(w->direct));
    note(NOTE_DURABLE, 0, 0, 0);
    note(NOTE_KEPT, 0, 0, 0);
  } else if (!w->open) {
    OK(w->txn, emb_begin(w->txn));
    w->open = 1;
  } else if (what < 66) {
    write_some(w, 1);
  } else if (what < 76) {
    savepoint(w);
  } else if (what < 84) {
    note(NOTE_ALONE, 0, 0, 0);
    end_txn(w, NOTE_END);
  } else if (what < 96) {
    prepare(w);
  } else {
    end_txn(w, NOTE_FORGET);
  }
}

/* Any actions, in any order. */
static void live_at_random(struct writer *w) {
  for (int i = 0; i < ACTIONS; i++) {
    act(w);
    if (work.forgets) {
      count_one(w);
      note_gone(w);
    }
  }
  if (w->open)
    end_txn(w, NOTE_FORGET);
}

static void write_keys(struct writer *w, int in_txn, uint32_t kind,
                       uint32_t from, uint32_t step) {
  for (uint32_t at = from; at < KEYS;) {
    uint32_t n = 0;
    for (; n < BATCH && at < KEYS; n++, at += step)
      w->batch[n] = at;
    write_batch(w, in_txn, kind, n);
  }
}

static void step_all(struct writer *w) {
  int more = 1;
  while (more && CHECK_EQ_INT(emb_step(w->store, &more), EMB_OK)) {
  }
}

static uint64_t log_size(void) {
  uint32_t file;
  CHECK_EQ_INT(disk_find(work.disk, "/data/store/log", &file), 0);
  return disk_size(work.disk, file);
}

/* A transaction that rewrites all rows leaves them at the end of the file:
** they are moved to the front and the file is truncated.  After most rows are
** deleted, extents of the remaining ones are compacted. */
static void live_and_shrink(struct writer *w) {
  write_keys(w, 0, PUT, 0, 1);
  OK(w->direct, emb_checkpoint(w->direct));
  note(NOTE_DURABLE, 0, 0, 0);
  OK(w->txn, emb_begin(w->txn));
  write_keys(w, 1, PUT, 0, 1);
  note(NOTE_ALONE, 0, 0, 0);
  end_txn(w, NOTE_END);
  uint64_t size = log_size();
  step_all(w);
  write_keys(w, 0, PUT, test_below(7), 7);
  work.moved += help_stat(w->store, "moved_extents");
  work.shortened += log_size() < size;
  for (uint32_t from = 0; from < 3; from++)
    write_keys(w, 0, DEL, from, 4);
  step_all(w);
  work.compacted += help_stat(w->store, "compacted_records");
  write_keys(w, 0, PUT, test_below(7), 7);
}

/* Two lives of a store, from its creation to a clean close. */
static int record(void (*live)(struct writer *)) {
  struct writer w = {0};
  work.disk = disk_new(test_random());
  CHECK_EQ_INT(disk_make_dir(work.disk, "/data"), 0);
  disk_record(work.disk);
  for (int life = 0; life < 2; life++) {
    if (!open_store(work.disk, &w.store, &w.txn) ||
        !CHECK_EQ_INT(emb_session_open(w.store, &w.direct, NULL), EMB_OK))
      return 0;
    live(&w);
    emb_session_close(w.direct);
    if (!help_close(w.store, w.txn))
      return 0;
    note(NOTE_DURABLE, 0, 0, 0);
    note(NOTE_KEPT, 0, 0, 0);
  }
  return CHECK(work.write_count < WRITES);
}

static void forget_work(void) {
  disk_free(work.disk);
  free(work.notes);
  memset(&work, 0, sizeof work);
}

/* ---- the check ----------------------------------------------------------- */

/* The moment, as printed when a check fails. */
static struct {
  size_t events;
  enum disk_loss loss;
  const char *when;
  int rotten; /* a slot of the manifest */
} moment;

#define HOLDS(expr, ...) holds((expr) ? 1 : 0, __LINE__, __VA_ARGS__)

__attribute__((format(printf, 3, 4))) static int
holds(int it_does, int line, const char *format, ...) {
  char text[300], event[200] = "";
  va_list args;
  if (it_does)
    return 1;
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (moment.events)
    disk_describe(work.disk, moment.events - 1, event, sizeof event);
  return test_check(0, __FILE__, line, "%s: %s; dim %u, loss %d, after %s",
                    moment.when, text, work.dim, (int)moment.loss, event);
}

/* Did a later write that may be seen delete the key? */
static int may_be_deleted(const struct state *x, uint32_t key, uint32_t from) {
  if (work.forgets)
    return 1;
  for (uint32_t i = from; i <= work.write_count; i++)
    if (work.writes[i].key == key && work.writes[i].kind == DEL && x->seen[i])
      return 1;
  return 0;
}

static void check_key(const struct state *x, uint32_t key, uint32_t found) {
  uint32_t durable = x->durable[key];
  if (found == 0)
    (void)HOLDS(durable == 0 || may_be_deleted(x, key, durable),
                "key %u is lost, %u was durable", key, durable);
  else
    (void)HOLDS(found <= work.write_count && work.writes[found].key == key &&
                    work.writes[found].kind == PUT && x->seen[found] &&
                    found >= durable,
                "key %u has %u, %u was durable", key, found, durable);
}

/* Of transactions that the engine committed: all of the newest one found, and
** all of those before it. */
static void check_groups(const struct state *x, const uint32_t *found) {
  uint32_t newest = 0;
  for (uint32_t k = 0; k < KEYS; k++)
    if (x->groups[found[k]] > newest)
      newest = x->groups[found[k]];
  for (uint32_t i = 1; i <= work.write_count; i++) {
    const struct write *write = &work.writes[i];
    uint32_t f = found[write->key];
    if (x->groups[i] && x->groups[i] <= newest)
      (void)HOLDS(f >= i || (f == 0 && may_be_deleted(x, write->key, i)),
                  "of transaction %u key %u should have %u, but has %u "
                  "(transaction %u is there)",
                  x->groups[i], write->key, i, f, newest);
  }
}

static void read_all(emb_session *s, uint32_t found[KEYS]) {
  static float vectors[KEYS * 8192];
  static uint8_t there[KEYS];
  int64_t keys[KEYS], count = 0;
  for (uint32_t k = 0; k < KEYS; k++)
    keys[k] = key_of(k);
  OK(s, emb_get(s, keys, KEYS, vectors, there, NULL));
  for (uint32_t k = 0; k < KEYS; k++) {
    found[k] = 0;
    count += there[k];
    if (there[k]) {
      int32_t value = help_value(vectors + k * work.dim, work.dim, keys[k]);
      (void)HOLDS(value > 0 && (uint32_t)value <= work.write_count,
                  "key %u has a vector that was never written (%d)", k, value);
      found[k] = value > 0 && value < WRITES ? (uint32_t)value : 0;
    }
  }
  (void)HOLDS(emb_count(s) == count, "%d keys, but emb_count says %d",
              (int)count, (int)emb_count(s));
}

/* Checks the snapshots that must be there, and those that happen to be. */
static void check_snapshots(emb_session *s, const struct state *x) {
  static float vectors[KEYS * 8192];
  uint8_t there[KEYS];
  int64_t keys[KEYS];
  emb_snapshot_info infos[SNAPS];
  emb_snap *snap;
  size_t n = 0;
  for (uint32_t k = 0; k < KEYS; k++)
    keys[k] = key_of(k);
  for (uint32_t i = 0; i < work.snap_count; i++) {
    int rc = emb_snapshot_open(s, snap_name(i), &snap);
    (void)HOLDS(rc == EMB_OK || (rc == EMB_RANGE && !x->snaps[i]),
                "snapshot %u: %s", i, emb_errmsg(s));
    if (rc)
      continue;
    OK(s, emb_snapshot_get(snap, keys, KEYS, vectors, there, NULL));
    for (uint32_t k = 0; k < KEYS; k++) {
      uint32_t want = work.snapped[i][k];
      want = work.writes[want].kind == PUT ? want : 0;
      int32_t value =
          there[k] ? help_value(vectors + k * work.dim, work.dim, keys[k]) : 0;
      (void)HOLDS(value == (int32_t)want, "snapshot %u: key %u has %d, not %u",
                  i, k, value, want);
    }
    emb_snapshot_close(snap);
    n++;
  }
  size_t listed = 0;
  OK(s, emb_snapshots(s, infos, SNAPS, &listed));
  (void)HOLDS(listed == n, "%zu snapshots, but %zu in the list", n, listed);
}

/* Occurrences were counted one by one, so their sum tells the moment. */
static void check_counts(emb_store *store, const struct state *x) {
  uint32_t found[KEYS + SEEN] = {0}, sum = 0;
  if (!work.forgets || !emb_is_owner(store))
    return;
  work.counted++;
  for (uint32_t k = KEYS; k < KEYS + SEEN; k++)
    sum += found[k] = (uint32_t)seen_times(store, key_of(k));
  if (!HOLDS(x->kept <= sum && sum <= x->counts,
             "%u occurrences are known, %u were durable, there were %u", sum,
             x->kept, x->counts))
    return;
  for (uint32_t i = 0; i < sum; i++)
    found[work.counts[i]]--;
  for (uint32_t k = KEYS; k < KEYS + SEEN; k++)
    (void)HOLDS(found[k] == 0, "counts are of different moments");
}

/* A slot that was torn when a process became owner of a closed store stays
** torn until a process becomes owner again: there was nothing to recover. */
static void complain(void *arg, const char *text) {
  (void)HOLDS((moment.rotten || !emb_is_owner(arg)) &&
                  strstr(text, "/manifest: slot "),
              "emb_verify: %s", text);
}

/* The coordinator answers from its record, as the SQLite extension does. */
static void resolve(emb_store *store, emb_session *s, const struct state *x) {
  uint64_t doubt = emb_in_doubt(store);
  emb_err err = {0, ""};
  if (doubt) {
    GIVES(s, EMB_LOCKED, emb_begin(s));
    int rc = emb_resolve(store, emb_in_doubt(store), x->decided >= doubt, &err);
    (void)HOLDS(rc == EMB_OK, "emb_resolve of %llu: %s",
                (unsigned long long)doubt, err.text);
  }
  (void)HOLDS(emb_committed(store) == x->decided,
              "transaction %llu was decided, the store is at %llu (%llu was "
              "in doubt)",
              (unsigned long long)x->decided,
              (unsigned long long)emb_committed(store),
              (unsigned long long)doubt);
}

/* Opens the disk that a crash left, records the rows found, and closes it. */
static int examine(struct disk *disk, const struct state *x,
                   uint32_t found[KEYS]) {
  emb_store *store;
  emb_session *s;
  if (!open_store(disk, &store, &s))
    return HOLDS(0, "cannot open");
  resolve(store, s, x);
  read_all(s, found);
  for (uint32_t k = 0; k < KEYS; k++)
    check_key(x, k, found[k]);
  check_groups(x, found);
  check_snapshots(s, x);
  check_counts(store, x);
  OK(s, emb_verify(s, complain, store));
  return help_close(store, s);
}

/* Checks that the store takes writes again and keeps them. */
static void go_on(struct disk *disk, const struct state *x,
                  const uint32_t found[KEYS]) {
  static float vector[8192];
  uint32_t after[KEYS], number = work.write_count;
  emb_store *store;
  emb_session *s;
  if (!open_store(disk, &store, &s))
    return;
  int64_t key = key_of(test_below(KEYS));
  help_vector(vector, work.dim, key, (int32_t)number);
  OK(s, emb_put(s, &key, 1, vector, NULL));
  check_counts(store, x);
  if (!help_close(store, s) || !open_store(disk, &store, &s))
    return;
  read_all(s, after);
  for (uint32_t k = 0; k < KEYS; k++)
    (void)HOLDS(after[k] == (key_of(k) == key ? number : found[k]) ||
                    (work.forgets && after[k] == 0),
                "key %u has %u", k, after[k]);
  (void)help_close(store, s);
}

/* The recovery of `after` loses power, too.  It has found `found`. */
static void crash_again(struct disk *again, const struct disk *recovery,
                        const struct state *x, const uint32_t found[KEYS]) {
  uint32_t second[KEYS];
  moment.when = "recovered twice";
  if (examine(again, x, second))
    for (uint32_t k = 0; k < KEYS; k++)
      (void)HOLDS(second[k] == found[k],
                  "key %u had %u after %zu events of the first recovery, and "
                  "has %u",
                  k, found[k], disk_events(recovery), second[k]);
}

/* Where both slots of the manifest are whole, a sector of the newer one rots.
 */
static int rot_manifest(struct disk *disk) {
  struct manifest slots[2];
  uint32_t file;
  size_t got;
  if (disk_find(disk, "/data/store/manifest", &file) != 0)
    return 0;
  disk_read(disk, file, slots, sizeof slots, 0, &got);
  for (int i = 0; i < 2; i++)
    if (slots[i].sum !=
        hash_sum((const char *)&slots[i] + 8, MANIFEST_SLOT - 8, 0, 0))
      return 0;
  char sector[512];
  uint64_t at =
      (slots[1].generation > slots[0].generation ? MANIFEST_SLOT : 0) +
      test_below(MANIFEST_SLOT / sizeof sector) * sizeof sector;
  for (size_t i = 0; i < sizeof sector; i++)
    sector[i] = (char)test_random();
  disk_write(disk, file, sector, sizeof sector, at);
  return 1;
}

struct count {
  size_t recordings, events, states, again, on, rotten, same;
  struct hash_set seen; /* disks and what must be on them */
};

/* One disk that the crash may have left. */
static void try_loss(const struct disk *player, const struct state *x,
                     enum disk_loss loss, struct count *count) {
  uint32_t found[KEYS];
  struct disk *after = disk_crash(player, loss, test_random());
  int recover_twice = test_below(12) == 0;
  moment.rotten = test_below(8) == 0 && rot_manifest(after);
  moment.loss = loss;
  moment.when = moment.rotten ? "recovered from the other slot" : "recovered";
  uint64_t words[3] = {disk_sum(after), (uint64_t)moment.rotten,
                       hash_sum((const char *)x, sizeof *x, 0, 0)};
  if (!hash_set_add(&count->seen,
                    hash_sum((const char *)words, sizeof words, 0, 0))) {
    count->same++;
    disk_free(after);
    return;
  }
  count->rotten += (size_t)moment.rotten;
  disk_record(after);
  int good = examine(after, x, found);
  count->states++;
  if (good && recover_twice) {
    struct disk *second = disk_player(after);
    disk_play(second, after, test_below(disk_events(after) + 1));
    struct disk *again = disk_crash(
        second, (enum disk_loss)test_below(DISK_LOSSES), test_random());
    crash_again(again, after, x, found);
    disk_free(second);
    disk_free(again);
    count->states++;
    count->again++;
  } else if (good && test_below(12) == 0) {
    moment.when = "used again";
    go_on(after, x, found);
    count->on++;
  }
  disk_free(after);
}

static void crash_everywhere(struct count *count) {
  static struct state x;
  struct disk *player = disk_player(work.disk);
  hash_set_free(&count->seen);
  size_t notes = 0, events = disk_events(work.disk);
  memset(&x, 0, sizeof x);
  for (size_t e = 0; e <= events && !atomic_load(&test_state.failures); e++) {
    moment.events = e;
    disk_play(player, work.disk, e);
    while (notes < work.note_count && work.notes[notes].events <= e)
      advance(&x, &work.notes[notes++]);
    if ((e + test_state.seed) % help_share() != 0)
      continue;
    try_loss(player, &x, DISK_KEEP, count);
    if (disk_unsynced(player) == 0)
      continue;
    try_loss(player, &x, DISK_DROP, count);
    for (int i = 0; i < CHOICES; i++)
      try_loss(player, &x, (enum disk_loss)(DISK_PREFIX + i % 3), count);
  }
  count->events += events;
  disk_free(player);
}

/* 1: continue with the next. */
static int record_and_crash(uint32_t dim, void (*live)(struct writer *),
                            struct count *count) {
  work.dim = dim;
  moment.events = 0;
  if (record(live))
    crash_everywhere(count);
  count->recordings++;
  env_set_default(&env_posix);
  return atomic_load(&test_state.failures) == 0;
}

static void print_count(struct count *count) {
  printf("%zu recordings, %zu events, %zu states, of which %zu of a recovery "
         "that was cut off; %zu used again, %zu with a rotten manifest; %zu "
         "were known\n",
         count->recordings, count->events, count->states, count->again,
         count->on, count->rotten, count->same);
  test_count("states after power loss", count->states);
  hash_set_free(&count->seen);
}

TEST(crash_at_every_event) {
  /* Pages of one record and 4096 bytes; of 8192; of 3 records and 102400. */
  static const uint32_t dims[] = {1000, 100, 8192};
  struct count count = {0};
  for (unsigned i = 0; i < 3 * help_long(); i++) {
    int good = record_and_crash(dims[i % 3], live_at_random, &count);
    forget_work();
    if (!good)
      break;
  }
  print_count(&count);
}

TEST(crash_of_a_table_that_forgets) {
  struct count count = {0};
  size_t forgotten = 0, counted = 0;
  int good = 1;
  for (unsigned i = 0; good && i < 2 * help_long(); i++) {
    work.forgets = 1 + (int)i;
    good = record_and_crash(i % 4 < 2 ? 1000 : 100, live_at_random, &count);
    forgotten += work.forgotten;
    counted += work.counted;
    forget_work();
  }
  CHECK(!good || (forgotten > 0 && counted > 0));
  print_count(&count);
  test_count("rows forgotten before power loss", forgotten);
  test_count("states after power loss with right counts", counted);
}

TEST(crash_while_the_file_is_shortened) {
  struct count count = {0};
  int good = 1;
  for (unsigned i = 0; good && i < help_long(); i++) {
    good = record_and_crash(8192, live_and_shrink, &count);
    printf("%d extents moved, %d records compacted\n", (int)work.moved,
           (int)work.compacted);
    good = good && CHECK(work.moved > 0 && work.compacted > 0) &&
           CHECK(work.shortened > 0);
    forget_work();
  }
  print_count(&count);
}

/* ---- creation and deletion ----------------------------------------------- */

/* Wherever it stops, the directory can be opened, and holds nothing or the
** rows that were there at the close. */
TEST(crash_in_creation_and_deletion) {
  static float vector[100];
  const int64_t key = 7;
  emb_store *store;
  emb_session *s;
  emb_err err = {0, ""};
  size_t closed = 0, deleted = 0, states = 0;
  work.dim = 100;
  work.write_count = 1;
  work.disk = disk_new(test_random());
  CHECK_EQ_INT(disk_make_dir(work.disk, "/data"), 0);
  disk_record(work.disk);
  help_vector(vector, 100, key, 1);
  if (!open_store(work.disk, &store, &s))
    return;
  OK(s, emb_put(s, &key, 1, vector, NULL));
  if (!help_close(store, s))
    return;
  closed = disk_events(work.disk);
  CHECK_EQ_INT(emb_destroy(dir, &err), EMB_OK);
  deleted = disk_events(work.disk);
  if (!open_store(work.disk, &store, &s) || !help_close(store, s))
    return;
  struct disk *player = disk_player(work.disk);
  moment.when = "created or deleted";
  for (size_t e = 0; e <= disk_events(work.disk); e++) {
    disk_play(player, work.disk, e);
    moment.events = e;
    for (unsigned i = 0; i < 20 * help_long(); i++, states++) {
      uint8_t found = 0;
      float got[100];
      moment.loss = (enum disk_loss)(i % DISK_LOSSES);
      struct disk *after = disk_crash(player, moment.loss, test_random());
      moment.rotten = test_below(4) == 0 && rot_manifest(after);
      if (!open_store(after, &store, &s))
        (void)HOLDS(0, "cannot open");
      else {
        OK(s, emb_get(s, &key, 1, got, &found, NULL));
        (void)HOLDS(found ? help_is(got, 100, key, 1) : e != closed,
                    "the key is lost");
        (void)HOLDS(!found || e <= deleted || moment.loss != DISK_KEEP,
                    "the key is back");
        OK(s, emb_put(s, &key, 1, vector, NULL));
        (void)help_close(store, s);
      }
      disk_free(after);
    }
  }
  printf("%zu events\n", disk_events(work.disk));
  test_count("states after power loss", states);
  disk_free(player);
  forget_work();
  env_set_default(&env_posix);
}
