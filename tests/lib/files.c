/* SPDX-License-Identifier: MIT
**
** files.c -- see files.h.
*/
#include "files.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int join(char *to, size_t size, const char *dir, const char *name) {
  int n = snprintf(to, size, "%s/%s", dir, name);
  return n > 0 && (size_t)n < size;
}

static int read_file(struct file *file, const char *dir, const char *name) {
  char path[PATH_BYTES];
  struct stat st;
  size_t done = 0;
  int fd = join(path, sizeof path, dir, name) ? open(path, O_RDONLY) : -1;
  if (fd < 0)
    return 0;
  if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && strlen(name) < FILES_NAME) {
    (void)snprintf(file->name, FILES_NAME, "%s", name);
    file->size = (size_t)st.st_size;
    file->bytes = malloc(file->size + 1);
    for (ssize_t n = 1; file->bytes && n > 0 && done < file->size;
         done += (size_t)(n > 0 ? n : 0))
      n = read(fd, file->bytes + done, file->size - done);
  }
  (void)close(fd);
  return file->bytes && done == file->size;
}

int files_read(struct files *files, const char *dir) {
  DIR *d = opendir(dir);
  int ok = d != NULL;
  memset(files, 0, sizeof *files);
  for (struct dirent *e; ok && (e = readdir(d)) != NULL;)
    if (e->d_name[0] != '.' && e->d_type != DT_SOCK)
      ok = files->n < FILES_MAX &&
           read_file(&files->list[files->n++], dir, e->d_name);
  if (d)
    (void)closedir(d);
  return ok;
}

int files_write_one(const struct file *file, const char *dir) {
  char path[PATH_BYTES];
  size_t done = 0;
  int fd = join(path, sizeof path, dir, file->name)
               ? open(path, O_CREAT | O_WRONLY, 0600)
               : -1;
  if (fd < 0)
    return 0;
  for (ssize_t n = 1; n > 0 && done < file->size;
       done += (size_t)(n > 0 ? n : 0))
    n = write(fd, file->bytes + done, file->size - done);
  int cut = ftruncate(fd, (off_t)file->size);
  return close(fd) == 0 && cut == 0 && done == file->size;
}

int files_write_byte(const struct file *file, const char *dir, size_t offset) {
  char path[PATH_BYTES];
  int fd = join(path, sizeof path, dir, file->name) ? open(path, O_WRONLY) : -1;
  int ok = fd >= 0 && pwrite(fd, file->bytes + offset, 1, (off_t)offset) == 1;
  if (fd >= 0)
    (void)close(fd);
  return ok;
}

/* Makes room for the files: removes anything that is not one of them. */
static int clear(const struct files *files, const char *dir) {
  char path[PATH_BYTES];
  struct stat st;
  DIR *d = opendir(dir);
  if (d == NULL)
    return mkdir(dir, 0700) == 0;
  int ok = 1;
  for (struct dirent *e; ok && (e = readdir(d)) != NULL;) {
    int kept = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
    ok = join(path, sizeof path, dir, e->d_name);
    for (size_t i = 0; ok && !kept && i < files->n; i++)
      kept = strcmp(e->d_name, files->list[i].name) == 0 &&
             lstat(path, &st) == 0 && S_ISREG(st.st_mode);
    if (ok && !kept)
      ok = remove(path) == 0;
  }
  (void)closedir(d);
  return ok;
}

int files_write(const struct files *files, const char *dir) {
  int ok = clear(files, dir);
  for (size_t i = 0; ok && i < files->n; i++)
    ok = files_write_one(&files->list[i], dir);
  return ok;
}

int files_copy(struct files *to, const struct files *from) {
  memset(to, 0, sizeof *to);
  for (size_t i = 0; i < from->n; i++) {
    struct file *file = &to->list[to->n++];
    *file = from->list[i];
    file->bytes = malloc(file->size + 1);
    if (file->bytes == NULL)
      return 0;
    memcpy(file->bytes, from->list[i].bytes, file->size);
  }
  return 1;
}

void files_free(struct files *files) {
  for (size_t i = 0; i < files->n; i++)
    free(files->list[i].bytes);
  memset(files, 0, sizeof *files);
}

struct file *files_find(struct files *files, const char *name) {
  for (size_t i = 0; i < files->n; i++)
    if (strncmp(files->list[i].name, name, strlen(name)) == 0)
      return &files->list[i];
  return NULL;
}

void files_remove(struct files *files, struct file *file) {
  free(file->bytes);
  *file = files->list[--files->n];
}

int files_copy_dir(const char *to, const char *from) {
  struct files files;
  int ok = files_read(&files, from) && files_write(&files, to);
  files_free(&files);
  return ok;
}

struct manifest *files_manifest(struct files *files) {
  struct file *file = files_find(files, "manifest");
  struct manifest *best = NULL;
  if (file == NULL || file->size < 2 * MANIFEST_SLOT)
    return NULL;
  for (int i = 0; i < 2; i++) {
    struct manifest *m =
        (struct manifest *)(void *)(file->bytes + i * MANIFEST_SLOT);
    if (m->generation % 2 == (uint64_t)i &&
        m->sum == hash_sum((const char *)m + 8, MANIFEST_SLOT - 8, 0, 0) &&
        (best == NULL || m->generation > best->generation))
      best = m;
  }
  return best;
}

static int by_number(const void *a, const void *b) {
  uint64_t x = ((const struct file_page *)a)->number;
  uint64_t y = ((const struct file_page *)b)->number;
  return x < y ? -1 : x > y;
}

size_t files_pages(const struct file *log, const struct layout *layout,
                   uint64_t salt, struct file_page *pages, size_t max) {
  size_t n = 0;
  for (size_t at = LOG_FILE_HEAD;
       n < max && at + layout->page_bytes <= log->size;
       at += layout->page_bytes) {
    const char *page = log->bytes + at;
    uint64_t number = page_number(layout, page, salt);
    if (number >> 40 == 0 && page_valid(layout, page, salt, number))
      pages[n++] = (struct file_page){number,           at,
                                      page_kind(page),  page_flags(page),
                                      page_count(page), page_txn(page)};
  }
  qsort(pages, n, sizeof *pages, by_number);
  return n;
}
