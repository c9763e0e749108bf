/* SPDX-License-Identifier: MIT
**
** readers_valid.c -- the assertions about what is held for readers, blocks of
** files, and the generations of a manifest fire.
*/
#include "death.h"

#include "engine/storage/ckpt/blocks.h"
#include "engine/storage/ckpt/identity.h"
#include "engine/storage/ckpt/readers.h"

static struct core core;

TEST(what_is_held) {
  const uint64_t extents[2] = {4, 7};
  core.env = &env_posix;
  readers__hold(&core, extents, 2, 3);
  CHECK_EQ_INT(core.readers.count, 2);
  CHECK(readers_valid(&core));
  CHECK_FIRES(core.readers.held = NULL; readers_valid(&core));
  CHECK_FIRES(core.readers.held[1].extent = 4; readers_valid(&core));
  CHECK_FIRES(core.readers.held[0].gone = 0; readers_valid(&core));
  CHECK_ALL_FIRED("engine/storage/ckpt/readers_valid.c");
  readers_free(&core);
}

TEST(blocks_of_a_file) {
  static struct block blocks[BLOCKS_BUFFER + 1];
  struct blocks w = {.core = &core, .blocks = blocks};
  blocks_pair(&w, BLOCK_ENTRIES, 1, 2);
  CHECK_FIRES(w.filled = BLOCKS_BUFFER; blocks_finish(&w));
  CHECK_FIRES(blocks[0].kind = 0; blocks_finish(&w));
  CHECK_FIRES(blocks_pair(&w, BLOCK_SIZES, 1, 2));
  CHECK_ALL_FIRED("engine/storage/ckpt/blocks.c");
}

TEST(generations_of_a_manifest) {
  struct env_file *file;
  emb_err err;
  CHECK_FIRES(identity__expect(&core, 1, 3)); /* not begun */
  CHECK_FIRES(identity__open(&core, &file, &err));
  core.identity.is_noted = 1;
  identity__expect(&core, 1, 3);
  CHECK_FIRES(identity__expect(&core, 1, 2));
}
