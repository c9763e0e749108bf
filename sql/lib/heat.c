/* SPDX-License-Identifier: MIT
**
** heat.c -- matrices of numbers as SVG; see heat.h.
**
** A cell's colour goes from pale yellow over green to dark blue, so that
** light and dark also differ in print; its number is printed in it.
*/
#include "heat.h"

#include <math.h>

#include "svg.h"

/* Pixels. */
enum { CELL_WIDTH = 28, CELL_HEIGHT = 18, LEFT = 70, TOP = 60, BELOW = 30 };

/* Red, green, blue of the ends and the middle. */
static const double COLOUR[3][3] = {
    {255, 247, 200}, {65, 170, 160}, {15, 45, 110}};

static double part_of(const struct heat *heat, double value) {
  double part = (value - heat->low) / (heat->high - heat->low);
  return fmin(fmax(part, 0), 1);
}

static void cell(FILE *out, const struct heat *heat, double value, double x,
                 double y) {
  double part = 2 * part_of(heat, value);
  int from = part < 1 ? 0 : 1;
  double rgb[3];
  char label[32];
  for (int i = 0; i < 3; i++) {
    rgb[i] = COLOUR[from][i] +
             (part - from) * (COLOUR[from + 1][i] - COLOUR[from][i]);
  }
  fprintf(out,
          "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\""
          " fill=\"rgb(%.0f,%.0f,%.0f)\"/>\n",
          x, y, CELL_WIDTH, CELL_HEIGHT, rgb[0], rgb[1], rgb[2]);
  snprintf(label, sizeof(label), "%.0f", value);
  svg_text(out, x + CELL_WIDTH / 2.0, y + CELL_HEIGHT - 5, "middle",
           part > 0.8 ? "white" : "#222", label);
}

static void draw(FILE *out, const struct heat *heat) {
  svg_text(out, 10, 18, "start", "#222", heat->title);
  svg_text(out, 10, TOP - 6, "start", "#666", heat->row_title);
  svg_text(out, LEFT + CELL_WIDTH * (double)heat->columns / 2, TOP - 22,
           "middle", "#666", heat->column_title);
  for (size_t j = 0; j < heat->columns; j++) {
    svg_text(out, LEFT + CELL_WIDTH * ((double)j + 0.5), TOP - 6, "middle",
             "#666", heat->column[j]);
  }
  for (size_t i = 0; i < heat->rows; i++) {
    double y = TOP + CELL_HEIGHT * (double)i;
    svg_text(out, LEFT - 6, y + CELL_HEIGHT - 5, "end", "#666", heat->row[i]);
    for (size_t j = 0; j < heat->columns; j++) {
      double value = heat->value[i * heat->columns + j];
      if (!isnan(value)) {
        cell(out, heat, value, LEFT + CELL_WIDTH * (double)j, y);
      }
    }
  }
}

static int height_of(const struct heat *heat) {
  return TOP + CELL_HEIGHT * (int)heat->rows + BELOW;
}

void heat_write(FILE *out, const struct heat *heats, size_t count) {
  int width = 0, height = 0;
  for (size_t i = 0; i < count; i++) {
    int need = LEFT + CELL_WIDTH * (int)heats[i].columns + 20;
    width = need > width ? need : width;
    height += height_of(&heats[i]);
  }
  svg_begin(out, width, height);
  height = 0;
  for (size_t i = 0; i < count; i++) {
    fprintf(out, "<g transform=\"translate(0,%d)\">\n", height);
    draw(out, &heats[i]);
    fprintf(out, "</g>\n");
    height += height_of(&heats[i]);
  }
  svg_end(out);
}
