/* SPDX-License-Identifier: MIT
**
** maker_main.c -- a knowledge maker in a process of its own; see maker.h.
**
**   maker GRAPH EXTENSION DIRECTORY --knowledge embeddings|beliefs
**
** A trainer starts it (maker_start); it ends when the trainer ends.  The
** trainer is the owner process of the bank, and this process is a client.
*/
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "maker.h"

enum { CHUNK = 512 };

static void rest(void) {
  struct timespec time = {0, 5000000};
  nanosleep(&time, NULL);
}

/* Refreshes the next nodes, in the order of their numbers. */
static size_t refresh_chunk(struct maker *maker, size_t first) {
  uint32_t nodes[CHUNK];
  size_t count = 0;
  while (count < CHUNK && first + count < maker->data->nodes) {
    nodes[count] = (uint32_t)(first + count);
    count++;
  }
  maker_refresh(maker, nodes, count);
  return first + count < maker->data->nodes ? first + count : 0;
}

static void work(struct maker *maker, sqlite3 *db) {
  sqlite3_stmt *control = statement_new(db, "SELECT work FROM control");
  int64_t step = 0;
  size_t next = 0;
  for (;;) {
    statement_step(control);
    int order = sqlite3_column_int(control, 0);
    statement_end(control);
    if (order == END) {
      break;
    }
    step = order == WORK ? checkpoint_read(db, maker->model, step) : step;
    if (order == WORK && step > 0) {
      next = refresh_chunk(maker, next);
    } else {
      rest();
    }
  }
  sqlite3_finalize(control);
}

int main(int argc, char **argv) {
  struct options options;
  size_t knowledge = EMBEDDINGS;
  struct option list[] = {{"knowledge", &knowledge, KNOWLEDGE}, {0}};
  options_parse(&options, list, argc, argv);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  block_one_thread();
  struct data data;
  struct model model;
  struct maker maker;
  data_read(&data, options.graph);
  model_new(&model, &data, 1);
  sqlite3 *db = bank_open(&options);
  maker_new(&maker, db, (enum knowledge)knowledge, &data, &model);
  work(&maker, db);
  maker_free(&maker);
  database_close(db);
  model_free(&model);
  data_free(&data);
  return 0;
}
