/* SPDX-License-Identifier: MIT
**
** replay.c -- runs a fuzzer on files: as a test, without libFuzzer.
**
**     NAME ?FILE ...?
**
** Without arguments: all of tests/fuzz/corpus/NAME, seen from the working
** directory, and the empty input.  A failure aborts.
*/
#include "fuzz.h"

#include <dirent.h>

static unsigned passed, failed;

static void run(const char *path) {
  FILE *f = fopen(path, "rb");
  uint8_t *bytes = NULL;
  long size = -1;
  if (f && fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) >= 0 &&
      fseek(f, 0, SEEK_SET) == 0 && (bytes = malloc((size_t)size + 1)) &&
      fread(bytes, 1, (size_t)size, f) == (size_t)size) {
    /* Exactly so long that a sanitizer sees what is read behind it. */
    uint8_t *exact = malloc(size > 0 ? (size_t)size : 1);
    if (exact) {
      memcpy(exact, bytes, (size_t)size);
      printf("%s\n", path); /* the last line names what crashed */
      (void)LLVMFuzzerTestOneInput(exact, (size_t)size);
      passed++;
    }
    free(exact);
  } else {
    printf("%s: cannot be read\n", path);
    failed++;
  }
  free(bytes);
  if (f)
    (void)fclose(f);
}

int main(int argc, char **argv) {
  char dir[512], path[1024];
  const char *name = strrchr(argv[0], '/');
  (void)setvbuf(stdout, NULL, _IOLBF, 0);
  for (int i = 1; i < argc; i++)
    run(argv[i]);
  if (argc == 1) {
    (void)snprintf(dir, sizeof dir, "tests/fuzz/corpus/%s",
                   name ? name + 1 : argv[0]);
    (void)LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    passed++;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
      if (e->d_name[0] != '.') {
        (void)snprintf(path, sizeof path, "%s/%.400s", dir, e->d_name);
        run(path);
      }
    if (d)
      (void)closedir(d);
    failed += passed == 1; /* there is no corpus */
  }
  printf("%u passed, %u failed\n", passed, failed);
  return failed > 0;
}
