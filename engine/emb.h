/* SPDX-License-Identifier: MIT
**
** emb.h -- the public interface of the emb engine.  Functions that need no open
** store are in emb_file.h, those that choose training data in emb_data.h.
**
** An emb store is a directory that holds one embedding table: a map from
** int64 keys to vectors of a fixed dimension, which may be larger than memory.
** The engine does not depend on SQLite; ext/ is one of its users.
**
** OBJECTS   A process has one store (emb_store) per directory: opening the
**           directory again returns the same store, reference-counted.  A
**           session (emb_session) is one user of a store: a connection or a
**           thread.  One thread at a time may use a session; different
**           sessions of a store may be used in parallel without locking.
**
** VECTORS   Are passed as dim little-endian IEEE float32, whatever the storage
**           type.  A batch of n vectors is n*dim floats, row-major, in key
**           order.  No alignment is required.
**
** WRITES    An "immediate" write (emb_put, emb_rmw, emb_delete) is visible to
**           every session at once, and durable after the next checkpoint,
**           commit or clean close.  A "transaction" write (emb_txn_put,
**           emb_txn_delete) is visible only to its own session until
**           emb_commit, takes part in savepoints, and occupies 24 bytes of
**           memory per changed key; the vectors themselves go to the log, so a
**           transaction may be larger than memory.  Each store has at most one
**           open transaction.
**
** STALENESS With EMB_OPEN_BOUNDED a store limits how stale a read may be, to a
**           bound N (bulk- or stale-synchronous parallel; MLKV, section 3).
**           Each key has pending reads (emb_clocks): its counted Gets that were
**           not given back yet.  emb_get (and emb_prefetch) proceeds when N or
**           fewer are pending, and otherwise waits; with N = 0 one session
**           reads, and the next one only after its Put.  A counted Get is a
**           lease of its session.  A Put of the key by the same session gives
**           one lease back, once the new vector can be read (in a transaction:
**           when it commits).  emb_release, closing the session and a restart
**           also give leases back.  A Put without a lease changes no count; a
**           call counts a key once, however often the batch has it.  Absent
**           keys, and keys put by the session's own transaction, are not
**           counted.  emb_peek, scans and emb_exists neither wait nor count.  A
**           waiting call holds no lock.  It fails with EMB_BUSY after the
**           timeout, or at once if all leases on the key are the session's own,
**           and then has given back every lease it took.  Without the flag
**           (asynchronous parallel) nothing is counted.
**
** ISOLATION A read returns each key's latest committed version, or the
**           session's own uncommitted one; never part of a vector.
**
** ERRORS    Every int function returns EMB_OK (0) or one of the codes below.
**           The text is in emb_errmsg(session), or in the emb_err argument of
**           functions without a session (it may be NULL).  A failed call has
**           changed nothing, unless its comment says otherwise.
*/
#ifndef EMB_H
#define EMB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EMB_VERSION "0.1.0"
#define EMB_VERSION_NUMBER 1000

/* The commit that the library was built from, or "unknown". */
const char *emb_source_id(void);

/* Result codes. */
enum {
  EMB_OK = 0,
  EMB_BUSY,      /* owned by another process, or a key or the store is taken */
  EMB_NOMEM,     /* memory could not be allocated */
  EMB_IOERR,     /* the operating system refused a read, write or sync */
  EMB_FULL,      /* no space left: works again once there is space; or the
                    store has used up a range of numbers */
  EMB_CORRUPT,   /* a checksum or a structure on disk is wrong */
  EMB_READONLY,  /* a write to a store that is open read-only */
  EMB_CANTOPEN,  /* the directory or a file in it cannot be opened */
  EMB_NOTADB,    /* the files are not an emb store, or a newer format */
  EMB_MISUSE,    /* a call out of order, or in a child after fork() */
  EMB_RANGE,     /* an argument is outside its legal values */
  EMB_MISMATCH,  /* dimension or type differ from the store's */
  EMB_FAILED,    /* an earlier write failed, or the files no longer belong to
                    this store: reopen the store to write; the text has the
                    first cause */
  EMB_INTERRUPT, /* the session's interrupt callback asked to stop */
  EMB_LOCKED,    /* the session's own transaction prevents the call */
  EMB_ABORT,     /* a rollback of its own session ended a scan */
  EMB_NONFINITE, /* an element is not finite, or outside the range of float16 */
  EMB_GAP,       /* a file does not follow the table's state; a consumer of
                    deltas is too far behind */
  EMB_UNFIT,     /* the store lacks what the call needs: it has no optimizer,
                    does not track its rows, or is temporary */
  EMB_LOST,      /* the process that owned the store has gone: the text says
                    what was lost with it */
};

/* An error: code and one line of English, lower case, without "emb: ". */
typedef struct emb_err {
  int code;
  char text[508];
} emb_err;

/* Storage type of a vector's elements. */
enum { EMB_F32 = 0, EMB_F16 = 1 };

/* How the store accesses the disk. */
enum { EMB_IO_AUTO = 0, EMB_IO_URING = 1, EMB_IO_PREAD = 2 };

#define EMB_DIM_MAX 65536
/* Longest path of a store's directory, in bytes. */
#define EMB_PATH_MAX 4000
#define EMB_MEMORY_DEFAULT (UINT64_C(64) << 20)

/* Flags of emb_open. */
enum {
  EMB_OPEN_CREATE = 1,    /* create the store if the directory is absent; never
                             over a log whose manifest is missing (CORRUPT) */
  EMB_OPEN_EXCLUSIVE = 2, /* with CREATE: replace an existing store */
  EMB_OPEN_READONLY = 4,  /* never own or change the store */
  EMB_OPEN_TEMPORARY = 8, /* the files are removed at close and when the process
                             ends; nothing is synced.  dir is the parent of a
                             new private directory. */
  EMB_OPEN_STEP = 16,     /* no background threads: the caller runs emb_step,
                             and calls that must wait run it themselves */
  EMB_OPEN_BOUNDED = 32,  /* emb_config.staleness is a bound */
  EMB_OPEN_ALONE = 128,   /* this process neither serves the store to others
                             nor asks a process that serves it */
  EMB_OPEN_COLD = 64,     /* no warm-up after this open, and no hot set saved
                             for the next one: see emb_warm */
};

#define EMB_STALENESS_MAX 4094
#define EMB_IO_DEPTH_MAX 1024
#define EMB_IO_WORKERS_MAX 32

/* When an absent key becomes a row: at its first emb_put, at its first emb_put
** or update (emb_rmw, emb_apply_gradients), or also at its first emb_get.  The
** initializers give its first value. */
enum {
  EMB_INSERT_ON_DEFAULT = 0, /* the store's setting; in a new store UPDATE if
                                it has an optimizer, otherwise PUT */
  EMB_INSERT_ON_PUT,
  EMB_INSERT_ON_UPDATE,
  EMB_INSERT_ON_LOOKUP,
};

/* Whether rows record when they were last updated and how often (emb_tracks),
** and whose clock gives the time: the machine's, or the newest time given with
** a write (emb_session_time).  Tracking is switched on or off permanently at
** creation; the clock may change at the next open. */
enum {
  EMB_TRACK_DEFAULT = 0, /* the store's setting; in a new store NONE */
  EMB_TRACK_NONE,
  EMB_TRACK_WALL,
  EMB_TRACK_DATA,
};

/* Which rows are evicted beyond the capacity: the least recently updated (LRU),
** or the least often updated (LFU).  With LFU a row's frequency is halved each
** time it goes without an update for the average age of the rows. */
enum {
  EMB_EVICT_DEFAULT = 0, /* the store's setting; in a new store LRU */
  EMB_EVICT_LRU,
  EMB_EVICT_LFU,
};
#define EMB_CAPACITY_NONE UINT64_MAX

#define EMB_SEGMENTS_MAX 16

/* One vector of a row that has several.  The texts are as in emb_config, for
** this vector; NULL in a new store: no optimizer, zeros, l2, no index. */
typedef struct emb_segment {
  uint32_t dim, type;
  const char *optimizer, *initializer;
  const char *metric, *index;
} emb_segment;

/* Limits how long the stores and sessions of one caller wait for an owner that
** gives no sign of life: all waits of one statement together take no longer
** than one wait.  The caller initialises it with zeros, sets the first three
** members, and sets spent_us to 0 at the end of each statement; the engine
** maintains the rest. */
typedef struct emb_patience {
  uint64_t limit_us;        /* 0: emb_config.timeout_ms, a second at least */
  int (*interrupt)(void *); /* of emb_open, as of emb_session_interrupt; */
  void *interrupt_arg;
  uint64_t spent_us; /* waited in vain since the last sign of life, */
  uint64_t since_us; /* and until when */
  int is_silent;     /* the last wait was in vain, */
  int64_t process;   /* for this owner; 0: unknown */
} emb_patience;

typedef struct emb_config {
  uint32_t dim;           /* 1 .. EMB_DIM_MAX; 0: the store's dimension */
  uint32_t type;          /* EMB_F32 or EMB_F16 */
  uint32_t io;            /* EMB_IO_* */
  uint32_t flags;         /* EMB_OPEN_* */
  uint64_t memory_bytes;  /* budget for log frames and record cache together,
                             without the index (at most 24 bytes per key).
                             0: EMB_MEMORY_DEFAULT.  Raised silently to the
                             smallest value that works for the dimension. */
  uint64_t timeout_ms;    /* how long a call waits for a taken key or store
                             before EMB_BUSY */
  emb_patience *patience; /* for the open itself; may be NULL */
  uint32_t staleness;     /* with EMB_OPEN_BOUNDED: 0 .. EMB_STALENESS_MAX */
  uint32_t io_depth_min; /* bounds of the tuner for the requests in flight of */
  uint32_t io_depth_max; /* asynchronous batches; 0: 32 and 256 */
  uint32_t io_workers_min; /* and for the threads that run them; 0: 1 and 4 */
  uint32_t io_workers_max;
  uint32_t insert_on; /* EMB_INSERT_ON_* */
  uint32_t track;     /* EMB_TRACK_* */
  uint64_t seed;      /* of the initializers; 0: the store's */
  /* How long rows live after their last update, "30d, 5:7d, 8-15:none": a whole
  ** number of s, min, h, d or w, optionally different for some slots (bits 48
  ** to 62) of keys.  NULL: the store's setting; in a new store, and with
  ** "none": permanently.  Rows expire in the background (emb_step), at most a
  ** sixteenth of the shortest time late.  Implies EMB_TRACK_WALL unless track
  ** is set. */
  const char *ttl;
  /* Which keys become rows by an update or a lookup (a Put always makes one):
  ** "count(n=3)", "bloom(n=3, memory=16000000)", "probability(n=10)"; see
  ** sql/manual/options.md.  NULL: the store's setting; in a new store, and with
  ** "none": all. */
  const char *admission;
  /* Maximum number of rows.  Rows beyond it are evicted in the background
  ** (emb_step), down to a sixteenth below; a writer helps once the excess is
  ** more than a sixteenth, and waits once it is more than an eighth.  0: the
  ** store's setting; in a new store, and with EMB_CAPACITY_NONE: no maximum.
  ** Implies EMB_TRACK_WALL unless track is set. */
  uint64_t capacity;
  uint32_t evict; /* EMB_EVICT_* */
  /* The optimizer of emb_apply_gradients, "adagrad(lr=0.05)", and the
  ** initializer of rows created without a Put, "uniform(low=-0.05, high=0.05)",
  ** for each segment without a text of its own.  NULL: no optimizer; zeros.
  ** sql/manual/options.md lists both with their parameters.  An existing store
  ** keeps its optimizer: new parameters are adopted, another optimizer is
  ** EMB_MISMATCH. */
  const char *optimizer, *initializer;
  /* The distance for emb_nearest: "l2", "cosine" or "dot".  NULL: the store's;
  ** in a new store l2.  May be changed. */
  const char *metric;
  /* The index for emb_nearest, which finds most neighbours without comparing
  ** all rows: "ivf(...)" or "none".  Parameters, all optional, with commas:
  **
  **   lists=n    lists that the rows are divided into, 0 to 65535; 0, the
  **              default: the square root of the number of rows
  **   code=8     bits per element kept in memory: 8, 4, 2, 1 or none
  **   recall=r   share of the k nearest rows that a search finds, on average
  **              over queries, with 95 percent confidence; up to 0.999, 0.95.
  **              It is measured on rows of the table and on queries that were
  **              asked, for k = 1, 10 and 100
  **   probes=n   instead of recall: lists that a search probes unless it says
  **              how many itself, 1 to 65535
  **   memory=n   maximum size in MiB; 0, the default: as much as needed, about
  **              16 bytes and the code per row, more if there are few rows.  An
  **              index that would need more than this is not built
  **
  ** NULL: the store's; in a new store none.  The first open may change it.  Any
  ** other text is EMB_RANGE.  The index is built in the background from 1,024
  ** rows on, kept in a file, and follows each change.  Until it is ready all
  ** rows are compared (the metric nearest_index says which way is used). */
  const char *index;
  /* NULL or "none": each gradient is applied at once.  "average(...)": see
  ** emb_apply_gradients and emb_flush_gradients.  Parameters, all optional,
  ** with commas:
  **
  **   max=n      maximum number of gradients averaged, 1 to 65536; 16
  **   expire=t   maximum time a gradient is kept, 1ms to 24h, a whole number of
  **              ms, s, min or h; 500ms
  **   outlier=r  which gradients are left out: none, the default; norm(z),
  **              mad(z) with z=3.5, cosine(c) with c=-0.2, trim(p) with p=0.1
  **              (bank/average.c has the formulas)
  **
  ** Any other text is EMB_RANGE.  Not stored: the first open, in the process
  ** that owns the store, decides. */
  const char *gradients;
  /* Several vectors per row, at most EMB_SEGMENTS_MAX, instead of dim and type.
  ** Everywhere else dim is then the sum of theirs, and a vector is a row's
  ** segments one after the other. */
  const emb_segment *segments;
  uint32_t segment_count;
} emb_config;

typedef struct emb_store emb_store;
typedef struct emb_session emb_session;
typedef struct emb_scan emb_scan;

/* ---- store --------------------------------------------------------------- */

/* Opens the store in directory dir at its last commit or checkpoint.  A store
** already open in this process keeps its memory, io, timeout, ttl, capacity and
** evict, whatever config says.  The first write makes this process the owner,
** until close; an open that must recover after a crash becomes the owner at
** once.  While another process owns the store, the owner executes this
** process's calls, as if both were one process; with EMB_OPEN_ALONE on either
** side reads see the owner's last checkpoint, and writes get EMB_BUSY after the
** timeout. While another process recovers the store, this call and reads wait,
** and get EMB_BUSY after the timeout.  Errors: CANTOPEN (also for a path longer
** than EMB_PATH_MAX), NOTADB, CORRUPT, MISMATCH (dim or type), NOMEM, RANGE. */
int emb_open(const char *dir, const emb_config *config, emb_store **store,
             emb_err *err);

/* Releases one reference.  The last release flushes, checkpoints, compacts a
** log of more than twice the live data, and frees everything, even if it
** returns an error.  All sessions must be closed before it (EMB_MISUSE, nothing
** is closed). */
int emb_close(emb_store *store, emb_err *err);

/* Deletes the directory of a store that is neither open here (EMB_LOCKED) nor
** owned by another process (EMB_BUSY).  An absent directory is not an error.
** From a directory with foreign files only the store's own files are
** removed. */
int emb_destroy(const char *dir, emb_err *err);

/* As emb_destroy, if the store has this uuid (NULL: any) or its uuid cannot be
** read, and even if it is open in this process.  The files of an open store are
** unlinked at once; their space is freed at the last emb_close, which writes
** nothing and removes the directory.  Until then open objects can be read to
** their end; a write, and another emb_open, is EMB_CANTOPEN.  EMB_LOCKED: a
** transaction has written to the store, or other work on it has not ended
** within a second; the next call, or at the latest the last emb_close, deletes
** it.  The process that owns the store is asked to delete it; EMB_BUSY: it does
** not serve others. */
int emb_drop(const char *dir, const uint8_t uuid[16], emb_err *err);
/* 1 once emb_drop has removed the store's files. */
int emb_is_dropped(const emb_store *store);
/* As emb_is_dropped, for the session's store.  In a client it reads memory
** shared with the owner and sends nothing. */
int emb_session_is_dropped(const emb_session *session);

/* 16 random bytes given at creation; identifies the store. */
void emb_uuid(const emb_store *store, uint8_t uuid[16]);
/* The directory as passed to emb_open; errors name the store by it. */
const char *emb_directory(const emb_store *store);
uint32_t emb_dim(const emb_store *store);
uint32_t emb_type(const emb_store *store);
/* EMB_TRACK_NONE, EMB_TRACK_WALL or EMB_TRACK_DATA. */
uint32_t emb_tracking(const emb_store *store);
/* 1 if this process reads the newest data: it owns the store for writing, or
** is served by the owner (emb_clients names it). */
int emb_is_owner(const emb_store *store);
/* Makes this process the owner, as the first write would, unless another
** process is the owner and serves this one.  EMB_BUSY: the owner does not
** serve, for longer than the timeout; EMB_READONLY; EMB_LOCKED: the transaction
** that the last owner left in doubt must be decided first (emb_resolve). */
int emb_own(emb_session *session);

/* EMB_RANGE if a budget of this size exceeds what the machine, its control
** group or RLIMIT_AS allows the process: the text has both numbers.  emb_open
** makes the same check. */
int emb_check_memory(uint64_t bytes, emb_err *err);
/* EMB_RANGE, with the reason, if emb_config.index may not be this text. */
int emb_check_index(const char *text, emb_err *err);
/* As emb_check_index, for emb_config.gradients. */
int emb_check_gradients(const char *text, emb_err *err);
/* 1 if gradients are averaged while this process owns the store. */
int emb_averages(const emb_store *store);
/* The error that emb_open would return for these options if the store were not
** open; dim, type and segments must be set.  Errors: RANGE, MISMATCH. */
int emb_check_config(const emb_store *store, const emb_config *config,
                     emb_err *err);
/* Changes the budget of an open store (emb_config.memory_bytes; 0: the default)
** for all its sessions, while they work.  Surplus memory is written out and
** returned to the system before the call returns; meanwhile writers may wait
** for frames, reads do not.  Not stored.  Errors: RANGE (less than the store
** needs, or more than available), NOMEM, INTERRUPT, and those of a write if
** memory cannot be written out; the budget is then unchanged. */
int emb_set_memory(emb_session *session, uint64_t bytes);
/* The smallest budget that emb_set_memory accepts. */
uint64_t emb_memory_least(const emb_store *store);
/* Changes emb_config.timeout_ms for waits that begin after the call. */
void emb_set_timeout(emb_store *store, uint64_t ms);

/* Does one bounded piece of background work: flush, checkpoint or compaction.
** Sets *more to 1 if work is left.  Only needed with EMB_OPEN_STEP; harmless
** otherwise. */
int emb_step(emb_store *store, int *more);

/* ---- sessions ------------------------------------------------------------ */

int emb_session_open(emb_store *store, emb_session **session, emb_err *err);
/* Rolls back an open transaction, gives back all leases, and waits for the
** session's tickets and look-aheads in flight.  Its scans must be closed. */
void emb_session_close(emb_session *session);
/* Text and code of the session's last error ("" and EMB_OK if none). */
const char *emb_errmsg(const emb_session *session);
int emb_errcode(const emb_session *session);
/* Called from time to time during waits and long work; non-zero stops the call
** with EMB_INTERRUPT. */
void emb_session_interrupt(emb_session *session, int (*interrupt)(void *),
                           void *arg);
/* Shared by the sessions of one caller, which uses them one at a time.  NULL,
** the default: each call of the session may wait for the whole limit. */
void emb_session_patience(emb_session *session, emb_patience *patience);
/* For this thread's next call on a store (not on a session), or emb_drop. */
void emb_wait_with(emb_patience *patience);
/* Called while a counted Get waits for leases of others.  Non-zero: the caller
** holds something, such as a lock of the coordinator, that keeps others
**   EMB_BLOCKS_COMMIT  from deciding a prepared transaction,
**   EMB_BLOCKS_WRITE   from starting a transaction that writes; asked if a
**                      lease was taken within a statement (emb_statement), and
**                      so will probably be given back by such a transaction.
** The Get then ends with EMB_BUSY before its timeout. */
enum { EMB_BLOCKS_COMMIT, EMB_BLOCKS_WRITE };
void emb_session_blocks(emb_session *session,
                        int (*blocks)(void *arg, int what), void *arg);
/* For the coordinator of prepared transactions (emb_prepare), whose own data
** record which of them are committed.  Called when a call meets a prepared
** transaction whose outcome the store does not know yet, in the thread of that
** call and before the call has done anything.  in_doubt: the transaction's
** session is lost, so the callback must decide it (emb_resolve); otherwise its
** session will end it in a moment.  The callback returns
**   EMB_DECIDE_AGAIN  it is committed or undone, or about to be: the call is
**                     retried, until the timeout (EMB_BUSY)
**   EMB_DECIDE_PAST   the data that the caller sees do not include it: a read
**                     shows the state before it, a write waits or is EMB_LOCKED
**   EMB_DECIDE_FAIL   the outcome cannot be determined now: EMB_LOCKED
** Setting the callback discards its earlier answers: the caller sets it again
** whenever it rereads its data.  Without it reads show the state before. */
enum { EMB_DECIDE_FAIL, EMB_DECIDE_AGAIN, EMB_DECIDE_PAST };
void emb_session_decides(emb_session *session,
                         int (*decides)(void *arg, uint64_t number,
                                        int in_doubt),
                         void *arg);
/* Number of the transaction that made the session's last call EMB_LOCKED; 0: it
** was not EMB_LOCKED, or for another reason. */
uint64_t emb_undecided(const emb_session *session);
emb_store *emb_session_store(const emb_session *session);

/* ---- batches, acting at once --------------------------------------------- */

/* Reads n keys.  vectors: n*dim floats, or NULL to get only found and versions;
** an absent key's row is set to its initial value (zeros without an
** initializer).  found: n bytes, 1 present, 0 absent, or NULL.  versions: n
** numbers that grow with every Put of the key, 0 if absent, or NULL.  Keys may
** repeat.  On a bounded store a call with vectors is a counted Get: see
** STALENESS; EMB_BUSY names the key, its pending reads, the bound and the
** holder. */
int emb_get(emb_session *session, const int64_t *keys, size_t n, float *vectors,
            uint8_t *found, uint64_t *versions);
/* As emb_get, but never counted against a staleness bound. */
int emb_peek(emb_session *session, const int64_t *keys, size_t n,
             float *vectors, uint8_t *found, uint64_t *versions);
/* As emb_get, for a knowledge bank (CARLS, Lookup with update).  Each absent
** key that admission admits first becomes a row with its initial value,
** whatever insert_on is.  In a store that tracks its rows each row's frequency
** grows by the number of times the batch has its key; this changes the row but
** not the time of its last update.  found: whether the key is present
** afterwards. Errors: those of emb_get and of a write. */
int emb_lookup(emb_session *session, const int64_t *keys, size_t n,
               float *vectors, uint8_t *found);
/* Makes the commits of all processes visible to the session.  Errors: as
** emb_exists. */
int emb_refresh(emb_session *session);
/* Sets found[i] to 1 if the key is present.  Never reads the disk. */
int emb_exists(emb_session *session, const int64_t *keys, size_t n,
               uint8_t *found);

#define EMB_ROWS_MAX (UINT32_MAX - 1) /* rows of a batch that is written */

/* Writes n vectors and adds absent keys; for a repeated key the last row wins.
** All arguments are checked before the first write: a non-finite element is
** EMB_NONFINITE (the text names row and element).  An error during the call
** (FULL, IOERR, NOMEM, INTERRUPT) leaves a prefix of the rows written.
** EMB_BUSY: another session's transaction holds a key for longer than the
** timeout; EMB_LOCKED: the session's own does.  versions: the n rows' new
** versions, or NULL. */
int emb_put(emb_session *session, const int64_t *keys, size_t n,
            const float *vectors, uint64_t *versions);
/* As emb_put for some segments of the rows, a bit of `parts` for each (0: all).
** The other segments keep their present value, or get their initial one; their
** elements of `vectors` are not used, but must be finite. */
int emb_put_parts(emb_session *session, const int64_t *keys, size_t n,
                  const float *vectors, uint32_t parts, uint64_t *versions);
/* vector += delta for each row, atomically per key; repeated keys add up.
** found[i] (or NULL): whether the key was present.  An absent key stays absent
** and its delta is dropped, unless updates create rows (insert_on): then the
** row is its initial value plus the delta.  A sum that is not finite is
** EMB_NONFINITE and leaves its key unchanged (earlier rows stay applied; rows
** on disk come after rows in memory).  versions: as emb_put, 0 if absent. */
int emb_rmw(emb_session *session, const int64_t *keys, size_t n,
            const float *deltas, uint8_t *found, uint64_t *versions);

/* What a tracked row records of its updates: Puts, rmw and gradients, in a
** transaction or not. */
typedef struct emb_track {
  uint32_t updated_at; /* time of the newest, seconds since 1970; 0: no time
                          was ever given */
  uint32_t frequency;  /* their number; a repeated key counts each time */
} emb_track;

/* Arrays that a call fills, one element per row.  Each call says which of them
** it fills; it leaves the others, and NULL ones, alone. */
typedef struct emb_rows {
  int64_t *keys;
  float *vectors; /* dim floats each */
  uint8_t *found;
  uint64_t *versions;
  emb_track *tracks;
  uint8_t *ops;        /* EMB_DELTA_* */
  void *states;        /* optimizer state, emb_state_bytes each */
  uint64_t *positions; /* of emb_evicted */
} emb_rows;

/* Sets the time of the session's further writes, seconds since 1970; 0, the
** default: the store's clock.  In a store with EMB_TRACK_DATA the newest such
** time is the store's clock. */
void emb_session_time(emb_session *session, uint32_t seconds);
/* Reads the tracks of n keys, as the session sees them; zeros if absent.
** found: as for emb_get, or NULL.  EMB_UNFIT: the store does not track. */
int emb_tracks(emb_session *session, const int64_t *keys, size_t n,
               emb_track *tracks, uint8_t *found);

/* Learning rates of optimizers and calls: those with an inverse in float32. */
#define EMB_LR_MIN 1e-30
#define EMB_LR_MAX 1e6

/* How gradients are applied.  All zeros: by the optimizers' own settings. */
typedef struct emb_update {
  float lr;          /* learning rate for this call, EMB_LR_MIN to EMB_LR_MAX;
                        0: the optimizers' own; anything else is EMB_RANGE */
  uint64_t step;     /* for bias correction and decay; 0: each row counts its
                        own updates */
  const float *read; /* n*dim: computed from these vectors, for dc=; or NULL */
  uint32_t parts;    /* segments that make the step, as for emb_put_parts */
} emb_update;

/* Makes one step of the store's optimizers for each row, atomically per key: it
** takes the gradient of the loss and changes vector and optimizer state.  The
** gradients of a repeated key are added up first and make one step.  how may be
** NULL.  to (or NULL): found and versions, and absent keys, as for emb_rmw.  An
** update that would not be finite is EMB_NONFINITE and leaves its key
** unchanged.  Errors: UNFIT (no optimizer), NONFINITE (gradient), RANGE (lr),
** and those of emb_put.
** With emb_config.gradients = "average(...)" a key's gradients are kept, from
** all sessions, and their average makes one step (CARLS, "lazy update"): when a
** call needs the present row (every call except emb_clocks, look-ahead and
** calls that describe the store), when there are `max`, after `expire`, or when
** the memory for them, an eighth of the store's budget in addition to it, is
** used up.  A reader therefore sees every gradient acknowledged before its
** call.  lr, step and emb_session_time are those of the latest gradient; found
** says whether the key is present now, versions are 0.  The row counts
** (emb_tracks, admission) as often as without averaging.  A call with `read` or
** `parts`, or of a session that holds leases, is applied at once, after the
** pending gradients.  An average that would make the vector non-finite is
** dropped (metric gradients_refused).  An average that fails for any other
** reason is kept, and the call that needs the row gets the error.  Averages
** survive whatever an emb_put would: a checkpoint, a commit and a close apply
** them first. */
int emb_apply_gradients(emb_session *session, const int64_t *keys, size_t n,
                        const float *gradients, const emb_update *how,
                        const emb_rows *to);
/* Applies all pending gradients; *steps (or NULL): the number of steps. */
int emb_flush_gradients(emb_session *session, uint64_t *steps);
/* A key with pending gradients. */
typedef struct emb_pending_key {
  int64_t key;
  uint64_t age_us;    /* age of the oldest */
  uint32_t gradients; /* rows of one call with the same key count once */
} emb_pending_key;
/* Fills in up to max keys, in no order; *n: the number of all. */
int emb_pending(emb_session *session, emb_pending_key *keys, size_t max,
                size_t *n);
/* Removes n keys; found[i] (or NULL) = 1 if the key was present. */
int emb_delete(emb_session *session, const int64_t *keys, size_t n,
               uint8_t *found);

/* ---- bags ---------------------------------------------------------------- */

/* Pooled lookups, as in torch.nn.EmbeddingBag and TorchRec: the keys of a batch
** are grouped into bags, and the rows of a bag are pooled into one vector.
**
**   EMB_BAG_SUM     the sum of weight * row
**   EMB_BAG_MEAN    the sum divided by the number of the bag's keys
**   EMB_BAG_SQRTN   the sum divided by the square root of that number
**
** The weights do not change the divisor, as in TorchRec's kernels; torch itself
** allows weights only with the sum.  Products and sums are float32, not fused,
** in the order of the keys: the result has the same bits on every machine,
** wherever the rows are. */
enum { EMB_BAG_SUM = 1, EMB_BAG_MEAN, EMB_BAG_SQRTN };
typedef struct emb_bags {
  /* Index of each bag's first key: 0 first, never decreasing, at most the
  ** number of keys.  The last bag extends to the end, with or without torch's
  ** include_last_offset, since only `count` offsets are read.  A bag without
  ** keys gives zeros. */
  const int64_t *offsets;
  size_t count;
  int mode;             /* EMB_BAG_* */
  int peek;             /* read as emb_peek does, not as emb_get */
  const float *weights; /* one per key, finite; NULL: 1 each */
  uint32_t parts;       /* segments that emb_bag pools, a bit each; 0: all */
  uint8_t *found;       /* for emb_bag_apply, one per key; or NULL */
} emb_bags;

/* Parses "sum", "mean" or "sqrtn", optionally followed by
** "(include_last_offset=1)": one offset more than there are bags is given, and
** the last must be the number of keys.  EMB_RANGE. */
int emb_bag_mode(const char *text, int *mode, int *include_last_offset,
                 emb_err *err);
/* Makes the checks of emb_bag and emb_bag_apply for these bags of n keys.
** Errors: RANGE (mode; offsets, the text says which), NONFINITE (a weight). */
int emb_check_bags(const emb_bags *bags, size_t n, emb_err *err);

/* Reads and counts the vectors of n keys as emb_get does, and pools them:
** bags->count * dim floats, in the order of the bags.  An absent key has its
** initial value, and counts in its bag.  Memory: at most 4 MiB and two rows,
** kept for the session's next call.  Errors: those of emb_check_bags and
** emb_get, and NONFINITE (a sum outside float32); then no key is counted. */
int emb_bag(emb_session *session, const int64_t *keys, size_t n,
            const emb_bags *bags, float *pooled);
/* The backward pass: gradients are those of the loss with respect to the pooled
** vectors, bags->count * dim.  A key's gradient is the sum of weight / divisor
** * gradient over all bags that have the key, in the order of the keys, and
** makes one step, as emb_apply_gradients with one row per key would, but
** without these rows; it takes about 60 bytes per key.  how->read must be NULL;
** bags->peek is ignored.  Errors: those of emb_apply_gradients and emb_bag.
** After an error that cannot be detected before the first step (a sum outside
** float32, FULL, INTERRUPT) a prefix of the keys has made its step. */
int emb_bag_apply(emb_session *session, const int64_t *keys, size_t n,
                  const emb_bags *bags, const float *gradients,
                  const emb_update *how);

/* ---- staleness ----------------------------------------------------------- */

/* Calls of one statement count a key once: all Gets until the next call of
** emb_statement with another number share their counts.  With 0 (the default)
** each call counts by itself.  Setting the previous number again after 0
** resumes its statement, which then also does not count the keys that calls
** under 0 have counted.  A prefetch belongs to the statement that began it. */
void emb_statement(emb_session *session, uint64_t number);
/* Gives back the leases that the present statement counted and that no Put has
** settled: the statement failed.  Does nothing with number 0.  Returns their
** number. */
size_t emb_release_statement(emb_session *session);
/* Gives back all leases of the session; returns their number. */
size_t emb_release(emb_session *session);
/* Number of leases held by the session. */
size_t emb_leases(const emb_session *session);
/* Clears the mark of all leases.  With 1, further leases are marked as taken
** within the caller's transaction. */
void emb_lease_mark(emb_session *session, int mark);
/* Gives back the marked leases: the caller's transaction was rolled back. */
size_t emb_release_marked(emb_session *session);
/* Reads the pending reads of each key, 0 if absent. */
int emb_clocks(emb_session *session, const int64_t *keys, size_t n,
               uint32_t *clocks);

/* ---- look-ahead ---------------------------------------------------------- */

/* Where a look-ahead puts the records it reads. */
enum {
  EMB_AHEAD_BUFFER = 0, /* the store's record cache, for every session */
  EMB_AHEAD_CACHE = 1,  /* the session's own cache, for this session; outside
                           the store's budget and at most a quarter of it */
};

/* Result and progress of a look-ahead; all but number and done count keys. */
typedef struct emb_ahead {
  uint64_t number;    /* of the look-ahead in its session, from 1 */
  uint64_t asked;     /* distinct keys */
  uint64_t in_memory; /* were in memory already: not copied */
  uint64_t absent;
  uint64_t to_read; /* on disk at the time of the call */
  uint64_t read;    /* of these, now in memory or already delivered */
  uint64_t refused; /* of these, not kept: all room is taken by records looked
                       ahead and not read yet */
  int done;         /* nothing more will be read */
} emb_ahead;

/* Announces that these keys will be read soon: starts reading the records on
** disk, and does not wait.  Pending reads, versions and the log do not change;
** later Gets find the records in memory.  Such a record leaves memory only once
** it was read (or after a minute); records without room are refused.  result
** (or NULL) is filled in.  Errors: NOMEM, RANGE (dest), MISUSE. */
int emb_lookahead(emb_session *session, const int64_t *keys, size_t n, int dest,
                  emb_ahead *result);
/* Reads the progress of a look-ahead (EMB_RANGE: the number is unknown or older
** than the session's last 64). */
int emb_lookahead_progress(emb_session *session, uint64_t number,
                           emb_ahead *result);
/* Waits until the look-ahead is done. */
int emb_lookahead_wait(emb_session *session, uint64_t number);

/* ---- asynchronous batches (CAM) ------------------------------------------ */

/* Starts a Get and returns at once; *ticket (> 0) names it.  keys is copied.
** to: vectors, found and versions; the arrays belong to the call until its
** ticket is synchronized.  Several Gets may be in flight. */
int emb_prefetch(emb_session *session, const int64_t *keys, size_t n,
                 const emb_rows *to, uint64_t *ticket);
/* Waits for a prefetch (0: the oldest) and ends its ticket, whatever it
** returns, except EMB_INTERRUPT.  On a bounded store a batch with a key at its
** bound at the start has counted no key; this call counts them, and waits.
** *ended (or NULL): the ticket.  EMB_RANGE: no such ticket; EMB_LOST: the owner
** has died, or has left during a counted prefetch, and nothing was written to
** the arrays; otherwise as emb_get.  An owner that closes the store first
** finishes uncounted prefetches. */
int emb_prefetch_synchronize(emb_session *session, uint64_t ticket,
                             uint64_t *ended);
/* Starts a Put and returns at once; keys and vectors are copied unless they can
** be written at once.  All arguments are checked here, as by emb_put.
** EMB_LOCKED inside the session's own transaction. */
int emb_write_back(emb_session *session, const int64_t *keys, size_t n,
                   const float *vectors, uint64_t *ticket);
/* Starts an emb_apply_gradients; otherwise as emb_write_back, and ended by the
** same call.  how->read must be NULL (RANGE).  Averaged ones are kept here. */
int emb_apply_async(emb_session *session, const int64_t *keys, size_t n,
                    const float *gradients, const emb_update *how,
                    uint64_t *ticket);
/* Waits until every session can read the rows; otherwise as for prefetch.
** Other writes of the session wait for this first. */
int emb_write_back_synchronize(emb_session *session, uint64_t ticket,
                               uint64_t *ended);
/* Number of unsynchronized tickets of prefetches and of write-backs. */
size_t emb_tickets(const emb_session *session, size_t *write_backs);

/* ---- transactions -------------------------------------------------------- */

/* Begins a transaction.  EMB_BUSY: another session has a transaction open for
** longer than the timeout, or another process owns the store without serving
** it; EMB_READONLY. */
int emb_begin(emb_session *session);
/* 1 while the session has an open transaction. */
int emb_in_transaction(const emb_session *session);
/* As emb_put, within the transaction, all or nothing per call. */
int emb_txn_put(emb_session *session, const int64_t *keys, size_t n,
                const float *vectors);
/* As emb_put_parts, within the transaction, all or nothing per call. */
int emb_txn_put_parts(emb_session *session, const int64_t *keys, size_t n,
                      const float *vectors, uint32_t parts);
/* Writes one row or parts of it, only if the key is present (present = 1) or
** absent (0), as the session sees it; *done: whether it was written. */
int emb_txn_put_if(emb_session *session, int64_t key, const float *vector,
                   uint32_t parts, int present, int *done);
/* As emb_apply_gradients, within the transaction, all or nothing per call.
** found: n bytes or NULL. */
int emb_txn_apply_gradients(emb_session *session, const int64_t *keys, size_t n,
                            const float *gradients, const emb_update *how,
                            uint8_t *found);
/* Gives a row another key, and replaces any row of that key, with everything it
** has.  *found: whether the row `from` was present. */
int emb_txn_move(emb_session *session, int64_t from, int64_t to, int *found);
int emb_txn_delete(emb_session *session, const int64_t *keys, size_t n,
                   uint8_t *found);
/* Savepoints have numbers >= 0, as in SQLite's xSavepoint; setting number i
** first releases all with a number >= i.  Rolling back to a number keeps that
** savepoint; a number below the transaction's first savepoint, and -1, mean the
** state at emb_begin.  emb_savepoint_release drops all with a number >= i. */
int emb_savepoint(emb_session *session, int i);
int emb_rollback_to(emb_session *session, int i);
int emb_savepoint_release(emb_session *session, int i);
/* Makes the transaction's writes durable without deciding it; afterwards
** emb_commit cannot fail.  *number (> 0) names the transaction; a coordinator
** decides for commit by recording it durably.  *number is 0 if nothing was
** written and no decision is needed.  May be called again after further writes;
** the earlier number is then void.  After an error the transaction is as before
** the call. */
int emb_prepare(emb_session *session, uint64_t *number);
/* Publishes the transaction.  After emb_prepare it changes only memory and
** cannot fail; the coordinator's record must be durable by now, because
** recovery takes anything that follows in the log as proof of the commit.
** Without emb_prepare the engine commits by itself: atomically, and durably
** with the next checkpoint, prepare or clean close; this may fail (FULL, IOERR,
** NOMEM, FAILED) and then leaves the transaction open. */
int emb_commit(emb_session *session);
/* Undoes everything since emb_begin and ends the transaction. */
void emb_rollback(emb_session *session);

/* Number of the transaction that recovery found prepared and undecided, or 0.
** Until emb_resolve, reads see the state before it (but see
** emb_session_decides) and emb_begin returns EMB_LOCKED. */
uint64_t emb_in_doubt(const emb_store *store);
/* Commits or undoes the transaction in doubt.  Does nothing and returns EMB_OK
** if it is not in doubt any more: another process may have decided it, and
** begun the next. */
int emb_resolve(emb_store *store, uint64_t number, int commit, emb_err *err);
/* Number of the last committed prepared transaction, 0 if none. */
uint64_t emb_committed(const emb_store *store);
/* Two numbers that change whenever a row has changed, and may change after a
** rollback.  While another process owns the store alone they are those of the
** checkpoint being read. */
void emb_state(const emb_store *store, uint64_t *state);
/* While another process owns the store alone, a read looks for a newer
** checkpoint at most every 5 ms.  This call makes the next read look, or with a
** scan open the first read after the scan. */
void emb_look(emb_store *store);
/* 1 if the process that owned the store has died and this process may only
** read: it reads the last checkpoint, without later commits. */
int emb_is_unrecovered(const emb_store *store);

/* ---- scans --------------------------------------------------------------- */

enum {
  EMB_SCAN_ANY = 0,
  EMB_SCAN_ASC = 1,
  EMB_SCAN_DESC = 2,
  EMB_SCAN_KEYS = 3,
};

/* Opens a scan over the keys lo <= key <= hi.  EMB_SCAN_ANY gives them in
** storage order (sequential disk reads, for whole tables); ASC and DESC in
** key order; EMB_SCAN_KEYS in any order, without vectors and versions, from
** memory alone.  Every key that exists from open to close appears exactly once,
** with its latest value at that moment; keys added or removed during the scan
** may or may not appear. */
int emb_scan_open(emb_session *session, int64_t lo, int64_t hi, int order,
                  emb_scan **scan);
/* Delivers up to max rows (vectors and versions may be NULL); *n = 0 at the
** end.  EMB_ABORT after a rollback of the session's own transaction; EMB_BUSY
** if another process owns the store and has reused space that the scan had yet
** to read: open it again.  Scans in key order continue in both cases. */
int emb_scan_next(emb_scan *scan, size_t max, int64_t *keys, float *vectors,
                  uint64_t *versions, size_t *n);
/* As emb_scan_next, with the rows' tracks: to has keys, and vectors, versions
** and tracks (EMB_UNFIT as for emb_tracks), which may be NULL. */
int emb_scan_next_rows(emb_scan *scan, size_t max, const emb_rows *to,
                       size_t *n);
void emb_scan_close(emb_scan *scan);
/* Number of keys, as the session sees it, without keys that pending gradients
** will add (emb_flush_gradients); answered from memory.  -1: an error, see
** emb_errcode. */
int64_t emb_count(emb_session *session);

/* ---- snapshots ----------------------------------------------------------- */

#define EMB_SNAPSHOT_NAME_MAX 64
#define EMB_SNAPSHOTS_MAX 64

/* Keeps the present state under a name of at most EMB_SNAPSHOT_NAME_MAX
** letters, digits, '_', '-' and '.'.  It is durable when the call returns.  It
** contains commits as a whole or not at all, no open transaction, and the
** immediate writes of each session up to some moment, at least those made
** before the call.  Other sessions keep writing: the index is written to a
** file, and no vector is copied.  A key that is put later gets a new address,
** so the snapshot's records take space as long as it exists.  Errors: RANGE
** (the name, or it is taken), BUSY, FULL, IOERR, NOMEM. */
int emb_snapshot(emb_session *session, const char *name);
/* Drops a snapshot; the next checkpoint frees the space that only it needed.  A
** session that is reading it may continue.  RANGE: it does not exist. */
int emb_snapshot_drop(emb_session *session, const char *name);

typedef struct emb_snapshot_info {
  char name[EMB_SNAPSHOT_NAME_MAX + 8];
  int64_t keys;
  uint64_t version; /* later writes have higher versions */
  uint64_t bytes;   /* of log kept for the snapshot, used or not */
  int damaged;      /* its file, or a part of the log is missing */
} emb_snapshot_info;
/* Fills in up to max snapshots, oldest first; *n: the number of all. */
int emb_snapshots(emb_session *session, emb_snapshot_info *infos, size_t max,
                  size_t *n);

/* Reading a snapshot, which never changes.  Memory: 1 MiB for lookups; for a
** scan an extent (256 KiB or a page), and a bit for each slot of the extents
** with its records, usually 1/8 to 1/3 of a byte per key.  One scan at a time;
** close it before its session.  CORRUPT: its file or a page is damaged. */
typedef struct emb_snap emb_snap;
int emb_snapshot_open(emb_session *session, const char *name, emb_snap **snap);
void emb_snapshot_close(emb_snap *snap);
int64_t emb_snapshot_count(const emb_snap *snap);
/* As emb_peek: vectors, found, versions may be NULL. */
int emb_snapshot_get(emb_snap *snap, const int64_t *keys, size_t n,
                     float *vectors, uint8_t *found, uint64_t *versions);
/* Delivers up to max rows, each once, in storage order (vectors and versions
** may be NULL); *n = 0 at the end. */
int emb_snapshot_scan(emb_snap *snap, size_t max, int64_t *keys, float *vectors,
                      uint64_t *versions, size_t *n);
/* The next emb_snapshot_scan starts from the beginning. */
void emb_snapshot_rewind(emb_snap *snap);
/* ---- nearest neighbours -------------------------------------------------- */

/* The distance of two vectors: EMB_L2, the Euclidean distance; EMB_COSINE, one
** minus the cosine of the angle between them, 0 to 2; EMB_DOT, minus their
** inner product.  Smaller is nearer. */
enum { EMB_L2 = 0, EMB_COSINE = 1, EMB_DOT = 2 };
/* Computes the distance of vectors of dim elements in double precision.
** Returns 0 if there is none, because one has length 0 and no angle
** (EMB_COSINE).  No alignment is required. */
int emb_distance(int metric, const float *a, const float *b, uint32_t dim,
                 double *distance);
/* The metric of a vector of the store's rows. */
int emb_metric(const emb_store *store, uint32_t segment);
/* Whether that vector has an index; emb_stats tells whether it is ready. */
int emb_has_index(const emb_store *store, uint32_t segment);

#define EMB_NEAREST_MAX (1 << 20)               /* neighbours of one query */
#define EMB_NEAREST_ALL_MAX (UINT32_C(1) << 28) /* of all queries of a call */

enum {
  EMB_NEAREST_EXACT = 1,  /* does not use an index */
  EMB_NEAREST_RANGE = 2,  /* only rows with lo <= key <= hi */
  EMB_NEAREST_WITHIN = 4, /* only rows with least <= distance <= most */
  EMB_NEAREST_KEYS = 8,   /* only rows whose key is in `keys` */
};

/* A set of keys, made once for many searches: unlike `keys` below, asking a set
** of half the table is as cheap as asking one of a few rows.  Takes n keys in
** any order, with repetitions; without: it admits all keys except these.  Any
** sessions of any stores may use it, in several threads at a time; the session
** only gets the error: NOMEM.  Memory: a bit for each number between the lowest
** and the highest key, or 16 to 32 bytes per key, whichever is less. */
typedef struct emb_filter emb_filter;
int emb_filter_new(emb_session *session, const int64_t *keys, size_t n,
                   int without, emb_filter **filter);
void emb_filter_free(emb_filter *filter); /* or NULL */
size_t emb_filter_bytes(const emb_filter *filter);

/* The conditions of a search; all zeros: as NULL. */
typedef struct emb_nearest_how {
  uint32_t segment; /* the vector of the rows that is compared */
  uint32_t flags;   /* EMB_NEAREST_* */
  uint32_t probes;  /* lists of an index to probe; 0: as the recall needs */
  uint32_t threads; /* maximum number; 0: one per processor */
  int64_t lo, hi;
  double least, most;
  double recall; /* to reach, up to 1; 0: the index's own.  Not with probes */
  const int64_t *keys; /* in ascending order, without repetition */
  size_t key_count;
  const int64_t *apart; /* n keys or NULL: the row with key apart[i] is not a
                           neighbour of query i */
  const struct emb_filter *filter; /* NULL, or only rows that it admits */
} emb_nearest_how;

/* The result: query i's neighbours from element i*k on, nearest first, and at
** the same distance the lower key first. */
typedef struct emb_neighbours {
  int64_t *keys;      /* n*k */
  double *distances;  /* n*k */
  size_t *counts;     /* n: k, or fewer if fewer rows meet the conditions */
  float *vectors;     /* NULL, or n*k whole rows, as from emb_get, and */
  uint64_t *versions; /* NULL, or n*k: of the records with these distances */
} emb_neighbours;

/* Finds the k rows nearest to each of n queries, n*d floats, where d is the
** dimension of the compared vector.  All conditions are applied before the
** choice.  how may be NULL: all rows, by the first vector.  Distances are those
** of emb_distance, for rows as the session sees them, including its uncommitted
** ones.  A row written during the call is used as it was at some time during
** the call.  A row without a distance (EMB_COSINE, a vector of zeros) is not a
** neighbour.  Never counted against a staleness bound.  Without an index, or
** with EMB_NEAREST_EXACT, the result is exact; with an index that is ready it
** has most of the nearest rows, each at its exact distance: on average the
** share `recall`, if there are no conditions and k is at most 100.  Memory per
** thread: n*k times 16 bytes (with vectors or versions 20 bytes, plus these),
** and 2 MiB (or eight pages) if rows are on disk.  Evicts nothing from memory.
** Errors: RANGE (segment, k of 0 or above EMB_NEAREST_MAX, n*k above
** EMB_NEAREST_ALL_MAX, keys out of order, recall out of range or with probes; a
** query of zeros with EMB_COSINE), NONFINITE (the text names query and
** element), INTERRUPT, NOMEM, and those of emb_scan_next. */
int emb_nearest(emb_session *session, const float *queries, size_t n, size_t k,
                const emb_nearest_how *how, const emb_neighbours *to);
/* How emb_nearest would search for one query's k neighbours now. */
typedef struct emb_search_plan {
  int is_exact;    /* it would compare all rows: there is no index yet, none of
                      its lists reach the recall, or comparing is faster */
  uint32_t probes; /* lists */
  uint32_t rows;   /* candidates to compare; 0: all in these lists */
  uint32_t asked;  /* queries asked that were part of the measurement */
  double recall;   /* to reach; 0: none, as probes are given */
  double measured; /* recall in the sample; 0: not measured */
  double least;    /* it is at least this, with 95 percent confidence */
  int64_t at;      /* seconds since 1970 of the measurement, or 0 */
} emb_search_plan;
/* segment, k, recall, probes: as in emb_nearest, whose RANGE errors it has. */
int emb_nearest_plan(emb_session *session, uint32_t segment, size_t k,
                     double recall, uint32_t probes, emb_search_plan *plan);
/* As emb_nearest, among the rows of a snapshot; always exact.  It restarts a
** scan of the snapshot from the beginning. */
int emb_snapshot_nearest(emb_snap *snap, const float *queries, size_t n,
                         size_t k, const emb_nearest_how *how,
                         const emb_neighbours *to);

/* ---- samples ------------------------------------------------------------- */

#define EMB_SAMPLE_MAX (UINT32_C(1) << 28) /* rows of a call */
#define EMB_SAMPLE_POWER_MAX 8

/* How keys are drawn: EMB_UNIFORM, all keys of the table alike;
** EMB_LOG_UNIFORM, key k of 0 to range-1 with probability ln((k + 2) / (k + 1))
** / ln(range + 1); EMB_FREQUENCY, in proportion to a power of the number of
** their updates (emb_track). */
enum { EMB_UNIFORM = 0, EMB_LOG_UNIFORM = 1, EMB_FREQUENCY = 2 };
enum {
  EMB_SAMPLE_REPLACE = 1, /* a key may be drawn more than once */
  EMB_SAMPLE_SEEDED = 2,  /* the random numbers are those of `seed` */
};

/* The options of a sample; all zeros: as NULL. */
typedef struct emb_sample_how {
  uint32_t distribution; /* EMB_UNIFORM, .. */
  uint32_t flags;        /* EMB_SAMPLE_* */
  uint64_t seed;         /* with EMB_SAMPLE_SEEDED */
  int64_t range;         /* EMB_LOG_UNIFORM; 0: the highest key plus 1, found by
                            going through all keys */
  double power;          /* EMB_FREQUENCY: 0 to EMB_SAMPLE_POWER_MAX */
  const int64_t *without; /* keys that must not be drawn, such as positives, in
                             any order */
  size_t without_count;
} emb_sample_how;

/* The drawn rows: arrays of n elements.  All except keys may be NULL. */
typedef struct emb_samples {
  int64_t *keys;
  float *vectors;          /* dim floats each, as emb_peek gives them */
  double *probabilities;   /* that a single draw gives the key; uniform without
                              replacement: that the sample contains it */
  double *expected_counts; /* expected number of occurrences of the key in the
                              sample: the divisor of a sampled softmax */
} emb_samples;

/* Draws n random keys of the table, as negatives of a training step, with their
** probabilities.  *count: the number drawn; less than n only without
** EMB_SAMPLE_REPLACE, if fewer keys are eligible, all of which are then drawn.
** how may be NULL: uniform, without replacement.  Draws keys that the session
** sees, including its uncommitted ones; a key deleted during the call may still
** be drawn.  Never counted against a staleness bound. Uniform and log-uniform
** draws take the same time whatever the table's size. If few numbers of a range
** are keys, more draws fail; if n rows would take too many draws, or fewer than
** 2 n keys are eligible, all keys are listed (8 to 24 bytes each).  After most
** keys were deleted, the next uniform call shrinks the index accordingly.  A
** draw by frequency uses counts of all rows (8 bytes per key, emb_stats:
** sample_bytes), which a call recomputes when the updates since exceed an
** eighth of those counted, or when the number of rows has changed by an eighth.
** Until then the draw follows these counts exactly: keys added since are not
** drawn, and removed keys are left out.  Keys that were never updated are drawn
** only with power 0. Memory of a call: 8 to 32 bytes for each row and each key
** of `without`. The same seed gives the same sample of the same table; for a
** uniform draw, if no key was added or removed in between, or if both tables
** were made from an empty one by the same sequence of changes. Source: the
** formulas are those of TensorFlow's candidate samplers (Jean et al., On Using
** Very Large Target Vocabulary, 2015, section 3). Errors: RANGE (n,
** distribution, range, power), UNFIT (by frequency, and the store does not
** track), INTERRUPT, NOMEM, and those of emb_peek and emb_scan_next. */
int emb_sample(emb_session *session, size_t n, const emb_sample_how *how,
               const emb_samples *to, size_t *count);

/* ---- deltas -------------------------------------------------------------- */

/* A delta is the changes since a consumer's last acknowledgement.  A consumer
** has a name and survives restarts; it is created at its first use, and its
** first delta is the whole table.  A delta that is not acknowledged is
** delivered again, with at least the same rows; rows are absolute, so applying
** one twice does no harm.  A temporary store has no deltas: EMB_UNFIT. */
#define EMB_CONSUMER_NAME_MAX 64

/* A deletion has a reason: EXPIRE, the row's time to live was over; EVICT, the
** table exceeded its capacity. */
enum {
  EMB_DELTA_PUT = 1,
  EMB_DELTA_DELETE = 2,
  EMB_DELTA_EXPIRE = 3,
  EMB_DELTA_EVICT = 4
};

typedef struct emb_delta emb_delta;

/* Begins a delta of everything written before the call, after making it
** durable. Writers continue during the delta; their changes are in the next
** delta, and perhaps in this one, too. EMB_GAP: the consumer is too far behind,
** more than its keep_bytes would have to be kept, or the log since its mark
** spans 2^23 extents; the text says which.  It must take a snapshot and start
** again (emb_delta_begin). EMB_LOCKED inside the session's own transaction;
** otherwise as a write. */
int emb_delta_open(emb_session *session, const char *consumer,
                   emb_delta **delta);
/* Where the delta begins and ends, as growing numbers; from is 0 for a delta of
** the whole table, which replaces the consumer's data.  Either may be NULL. */
void emb_delta_range(const emb_delta *delta, uint64_t *from, uint64_t *to);
/* Delivers up to max rows; after *n = 0, at the end, the delta may be
** acknowledged.  Each key comes once, deletions last.  to: keys and ops, and
** vectors, versions and states, which may be NULL and are not set for a
** deletion. */
int emb_delta_next(emb_delta *delta, size_t max, const emb_rows *to, size_t *n);
void emb_delta_close(emb_delta *delta);
/* Acknowledges everything up to `upto`, the end of the newest delta that was
** delivered completely; 0: that end.  Durable when it returns.  EMB_RANGE:
** there is no such delta; it must be read again. */
int emb_delta_ack(emb_session *session, const char *consumer, uint64_t upto);

/* The keys of a file with texts (below), as numbers of another store. */
typedef struct emb_file_keys {
  uint64_t file;       /* emb_file_info.id of the file they belong to */
  const int64_t *keys; /* one per row, in the order of the file; for a deletion
                          the key need not have a row */
  size_t n;            /* rows of the file */
} emb_file_keys;

/* How a delta file is written or applied; zeros are the defaults. */
typedef struct emb_delta_options {
  const char *text;    /* "quantize=none, level=1, state=1", as for
                          emb_snapshot_export; NULL: these */
  const char *columns; /* names of the vectors, which must be the same on both
                          sides; NULL: not compared */
  int join;            /* see emb_delta_apply */
  const emb_file_keys *keys; /* to apply a file with texts; otherwise NULL */
} emb_delta_options;

typedef struct emb_delta_file {
  uint64_t number;   /* in the chain of its consumer, from 1 */
  uint64_t from, to; /* marks: as emb_delta_range */
  int64_t puts, deletions;
  uint64_t bytes; /* size of the written file */
  int applied;    /* 0: it was applied before */
} emb_delta_file;

/* Writes the consumer's next delta to a new file, which is synced and then
** renamed to `path`.  After an error `path` is unchanged, and no other file is
** left.  The number is one more than the consumer's last acknowledged number.
** Until the delta is acknowledged, the next export has the same number and
** beginning, and is newer.  The export acknowledges nothing: call
** emb_delta_ack(about->to) once the file is in its final place.  how, about:
** may be NULL.  Errors: those of emb_delta_open and emb_delta_next; CANTOPEN
** (path is another kind of file, or cannot be created), RANGE (an option),
** FULL, IOERR. */
int emb_delta_export(emb_session *session, const char *consumer,
                     const char *path, const emb_delta_options *how,
                     emb_delta_file *about);
/* As emb_delta_export, for an open delta of which nothing was read.  Does not
** mark the delta as sent: the next emb_delta_next, which finds no more rows,
** does.  The file can therefore be completed first (emb_file_add_texts), while
** everything the consumer needs is kept. */
int emb_delta_write(emb_delta *delta, const char *path,
                    const emb_delta_options *how, emb_delta_file *about);
/* Applies a delta file to this store, whose vectors must have the same
** dimensions and types.  The optimizer may differ if the file has no state; a
** store without optimizer accepts all files.  The whole file is checked before
** anything changes, and applied in one transaction, durable at the end.  A file
** that was applied before, or an older version of it, changes nothing.  A delta
** from the beginning replaces the store's rows.  After a restore from a
** snapshot of the same source the deltas continue from there, if the consumer
** existed before the snapshot.  The rows get versions of this store. join:
** applies the file whatever was applied before; the caller guarantees that the
** store has the state where the delta begins. A file with texts needs
** how->keys, other files must have none (MISMATCH); BUSY: the keys were read
** from another file; CORRUPT: a key occurs twice. Errors: LOCKED (a transaction
** of the session), BUSY (another's), NOTADB, CORRUPT, MISMATCH (another schema,
** source or consumer), RANGE (a delta before this one is missing: the text says
** which), READONLY, IOERR, FULL, NOMEM. */
int emb_delta_apply(emb_session *session, const char *path,
                    const emb_delta_options *how, emb_delta_file *about);

typedef struct emb_delta_place {
  uint8_t source[16]; /* uuid of the deltas' source store */
  char consumer[EMB_CONSUMER_NAME_MAX + 1];
  uint64_t number; /* of the newest applied delta; 0: a snapshot */
  uint64_t mark;   /* at which it ends; 0: nothing was applied */
} emb_delta_place;
int emb_delta_position(emb_session *session, emb_delta_place *place);

/* Where a consumer begins, whether it exists already or not. */
enum {
  EMB_DELTA_ALL = 0, /* its next delta is the whole table */
  EMB_DELTA_NOW = 1, /* only later writes */
};
/* keep_bytes: how much of the log may be kept for the consumer; 0: its present
** value, or 1 GiB for a new consumer. */
int emb_delta_begin(emb_session *session, const char *consumer, int where,
                    uint64_t keep_bytes);
/* Drops a consumer.  EMB_RANGE: it does not exist. */
int emb_delta_drop(emb_session *session, const char *consumer);

enum { EMB_CONSUMER_GOOD = 0, EMB_CONSUMER_LOST, EMB_CONSUMER_DAMAGED };

typedef struct emb_consumer {
  char name[EMB_CONSUMER_NAME_MAX + 1]; /* "" if its file is damaged */
  int state;                            /* LOST: too far behind */
  uint64_t acked; /* end of its last acknowledged delta; 0: none */
  uint64_t sent;  /* end of its newest complete delta; 0: none */
  uint64_t kept_bytes, keep_bytes;
} emb_consumer;

/* Fills in up to max consumers; *n: the number of all. */
int emb_delta_consumers(emb_session *session, emb_consumer *consumers,
                        size_t max, size_t *n);
/* Bytes of optimizer state in a row. */
size_t emb_state_bytes(const emb_store *store);

/* Writes a snapshot to a file, while others keep writing to the store; with
** base=OLDER, the name of another snapshot, only the changes between the two,
** including deletions.  options (or NULL): "quantize=none, level=1, state=1,
** index=1" and base.  quantize=float16, int8 or int4 applies only to vectors: a
** decoded element is within 2^-11 of itself (float16), within 1/510 of the
** difference between the largest and smallest element of its vector (int8), or
** within 1/30 of that difference in its group of 32 elements (int4), each plus
** the rounding of float32.  level: of zstd, 0 to 19; 0 does not compress.
** state=0 omits the optimizer state.  index=0: the file has no lookup by key.
** path: a regular file that does not exist, or an exported file, which is
** replaced durably as a whole; until then, and after an error, it is unchanged.
** rows and bytes (or NULL): the amounts written.  Errors: RANGE (names,
** options), NONFINITE (an element outside float16), CANTOPEN, FULL, IOERR,
** CORRUPT, INTERRUPT, NOMEM. */
int emb_snapshot_export(emb_session *session, const char *name,
                        const char *path, const char *options, uint64_t *rows,
                        uint64_t *bytes);
/* Restores the table from a file, in one transaction that is durable when the
** call returns: from a whole snapshot to exactly its rows, from an increment by
** applying its changes.  An increment must begin where the last file ended.
** The whole file is read and checked first; after an error the table is
** unchanged. Vectors must have the same dimensions and types.  A table without
** optimizer accepts a file with state and drops the state; a table with an
** optimizer accepts a file without state, and each row's state starts from the
** beginning. rows (or NULL): rows of the file.  Errors: CANTOPEN, NOTADB,
** CORRUPT, MISMATCH (another table), GAP (a file before an increment is
** missing), LOCKED (own transaction), and those of emb_put. */
int emb_snapshot_restore(emb_session *session, const char *path,
                         uint64_t *rows);
/* As emb_snapshot_restore, for a file with texts, whose rows get these keys;
** for errors in the keys see emb_delta_apply. */
int emb_snapshot_restore_keys(emb_session *session, const char *path,
                              const emb_file_keys *keys, uint64_t *rows);

/* ---- maintenance --------------------------------------------------------- */

/* Removes all rows whose time to live is over; *removed (or NULL): their
** number. Not inside the session's own transaction (EMB_LOCKED). */
int emb_expire(emb_session *session, uint64_t *removed);
/* Removes rows beyond the capacity now, except rows held by a transaction;
** otherwise as emb_expire. */
int emb_evict(emb_session *session, uint64_t *removed);
/* Lists keys that expired or were evicted, in the order of their removal: up to
** max keys after the position `since` (0: all known).  to: keys, ops
** (EMB_DELTA_EXPIRE or EMB_DELTA_EVICT) and positions, which grow; pass the
** last position to the next call.  *n = 0 at the end.  A key that has a row
** again is listed all the same.  The removals are made durable first.  Known
** are all removals since the last checkpoint, usually more, and all that some
** consumer of deltas has not acknowledged; without such a consumer a checkpoint
** drops a removal once no other part of its extent is needed.  Errors: UNFIT (a
** temporary store keeps nothing), and those of emb_expire. */
int emb_evicted(emb_session *session, uint64_t since, size_t max,
                const emb_rows *to, size_t *n);

/* When it returns, everything written before the call survives power loss.  Not
** inside the session's own transaction (EMB_LOCKED). */
int emb_checkpoint(emb_session *session);
/* After an open a background warm-up reads the table sequentially if it fits
** into the budget, otherwise the records that were in memory at the last
** checkpoint or close.  It uses free memory and evicts nothing.  This call
** works on the warm-up and waits until it is done; it repeats a finished one,
** and runs one that is switched off.  Unreadable records are left to the call
** that requests them.  The metrics warm, warm_rows, warm_bytes, warm_ms and
** rows_in_memory show the progress.  INTERRUPT. */
int emb_warm(emb_session *session);
/* Compacts until the files hold little but live data, then checkpoints. */
int emb_optimize(emb_session *session);
/* Reads every page and compares index, log and counters.  Calls report once per
** problem with one line of text.  Returns EMB_OK if the check ran to its end,
** whatever it found. */
int emb_verify(emb_session *session, void (*report)(void *, const char *),
               void *arg);

/* ---- backup -------------------------------------------------------------- */

/* A copy of a store as it was at one moment, made while other sessions go on
** writing: a separate store in another directory, with its own uuid, or that of
** the base that it shares files with.
**
**   emb_backup_begin    fixes the moment.  Cheap.  Several stores can share one
**                       moment: begin each, in the order of their addresses,
**                       while nothing is committed.  Notes of later writes take
**                       memory until the index is written
**   emb_backup_freeze   writes the index of that moment to a scratch file.
**                       Between begin and the end of freeze no checkpoint,
**                       snapshot or compaction of the store begins
**   emb_backup_write    copies rows and index; may take any length of time
**   emb_backup_end      frees the backup, at any time
**
** All four are calls of the session.  The copy has the rows with all their data
** (vectors, state of the optimizers, versions, frequency and time), the options
** of the store, and its transaction number.  It does not have: snapshots,
** consumers of deltas, the position in another store's deltas, the record of
** the files the store was restored from, and the counts of admission. */
typedef struct emb_backup emb_backup;
typedef struct emb_backup_info {
  uint8_t uuid[16]; /* of the copy */
  int64_t rows;
  uint64_t bytes;  /* of the copy's files */
  uint64_t copied; /* bytes written by this call */
  int base_used;   /* the rest is shared with the base */
} emb_backup_info;

/* scratch: an existing directory for the index file, which has no name.  A
** store that is open read-only must have been closed by its last owner; the
** copy has that state. Errors: LOCKED (the session has a transaction, or one is
** in doubt), BUSY (another process owns it), CANTOPEN, FULL, NOMEM,
** INTERRUPT. */
int emb_backup_begin(emb_session *session, const char *scratch,
                     emb_backup **backup);
/* After an error only emb_backup_end may follow. */
int emb_backup_freeze(emb_backup *backup);
/* Creates the copy in dir, which must not exist, in an existing directory.  All
** files are durable when it returns; the parent directory is not synced.  base:
** NULL, or the directory of an earlier copy of this store, which is not
** changed: data that it already has is not written again, if the file system
** has hard links.  A base that is not such a copy, or was written to, is not
** used.  After an error dir is removed.  Errors: CORRUPT (a page of the
** source), FULL, IOERR, CANTOPEN, INTERRUPT, NOMEM, BUSY (another process wrote
** to a read-only source during the backup). */
int emb_backup_write(emb_backup *backup, const char *dir, const char *base,
                     emb_backup_info *info);
void emb_backup_end(emb_backup *backup);

/* ---- progress ------------------------------------------------------------ */

/* A long call that is running. */
typedef struct emb_progress {
  char dir[512];        /* of its store, truncated at the front if longer */
  char what[24];        /* "checkpoint", "optimize", "integrity-check",
                           "export", "restore", "delta export",
                           "delta apply", "backup", "nearest", or the
                           session's user's */
  char unit[16];        /* of done and total: "bytes", "rows", ... */
  uint64_t done, total; /* total is an estimate; 0: not known */
  double seconds;       /* since it began */
  int64_t process;      /* of the caller; 0: not visible from here */
} emb_progress;
/* Lists the long calls of all sessions of this process, including clients'.
** Fills in up to max and returns the number of all. */
size_t emb_progress_list(emb_progress *list, size_t max);
/* Lists the long calls of one store, in the process that owns it. */
size_t emb_progress_of(emb_store *store, emb_progress *list, size_t max);
/* Lists long work of the session's user, too; `what` and `unit` are kept, not
** copied.  Calls made during that work are part of it.  total: 0 if not known.
** what NULL: the work has ended. */
void emb_session_progress(emb_session *session, const char *what,
                          const char *unit, uint64_t done, uint64_t total);

/* One metric of emb_stats.  text is NULL for a number. */
typedef struct emb_stat {
  const char *name;
  const char *text;
  int64_t value;
} emb_stat;
/* Fills in up to max metrics and returns how many were filled in; max = 0:
** returns the number of all (0 in a child after fork()).  sql/manual/metrics.md
** lists names and units. */
size_t emb_stats(emb_store *store, emb_stat *stats, size_t max);

/* A user of a store: the process that owns it, or a session of another process
** that the owner serves. */
typedef struct emb_client {
  int64_t process; /* 0: not visible from here (another container) */
  int64_t user;    /* -1: not known */
  uint64_t number; /* of the session, assigned by the owner; the owner: 0 */
  int64_t since;   /* seconds since 1970; 0: not known */
  uint64_t calls;  /* executed for it; in the owner's row: for all clients */
  int32_t is_owner, is_readonly, in_transaction;
  /* Its present call, or "": a name of emb.h without emb_; for the owner a long
  ** call of its own, as named by emb_progress. */
  char call[36];
} emb_client;
/* Lists the owner first, then its clients.  Fills in up to max and returns the
** number of all; 0: no process owns the store.  For an owner that does not
** serve (EMB_OPEN_ALONE) only the process is known. */
size_t emb_clients(emb_store *store, emb_client *clients, size_t max);
/* The other process that owns the store in a directory, which need not be open.
** Reads the lock, without asking that process.  0: none, or it is not visible
** from here. */
int64_t emb_owner_of(const char *dir);
/* EMB_OK if this process owns the store and serves others; EMB_BUSY if it does
** not own it, another code if it does not serve: the error says why. */
int emb_is_served(emb_store *store, emb_err *err);

#ifdef __cplusplus
}
#endif
#endif /* EMB_H */
