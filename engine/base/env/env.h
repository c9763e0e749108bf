/* SPDX-License-Identifier: MIT
**
** env.h -- the only door to the operating system.
**
** ROLE      Files, batched asynchronous disk access, large memory, time and
**           threads, behind one table of functions.  Nothing else in engine/
**           may call the operating system; `make lint` holds it.  A test
**           replaces the table to lose writes, fail
**           calls and reorder completions; that is why it is a table, and why
**           faults cannot be injected by preloading: io_uring writes do not
**           pass through libc.
** FAILURE   Calls return 0 or an errno value (positive).  They never print,
**           abort, or retry a sync.  EINTR, EAGAIN and short transfers are
**           handled inside and invisible; a read past the end of the file
**           fills the rest of the buffer with zeros.
** THREADS   Every call may be made from any thread.  An env_queue belongs to
**           one thread at a time.
*/
#ifndef EMB_ENV_H
#define EMB_ENV_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct env_file;  /* an open file */
struct env_queue; /* reads and writes in flight, and their completions */
struct env_lock;  /* a held lock file */
struct env_dir;   /* an open directory */
struct env_port;  /* where processes of this machine may call */
struct env_peer;  /* one end of a call between two processes */
struct env_watch; /* waits for several of both */

enum {
  ENV_READ = 0,
  ENV_WRITE = 1,     /* read and write */
  ENV_CREATE = 2,    /* with WRITE: create if absent */
  ENV_EXCLUSIVE = 4, /* with CREATE: fail with EEXIST if present */
  ENV_DIRECT = 8,    /* O_DIRECT where the file system has it, else buffered:
                        offset, size and buffer are multiples of 4096 */
  ENV_FOLLOW = 16,   /* through a link at the path's end */
};

/* What is seen of a file without reading it. */
struct env_about {
  uint64_t bytes;
  int64_t changed_ns; /* when its content was changed last, since 1970 */
  int64_t status_ns;  /* ... or it got another name, owner or time itself */
  uint64_t id[2];     /* device and inode */
  int is_file;        /* a regular one */
};

/* One request of an env_queue; owned by the caller until it is delivered. */
struct env_io {
  struct env_file *file;
  void *buffer;
  uint64_t offset;
  uint32_t bytes;
  int is_write;
  int result;          /* set at delivery: 0 or errno */
  void *tag;           /* the caller's */
  uint32_t done_bytes; /* the queue's own: progress of a short transfer */
  struct env_io *next; /* the queue's own */
};

enum { ENV_QUEUE_URING = 1, ENV_QUEUE_POOL = 2 };

enum env_byte_lock { ENV_BYTE_NONE, ENV_BYTE_SHARED, ENV_BYTE_EXCLUSIVE };

/* How a lock file is held. */
enum env_lock_state {
  ENV_LOCK_FREE,
  ENV_LOCK_UNSETTLED, /* its holder does what others have to wait for */
  ENV_LOCK_SERVES,    /* its holder answers other processes, */
  ENV_LOCK_ALONE      /* or does not */
};

/* Who is at the other end, as the system says. */
struct env_who {
  int64_t process; /* 0: one that cannot be seen from here (a container) */
  int64_t user;
  int is_same_user; /* or the superuser */
};

/* Memory that two processes have in common.  Its size never changes.  All zero:
** none. */
struct env_shared {
  void *base; /* NULL: none */
  size_t bytes;
  int fd; /* what is sent of it; -1 in what came, which cannot be passed on */
};

/* What comes with a message. */
enum env_gift {
  ENV_GIFT_NONE,
  ENV_GIFT_SHARED, /* memory, which both write */
  ENV_GIFT_FIXED,  /* memory that nobody can write any more */
  ENV_GIFT_FILE,   /* an open file: of it only the identity is asked */
};
#define ENV_GIFTS_MAX 2
#define ENV_MESSAGE_MAX 65536

struct env_message {
  void *bytes;
  size_t n; /* sending: at most ENV_MESSAGE_MAX; receiving: the room, then what
               came; after an error still the room */
  struct env_gift_in {
    enum env_gift kind;
    struct env_shared shared; /* SHARED, FIXED */
    uint64_t id[2];           /* FILE: device and inode; sending: unused */
    int writable;             /* FILE: it is open for writing, too */
    struct env_file *file;    /* FILE, sending */
  } gifts[ENV_GIFTS_MAX];     /* the first that is NONE ends them */
};

enum {
  ENV_WATCH_MESSAGE = 1, /* of a port: it is called */
  ENV_WATCH_GONE = 2,    /* what was sent before can still be received */
};

struct env {
  void *context; /* for replacements; NULL in the real one */

  /* files */
  /* Opens only a regular file, and without ENV_FOLLOW never through a link at
  ** the path's end: otherwise EISDIR, ELOOP, or ENOTBLK for anything else. Does
  ** not wait. */
  int (*open)(struct env *, const char *path, int flags, struct env_file **);
  void (*close)(struct env *, struct env_file *);
  int (*read)(struct env *, struct env_file *, void *, size_t, uint64_t offset);
  int (*write)(struct env *, struct env_file *, const void *, size_t,
               uint64_t offset);
  int (*sync)(struct env *, struct env_file *); /* data and size: fdatasync */
  int (*size)(struct env *, struct env_file *, uint64_t *bytes);
  int (*truncate)(struct env *, struct env_file *, uint64_t bytes);
  /* Gives the range its blocks, so that writes there find room: what is in it
  ** stays, and the file is at least so long then.  Where the file system
  ** cannot, does nothing and returns 0. */
  int (*reserve)(struct env *, struct env_file *, uint64_t offset,
                 uint64_t bytes);
  /* What the file's file system has left for this process. */
  int (*room)(struct env *, struct env_file *, uint64_t *bytes);
  /* Gives the range's blocks back to the file system; where it cannot, does
  ** nothing and returns 0. */
  int (*punch)(struct env *, struct env_file *, uint64_t offset,
               uint64_t bytes);
  int (*unlink)(struct env *, const char *path);
  int (*rename)(struct env *, const char *from, const char *to);
  /* A second name for a file; where the file system has none, an error. */
  int (*link)(struct env *, const char *from, const char *to);
  int (*make_dir)(struct env *, const char *path); /* EEXIST is an error */
  int (*remove_dir)(struct env *, const char *path);
  /* A directory is opened before what is to be made durable in it is done: then
  ** nothing but the sync itself can fail after it. */
  int (*open_dir)(struct env *, const char *path, struct env_dir **);
  void (*close_dir)(struct env *, struct env_dir *);
  int (*sync_dir)(struct env *, struct env_dir *);
  /* All of the file system that the file is on, directories as well. */
  int (*sync_all)(struct env *, struct env_file *);
  /* Calls each(arg, name) for every entry but "." and "..". */
  int (*list_dir)(struct env *, const char *path,
                  void (*each)(void *arg, const char *name), void *arg);
  /* Of an open file; or, where that is NULL, of what is at the path now, links
  ** followed. */
  int (*about)(struct env *, struct env_file *, const char *path,
               struct env_about *);
  /* Device and inode of an existing path. */
  int (*identity)(struct env *, const char *path, uint64_t id[2]);
  /* Takes an exclusive lock on the file path (created if absent), which is
  ** UNSETTLED then.  The lock belongs to the open file, not to the process:
  ** nothing else that opens and closes the file drops it, here or elsewhere,
  ** and another copy of this library in the process is refused.  It ends with
  ** the process, and a child after fork() does not keep it.  EAGAIN when it is
  ** held; the rest as open. */
  int (*lock)(struct env *, const char *path, struct env_lock **);
  void (*unlock)(struct env *, struct env_lock *);
  /* The holder of the lock has done what others have to wait for: it is SERVES
  ** or ALONE from now on.  After SERVES it may become ALONE. */
  void (*lock_settle)(struct env *, struct env_lock *, enum env_lock_state);
  /* How the lock file is held, in one look; FREE also where there is none.  The
  ** lock that this process holds itself counts as any other.  *process: who
  ** holds it, 0 if nobody, or a process that cannot be seen from here. */
  int (*lock_look)(struct env *, const char *path, enum env_lock_state *,
                   int64_t *process);
  /* Locks bytes of an open file, visible to other processes.  SHARED locks do
  ** not block each other; EXCLUSIVE is EAGAIN if there is another lock.  They
  ** end with the process, and a child after fork() does not keep them (the file
  ** is closed there).  `at` is below 2^61, and locked once: the caller counts.
  ** EINVAL, ENOLCK: the file system has no such locks. */
  int (*byte_lock)(struct env *, struct env_file *, uint64_t at,
                   enum env_byte_lock);
  /* The lowest such lock of another process below `below`; UINT64_MAX: none. */
  int (*byte_lock_lowest)(struct env *, struct env_file *, uint64_t below,
                          uint64_t *at);

  /* batched access; kind ENV_QUEUE_*.  depth: most requests ever in flight
  ** at once.  ENOSYS where the kernel or the container forbids the kind. */
  int (*queue_open)(struct env *, int kind, unsigned depth,
                    struct env_queue **);
  /* Waits for everything in flight, then frees. */
  void (*queue_close)(struct env *, struct env_queue *);
  /* Starts n requests.  Never blocks for their completion; requests beyond
  ** depth are kept and started as earlier ones complete. */
  int (*queue_submit)(struct env *, struct env_queue *, struct env_io **,
                      size_t n);
  /* Delivers at least min (bounded by what is in flight) and at most max
  ** finished requests; sleeps, does not poll.  *n: how many. */
  int (*queue_wait)(struct env *, struct env_queue *, size_t min,
                    struct env_io **done, size_t max, size_t *n);

  /* other processes of this machine
  **
  ** A child after fork() has copies of what its parent has open here, and must
  ** not touch them: what it opens itself is its own. */
  /* A port in a directory, under a name that is replaced if it is there; for
  ** all users that come to the directory.  The directory's path may be long; of
  ** the name 80 bytes always fit (ENAMETOOLONG), and none is a slash (EINVAL).
  ** What the file system does not have is an error. */
  int (*port_open)(struct env *, struct env_dir *, const char *name,
                   struct env_port **);
  /* The same port in another directory, too, where it replaces the name; an
  ** error where that is of another file system, or all names of the port were
  ** removed. */
  int (*port_link)(struct env *, struct env_port *, struct env_dir *,
                   const char *name);
  /* Without the names, which another process may have replaced by now.  After
  ** env->unwatch_port, or after the watch is closed. */
  void (*port_close)(struct env *, struct env_port *);
  /* Who has called: EAGAIN, nobody. */
  int (*port_accept)(struct env *, struct env_port *, struct env_peer **);
  /* Calls: ENOENT, ECONNREFUSED: nobody is there; EAGAIN: too many are being
  ** heard.  Answers of a process that was stopped do not come. */
  int (*peer_open)(struct env *, struct env_dir *, const char *name,
                   struct env_peer **);
  /* After env->unwatch_peer, or after the watch is closed. */
  void (*peer_close)(struct env *, struct env_peer *);
  /* Of a peer that was called: the process that opened the port; of one that
  ** was accepted: the process that called.  Neither changes. */
  void (*peer_who)(struct env *, struct env_peer *, struct env_who *);
  /* A message, whole, without waiting: EAGAIN, the other end has not read so
  ** many; EPIPE, it has gone (not, if only its process has); EMSGSIZE, it is
  ** too long; EINVAL, a gift cannot be given. */
  int (*peer_send)(struct env *, struct env_peer *, const struct env_message *);
  /* The next message, waiting at most so long (UINT64_MAX: for ever): EAGAIN,
  ** there is none; EPIPE, the other end has gone, or its process has, and all
  ** that it sent was received; EMSGSIZE, it is longer than the room: its
  ** beginning fills that, and the rest is lost, with its gifts.  Memory that
  ** came is the caller's (shared_free).
  ** EPROTO: what came is not of env->peer_send, or memory that can change its
  ** size, or that can be written though it is said to be FIXED, or a file that
  ** is not a regular one.  EMFILE, ENOMEM: no room for a gift.  The message is
  ** lost, and nothing of it stays. */
  int (*peer_receive)(struct env *, struct env_peer *, struct env_message *,
                      uint64_t wait_us);
  /* 1 when the other end has gone, or its process has. */
  int (*peer_gone)(struct env *, struct env_peer *);
  /* Waits for ports that are called, and for peers that have sent something
  ** or have gone: *tag and *what (one of ENV_WATCH_*) are of one of them, and
  ** come again until that is accepted, received, or no longer watched.  EAGAIN:
  ** env->watch_wake was called, since the last wait or in this one, or the time
  ** is over (UINT64_MAX: never).  One thread waits; any may call the others but
  ** unwatch_peer and unwatch_port.  A port or peer is in one watch at most.  A
  ** peer's GONE also comes when its process ends while another process has
  ** inherited the other end. */
  int (*watch_open)(struct env *, struct env_watch **);
  void (*watch_close)(struct env *, struct env_watch *);
  int (*watch_port)(struct env *, struct env_watch *, struct env_port *,
                    void *tag);
  int (*watch_peer)(struct env *, struct env_watch *, struct env_peer *,
                    void *tag);
  /* No event of it comes after that.  By the thread that waits, between two
  ** waits, or when none waits any more. */
  void (*unwatch_peer)(struct env *, struct env_watch *, struct env_peer *);
  void (*unwatch_port)(struct env *, struct env_watch *, struct env_port *);
  int (*watch_wait)(struct env *, struct env_watch *, uint64_t wait_us,
                    void **tag, int *what);
  void (*watch_wake)(struct env *, struct env_watch *);
  /* Memory to be given to another process: zeroed, not resident until touched.
  ** A child after fork() does not inherit it.  EINVAL: no bytes. */
  int (*shared_make)(struct env *, size_t bytes, struct env_shared *);
  /* The same bytes, which the caller cannot write any more, to be given away as
  ** FIXED.  The address may be another.  EPERM: it came from elsewhere, or was
  ** sent as SHARED, or is fixed already.  After another error it is only to be
  ** freed. */
  int (*shared_fix)(struct env *, struct env_shared *);
  /* It is not sent any more: its descriptor is closed, the memory stays. */
  void (*shared_sent)(struct env *, struct env_shared *);
  /* And makes it none.  What others have of it stays theirs. */
  void (*shared_free)(struct env *, struct env_shared *);
  /* Waits while *word is `is`, at most so long (UINT64_MAX: for ever); may
  ** return sooner.  *word may be in shared memory. */
  void (*word_wait)(struct env *, _Atomic uint32_t *word, uint32_t is,
                    uint64_t wait_us);
  /* All that wait for it, in all processes. */
  void (*word_wake)(struct env *, _Atomic uint32_t *word);
  /* Whether a directory is on a file system that other machines may have, too
  ** (NFS, CIFS, 9p): its name, or NULL. */
  const char *(*is_remote)(struct env *, struct env_dir *);
  /* A path that means the same in every process of this machine: `path` itself
  ** if it begins with a slash, else behind the working directory.
  ** ENAMETOOLONG: it does not fit; ENOENT: there is no such directory any
  ** more, or no path. */
  int (*absolute)(struct env *, const char *path, char *to, size_t size);

  /* memory */
  /* malloc, zeroed, at a multiple of 64; what was resized is not. */
  void *(*allocate)(struct env *, size_t bytes);
  void *(*resize)(struct env *, void *, size_t bytes); /* realloc */
  void (*release)(struct env *, void *);               /* free */
  /* Zeroed, 2 MiB aligned when bytes >= 2 MiB, else 4096 aligned, advised for
  ** huge pages when huge is set; not resident until touched. */
  void *(*map)(struct env *, size_t bytes, int huge);
  void (*unmap)(struct env *, void *, size_t bytes);
  /* Advises huge pages for a part of what was mapped without them.  is_used: it
  ** has been written to, and is copied into such pages at once if the system
  ** can; what was not becomes resident. */
  void (*use_huge)(struct env *, void *, size_t bytes, int is_used);
  /* Makes what was mapped resident, if the system can; what is there stays.
  ** Others may write to it meanwhile. */
  void (*populate)(struct env *, void *, size_t bytes);
  /* Gives whole pages of what was mapped back to the system; the addresses
  ** stay, and what is there next is zeros. */
  void (*discard)(struct env *, void *, size_t bytes);
  /* The most memory that this process can have, and whose limit that is, in
  ** words that follow "more than". */
  uint64_t (*memory_limit)(struct env *, const char **whose);

  /* time, randomness, process */
  uint64_t (*now_us)(struct env *); /* monotonic */
  uint32_t (*wall_s)(struct env *); /* seconds since 1970; may jump */
  void (*sleep_us)(struct env *, uint64_t);
  /* Waits for a condition, whose clock is CLOCK_MONOTONIC and whose mutex is
  ** held, at most this long (UINT64_MAX: for ever).  May return sooner; 1: the
  ** time is over. */
  int (*wait_us)(struct env *, pthread_cond_t *, pthread_mutex_t *, uint64_t);
  int (*random)(struct env *, void *, size_t);
  int64_t (*process)(struct env *); /* getpid() */
  int64_t (*user)(struct env *);    /* geteuid() */
  /* Starts a detached-at-exit thread with all signals blocked. */
  int (*thread_start)(struct env *, void (*run)(void *), void *arg,
                      void **thread);
  void (*thread_join)(struct env *, void *thread);
  /* On how many processors the process may run. */
  uint32_t (*processors)(struct env *);
  /* The processor that the calling thread runs on. */
  uint32_t (*processor)(struct env *);
  /* The calling thread, which is the engine's own, runs on this one only from
  ** now on; an errno where it may not, or has no other.  Threads that it starts
  ** may run on all. */
  int (*stay_on)(struct env *, uint32_t processor);
};

/* The real operating system. */
extern struct env env_posix;

/* The environment of what is opened from now on: env_posix, until a test
** replaces it. */
struct env *env_default(void);
void env_set_default(struct env *env);

#endif
