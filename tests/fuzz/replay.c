/* SPDX-License-Identifier: MIT
**
** replay.c -- runs a fuzzer on files: as a test, without libFuzzer.
**
**     NAME ?FILE ...?
**
** Without arguments: all of tests/fuzz/corpus/NAME.tar.gz, relative to the
** working directory and unpacked below TMPDIR, and the empty input.  A
** failure aborts; the input stays there, and in the archive.
*/
#include "fuzz.h"

#include <dirent.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned passed, failed;

static void run(const char *path) {
  FILE *f = fopen(path, "rb");
  uint8_t *bytes = NULL;
  long size = -1;
  if (f && fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) >= 0 &&
      fseek(f, 0, SEEK_SET) == 0 && (bytes = malloc((size_t)size + 1)) &&
      fread(bytes, 1, (size_t)size, f) == (size_t)size) {
    /* Exactly this long, so that a sanitizer sees any read beyond its end. */
    uint8_t *exact = malloc(size > 0 ? (size_t)size : 1);
    if (exact) {
      memcpy(exact, bytes, (size_t)size);
      printf("%s\n", path); /* the last line names the input that crashed */
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

/* Unpacks the corpus into a new directory; 0: it is not available. */
static int unpack(const char *name, char dir[512]) {
  static char script[] = "tests/fuzz/corpus.sh", what[] = "unpack";
  const char *parent = getenv("TMPDIR");
  char archive[256];
  pid_t child;
  int status = -1;
  (void)snprintf(archive, sizeof archive, "%s", name);
  (void)snprintf(dir, 512, "%s/emb-corpus-XXXXXX", parent ? parent : "/tmp");
  char *const args[] = {script, what, archive, dir, NULL};
  return mkdtemp(dir) &&
         posix_spawn(&child, script, NULL, NULL, args, environ) == 0 &&
         waitpid(child, &status, 0) == child && status == 0;
}

static void run_corpus(const char *name) {
  char dir[512], path[1024];
  DIR *d = unpack(name, dir) ? opendir(dir) : NULL;
  for (struct dirent *e; d && (e = readdir(d)) != NULL;)
    if (e->d_name[0] != '.') {
      (void)snprintf(path, sizeof path, "%s/%.400s", dir, e->d_name);
      run(path);
      (void)unlink(path);
    }
  if (d)
    (void)closedir(d);
  (void)rmdir(dir);
}

int main(int argc, char **argv) {
  const char *name = strrchr(argv[0], '/');
  (void)setvbuf(stdout, NULL, _IOLBF, 0);
  for (int i = 1; i < argc; i++)
    run(argv[i]);
  if (argc == 1) {
    (void)LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    passed++;
    run_corpus(name ? name + 1 : argv[0]);
    failed += passed == 1; /* there is no corpus */
  }
  printf("%u passed, %u failed\n", passed, failed);
  return failed > 0;
}
