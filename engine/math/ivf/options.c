/* SPDX-License-Identifier: MIT
**
** options.c -- see options.h.
*/
#include "options.h"

#include <stdint.h>
#include <stdio.h>

#include "engine/base/param.h"
#include "engine/emb.h"
#include "lists.h"

#define RECALL_DEFAULT 0.95

#define NAMED(name_, value_, high_)                                            \
  {                                                                            \
    .name = #name_, .at = offsetof(struct ivf_options, name_),                 \
    .value = (value_), .low = 0, .high = (high_), .whole = 1                   \
  }

static const struct param ivf_params[] = {
    NAMED(lists, 0, LISTS_MAX),
    NAMED(code, 8, 8),
    NAMED(probes, 0, LISTS_MAX),
    {.name = "memory",
     .at = offsetof(struct ivf_options, memory),
     .high = 1 << 30,
     .whole = 1,
     .is = PARAM_MIB},
    {.name = "recall",
     .at = offsetof(struct ivf_options, recall),
     .high = 0.999},
    {.name = NULL}};
static const struct param ivf_common[] = {{.name = NULL}};
static const struct param_kind ivf_kinds[] = {{"ivf", ivf_params},
                                              {NULL, NULL}};
static const struct param_list ivf_list_of = {"index", ivf_kinds, ivf_common};

/* Replaces the value `none` by the number 0. */
static void replace_none(char *to, size_t size, const char *text) {
  const char *none = strstr(text, "none");
  if (none && none > text && strchr("= ", none[-1])) {
    snprintf(to, size, "%.*s0%s", (int)(none - text), text, none + 4);
  } else {
    snprintf(to, size, "%s", text);
  }
}

int ivf_parse(struct ivf_options *options, const char *text, emb_err *err) {
  char plain[2 * IVF_TEXT_MAX];
  uint32_t kind;
  memset(options, 0, sizeof *options);
  replace_none(plain, sizeof plain, text);
  int rc = param_parse(&ivf_list_of, plain, options, &kind, err);
  uint32_t code = rc ? 0 : (uint32_t)options->code;
  if (!rc && (code > 4 || code == 3) && code != 8) {
    rc = err_set(err, EMB_RANGE, "ivf: code must be 8, 4, 2, 1 or none, got %u",
                 code);
  }
  if (!rc && options->probes > 0 && options->recall > 0) {
    rc = err_set(err, EMB_RANGE,
                 "ivf: give probes or recall, not both: a fixed number of "
                 "lists promises no recall");
  }
  if (!rc && options->probes == 0 && options->recall == 0) {
    options->recall = RECALL_DEFAULT;
  }
  return rc;
}

size_t ivf_print(const struct ivf_options *options, char *out, size_t size) {
  return param_print(&ivf_list_of, 0, options, out, size);
}
