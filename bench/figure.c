/* SPDX-License-Identifier: MIT
**
** figure.c -- collects the values of a comparison, and writes them as a table
** to standard output and to <out>/<name>.tsv; see harness.h.
**
** The file has one record per line, starting with its kind:
**
**   figure  name  title  date  rounds  size(quick|full)
**   note    text
**   axis    label  kind(numbers|steps)
**   group   number  name  unit  x(or -)
**   value   group  series  round  value  cores engine others p50 p99
**   median  group  series  median min max  cores engine others p50 p99
**   ratio   group  above  below  median min max  relation target met
**   bound   group  series  median min max  relation target met
*/
#include "harness.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NAME_MAX_ = 64, SERIES_MAX = 24, GROUPS_MAX = 320 };

struct series {
  char name[NAME_MAX_];
  int rounds; /* highest round seen, plus one */
  double value[FIGURE_ROUNDS];
  struct usage usage[FIGURE_ROUNDS];
};

struct target {
  char above[NAME_MAX_], below[NAME_MAX_]; /* below empty: a bound */
  enum relation relation;
  double target;
};

struct group {
  char name[NAME_MAX_], unit[NAME_MAX_];
  double x;
  int series_count, target_count;
  struct series *series[SERIES_MAX];
  struct target targets[SERIES_MAX];
};

struct figure {
  const struct options *options;
  char name[NAME_MAX_], title[256], axis[NAME_MAX_];
  char *notes[64];
  int note_count, group_count, steps;
  struct group *groups[GROUPS_MAX];
};

static void copy_name(char *to, const char *from) {
  snprintf(to, NAME_MAX_, "%s", from);
}

struct figure *figure_new(const struct options *options, const char *name,
                          const char *title) {
  struct figure *figure = need(1, sizeof(*figure));
  figure->options = options;
  copy_name(figure->name, name);
  snprintf(figure->title, sizeof(figure->title), "%s", title);
  printf("\n== %s: %s\n", name, title);
  return figure;
}

void figure_note(struct figure *figure, const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  if (figure->note_count < 64) {
    figure->notes[figure->note_count++] = strdup(text);
  }
  printf("   %s\n", text);
  fflush(stdout);
}

void figure_axis(struct figure *figure, const char *label) {
  copy_name(figure->axis, label);
}

void figure_steps(struct figure *figure, const char *label) {
  figure_axis(figure, label);
  figure->steps = 1;
}

struct group *figure_group(struct figure *figure, const char *name,
                           const char *unit, double x) {
  if (figure->group_count == GROUPS_MAX) {
    die("too many groups");
  }
  struct group *group = need(1, sizeof(*group));
  copy_name(group->name, name);
  copy_name(group->unit, unit);
  group->x = x;
  figure->groups[figure->group_count++] = group;
  return group;
}

static struct series *find(struct group *group, const char *name) {
  for (int i = 0; i < group->series_count; i++) {
    if (!strcmp(group->series[i]->name, name)) {
      return group->series[i];
    }
  }
  return NULL;
}

void group_add(struct group *group, const char *name, int round, double value,
               const struct usage *usage) {
  struct series *series = find(group, name);
  if (!series) {
    if (group->series_count == SERIES_MAX) {
      die("too many series");
    }
    series = group->series[group->series_count++] = need(1, sizeof(*series));
    copy_name(series->name, name);
  }
  if (round < 0 || round >= FIGURE_ROUNDS) {
    die("too many rounds");
  }
  series->value[round] = value;
  series->usage[round] =
      usage ? *usage : (struct usage){NAN, NAN, NAN, NAN, NAN};
  series->rounds = round >= series->rounds ? round + 1 : series->rounds;
}

static void add_target(struct group *group, const char *above,
                       const char *below, enum relation relation,
                       double target) {
  if (group->target_count == SERIES_MAX) {
    die("too many targets");
  }
  struct target *to = &group->targets[group->target_count++];
  copy_name(to->above, above);
  copy_name(to->below, below);
  to->relation = relation;
  to->target = target;
}

void group_ratio(struct group *group, const char *above, const char *below,
                 enum relation relation, double target) {
  add_target(group, above, below, relation, target);
}

void group_bound(struct group *group, const char *series,
                 enum relation relation, double target) {
  add_target(group, series, "", relation, target);
}

/* ---- medians ------------------------------------------------------------- */

struct spread {
  double median, min, max;
};

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static struct spread spread_of(const double *values, int n) {
  double sorted[FIGURE_ROUNDS];
  int m = 0;
  for (int i = 0; i < n; i++) {
    if (!isnan(values[i])) {
      sorted[m++] = values[i];
    }
  }
  if (!m) {
    return (struct spread){NAN, NAN, NAN};
  }
  qsort(sorted, (size_t)m, sizeof(double), compare);
  double median =
      m % 2 ? sorted[m / 2] : (sorted[m / 2 - 1] + sorted[m / 2]) / 2;
  return (struct spread){median, sorted[0], sorted[m - 1]};
}

static struct usage usage_of(const struct series *series) {
  double part[5][FIGURE_ROUNDS];
  for (int i = 0; i < series->rounds; i++) {
    const struct usage *u = &series->usage[i];
    part[0][i] = u->cores;
    part[1][i] = u->cores_engine;
    part[2][i] = u->cores_others;
    part[3][i] = u->p50_us;
    part[4][i] = u->p99_us;
  }
  double median[5];
  for (int i = 0; i < 5; i++) {
    median[i] = spread_of(part[i], series->rounds).median;
  }
  return (struct usage){median[0], median[1], median[2], median[3], median[4]};
}

/* Computes the ratio in each round; 0 if a series is missing. */
static int ratio_of(struct group *group, const struct target *target,
                    struct spread *spread) {
  struct series *a = find(group, target->above), *b = NULL;
  double ratio[FIGURE_ROUNDS];
  int n = 0;
  if (!a || (target->below[0] && !(b = find(group, target->below)))) {
    return 0;
  }
  for (int i = 0; i < a->rounds && (!b || i < b->rounds); i++) {
    ratio[n++] = b ? a->value[i] / b->value[i] : a->value[i];
  }
  *spread = spread_of(ratio, n);
  return n > 0;
}

static int met(const struct target *target, double value) {
  return target->relation == AT_LEAST ? value >= target->target
                                      : value <= target->target;
}

/* ---- output -------------------------------------------------------------- */

static const char *human(double value) {
  static char ring[8][24];
  static unsigned at;
  char *to = ring[at++ % 8];
  double size = fabs(value);
  if (isnan(value)) {
    snprintf(to, 24, "-");
  } else if (size >= 1e6) {
    snprintf(to, 24, "%.3gM", value / 1e6);
  } else if (size >= 1e4) {
    snprintf(to, 24, "%.3gk", value / 1e3);
  } else if (size >= 100 || value == floor(value)) {
    snprintf(to, 24, "%.0f", value);
  } else {
    snprintf(to, 24, "%.3g", value);
  }
  return to;
}

static void print_group(struct group *group) {
  printf("\n   %s, %s\n", group->name, group->unit);
  for (int i = 0; i < group->series_count; i++) {
    struct series *series = group->series[i];
    struct spread s = spread_of(series->value, series->rounds);
    struct usage u = usage_of(series);
    printf("     %-26s %9s  (%s..%s)", series->name, human(s.median),
           human(s.min), human(s.max));
    if (!isnan(u.cores)) {
      printf("   cores %.2f, of these the store's threads %.2f, others %.2f",
             u.cores, u.cores_engine, u.cores_others);
    }
    if (!isnan(u.p50_us)) {
      printf("   batch p50 %s us, p99 %s us", human(u.p50_us), human(u.p99_us));
    }
    putchar('\n');
  }
  for (int i = 0; i < group->target_count; i++) {
    struct target *t = &group->targets[i];
    struct spread s;
    if (!ratio_of(group, t, &s)) {
      continue;
    }
    printf("     %s%s%s: %.3g  (%.3g..%.3g)", t->above,
           t->below[0] ? " / " : "", t->below, s.median, s.min, s.max);
    if (t->target != 0 || !t->below[0]) {
      printf("   target %s %.3g: %s",
             t->relation == AT_LEAST ? ">=" : "<=", t->target,
             met(t, s.median) ? "met" : "missed");
    }
    putchar('\n');
  }
}

static void number(FILE *f, double value) {
  if (isnan(value)) {
    fputs("\t-", f);
  } else {
    fprintf(f, "\t%.6g", value);
  }
}

static void write_usage(FILE *f, const struct usage *u) {
  number(f, u->cores);
  number(f, u->cores_engine);
  number(f, u->cores_others);
  number(f, u->p50_us);
  number(f, u->p99_us);
  fputc('\n', f);
}

static void write_spread(FILE *f, const struct spread *s) {
  number(f, s->median);
  number(f, s->min);
  number(f, s->max);
}

static void write_group(FILE *f, int number_of_group, struct group *group) {
  fprintf(f, "group\t%d\t%s\t%s", number_of_group, group->name, group->unit);
  number(f, group->x);
  fputc('\n', f);
  for (int i = 0; i < group->series_count; i++) {
    struct series *series = group->series[i];
    for (int r = 0; r < series->rounds; r++) {
      fprintf(f, "value\t%d\t%s\t%d", number_of_group, series->name, r);
      number(f, series->value[r]);
      write_usage(f, &series->usage[r]);
    }
    struct spread s = spread_of(series->value, series->rounds);
    struct usage u = usage_of(series);
    fprintf(f, "median\t%d\t%s", number_of_group, series->name);
    write_spread(f, &s);
    write_usage(f, &u);
  }
  for (int i = 0; i < group->target_count; i++) {
    struct target *t = &group->targets[i];
    struct spread s;
    if (!ratio_of(group, t, &s)) {
      continue;
    }
    if (t->below[0]) {
      fprintf(f, "ratio\t%d\t%s\t%s", number_of_group, t->above, t->below);
    } else {
      fprintf(f, "bound\t%d\t%s", number_of_group, t->above);
    }
    write_spread(f, &s);
    if (t->target == 0 && t->below[0]) {
      fputs("\t-\t-\t-\n", f);
    } else {
      fprintf(f, "\t%s\t%.6g\t%s\n",
              t->relation == AT_LEAST ? ">=" : "<=", t->target,
              met(t, s.median) ? "met" : "missed");
    }
  }
}

void figure_done(struct figure *figure) {
  for (int i = 0; i < figure->group_count; i++) {
    print_group(figure->groups[i]);
  }
  fflush(stdout);
  const char *name = path("%s/%s.tsv", figure->options->out, figure->name);
  FILE *f = fopen(name, "w");
  if (!f) {
    die("%s: %s", name, strerror(errno));
  }
  time_t t = time(NULL);
  char date[32];
  strftime(date, sizeof(date), "%Y-%m-%d %H:%M", gmtime(&t));
  fprintf(f, "figure\t%s\t%s\t%s\t%d\t%s\n", figure->name, figure->title, date,
          figure->options->rounds, figure->options->quick ? "quick" : "full");
  for (int i = 0; i < figure->note_count; i++) {
    fprintf(f, "note\t%s\n", figure->notes[i]);
    free(figure->notes[i]);
  }
  if (figure->axis[0]) {
    fprintf(f, "axis\t%s\t%s\n", figure->axis,
            figure->steps ? "steps" : "numbers");
  }
  for (int i = 0; i < figure->group_count; i++) {
    write_group(f, i, figure->groups[i]);
    for (int j = 0; j < figure->groups[i]->series_count; j++) {
      free(figure->groups[i]->series[j]);
    }
    free(figure->groups[i]);
  }
  if (fclose(f)) {
    die("%s: %s", name, strerror(errno));
  }
  free(figure);
}
