/* SPDX-License-Identifier: MIT
**
** failing_each.c -- tests that fail each call in turn: see failing.h.
*/
#include "failing.h"

#include <errno.h>
#include <inttypes.h>

#include "engine/table/owner/registry.h"
#include "stacks.h"
#include "test.h"

const struct failing_case failing_cases[FAILING_CASES] = {
    [FAILING_CASE_IO] = {"EIO", FAILING_IO, EIO},
    [FAILING_CASE_FULL] = {"ENOSPC", FAILING_WRITES, ENOSPC},
    [FAILING_CASE_MEMORY] = {"ENOMEM", FAILING_MEMORY, ENOMEM},
    [FAILING_CASE_DESCRIPTORS] = {"EMFILE", FAILING_DESCRIPTORS, EMFILE},
};

void failing_begin(struct failing *f) {
  failing_init(f, &env_posix, test_state.seed);
  env_set_default(&f->env);
}

void failing_end(struct failing *f) {
  env_set_default(&env_posix);
  failing_free(f);
}

struct each {
  failing_try *run;
  const struct failing_case *how;
};

static int each_nth(void *arg, uint64_t n, int forever) {
  const struct each *each = arg;
  return !atomic_load(&test_state.failures) && each->run(n, each->how, forever);
}

uint64_t failing_each(const struct failing_case *how, unsigned lasting,
                      failing_try *run) {
  struct each each = {run, how};
  return stacks_each(how->name, 1, lasting, each_nth, &each);
}

int failing_check(const struct failing *f, int holds, const char *file,
                  int line, uint64_t n, const char *what, int is) {
  return test_check(holds, file, line, "call %" PRIu64 " (%s %s): %s: %d", n,
                    failing_name(f->first), f->first_path, what, is);
}
