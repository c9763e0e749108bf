/* SPDX-License-Identifier: MIT
**
** files_whole.c -- one file, read or written as a whole: see files.h.  Apart
** from files.c, which fuzzers use without the frame of tests.
*/
#include "files.h"

#include "test.h"

void *files_load(const char *path, size_t more, size_t *size) {
  struct stat st;
  FILE *f = fopen(path, "rbe");
  int good = f != NULL && fstat(fileno(f), &st) == 0;
  *size = good ? (size_t)st.st_size : 0;
  char *bytes = good ? malloc(*size + more + 1) : NULL;
  good = bytes != NULL && fread(bytes, 1, *size, f) == *size;
  if (f != NULL)
    (void)fclose(f);
  if (!test_check(good, __FILE__, __LINE__, "cannot read %s", path)) {
    free(bytes);
    bytes = NULL;
  }
  return bytes;
}

int files_save(const char *path, const void *bytes, size_t size) {
  FILE *f = fopen(path, "wbe");
  int good = f != NULL && fwrite(bytes, 1, size, f) == size;
  good = f != NULL && fclose(f) == 0 && good;
  return test_check(good, __FILE__, __LINE__, "cannot write %s", path);
}

int files_flip(const char *path, long at, int bits) {
  FILE *f = fopen(path, "r+be");
  int byte = f != NULL && fseek(f, at, SEEK_SET) == 0 ? fgetc(f) : EOF;
  int good = byte != EOF && fseek(f, at, SEEK_SET) == 0 &&
             fputc(byte ^ bits, f) != EOF;
  good = f != NULL && fclose(f) == 0 && good;
  return test_check(good, __FILE__, __LINE__, "cannot change byte %ld of %s",
                    at, path);
}
