/* SPDX-License-Identifier: MIT
**
** schema.h -- the contents of a record's value.
**
**   vectors    the segments, one after the other, each in its storage type and
**              at a multiple of 4
**   state      at a multiple of 4, if there is any: float32, the state of each
**              segment's optimizer, in the same order
**   track      in a table that tracks, at a multiple of 4: an emb_track
**
** A segment is one vector column: its dimension and type, its initializer, and
** how an update applies a gradient.  At the API (emb.h) a row is the segments'
** elements as float32, one after the other.  In a table with one segment and no
** optimizer a record holds only the vector.
**
** TEXT      The manifest keeps the schema as text, a line per segment and a
**           line for each property of the table:
**
**               FLOAT[16] metric=cosine index=... optimizer=... initializer=...
**               insert_on=update
**               seed=0
**               track=wall
**               ttl=...
**               admission=...
**               capacity=1000000 evict=lru
**
**           schema_print writes all parameters, and schema_parse accepts its
**           output; both are part of the format (FORMAT.md).
*/
#ifndef EMB_SCHEMA_H
#define EMB_SCHEMA_H

#include <string.h>

#include "engine/base/err.h"
#include "engine/base/seed.h"
#include "engine/emb.h"
#include "engine/math/ivf/options.h"
#include "engine/storage/rec/layout.h"
#include "engine/math/vec/init.h"
#include "engine/math/vec/optim.h"
#include "engine/math/vec/vec.h"
#include "admission.h"
#include "ttl.h"

/* Maximum length of the text, with its terminating 0. */
#define SCHEMA_TEXT_BYTES 3584

struct segment {
  uint32_t dim, type; /* EMB_F32, EMB_F16 */
  uint32_t metric;    /* EMB_L2, ... */
  int indexed;        /* it has an index */
  struct ivf_options index;
  uint32_t first;        /* its first element in a row */
  uint32_t stored_at;    /* its first byte in a value */
  uint32_t state_at;     /* first byte of its state */
  uint32_t state_floats; /* 0: none */
  int optimized;         /* it has an optimizer and takes gradients */
  struct optim optim;
  struct init init;
};

struct schema {
  uint32_t count;
  uint32_t dim; /* of a row */
  uint32_t state_at, state_floats;
  int optimized;      /* some segment has an optimizer */
  int initialized;    /* some segment's initial value is not zeros */
  uint32_t insert_on; /* EMB_INSERT_ON_* */
  uint32_t track;     /* EMB_TRACK_NONE, ... */
  uint32_t track_at;  /* first byte of the emb_track */
  struct ttl ttl;     /* only in a table that tracks, like admission */
  struct admission_rule admission;
  uint64_t capacity; /* rows, 0: unlimited */
  uint32_t evict;    /* EMB_EVICT_*, if capacity is set */
  uint64_t seed;     /* of the initializers */
  struct segment segments[EMB_SEGMENTS_MAX];
};

/* For a store that emb_open creates.  The text of EMB_RANGE says what is
** wrong. */
int schema_init(struct schema *schema, const emb_config *config, emb_err *err);
/* Compares the requested configuration with a store's schema, and adopts the
** settings that may change: parameters, initializers, insert_on.
** EMB_MISMATCH. */
int schema_accept(struct schema *schema, const emb_config *config,
                  const char *dir, emb_err *err);
/* Makes a schema of a single vector of this dimension and type. */
void schema_plain(struct schema *schema, uint32_t dim, uint32_t type);
int schema_is_plain(const struct schema *schema);
/* Do both have the same dimensions and types? */
int schema__same_vectors(const struct schema *a, const struct schema *b);
/* Writes "FLOAT[1], FLOAT16[8]", or as much of it as fits. */
void schema__describe(const struct schema *schema, char *to, size_t size);
static inline int schema_tracks(const struct schema *schema) {
  return schema->track != EMB_TRACK_NONE;
}
#define SCHEMA_TYPES_BYTES (EMB_SEGMENTS_MAX * sizeof "float16, ")
/* Writes "float32, float16": the type of each vector, in order; to:
** SCHEMA_TYPES_BYTES. */
void schema_types(const struct schema *schema, char *to);
/* Computes the sizes of records and pages. */
void schema_layout(const struct schema *schema, struct layout *layout);
/* to: SCHEMA_TEXT_BYTES.  EMB_RANGE: the text does not fit. */
int schema_print(const struct schema *schema, char *to, emb_err *err);
/* EMB_CORRUPT: the text is not from schema_print. */
int schema_parse(struct schema *schema, const char *text, emb_err *err);

/* Only in self-checking builds: of a schema that was made, parsed or
** accepted. */
int schema_valid(const struct schema *schema);

/* ---- values -------------------------------------------------------------- */

/* Parts of a row: one bit per segment; 0 means all. */
static inline int schema_has_part(uint32_t parts, uint32_t segment) {
  return !parts || EMB_SEED(SEED_PART_PUT_WRITES_ALL) || (parts >> segment & 1);
}
/* Convert a row's vectors to their stored form, and back. */
void schema_encode(const struct schema *schema, const struct vec_ops *vec,
                   void *value, const float *row, uint32_t parts);
void schema_decode(const struct schema *schema, const struct vec_ops *vec,
                   float *row, const void *value);
/* The initial value of a row that was never written. */
void schema_initial(const struct schema *schema, int64_t key, float *row);
/* The optimizers' initial state of such a row.  changed_only: only of
** optimizers that compute the vector from their state, which must be updated
** when the vector is put. */
void schema_initial_state(const struct schema *schema, void *value,
                          const float *row, int changed_only, uint32_t parts);
/* Get and set the track of a stored value, in a table that tracks. */
static inline emb_track schema_track(const struct schema *schema,
                                     const void *value) {
  emb_track track;
  memcpy(&track, (const char *)value + schema->track_at, sizeof track);
  return track;
}
static inline void schema_set_track(const struct schema *schema, void *value,
                                    emb_track track) {
  memcpy((char *)value + schema->track_at, &track, sizeof track);
}
/* Returns when the row with this value expires. */
static inline uint32_t schema_due(const struct schema *schema, int64_t key,
                                  const void *value) {
  return ttl_due(&schema->ttl, key, schema_track(schema, value).updated_at);
}
/* Is every element of a stored value finite? */
int schema_is_finite(const struct schema *schema, const struct vec_ops *vec,
                     const void *value);

#endif
