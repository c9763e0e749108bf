/* SPDX-License-Identifier: MIT
**
** layout_valid.c -- each assertion about the sizes of records fires.
*/
#include "death.h"
#include "layout_help.h"

TEST(the_sizes_of_records) {
  struct layout l;
  layout_plain(&l, 64, EMB_F32);
  CHECK(layout_valid(&l));
  CHECK_FIRES(l.value_bytes = 4; layout_valid(&l));
  CHECK_FIRES(l.rec_bytes--; layout_valid(&l));
  CHECK_FIRES(l.page_bytes++; layout_valid(&l));
  CHECK_FIRES(l.slots++; layout_valid(&l));
  CHECK_FIRES(l.slot_bits--; layout_valid(&l));
  CHECK_FIRES(l.tombs++; layout_valid(&l));
  CHECK_FIRES(l.extent_bits++; layout_valid(&l));
  CHECK_ALL_FIRED("engine/storage/rec/layout_valid.c");
}
