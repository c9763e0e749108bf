/* SPDX-License-Identifier: MIT
**
** scatter.c -- points with names as SVG; see scatter.h.
*/
#include "scatter.h"

#include <math.h>
#include <stdlib.h>

#include "database.h"
#include "svg.h"

/* Pixels. */
enum { LEFT = 70, RIGHT = 560, WIDTH = 760, HEIGHT = 400, TOP = 36, LOW = 346 };

struct frame {
  double left, right, low, high; /* of x its logarithm */
};

static int is_there(const struct scatter_point *point) {
  return point->x > 0 && !isnan(point->y);
}

static struct frame frame_of(const struct scatter *scatter) {
  struct frame f = {INFINITY, -INFINITY, INFINITY, -INFINITY};
  for (size_t i = 0; i < scatter->count; i++) {
    const struct scatter_point *point = &scatter->point[i];
    if (is_there(point)) {
      f.left = fmin(f.left, log10(point->x));
      f.right = fmax(f.right, log10(point->x));
      f.low = fmin(f.low, point->y);
      f.high = fmax(f.high, point->y);
    }
  }
  double x_room = fmax(0.08 * (f.right - f.left), 0.1);
  double y_room = fmax(0.08 * (f.high - f.low), 1e-6);
  return (struct frame){f.left - x_room, f.right + x_room, f.low - y_room,
                        f.high + y_room};
}

static double x_of(const struct frame *f, double logarithm) {
  return LEFT + (RIGHT - LEFT) * (logarithm - f->left) / (f->right - f->left);
}

static double y_of(const struct frame *f, double y) {
  return LOW - (LOW - TOP) * (y - f->low) / (f->high - f->low);
}

static void grid(FILE *out, const struct scatter *scatter,
                 const struct frame *f) {
  char label[32];
  int digits;
  double step = svg_step(f->high - f->low, &digits);
  for (double tick = ceil(f->low / step) * step; tick <= f->high;
       tick += step) {
    svg_line(out, LEFT, y_of(f, tick), RIGHT, y_of(f, tick), "#ddd");
    snprintf(label, sizeof(label), "%.*f", digits, tick);
    svg_text(out, LEFT - 6, y_of(f, tick) + 4, "end", "#666", label);
  }
  for (int power = (int)ceil(f->left); power <= f->right; power++) {
    svg_line(out, x_of(f, power), TOP, x_of(f, power), LOW, "#ddd");
    snprintf(label, sizeof(label), "%.0f", pow(10, power));
    svg_text(out, x_of(f, power), LOW + 18, "middle", "#666", label);
  }
  svg_text(out, (LEFT + RIGHT) / 2.0, LOW + 36, "middle", "#666",
           scatter->x_title);
}

/* 1 if two names would overlap at these heights. */
static int overlap(const struct frame *f, const struct scatter_point *a,
                   double a_y, const struct scatter_point *b, double b_y) {
  double away = x_of(f, log10(a->x)) - x_of(f, log10(b->x));
  return fabs(away) < 150 && fabs(a_y - b_y) < 12;
}

/* The height of each name: next to its point, or below the names that are
** already there. */
static double *name_heights(const struct scatter *scatter,
                            const struct frame *f) {
  const struct scatter_point *point = scatter->point;
  double *y = need(scatter->count, sizeof(*y));
  for (size_t i = 0; i < scatter->count; i++) {
    y[i] = y_of(f, point[i].y) + 4;
    for (size_t k = 0; k < i;) {
      int moved = is_there(&point[i]) && is_there(&point[k]) &&
                  overlap(f, &point[i], y[i], &point[k], y[k]);
      y[i] = moved ? y[k] + 12 : y[i];
      k = moved ? 0 : k + 1;
    }
  }
  return y;
}

static void draw(FILE *out, const struct scatter *scatter) {
  struct frame f = frame_of(scatter);
  svg_text(out, 10, 18, "start", "#222", scatter->title);
  grid(out, scatter, &f);
  double *y = name_heights(scatter, &f);
  for (size_t i = 0; i < scatter->count; i++) {
    const struct scatter_point *point = &scatter->point[i];
    if (is_there(point)) {
      double x = x_of(&f, log10(point->x));
      fprintf(out,
              "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"#1b6ca8\"/>\n", x,
              y_of(&f, point->y));
      svg_text(out, x + 8, y[i], "start", "#222", point->name);
    }
  }
  free(y);
}

void scatter_write(FILE *out, const struct scatter *scatters, size_t count) {
  svg_begin(out, WIDTH, HEIGHT * (int)count);
  for (size_t i = 0; i < count; i++) {
    fprintf(out, "<g transform=\"translate(0,%d)\">\n", HEIGHT * (int)i);
    draw(out, &scatters[i]);
    fprintf(out, "</g>\n");
  }
  svg_end(out);
}
