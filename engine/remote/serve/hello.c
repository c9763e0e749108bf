/* SPDX-License-Identifier: MIT
**
** hello.c -- see hello.h.
*/
#include "hello.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"

struct greeting hello__head(size_t bytes) {
  struct greeting head;
  memset(&head, 0, sizeof head);
  head.magic = SLOT_MAGIC;
  head.protocol = SLOT_VERSION;
  head.kind = MESSAGE_HELLO;
  head.bytes = (uint32_t)bytes;
  snprintf(head.version, sizeof head.version, "%s", EMB_VERSION);
  snprintf(head.commit, sizeof head.commit, "%s", emb_source_id());
  return head;
}

int hello__is_other(const void *came, size_t n) {
  struct greeting head;
  if (n < offsetof(struct greeting, bytes)) {
    return 0;
  }
  memset(&head, 0, sizeof head);
  memcpy(&head, came, n < sizeof head ? n : sizeof head);
  return head.magic == SLOT_MAGIC && head.kind == MESSAGE_HELLO &&
         head.protocol != SLOT_VERSION &&
         (head.protocol <= OLD_PROTOCOL || n >= sizeof head);
}

/* Copies a text of another process, printable characters only. */
static void copy_name(char *to, size_t room, const char *from, size_t n) {
  size_t i = 0;
  for (; i + 1 < room && i < n && from[i]; i++) {
    to[i] = from[i] > ' ' && from[i] < 127 ? from[i] : '?';
  }
  to[i] = 0;
}

/* Enough digits to identify a commit. */
#define COMMIT_DIGITS 12

static void greeting_text(const struct greeting *head, char *to, size_t room) {
  char version[GREETING_VERSION_BYTES], commit[COMMIT_DIGITS + 1];
  if (head->protocol <= OLD_PROTOCOL) {
    snprintf(to, room, "an older emb (protocol %u)", head->protocol);
    return;
  }
  copy_name(version, sizeof version, head->version, sizeof head->version);
  copy_name(commit, sizeof commit, head->commit, sizeof head->commit);
  snprintf(to, room, "emb %s (%s, protocol %u)", version, commit,
           head->protocol);
}

int hello__refuse(emb_err *err, const char *dir, const char *owner_name,
                  int is_same, const struct greeting *owner,
                  const struct greeting *client) {
  char there[128], here[128];
  greeting_text(owner, there, sizeof there);
  greeting_text(client, here, sizeof here);
  return err_set(
      err, EMB_CANTOPEN,
      "%s: %s owns the table with %s, this %s has %s, which it "
      "cannot serve; load the same emb.so %s, or close the table "
      "there",
      dir, is_same ? "another copy of emb in this process" : owner_name, there,
      is_same ? "copy" : "process", here, is_same ? "everywhere" : "in both");
}
