/* SPDX-License-Identifier: MIT
**
** takeover_help.h -- shared by the processes of takeover.c: memory in which
** they note the begun and acknowledged transactions, statements whose errors
** are judged, and rows that are compared with the notes.
**
** TABLES    p(key, n) is an ordinary table, v an emb table of DIM elements.
**           Each transaction adds 1 to one key of both.  Rows of v from OWN_AT
**           on are written by the immediate functions, each by one connection.
**           Rows from FILL_AT on never change.
** NOTES     A transaction notes its n in begun before its COMMIT, and in done
**           after it.  SQLite has one writer at a time, so n identifies the
**           transaction: a reader must find no less than `done` when it
**           began, and no more than `begun` when it ends.
** ERRORS    A statement returns SQLITE_OK or an error of the list in
**           takeover_help.c; anything else fails the test.
** HANGS     Each statement is noted with its start.  takeover_watch reports a
**           process that has been in one for longer than HANG_MS.
*/
#ifndef EMB_TAKEOVER_HELP_H
#define EMB_TAKEOVER_HELP_H

#include "process_help.h"
#include "sql_help.h"
#include "store_help.h"

enum {
  MEMBERS = 5,
  KEYS = 8,
  DIM = 4,
  OWN_AT = 1000,
  FILL_AT = 1000000,
  FILL = 1500,
  TICKETS = 3,
  TICKET_KEYS = 3,
  HANG_MS = 60000,
};

/* Events besides plain transactions, caused by a member or the test; each can
** be left out: TAKEOVER_EVENTS=kill,fork in the environment chooses some. */
enum event {
  LEAVE,      /* a connection is closed, and opened again */
  KILL,       /* SIGKILL */
  STOP,       /* SIGSTOP, and SIGCONT later */
  FORK,       /* a child that lives on */
  CHILD,      /* a child with its own connection */
  EXEC,       /* a child that is another program */
  TOUCH,      /* all files of the store are read and closed */
  COPY,       /* a second copy of the library in the same process */
  ROLLBACK,   /* of a transaction that has written */
  TRIGGER,    /* a transaction without BEGIN, by a trigger */
  CHECKPOINT, /* the command */
  VERIFY,     /* integrity-check, and the state of the table */
  BACKUP,     /* emb_backup, and both tables of the copy */
  READ,       /* both tables in one read transaction */
  SCAN,       /* a SELECT of all rows stays open for a while */
  PUT,        /* emb_put, and the row is read again */
  PREFETCH,   /* emb_prefetch, synchronized later */
  WRITE_BACK, /* the same for emb_write_back */
  DIRECTORY,  /* the store's directory is deleted, moved or replaced */
  EVENTS
};
int takeover_has(enum event event);

/* The fate of the store's directory, and how far it has come. */
enum directory { STAYS, DELETED, MOVED, REPLACED };
enum phase { BEFORE, DURING, AFTER, BACK };

/* The settings are written by the test before it starts a member.  Counts and
** maxima are written by all processes, sequentially consistent. */
extern struct takeover {
  int round, members, timeout_ms, bound; /* bound -1: none */
  int is_wal, is_synced, is_hasty, may_kill, has_copy;
  enum directory directory;
  _Atomic int over;
  _Atomic int phase;
  _Atomic uint64_t failures;
  _Atomic uint64_t begun[KEYS], done[KEYS];
  _Atomic uint64_t after[KEYS]; /* `done` of transactions begun after the
                                   directory had gone */
  _Atomic int64_t serial;       /* of the connections: whose key it is */
  _Atomic int children;         /* children with a connection now */
  _Atomic uint64_t commits, reads, told, busy, tickets, refused, backups;
  struct takeover_place {
    _Atomic int64_t since_ms; /* start of its present statement; 0: none */
    char doing[120];
  } places[MEMBERS + 1]; /* the last one is the children's */
} * takeover;

struct ticket {
  uint64_t number; /* 0: free */
  int is_write, is_unsure, is_told, tries;
  int keys[TICKET_KEYS];
  uint64_t least[TICKET_KEYS];
  int64_t value;
};

/* One thread uses it. */
struct connection {
  sqlite3 *db;
  int slot;
  int is_copy;
  int64_t own_key; /* only this connection writes it */
  int64_t own;     /* its value; -1: not known */
  uint64_t seen[KEYS];
  sqlite3_stmt *scan;
  uint64_t scan_least[KEYS];
  uint32_t scan_seen;
  unsigned key;      /* of the trigger's transaction */
  uint64_t count;    /* its value then */
  int rc;            /* extended, of the last statement */
  char message[400]; /* with that */
  struct ticket tickets[TICKETS];
};

/* The file of the database, in this directory. */
const char *takeover_file(const char *dir);
const char *takeover_share(const char *dir); /* NULL: it failed */
int64_t takeover_ms(void);
static inline uint64_t takeover_below(uint64_t n) { return test_random() % n; }

/* A connection, of the library here or of its copy in dir.  c keeps what it
** has seen; initially that is zero. */
void takeover_connect(struct connection *c, const char *dir, int slot,
                      int is_copy);
void takeover_leave(struct connection *c);

__attribute__((format(printf, 2, 3))) void
takeover_fail(const struct connection *c, const char *format, ...);

/* Notes the beginning and the end of a call. */
void takeover_begins(struct connection *c, const char *what);
/* 1: it was done.  0: it was not, with an error that may come. */
int takeover_ended(struct connection *c, int rc, const char *what);

/* A statement whose rows do not matter. */
int takeover_run(struct connection *c, const char *sql);
__attribute__((format(printf, 2, 3))) int
takeover_runs(struct connection *c, const char *format, ...);
/* The first row's first two columns, each a count or a vector of equal
** elements; -1 for NULL. */
__attribute__((format(printf, 3, 4))) int
takeover_pair(struct connection *c, int64_t pair[2], const char *format, ...);

/* The number that all elements of a vector equal; -1, and a failure, if they
** differ. */
int64_t takeover_whole(const struct connection *c, const void *vector,
                       int bytes);

void takeover_begin_commit(unsigned key, uint64_t n);
void takeover_commit_done(unsigned key, uint64_t n, int phase);
/* The least value that a reader that begins now must find. */
uint64_t takeover_least(const struct connection *c, unsigned key);
/* Checks a committed value read by a reader that began with this least
** value. */
void takeover_check(struct connection *c, unsigned key, int64_t value,
                    uint64_t least, const char *how);

/* ---- takeover_work.c ----------------------------------------------------- */

/* Transactions that write both tables and read both. */
void takeover_write(struct connection *c);
void takeover_trigger(struct connection *c);
void takeover_read(struct connection *c);
/* Runs the integrity check or reads the state; both must find a sound store. */
void takeover_verify(struct connection *c);
/* Backs up the database; the copy must show a single moment. */
void takeover_backup(struct connection *c, const char *dir);
/* Begins a scan, or continues it; writes a row immediately, or reads it
** again; begins a batch (PREFETCH or WRITE_BACK), or synchronizes one. */
void takeover_scan(struct connection *c);
void takeover_put(struct connection *c);
void takeover_batch(struct connection *c, enum event event);

/* ---- takeover_tables.c --------------------------------------------------- */

/* Makes the tables in this journal mode; 1 when they are there. */
int takeover_make_tables(const char *dir, const char *journal);
/* Checks that both tables are equal, nothing is missing, and the store is
** sound. */
void takeover_check_all(const char *dir);
/* Checks that everything committed after the directory had gone is there. */
void takeover_check_after(const char *dir);

/* ---- the test ------------------------------------------------------------ */

/* Reports members that hang.  1: none. */
int takeover_watch(const struct process *members, int n);

#endif
