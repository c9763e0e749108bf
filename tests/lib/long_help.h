/* SPDX-License-Identifier: MIT
**
** long_help.h -- shared by the tests of a long life: its length, and the
** resources that the engine and the process hold during it.
**
** AMOUNT    LONG=n makes it n times as long, LIFE_SECONDS=n sets its length.
**           A life is a number of epochs; the resources held are compared
**           between the second and the last third of them.
*/
#ifndef EMB_LONG_HELP_H
#define EMB_LONG_HELP_H

#include "store_help.h"

#include "engine/base/env/env.h"
#include "engine/table/owner/registry.h"

enum {
  SHORT_SECONDS = 2,
  EPOCHS_MIN = 9,
  HANG_SECONDS = 300, /* an epoch hangs if it overruns its time by more */
};

/* What may differ between two thirds. */
#define HELD_SLACK_BYTES (INT64_C(256) << 10)
#define RSS_SLACK_BYTES (INT64_C(1) << 20)

/* ---- amount -------------------------------------------------------------- */

struct span {
  unsigned epochs, ms; /* each */
};

struct span long_span(unsigned ms_max);

/* ---- resources held ------------------------------------------------------ */

/* From here on, before a store is opened. */
void long_keep_books(void);

/* Bytes of memory that the engine holds. */
int64_t long_held(void);
/* The same without the read buffers that the process keeps for later calls:
** as many as were ever in use at the same time, up to a limit. */
int64_t long_held_by(const emb_store *store);

/* Threads of this process, without the kernel's that serve an io_uring. */
int long_threads(void);

int long_files(void);

void pause_ms(unsigned ms);

/* A joined thread stays in the list for a moment, and a thread of the pool
** for reads and writes for seconds. */
int long_at_most(int (*count)(void), int most, const char *what);

void long_is_flat(const char *what, const int64_t max[3], int64_t slack);

#endif
