/* SPDX-License-Identifier: MIT
**
** moments_help.h -- a store that goes from one known state to the next, and
** files of these states: shared by power_files.c and fail_files.c.
**
** In moment m key i has the value moment_value(m, i) or is absent, so a
** reader of a store can tell which moment it shows: all of one, or none.
** Moments 0 to 2 are the source's, which has a snapshot of each, "m0" to
** "m2"; moment 3 is the copy's content before anything is restored to it.
*/
#ifndef EMB_MOMENTS_HELP_H
#define EMB_MOMENTS_HELP_H

#include "store_help.h"

#include "engine/table/owner/registry.h"

enum { MOMENT_KEYS = 60, MOMENT_DIM = 100, MOMENTS = 4, MOMENT_OTHER = 3 };

/* 0: absent. */
int32_t moment_value(int m, uint32_t i);

int64_t moment_key(uint32_t i);

/* Which moment a store shows; -1: none. */
int moment_of(emb_session *s);

int moment_open(const char *dir, emb_store **store, emb_session **s);

/* The source with its snapshots, and the copy, below `parent`. */
int moments_make(const char *parent);

/* Exports a snapshot to a file, or with `base` an increment. */
int moment_export(emb_session *s, int m, int base, const char *path);

/* Which snapshot a file holds, if all of it is right; -1: none. */
int moment_of_file(const char *path, emb_err *err);

#endif
