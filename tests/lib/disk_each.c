/* SPDX-License-Identifier: MIT
**
** disk_each.c -- a crash at each event of a recording: see disk.h.
*/
#include "disk.h"

#include "engine/table/owner/registry.h"
#include "store_help.h"

size_t disk_crash_each(const struct disk *recording, unsigned tries,
                       disk_look *look) {
  struct disk *player = disk_player(recording);
  size_t events = disk_events(recording), states = 0;
  for (size_t e = 0; e <= events && !atomic_load(&test_state.failures); e++) {
    disk_play(player, recording, e);
    for (unsigned i = 0; i < help_amount(tries); i++, states++) {
      enum disk_loss loss = (enum disk_loss)((e + i) % DISK_LOSSES);
      struct disk *after = disk_crash(player, loss, test_random());
      env_set_default(disk_env(after));
      look(after, e, loss);
      disk_free(after);
    }
  }
  disk_free(player);
  return states;
}
