/* SPDX-License-Identifier: MIT
**
** interrupt.h -- for testfixture.c: interrupts a connection at a chosen place.
*/
#ifndef INTERRUPT_H
#define INTERRUPT_H

struct sqlite3;

/* What is counted: polls of the extension, or steps of SQLite's machine. */
enum interrupt_place { INTERRUPT_POLL, INTERRUPT_STEP };

/* The connection is interrupted after this number of places, until
** interrupt_disarm.  One connection at a time. */
void interrupt_arm(struct sqlite3 *db, enum interrupt_place where, long before);

/* Whether there was an interrupt. */
int interrupt_disarm(void);

#endif
