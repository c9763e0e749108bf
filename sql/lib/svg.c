/* SPDX-License-Identifier: MIT
**
** svg.c -- the elements of pictures; see svg.h.
*/
#include "svg.h"

#include <math.h>

void svg_begin(FILE *out, int width, int height) {
  fprintf(out,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\""
          " height=\"%d\" font-family=\"sans-serif\" font-size=\"12\">\n"
          "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
          width, height, width, height);
}

void svg_end(FILE *out) { fprintf(out, "</svg>\n"); }

void svg_text(FILE *out, double x, double y, const char *anchor,
              const char *colour, const char *what) {
  fprintf(out,
          "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"%s\">%s"
          "</text>\n",
          x, y, anchor, colour, what);
}

void svg_line(FILE *out, double x1, double y1, double x2, double y2,
              const char *colour) {
  fprintf(out,
          "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\""
          " stroke=\"%s\"/>\n",
          x1, y1, x2, y2, colour);
}

double svg_step(double range, int *digits) {
  double step = pow(10, floor(log10(range / 4)));
  step = range / step > 20 ? 5 * step : range / step > 8 ? 2 * step : step;
  *digits = step < 1 ? (int)ceil(-log10(step)) : 0;
  return step;
}
