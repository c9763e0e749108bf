/* SPDX-License-Identifier: MIT
**
** log_head.c -- the first block of the log's file, which identifies its store.
*/
#include "log_head.h"

#include <string.h>

#include "engine/base/hash.h"
#include "engine/emb.h"

struct log_head {    /* first block of the log file */
  uint64_t sum;      /* 00-07 hash_sum of bytes 8..4095, salt and position 0 */
  char magic[8];     /* 08-15 "embstlog" */
  uint32_t format;   /* 16-19 */
  uint32_t reserved; /* 20-23 zero */
  uint8_t uuid[16];  /* 24-39 */
  uint8_t zero[LOG_FILE_HEAD - 40];
};
_Static_assert(sizeof(struct log_head) == LOG_FILE_HEAD, "log head");
#define LOG_FORMAT 1
static const char log_magic[8] = {'e', 'm', 'b', 's', 't', 'l', 'o', 'g'};

void core_log_head_fill(void *bytes, const uint8_t uuid[16]) {
  struct log_head *head = bytes;
  memset(head, 0, sizeof *head);
  memcpy(head->magic, log_magic, sizeof log_magic);
  head->format = LOG_FORMAT;
  memcpy(head->uuid, uuid, 16);
  head->sum = hash_sum((char *)head + 8, LOG_FILE_HEAD - 8, 0, 0);
}

int core_log_head(struct core *core, int write, emb_err *err) {
  struct log_head *head = core->env->map(core->env, LOG_FILE_HEAD, 0);
  int os = 0, rc = EMB_OK;
  if (!head) {
    return err_set(err, EMB_NOMEM, "out of memory");
  }
  if (write) {
    core_log_head_fill(head, core->uuid);
    os = core->env->write(core->env, core->log.file, head, LOG_FILE_HEAD, 0);
  } else {
    os = core->env->read(core->env, core->log.file, head, LOG_FILE_HEAD, 0);
    if (!os &&
        (memcmp(head->magic, log_magic, sizeof log_magic) != 0 ||
         head->sum != hash_sum((char *)head + 8, LOG_FILE_HEAD - 8, 0, 0) ||
         memcmp(head->uuid, core->uuid, 16) != 0)) {
      rc = err_set(err, EMB_CORRUPT,
                   "%s/log: the head does not belong to the manifest",
                   core->dir);
    }
  }
  core->env->unmap(core->env, head, LOG_FILE_HEAD);
  return os ? err_os(err, EMB_IOERR, os, "cannot access %s/log", core->dir)
            : rc;
}
