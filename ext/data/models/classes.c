/* SPDX-License-Identifier: MIT
**
** classes.c -- emb_f1(predicted, label [, average]): how well classes are told
** apart.
**
** COUNTS    For each class, an INTEGER or a TEXT: how often it was predicted
**           correctly, was predicted, and was the label.  F1 of a class is
**           2 right / (predicted + labels), the harmonic mean of precision and
**           recall.
** MEMORY    A hash table with open addressing, at most half full; it grows with
**           the number of classes.
*/
#include "engine/data/emb_data.h"
#include "models.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

enum { F1_MACRO, F1_MICRO, F1_WEIGHTED, F1_BINARY };
static const char *const f1_averages[] = {"macro", "micro", "weighted",
                                          "binary"};

static void f1_free(struct f1 *f1) {
  for (size_t i = 0; i < f1->capacity; i++)
    sqlite3_free(f1->slots[i].text);
  sqlite3_free(f1->slots);
  *f1 = (struct f1){.failed = f1->failed};
}

/* ---- classes ------------------------------------------------------------- */

/* The slot of the class, or the free slot for it. */
static struct class_count *f1_slot(struct class_count *slots, size_t capacity,
                                   const struct class_count *class) {
  size_t i = (size_t) class->word & (capacity - 1);
  while (slots[i].used &&
         (slots[i].word != class->word || slots[i].size != class->size ||
          !slots[i].text != !class->text ||
          (class->text && memcmp(slots[i].text, class->text, class->size))))
    i = (i + 1) & (capacity - 1);
  return &slots[i];
}

/* Slots moved between two checks for an interrupt. */
enum { F1_MOVES = 65536 };

/* Unchanged after an error. */
static int f1_grow(struct f1 *f1, char **err) {
  struct ext_conn asked = {.db = f1->db};
  size_t capacity = f1->capacity ? f1->capacity * 2 : 16;
  struct class_count *slots = sqlite3_malloc64(capacity * sizeof *slots);
  if (slots == NULL)
    return SQLITE_NOMEM;
  memset(slots, 0, capacity * sizeof *slots);
  for (size_t i = 0; i < f1->capacity; i++) {
    if (i % F1_MOVES == F1_MOVES - 1 && ext_link_interrupted(&asked)) {
      sqlite3_free(slots);
      return ext_error(err, SQLITE_INTERRUPT, "interrupted");
    }
    if (f1->slots[i].used)
      *f1_slot(slots, capacity, &f1->slots[i]) = f1->slots[i];
  }
  sqlite3_free(f1->slots);
  f1->slots = slots;
  f1->capacity = capacity;
  emb_check(ext_f1_valid(f1));
  return SQLITE_OK;
}

/* Finds or adds the class that a value names; *number: its slot. */
static int f1_class(struct f1 *f1, sqlite3_value *value, const char *what,
                    size_t *number, char **err) {
  struct class_count class = {.used = 1}, *slot;
  int64_t integer;
  int rc = SQLITE_OK;
  if (sqlite3_value_type(value) == SQLITE_TEXT) {
    class.text = (char *)(uintptr_t)sqlite3_value_text(value);
    class.size = (size_t)sqlite3_value_bytes(value);
    if (class.text == NULL)
      return SQLITE_NOMEM;
    class.word = emb_random_bytes(class.text, class.size, 1);
  } else {
    rc = ext_key_from_value(value, what, &integer, err);
    class.word = rc == SQLITE_OK ? emb_random_integer(integer) : 0;
  }
  if (rc == SQLITE_OK && f1->capacity == 0)
    rc = f1_grow(f1, err);
  if (rc != SQLITE_OK)
    return rc;
  slot = f1_slot(f1->slots, f1->capacity, &class);
  if (!slot->used && 2 * (f1->n + 1) > f1->capacity) {
    rc = f1_grow(f1, err);
    if (rc != SQLITE_OK)
      return rc;
    slot = f1_slot(f1->slots, f1->capacity, &class);
  }
  *number = (size_t)(slot - f1->slots);
  if (slot->used)
    return SQLITE_OK;
  if (class.text) {
    char *copy = sqlite3_malloc64(class.size + 1);
    if (copy == NULL)
      return SQLITE_NOMEM;
    memcpy(copy, class.text, class.size);
    class.text = copy;
  }
  *slot = class;
  f1->n++;
  return SQLITE_OK;
}

/* ---- rows ---------------------------------------------------------------- */

static int f1_ask(struct f1 *f1, sqlite3_value *value, char **err) {
  const char *text;
  struct near near;
  int rc = ext_arg_text(value, "argument 3 of emb_f1", &text, err);
  if (rc != SQLITE_OK)
    return rc;
  near_start(&near, text, strlen(text));
  for (f1->average = 0; f1->average <= F1_BINARY; f1->average++) {
    if (near_is(f1_averages[f1->average], text))
      return SQLITE_OK;
    near_offer(&near, f1_averages[f1->average]);
  }
  return ext_error(err, SQLITE_ERROR, "unknown average: %s%s", text,
                   near_text(&near));
}

static int f1_add(struct f1 *f1, int argc, sqlite3_value **argv, char **err) {
  size_t predicted, label;
  int rc = f1->is_asked || argc < 3 ? SQLITE_OK : f1_ask(f1, argv[2], err);
  f1->is_asked = 1;
  if (rc == SQLITE_OK) /* added first: finding it again moves nothing */
    rc = f1_class(f1, argv[1], "argument 2 of emb_f1", &label, err);
  if (rc == SQLITE_OK)
    rc = f1_class(f1, argv[0], "argument 1 of emb_f1", &predicted, err);
  if (rc == SQLITE_OK)
    rc = f1_class(f1, argv[1], "argument 2 of emb_f1", &label, err);
  if (rc != SQLITE_OK)
    return rc;
  f1->rows++;
  f1->slots[predicted].predicted++;
  f1->slots[label].labels++;
  f1->slots[label].right += predicted == label;
  f1->right += predicted == label;
  return SQLITE_OK;
}

static void f1_step(sqlite3_context *context, int argc, sqlite3_value **argv) {
  struct f1 *f1 = sqlite3_aggregate_context(context, sizeof *f1);
  char *err = NULL;
  int rc;
  if (f1 == NULL) {
    sqlite3_result_error_nomem(context);
    return;
  }
  if (f1->failed || sqlite3_value_type(argv[0]) == SQLITE_NULL ||
      sqlite3_value_type(argv[1]) == SQLITE_NULL)
    return;
  f1->db = sqlite3_context_db_handle(context);
  rc = f1_add(f1, argc, argv, &err);
  if (rc != SQLITE_OK) {
    f1->failed = 1;
    ext_result_error(context, rc, err);
  }
}

/* ---- the result ---------------------------------------------------------- */

/* 0 for a class that is neither predicted nor a label. */
static double f1_of(const struct class_count *class) {
  int64_t all = class->predicted + class->labels;
  return all ? 2 * (double)class->right / (double)all : 0;
}

/* Weighs all classes equally, or each by how often it is the label. */
static double f1_mean(const struct f1 *f1) {
  double sum = 0;
  for (size_t i = 0; i < f1->capacity; i++) {
    const struct class_count *class = &f1->slots[i];
    if (class->used && f1->average == F1_MACRO)
      sum += f1_of(class) / (double)f1->n;
    else if (class->used)
      sum += f1_of(class) * ((double)class->labels / (double)f1->rows);
  }
  return sum;
}

static void f1_final(sqlite3_context *context) {
  struct f1 *f1 = sqlite3_aggregate_context(context, 0);
  if (f1 == NULL)
    return;
  emb_check(ext_f1_valid(f1));
  if (!f1->failed && f1->rows) {
    struct class_count one = {.word = emb_random_integer(1), .used = 1};
    double result = (double)f1->right / (double)f1->rows; /* micro */
    if (f1->average == F1_BINARY)
      result = f1_of(f1_slot(f1->slots, f1->capacity, &one));
    else if (f1->average != F1_MICRO)
      result = f1_mean(f1);
    sqlite3_result_double(context, result);
  }
  f1_free(f1);
}

int ext_models_classes_register(sqlite3 *db) {
  int rc = SQLITE_OK;
  for (int argc = 2; argc <= 3 && rc == SQLITE_OK; argc++)
    rc = sqlite3_create_function_v2(db, "emb_f1", argc, CHOOSE_FLAGS, NULL,
                                    NULL, f1_step, f1_final, NULL);
  return rc;
}
