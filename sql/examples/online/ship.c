/* SPDX-License-Identifier: MIT
**
** ship.c -- brings a serving copy up to date with the trainer; see ship.h.
*/
#include "ship.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files --------------------------------------------------------------- */

void ship_open(const char *directory) {
  if (mkdir(directory, 0777) && errno != EEXIST) {
    die("%s: %s", directory, strerror(errno));
  }
}

static sqlite3_int64 size_of(const char *file) {
  struct stat status;
  if (stat(file, &status)) {
    die("%s: %s", file, strerror(errno));
  }
  return status.st_size;
}

/* Replaces a file that a crash may have left. */
static void attach_new(sqlite3 *db, const char *file) {
  if (unlink(file) && errno != ENOENT) {
    die("%s: %s", file, strerror(errno));
  }
  database_run(db, "ATTACH %Q AS delta", file);
}

static void move(const char *from, const char *to) {
  if (rename(from, to)) {
    die("%s: %s", to, strerror(errno));
  }
}

/* ---- rows ---------------------------------------------------------------- */

/* A consumer has the name of its directory. */
static const char *consumer_of(const char *directory) {
  const char *slash = strrchr(directory, '/');
  return slash ? slash + 1 : directory;
}

struct shipment ship_export(sqlite3 *trainer, const char *table,
                            const char *directory) {
  const char *consumer = consumer_of(directory);
  char *part = sqlite3_mprintf("%s/part", directory);
  struct shipment shipment = {
      database_number(trainer, "SELECT emb_delta_export(%Q, %Q, %Q, 'state=0')",
                      table, consumer, part),
      0};
  if (shipment.rows) {
    sqlite3_int64 mark = database_number(
        trainer, "SELECT sent FROM emb_delta_consumers(%Q) WHERE name = %Q",
        table, consumer);
    char *file = sqlite3_mprintf("%s/%s-%020lld", directory, table, mark);
    shipment.bytes = size_of(part);
    move(part, file);
    database_run(trainer, "SELECT emb_delta_ack(%Q, %Q, %lld)", table, consumer,
                 mark);
    sqlite3_free(file);
  } else {
    unlink(part);
  }
  sqlite3_free(part);
  return shipment;
}

static struct shipment apply_file(sqlite3 *copy, const char *table,
                                  const char *file) {
  struct shipment shipment = {
      database_number(copy, "SELECT emb_delta_apply(%Q, %Q)", table, file),
      size_of(file)};
  unlink(file);
  return shipment;
}

struct shipment ship_apply(sqlite3 *copy, const char *table,
                           const char *directory) {
  struct shipment all = {0, 0};
  struct dirent **entries;
  int count = scandir(directory, &entries, NULL, alphasort);
  if (count < 0) {
    die("%s: %s", directory, strerror(errno));
  }
  size_t length = strlen(table);
  for (int i = 0; i < count; i++) {
    const char *name = entries[i]->d_name;
    if (!strncmp(name, table, length) && name[length] == '-') {
      char *file = sqlite3_mprintf("%s/%s", directory, name);
      struct shipment one = apply_file(copy, table, file);
      all.rows += one.rows;
      all.bytes += one.bytes;
      sqlite3_free(file);
    }
    free(entries[i]);
  }
  free(entries);
  return all;
}

/* ---- dense --------------------------------------------------------------- */

void ship_export_dense(sqlite3 *trainer, const char *directory) {
  char *part = sqlite3_mprintf("%s/part", directory);
  char *file = sqlite3_mprintf("%s/dense", directory);
  attach_new(trainer, part);
  database_run(trainer, "CREATE TABLE delta.dense AS"
                        " SELECT id, weight FROM main.dense;"
                        "DETACH delta");
  move(part, file);
  sqlite3_free(part);
  sqlite3_free(file);
}

int ship_apply_dense(sqlite3 *copy, const char *directory) {
  char *file = sqlite3_mprintf("%s/dense", directory);
  char *taken = sqlite3_mprintf("%s/dense.taken", directory);
  /* Renamed first, since the trainer may write a newer one at any time. */
  if (rename(file, taken) && errno != ENOENT) {
    die("%s: %s", file, strerror(errno));
  }
  int there = !access(taken, F_OK);
  if (there) {
    database_run(copy, "ATTACH %Q AS delta", taken);
    database_run(copy, "REPLACE INTO main.dense(id, weight)"
                       " SELECT id, weight FROM delta.dense;"
                       "DETACH delta");
    unlink(taken);
  }
  sqlite3_free(file);
  sqlite3_free(taken);
  return there;
}
