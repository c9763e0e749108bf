/* SPDX-License-Identifier: MIT
**
** svg.h -- the elements of pictures.
*/
#ifndef LIB_SVG_H
#define LIB_SVG_H

#include <stdio.h>

/* Begins a white picture of this size in pixels, up to svg_end. */
void svg_begin(FILE *out, int width, int height);
void svg_end(FILE *out);

/* anchor: start, middle or end, of the text at (x, y). */
void svg_text(FILE *out, double x, double y, const char *anchor,
              const char *colour, const char *what);

void svg_line(FILE *out, double x1, double y1, double x2, double y2,
              const char *colour);

/* 1, 2 or 5 times a power of ten, for four to ten grid lines, and the number
** of digits that their labels need after the point. */
double svg_step(double range, int *digits);

#endif
