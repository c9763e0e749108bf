/* SPDX-License-Identifier: MIT
**
** damage_help.h -- shared by rot.c and rot_pages.c: stores with known
** content, and the judgement of what a damaged copy of a store answers.
**
** A story writes a store, in one or several lives, and notes in an oracle the
** value that every key must have.  It ends with a clean close, or its process
** dies.
**
** VERDICT   A damaged copy may be refused (the error names the file), it may
**           refuse keys (the error names file, page and offset), or it may
**           work as if nothing had happened.  A wrong vector, a key that is
**           missing without an error, damage that a read finds and emb_verify
**           does not, and a crash are failures.
*/
#ifndef EMB_DAMAGE_HELP_H
#define EMB_DAMAGE_HELP_H

#include "store_help.h"

#include "engine/table/owner/registry.h"
#include "env_sync.h"
#include "files.h"

enum { DAMAGE_KEYS = 600, DAMAGE_PAGES = 4096 };

struct oracle {
  int32_t value[DAMAGE_KEYS]; /* of help_vector; 0: there is no such key */
  /* Writes that were not made durable may be cut off, the latest first.
  ** `order` numbers these writes, 0 for a key without one; `before` is the
  ** value that the key had before its write. */
  int32_t before[DAMAGE_KEYS];
  uint32_t order[DAMAGE_KEYS];
  uint32_t orders;
  int32_t older[DAMAGE_KEYS]; /* value, at the story's last checkpoint */
  /* Since the first checkpoint of the last life: bit v, the value was v. */
  uint32_t had[DAMAGE_KEYS];
  int checkpoints;   /* of this life */
  uint64_t recorded; /* the transaction number recorded by the coordinator */
};

struct writer;
struct story {
  const char *name;
  uint32_t dim, type;
  int lives;
  int killed; /* the last one */
  void (*write)(struct writer *, int life);
  const char *admission; /* NULL: none */
};

/* A story's store. */
struct damage_store {
  const struct story *story;
  struct oracle *o;
  struct files files;
  struct files older, oldest; /* at those checkpoints */
  struct layout layout;
  uint64_t salt;
  struct manifest manifest;
  struct file_page pages[DAMAGE_PAGES];
  size_t page_count;
  uint64_t tail_page; /* the first page that is not durable; UINT64_MAX: none */
};

enum verdict {
  REFUSED, /* by emb_open, or when the transaction in doubt is decided */
  READ,    /* by the read of some keys */
  VERIFY,  /* by emb_verify alone */
  CUT,     /* writes that were not durable are gone, the latest first */
  COUNTED, /* all rows are there, and emb_stats reports damage */
  ALIKE,   /* all rows are there */
  VERDICTS
};

/* For emb_verify: takes its lines and forgets them. */
void damage_no_report(void *arg, const char *line);

/* ---- stories ------------------------------------------------------------- */

emb_config damage_config(const struct story *story);

/* A path in a directory for the tests' files: in memory where possible,
** because thousands of copies are written. */
const char *damage_path(const char *name);

/* Tells the story in a directory of the test; returns 1 on success.  Each life
** runs in its own process, so that nothing is left in this one. */
int damage_tell(struct damage_store *d, const struct story *story,
                const char *dir);

void damage_forget(struct damage_store *d);

/* rot.c and rot_pages.c have a test of each story, by its index. */
extern const struct story damage_stories[];

/* ---- judging ------------------------------------------------------------- */

/* Opens the damaged copy in dir and reads everything.  flags: of emb_open.
** go_on: also writes, closes, reopens and reads again.  The files may be
** changed afterwards, unless EMB_OPEN_READONLY was given. */
enum verdict damage_judge(const struct damage_store *d, const char *dir,
                          const char *what, uint32_t flags, int may_cut,
                          int go_on);

#endif
