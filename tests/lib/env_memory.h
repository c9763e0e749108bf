/* SPDX-License-Identifier: MIT
**
** env_memory.h -- an operating system whose files are in memory, for fuzzers.
**
** Memory that the engine takes is counted and limited: what a hostile size
** asks for beyond that is refused, as by a small machine.  Random numbers are
** the same in every run.  One thread only: stores are opened with
** EMB_OPEN_STEP.
*/
#ifndef EMB_TESTS_ENV_MEMORY_H
#define EMB_TESTS_ENV_MEMORY_H

#include "../../engine/env/env.h"

#define ENV_MEMORY_LIMIT (UINT64_C(64) << 20)

/* The same table at every call; for registry_set_env. */
struct env *env_memory(void);

/* Makes a file, or replaces it.  0 without memory. */
int env_memory_write(const char *path, const void *bytes, size_t size);
/* Its content, until the next call; NULL if there is no such file. */
const char *env_memory_read(const char *path, size_t *size);
/* Calls each(arg, name) for the files in a directory. */
void env_memory_list(const char *dir, void (*each)(void *, const char *),
                     void *arg);
/* Removes all files; none is open. */
void env_memory_clear(void);
/* Bytes that the engine holds now. */
uint64_t env_memory_held(void);

#endif
