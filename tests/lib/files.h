/* SPDX-License-Identifier: MIT
**
** files.h -- the files of a store in memory, to damage and put back.
**
** Read once from a store that is not open; written again for each
** damage that is tried.  Pages of the log are found by their checksums.
*/
#ifndef EMB_TESTS_FILES_H
#define EMB_TESTS_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "engine/storage/ckpt/manifest.h"
#include "engine/storage/rec/page.h"

enum { FILES_MAX = 16, FILES_NAME = 80 };

struct file {
  char name[FILES_NAME];
  char *bytes;
  size_t size;
};

struct files {
  struct file list[FILES_MAX];
  size_t n;
};

/* Reads all files of a directory, or writes them and removes everything else
** that is there.  0 when the operating system refuses. */
int files_read(struct files *files, const char *dir);
int files_write(const struct files *files, const char *dir);
/* One file of them, or one byte of a file that is there. */
int files_write_one(const struct file *file, const char *dir);
int files_write_byte(const struct file *file, const char *dir, size_t offset);
/* 0 without memory; `to` starts as zeros. */
int files_copy(struct files *to, const struct files *from);
void files_free(struct files *files);
/* The file whose name begins with `name`; NULL if there is none. */
struct file *files_find(struct files *files, const char *name);
void files_remove(struct files *files, struct file *file);
/* Copies a directory without directories in it. */
int files_copy_dir(const char *to, const char *from);

/* A whole file in memory, with room for `more` bytes behind it; the caller
** frees it.  NULL, and a failed check, if it cannot be read. */
void *files_load(const char *path, size_t more, size_t *size);
/* Replaces a file; 0, and a failed check, if it cannot be written. */
int files_save(const char *path, const void *bytes, size_t size);
/* Inverts these bits of one byte; 0, and a failed check: it is not there. */
int files_flip(const char *path, long at, int bits);

/* The slot that a reader takes; NULL if none is valid. */
struct manifest *files_manifest(struct files *files);

/* A valid page of the log. */
struct file_page {
  uint64_t number;
  size_t offset;
  uint32_t kind, flags, count;
  uint64_t txn;
};

/* Finds every one, in order of their numbers; returns how many (at most
** max). */
size_t files_pages(const struct file *log, const struct layout *layout,
                   uint64_t salt, struct file_page *pages, size_t max);

#endif
