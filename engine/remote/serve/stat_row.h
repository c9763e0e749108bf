/* SPDX-License-Identifier: MIT
**
** stat_row.h -- one metric of emb_stats as sent to a client.
*/
#ifndef EMB_SERVE_STAT_ROW_H
#define EMB_SERVE_STAT_ROW_H

#include <stdint.h>

struct stat_row {
  char name[56];
  uint32_t has_text, reserved;
  char text[184];
  int64_t value;
};

#endif
