/* SPDX-License-Identifier: MIT
**
** manifest.c -- fuzzes the manifest alone.
**
** INPUT     byte 0  bits 0 and 1: the slot gets its checksum; 2 and 3: and its
**                   magic
**           then the first 128 bytes of both slots, then any byte of the file
*/
#include "fuzz.h"

#include "engine/emb.h"
#include "env_memory.h"
#include "files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static char bytes[2 * MANIFEST_SLOT + 16];
  struct fuzz_input in = {data, size};
  struct manifest m;
  emb_err err = {0, ""};
  unsigned how = fuzz_byte(&in);
  int damaged = 7;
  memset(bytes, 0, sizeof bytes);
  for (int slot = 0; slot < 2; slot++)
    for (int i = 0; i < 128; i++)
      bytes[slot * MANIFEST_SLOT + i] = (char)fuzz_byte(&in);
  while (in.left > 2) {
    uint64_t at = fuzz_bytes(&in, 2);
    bytes[at % (2 * MANIFEST_SLOT)] = (char)fuzz_byte(&in);
  }
  for (unsigned slot = 0; slot < 2; slot++) {
    char *to = bytes + slot * MANIFEST_SLOT;
    if (how >> (2 + slot) & 1)
      memcpy(to + 8, "embstore", 8);
    uint64_t sum = hash_sum(to + 8, MANIFEST_SLOT - 8, 0, 0);
    if (how >> slot & 1)
      memcpy(to, &sum, sizeof sum);
  }
  size_t length = how & 16 ? sizeof bytes - 16 - size % 5000 : sizeof bytes;
  FUZZ_CHECK(env_memory_write("/m/manifest", bytes, length));
  int rc = manifest_read(env_memory(), "/m", &m, &err);
  FUZZ_CHECK(rc == EMB_OK || ((rc == EMB_CORRUPT || rc == EMB_NOTADB) &&
                              strncmp(err.text, "/m", 2) == 0));
  if (rc == EMB_OK)
    FUZZ_CHECK(m.format >= 1 && m.format <= MANIFEST_FORMAT &&
               m.sum == hash_sum((char *)&m + 8, MANIFEST_SLOT - 8, 0, 0));
  rc = manifest_check(env_memory(), "/m", &damaged, &err);
  FUZZ_CHECK(rc == EMB_OK && damaged >= -1 && damaged <= 1);
  env_memory_clear();
  return 0;
}
