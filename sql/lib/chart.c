/* SPDX-License-Identifier: MIT
**
** chart.c -- line charts as SVG; see chart.h.
*/
#include "chart.h"

#include <math.h>

#include "svg.h"

/* Pixels. */
enum { LEFT = 70, RIGHT = 520, WIDTH = 760, HEIGHT = 290, TOP = 36, LOW = 236 };

static const char *const COLOUR[SERIES_MAX] = {"#1b6ca8", "#c8553d", "#3a7d44",
                                               "#8d5a97", "#b8860b", "#777777",
                                               "#008b8b", "#a0522d"};

static void range(const struct chart *chart, double *low, double *high) {
  *low = INFINITY;
  *high = -INFINITY;
  for (size_t s = 0; s < chart->count; s++) {
    for (size_t i = 0; i < chart->points; i++) {
      *low = fmin(*low, chart->series[s].y[i]); /* ignores NAN */
      *high = fmax(*high, chart->series[s].y[i]);
    }
  }
  *low = chart->from_zero ? 0 : *low;
  double room = fmax((*high - *low) * 0.08, 1e-6);
  *low -= chart->from_zero ? 0 : room;
  *high += room;
}

static void grid(FILE *out, const struct chart *chart, double low,
                 double high) {
  int digits;
  double step = svg_step(high - low, &digits);
  for (double tick = ceil(low / step) * step; tick <= high; tick += step) {
    double y = LOW - (LOW - TOP) * (tick - low) / (high - low);
    char label[32];
    snprintf(label, sizeof(label), "%.*f", digits, tick);
    svg_line(out, LEFT, y, RIGHT, y, "#ddd");
    svg_text(out, LEFT - 6, y + 4, "end", "#666", label);
  }
  svg_text(out, (LEFT + RIGHT) / 2.0, LOW + 36, "middle", "#666",
           chart->x_title);
}

static double place(const struct chart *chart, size_t i) {
  return LEFT + (RIGHT - LEFT) * ((double)i + 0.5) / (double)chart->points;
}

static void draw(FILE *out, const struct chart *chart) {
  double low, high;
  range(chart, &low, &high);
  svg_text(out, 10, 18, "start", "#222", chart->title);
  grid(out, chart, low, high);
  for (size_t i = 0; i < chart->points; i++) {
    svg_text(out, place(chart, i), LOW + 18, "middle", "#666", chart->x[i]);
  }
  for (size_t s = 0; s < chart->count; s++) {
    const char *colour = COLOUR[s];
    fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" points=\"", colour);
    for (size_t i = 0; i < chart->points; i++) {
      double y = chart->series[s].y[i];
      if (!isnan(y)) {
        fprintf(out, "%.1f,%.1f ", place(chart, i),
                LOW - (LOW - TOP) * (y - low) / (high - low));
      }
    }
    fprintf(out, "\"/>\n");
    svg_text(out, RIGHT + 10, TOP + 12 + 20 * (double)s, "start", colour,
             chart->series[s].name);
  }
}

void chart_write(FILE *out, const struct chart *charts, size_t count) {
  int height = HEIGHT * (int)count;
  svg_begin(out, WIDTH, height);
  for (size_t i = 0; i < count; i++) {
    fprintf(out, "<g transform=\"translate(0,%d)\">\n", HEIGHT * (int)i);
    draw(out, &charts[i]);
    fprintf(out, "</g>\n");
  }
  svg_end(out);
}
