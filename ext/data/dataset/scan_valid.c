/* SPDX-License-Identifier: MIT
**
** scan_valid.c -- checks that a scan is as scan.h says.  Only in self-checking
** builds (engine/base/debug.h).
*/
#include "engine/data/emb_data.h"
#include "scan.h"
SQLITE_EXTENSION_INIT3

#if EMB_DEBUG > 0

static void samples_check_load(const struct samples_scan_load *load) {
  emb_assert(load->n > 0 && load->records <= load->n);
  emb_assert(!load->records || load->batch);
  for (size_t i = 0; i < load->n; i++) {
    const struct ext_samples_entry *entry = &load->entries[i];
    emb_assert(!entry->is_read ||
               (entry->file && entry->record < load->records));
    emb_assert(!entry->is_timed || entry->is_read);
    emb_assert(!entry->file || entry->file->refs > 0);
    emb_assert(!entry->file || entry->is_there);
  }
}

/* Each key of a list is handed out, in a load, or still to be loaded. */
static void samples_check_list(const struct ext_samples_scan *scan) {
  size_t loaded = 0;
  for (int i = 0; i < scan->count; i++)
    loaded += scan->loads[(scan->front + i) % SCAN_LOADS].n;
  emb_assert(scan->key_at <= scan->key_count);
  emb_assert(scan->position + loaded - scan->at == scan->key_at);
  emb_assert(!scan->is_kept);
}

int ext_samples_scan_valid(const struct ext_samples_scan *scan) {
  emb_assert(scan->front >= 0 && scan->front < SCAN_LOADS);
  emb_assert(scan->count >= 0 && scan->count <= SCAN_LOADS);
  for (int i = 0; i < scan->count; i++)
    samples_check_load(&scan->loads[(scan->front + i) % SCAN_LOADS]);
  if (scan->is_list)
    samples_check_list(scan);
  emb_assert(!scan->is_kept || (scan->kept.is_read && !scan->ended));
  if (scan->eof) {
    emb_assert(scan->count == 0 && scan->ended);
    return 1;
  }
  emb_assert(scan->count > 0 && scan->at < samples_scan_front(scan)->n);
  emb_assert(scan->is_waited);
  emb_assert(!scan->is_split || samples_scan_entry(scan)->is_read);
  return 1;
}

#endif
