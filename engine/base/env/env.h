/* SPDX-License-Identifier: MIT
**
** env.h -- the only door to the operating system.
**
** ROLE      Files, batched asynchronous disk access, large memory, time and
**           threads, behind one table of functions.  Nothing else in engine/
**           may call the operating system; `make lint` checks this.  A test
**           replaces the table to lose writes, fail calls and reorder
**           completions.  Preloading could not inject these faults, because
**           io_uring writes do not pass through libc.
** FAILURE   Calls return 0 or a positive errno value.  They never print, abort,
**           or retry a sync.  EINTR, EAGAIN and short transfers are handled
**           internally; a read past the end of the file fills the rest of the
**           buffer with zeros.
** THREADS   Any thread may make any call.  An env_queue belongs to one thread
**           at a time.
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
struct env_port;  /* where processes of this machine may connect */
struct env_peer;  /* one end of a connection between two processes */
struct env_watch; /* waits for several ports and peers */

enum {
  ENV_READ = 0,
  ENV_WRITE = 1,     /* read and write */
  ENV_CREATE = 2,    /* with WRITE: create if absent */
  ENV_EXCLUSIVE = 4, /* with CREATE: fail with EEXIST if present */
  ENV_DIRECT = 8,    /* O_DIRECT where the file system has it, else buffered:
                        offset, size and buffer are multiples of 4096 */
  ENV_FOLLOW = 16,   /* follow a link at the path's end */
};

/* The attributes of a file. */
struct env_about {
  uint64_t bytes;
  int64_t changed_ns; /* last change of its content, since 1970 */
  int64_t status_ns;  /* last change of content, name, owner or times */
  uint64_t id[2];     /* device and inode */
  int is_file;        /* a regular one */
};

/* A request of an env_queue; the caller owns it until it is delivered. */
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
  ENV_LOCK_UNSETTLED, /* its holder does work that others must wait for */
  ENV_LOCK_SERVES,    /* its holder answers other processes, */
  ENV_LOCK_ALONE      /* or does not */
};

/* The process at the other end, according to the system. */
struct env_who {
  int64_t process; /* 0: not visible from here (another container) */
  int64_t user;
  int is_same_user; /* or the superuser */
};

/* Memory shared by two processes.  Its size never changes.  All zero: none. */
struct env_shared {
  void *base; /* NULL: none */
  size_t bytes;
  int fd; /* the descriptor to send; -1 in received memory, which cannot be
             passed on */
};

/* What a message can carry. */
enum env_gift {
  ENV_GIFT_NONE,
  ENV_GIFT_SHARED, /* memory that both ends write */
  ENV_GIFT_FIXED,  /* sealed memory, which nobody can write any more */
  ENV_GIFT_FILE,   /* an open file; only its identity is used */
};
#define ENV_GIFTS_MAX 2
#define ENV_MESSAGE_MAX 65536

struct env_message {
  void *bytes;
  size_t n; /* sending: at most ENV_MESSAGE_MAX; receiving: the room, then the
               bytes received; after an error still the room */
  struct env_gift_in {
    enum env_gift kind;
    struct env_shared shared; /* SHARED, FIXED */
    uint64_t id[2];           /* FILE: device and inode; sending: unused */
    int writable;             /* FILE: it is open for writing, too */
    struct env_file *file;    /* FILE, sending */
  } gifts[ENV_GIFTS_MAX];     /* up to the first that is NONE */
};

enum {
  ENV_WATCH_MESSAGE = 1, /* for a port: a connection request */
  ENV_WATCH_GONE = 2,    /* earlier messages can still be received */
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
  /* Allocates the range's blocks, so that writes to the range find room.  The
  ** content stays, and the file then extends at least to the range's end.  Does
  ** nothing and returns 0 if the file system cannot do this. */
  int (*reserve)(struct env *, struct env_file *, uint64_t offset,
                 uint64_t bytes);
  /* Free space of the file's file system that this process may use. */
  int (*room)(struct env *, struct env_file *, uint64_t *bytes);
  /* Returns the range's blocks to the file system; does nothing and returns 0
  ** if the file system cannot do this. */
  int (*punch)(struct env *, struct env_file *, uint64_t offset,
               uint64_t bytes);
  int (*unlink)(struct env *, const char *path);
  int (*rename)(struct env *, const char *from, const char *to);
  /* Gives a file a second name; an error if the file system has no links. */
  int (*link)(struct env *, const char *from, const char *to);
  int (*make_dir)(struct env *, const char *path); /* EEXIST is an error */
  int (*remove_dir)(struct env *, const char *path);
  /* Open a directory before making the changes in it that must be durable:
  ** afterwards only the sync itself can fail. */
  int (*open_dir)(struct env *, const char *path, struct env_dir **);
  void (*close_dir)(struct env *, struct env_dir *);
  int (*sync_dir)(struct env *, struct env_dir *);
  /* Syncs the whole file system of the file, including directories. */
  int (*sync_all)(struct env *, struct env_file *);
  /* Calls each(arg, name) for every entry but "." and "..". */
  int (*list_dir)(struct env *, const char *path,
                  void (*each)(void *arg, const char *name), void *arg);
  /* Attributes of an open file; or, if that is NULL, of the file at the path,
  ** following links. */
  int (*about)(struct env *, struct env_file *, const char *path,
               struct env_about *);
  /* Device and inode of an existing path. */
  int (*identity)(struct env *, const char *path, uint64_t id[2]);
  /* Takes an exclusive lock on the file path (created if absent); the lock is
  ** UNSETTLED at first.  It belongs to the open file, not to the process:
  ** opening and closing the file elsewhere does not release it, and another
  ** copy of this library in the process is refused.  It ends with the process,
  ** and a child after fork() does not keep it.  EAGAIN: it is held; otherwise
  ** as open. */
  int (*lock)(struct env *, const char *path, struct env_lock **);
  void (*unlock)(struct env *, struct env_lock *);
  /* The holder has done the work that others must wait for: the lock becomes
  ** SERVES or ALONE.  SERVES may later become ALONE. */
  void (*lock_settle)(struct env *, struct env_lock *, enum env_lock_state);
  /* Reads how the lock file is held, atomically; FREE also if it does not
  ** exist. A lock held by this process counts as any other.  *process: the
  ** holder, 0 if there is none or it is not visible from here. */
  int (*lock_look)(struct env *, const char *path, enum env_lock_state *,
                   int64_t *process);
  /* Locks bytes of an open file, visible to other processes.  SHARED locks do
  ** not block each other; EXCLUSIVE is EAGAIN if there is another lock.  They
  ** end with the process, and a child after fork() does not keep them (the file
  ** is closed there).  `at` is below 2^61.  Locks do not nest: the caller
  ** counts.  EINVAL, ENOLCK: the file system has no byte locks. */
  int (*byte_lock)(struct env *, struct env_file *, uint64_t at,
                   enum env_byte_lock);
  /* Finds the lowest byte below `below` that is locked through another open of
  ** the file, in this process or another; UINT64_MAX: none. */
  int (*byte_lock_lowest)(struct env *, struct env_file *, uint64_t below,
                          uint64_t *at);

  /* batched access; kind ENV_QUEUE_*.  depth: maximum number of requests in
  ** flight.  ENOSYS if the kernel or the container forbids the kind. */
  int (*queue_open)(struct env *, int kind, unsigned depth,
                    struct env_queue **);
  /* Waits for all requests in flight, then frees the queue. */
  void (*queue_close)(struct env *, struct env_queue *);
  /* Starts n requests.  Never blocks for their completion; requests beyond
  ** depth are kept and started as earlier ones complete. */
  int (*queue_submit)(struct env *, struct env_queue *, struct env_io **,
                      size_t n);
  /* Delivers at least min finished requests (or all in flight, if fewer) and at
  ** most max; sleeps, does not poll.  *n: their number. */
  int (*queue_wait)(struct env *, struct env_queue *, size_t min,
                    struct env_io **done, size_t max, size_t *n);

  /* other processes of this machine
  **
  ** A child after fork() has copies of its parent's open objects, and must not
  ** touch them; it may open its own. */
  /* Opens a port in a directory, replacing a file of that name, for all users
  ** who can reach the directory.  The directory's path may be long.
  ** ENAMETOOLONG: the name does not fit (80 bytes always do); EINVAL: it has a
  ** slash.  Also an error if the file system has no sockets. */
  int (*port_open)(struct env *, struct env_dir *, const char *name,
                   struct env_port **);
  /* Makes the port available in another directory, too, replacing a file of
  ** that name; an error if the directory is on another file system, or if all
  ** names of the port were removed. */
  int (*port_link)(struct env *, struct env_port *, struct env_dir *,
                   const char *name);
  /* Does not remove the names, which another process may have replaced.  Call
  ** it after env->unwatch_port, or after the watch is closed. */
  void (*port_close)(struct env *, struct env_port *);
  /* Accepts a connection.  EAGAIN: there is no request. */
  int (*port_accept)(struct env *, struct env_port *, struct env_peer **);
  /* Connects.  ENOENT, ECONNREFUSED: no process is there; EAGAIN: too many
  ** requests are waiting.  A stopped process does not answer. */
  int (*peer_open)(struct env *, struct env_dir *, const char *name,
                   struct env_peer **);
  /* Call it after env->unwatch_peer, or after the watch is closed. */
  void (*peer_close)(struct env *, struct env_peer *);
  /* The process at the other end: the one that opened the port, or for an
  ** accepted peer the one that connected.  It never changes. */
  void (*peer_who)(struct env *, struct env_peer *, struct env_who *);
  /* Sends a whole message without waiting.  EAGAIN: the other end has too many
  ** unread messages; EPIPE: it is closed (not reported if only its process has
  ** gone); EMSGSIZE: the message is too long; EINVAL: a gift cannot be sent. */
  int (*peer_send)(struct env *, struct env_peer *, const struct env_message *);
  /* Receives the next message, waiting at most wait_us (UINT64_MAX: without
  ** limit).  EAGAIN: there is none; EPIPE: the other end or its process has
  ** gone, and all its messages were received; EMSGSIZE: the message is longer
  ** than the room: its beginning fills the room; the rest and the gifts are
  ** lost.  Received memory belongs to the caller (shared_free). EPROTO: the
  ** message is not from env->peer_send, or has memory whose size can change, or
  ** memory called FIXED that can be written, or a file that is not a regular
  ** file.  EMFILE, ENOMEM: no room for a gift.  After these errors the message
  ** is lost, and no part of it is kept. */
  int (*peer_receive)(struct env *, struct env_peer *, struct env_message *,
                      uint64_t wait_us);
  /* 1 if the other end or its process has gone. */
  int (*peer_gone)(struct env *, struct env_peer *);
  /* Waits for ports with connection requests, and for peers that have sent a
  ** message or have gone.  *tag and *what (one of ENV_WATCH_*) describe one of
  ** these events, which is reported again until it is accepted or received, or
  ** until its object is no longer watched.  EAGAIN: env->watch_wake was called
  ** since the last wait or during this one, or the time is over (UINT64_MAX:
  ** never).  One thread waits; any thread may call the other functions except
  ** unwatch_peer and unwatch_port.  A port or peer is in at most one watch,
  ** and leaves it before it enters another; EEXIST: it is in this one already.
  ** GONE is also reported for a peer whose process has ended while another
  ** process has inherited the other end. */
  int (*watch_open)(struct env *, struct env_watch **);
  void (*watch_close)(struct env *, struct env_watch *);
  int (*watch_port)(struct env *, struct env_watch *, struct env_port *,
                    void *tag);
  int (*watch_peer)(struct env *, struct env_watch *, struct env_peer *,
                    void *tag);
  /* No event of the object is reported after this call.  Only the waiting
  ** thread may call it, between two waits, or any thread once none waits any
  ** more. */
  void (*unwatch_peer)(struct env *, struct env_watch *, struct env_peer *);
  void (*unwatch_port)(struct env *, struct env_watch *, struct env_port *);
  int (*watch_wait)(struct env *, struct env_watch *, uint64_t wait_us,
                    void **tag, int *what);
  void (*watch_wake)(struct env *, struct env_watch *);
  /* Allocates memory for another process: zeroed, not resident until touched.
  ** A child after fork() does not inherit it.  EINVAL: 0 bytes. */
  int (*shared_make)(struct env *, size_t bytes, struct env_shared *);
  /* Seals the memory: the caller cannot write to it any more, and may send it
  ** as FIXED.  Its address may change.  EPERM: it was received, or was sent as
  ** SHARED, or is sealed already.  After any other error it can only be
  ** freed. */
  int (*shared_fix)(struct env *, struct env_shared *);
  /* The memory will not be sent again: closes its descriptor and keeps it. */
  void (*shared_sent)(struct env *, struct env_shared *);
  /* Frees the memory and zeroes the struct.  Other processes keep theirs. */
  void (*shared_free)(struct env *, struct env_shared *);
  /* Waits while *word equals `is`, at most wait_us (UINT64_MAX: without limit);
  ** may return sooner.  *word may be in shared memory. */
  void (*word_wait)(struct env *, _Atomic uint32_t *word, uint32_t is,
                    uint64_t wait_us);
  /* Wakes all threads that wait for the word, in all processes. */
  void (*word_wake)(struct env *, _Atomic uint32_t *word);
  /* The name of the directory's file system if other machines may share it
  ** (NFS, CIFS, 9p), else NULL. */
  const char *(*is_remote)(struct env *, struct env_dir *);
  /* A path with the same meaning in every process of this machine: `path`
  ** itself if it begins with a slash, otherwise with the working directory in
  ** front. ENAMETOOLONG: it does not fit; ENOENT: the working directory was
  ** removed, or the path is empty. */
  int (*absolute)(struct env *, const char *path, char *to, size_t size);

  /* memory */
  /* malloc, zeroed, aligned to 64 bytes; resize keeps neither. */
  void *(*allocate)(struct env *, size_t bytes);
  void *(*resize)(struct env *, void *, size_t bytes); /* realloc */
  void (*release)(struct env *, void *);               /* free */
  /* Zeroed, 2 MiB aligned when bytes >= 2 MiB, else 4096 aligned, advised for
  ** huge pages when huge is set; not resident until touched. */
  void *(*map)(struct env *, size_t bytes, int huge);
  void (*unmap)(struct env *, void *, size_t bytes);
  /* Advises huge pages for a part of a mapping made without them.  is_used: the
  ** part has been written to, and is copied into huge pages at once if the
  ** system can do so; untouched pages become resident. */
  void (*use_huge)(struct env *, void *, size_t bytes, int is_used);
  /* Makes mapped memory resident, if the system can; its content stays.  Other
  ** threads may write to it during the call. */
  void (*populate)(struct env *, void *, size_t bytes);
  /* Returns whole pages of mapped memory to the system; the addresses stay
  ** valid and then read as zeros. */
  void (*discard)(struct env *, void *, size_t bytes);
  /* The maximum memory of this process, and the source of that limit, in words
  ** that follow "more than". */
  uint64_t (*memory_limit)(struct env *, const char **whose);

  /* time, randomness, process */
  uint64_t (*now_us)(struct env *); /* monotonic */
  uint32_t (*wall_s)(struct env *); /* seconds since 1970; may jump */
  void (*sleep_us)(struct env *, uint64_t);
  /* Waits for a condition, whose clock is CLOCK_MONOTONIC and whose mutex is
  ** held, at most this long (UINT64_MAX: without limit).  May return sooner; 1:
  ** the time is over. */
  int (*wait_us)(struct env *, pthread_cond_t *, pthread_mutex_t *, uint64_t);
  int (*random)(struct env *, void *, size_t);
  int64_t (*process)(struct env *); /* getpid() */
  int64_t (*user)(struct env *);    /* geteuid() */
  /* Starts a thread, with all signals blocked except those of its own faults;
  ** thread_join must be called. */
  int (*thread_start)(struct env *, void (*run)(void *), void *arg,
                      void **thread);
  void (*thread_join)(struct env *, void *thread);
  /* The number of processors on which the process may run. */
  uint32_t (*processors)(struct env *);
  /* The processor on which the calling thread runs. */
  uint32_t (*processor)(struct env *);
  /* Binds the calling thread, which must be the engine's own, to this
  ** processor; an errno if it may not run there or has only one.  Threads that
  ** it starts may run on all processors. */
  int (*stay_on)(struct env *, uint32_t processor);
};

/* The real operating system. */
extern struct env env_posix;

/* The environment of objects opened after the call: env_posix, unless a test
** has replaced it. */
struct env *env_default(void);
void env_set_default(struct env *env);

#endif
