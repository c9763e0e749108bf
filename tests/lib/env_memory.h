/* SPDX-License-Identifier: MIT
**
** env_memory.h -- an operating system whose files are in memory, for fuzzers.
**
** Memory that the engine takes is counted and limited: a hostile size that
** asks for more is refused, as on a small machine.  Random numbers are the
** same in every run.  One thread only: stores are opened with EMB_OPEN_STEP.
** The disk, too, can be limited (env_memory_space): a file takes the blocks
** of 4096 bytes that were written or reserved and not punched since, so parts
** of a file may lack space.
*/
#ifndef EMB_TESTS_ENV_MEMORY_H
#define EMB_TESTS_ENV_MEMORY_H

#include "engine/base/env/env.h"

#define ENV_MEMORY_LIMIT (UINT64_C(64) << 20)

/* The same table at every call; for env_set_default. */
struct env *env_memory(void);

/* Makes a file, or replaces it.  0 without memory. */
int env_memory_write(const char *path, const void *bytes, size_t size);
/* The file's content, valid until the next call; NULL if there is no such
** file. */
const char *env_memory_read(const char *path, size_t *size);
/* Calls each(arg, name) for the files in a directory. */
void env_memory_list(const char *dir, void (*each)(void *, const char *),
                     void *arg);
/* From now on all files together have this many bytes of space, and a write
** beyond it gives ENOSPC; 0: no limit. */
void env_memory_space(uint64_t bytes);
/* The space that the files take now. */
uint64_t env_memory_used(void);
/* Removes all files; none should be open.  Open files only lose their names. */
void env_memory_clear(void);
/* Bytes that the engine holds now. */
uint64_t env_memory_held(void);

#endif
