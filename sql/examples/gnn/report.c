/* SPDX-License-Identifier: MIT
**
** report.c -- the effect of look-ahead on the graph network, as a table.
**
**   report RESULTS DIRECTORY
**
** RESULTS has the lines that gnn printed.  Writes gnn.md, a part of
** README.md.
*/
#include <errno.h>
#include <string.h>

#include "../../lib/results.h"

int main(int argc, char **argv) {
  static const struct results_row ROW[] = {
      {"off, epoch 1", "off, first epoch"},
      {"on, epoch 1", "on, first epoch"},
      {"off, epoch 2", "off, second epoch"},
      {"on, epoch 2", "on, second epoch"},
      {0}};
  static const struct results_column COLUMN[] = {
      {"seconds", "s of an epoch", 1, 1},
      {"waiting", "of that waiting for rows, %", 100, 1},
      {"loss", "loss", 1, 6},
      {0}};
  if (argc != 3) {
    die("usage: report RESULTS DIRECTORY");
  }
  sqlite3 *db = results_read(argv[1]);
  char *file = sqlite3_mprintf("%s/gnn.md", argv[2]);
  FILE *out = fopen(file, "w");
  if (!out) {
    die("%s: %s", file, strerror(errno));
  }
  results_table(out, db, "gnn", "look-ahead", ROW, COLUMN);
  fprintf(out,
          "The rows take %.0f MB, the table has 30 MB of memory. Accuracy on"
          " 4,000 test synsets: %.1f %% without look-ahead, %.1f %% with it.\n",
          results_mean(db, "gnn", "on", "MB").value,
          100 * results_mean(db, "gnn", "off", "accuracy").value,
          100 * results_mean(db, "gnn", "on", "accuracy").value);
  if (ferror(out) || fclose(out)) {
    die("%s: %s", file, strerror(errno));
  }
  sqlite3_free(file);
  database_close(db);
  return 0;
}
