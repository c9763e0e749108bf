/* SPDX-License-Identifier: MIT
**
** maker.h -- a knowledge maker: it computes the bank's rows with the
** trainer's newest parameters, and writes them.
**
**   EMBEDDINGS  the table's rows are the embeddings of the nodes
**   BELIEFS     the rows are the probabilities of the classes, a running mean
**               of all predictions for the node
**
** It runs either in the trainer's process, when called, or in a process of
** its own (maker_main.c), which goes over the nodes again and again and reads
** the newest parameters before each chunk.
*/
#ifndef BANK_MAKER_H
#define BANK_MAKER_H

#include <sys/types.h>

#include "../../lib/options.h"
#include "../../lib/table.h"
#include "model.h"

enum knowledge { EMBEDDINGS, BELIEFS };
extern const char *const KNOWLEDGE[];

struct maker {
  enum knowledge knowledge;
  const struct data *data;
  struct model *model;
  struct table bank;
  int64_t *keys;
};

/* Makes the bank of a run, DIRECTORY/bank.db, with the table `bank` and the
** tables through which trainer and maker communicate. */
sqlite3 *bank_make(const struct options *options, enum knowledge knowledge);

/* Opens the bank that the trainer has made. */
sqlite3 *bank_open(const struct options *options);

size_t bank_width(enum knowledge knowledge);

void maker_new(struct maker *maker, sqlite3 *db, enum knowledge knowledge,
               const struct data *data, struct model *model);
void maker_free(struct maker *maker);

/* Brings the rows of these nodes up to date with the current model. */
void maker_refresh(struct maker *maker, const uint32_t *nodes, size_t count);

/* ---- one in a process of its own ----------------------------------------- */

enum order { PAUSE, WORK, END };

/* Starts it; it works as soon as there is a checkpoint. */
pid_t maker_start(const struct options *options, enum knowledge knowledge);

/* Waits until it has filled the bank with this many rows. */
void maker_wait(sqlite3 *db, size_t rows);

/* Tells it to pause or to work; it checks after each chunk. */
void maker_order(sqlite3 *db, enum order order);

/* Ends it, and waits for its exit. */
void maker_end(sqlite3 *db, pid_t maker);

#endif
