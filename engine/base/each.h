/* SPDX-License-Identifier: MIT
**
** each.h -- applies a macro to each of its arguments.
**
** EACH(m, with, (a, ..), (b, ..)) is m(with, a, ..) m(with, b, ..): each
** parenthesized list is one argument of EACH and several of m.  16 at most.
*/
#ifndef EMB_BASE_EACH_H
#define EMB_BASE_EACH_H

#define EACH_UNPACKED(...) __VA_ARGS__
#define EACH_CALL(m, ...) m(__VA_ARGS__)
#define EACH_ONE(m, with, a) EACH_CALL(m, with, EACH_UNPACKED a)
#define EACH_1(m, w, a) EACH_ONE(m, w, a)
#define EACH_2(m, w, a, ...) EACH_ONE(m, w, a) EACH_1(m, w, __VA_ARGS__)
#define EACH_3(m, w, a, ...) EACH_ONE(m, w, a) EACH_2(m, w, __VA_ARGS__)
#define EACH_4(m, w, a, ...) EACH_ONE(m, w, a) EACH_3(m, w, __VA_ARGS__)
#define EACH_5(m, w, a, ...) EACH_ONE(m, w, a) EACH_4(m, w, __VA_ARGS__)
#define EACH_6(m, w, a, ...) EACH_ONE(m, w, a) EACH_5(m, w, __VA_ARGS__)
#define EACH_7(m, w, a, ...) EACH_ONE(m, w, a) EACH_6(m, w, __VA_ARGS__)
#define EACH_8(m, w, a, ...) EACH_ONE(m, w, a) EACH_7(m, w, __VA_ARGS__)
#define EACH_9(m, w, a, ...) EACH_ONE(m, w, a) EACH_8(m, w, __VA_ARGS__)
#define EACH_10(m, w, a, ...) EACH_ONE(m, w, a) EACH_9(m, w, __VA_ARGS__)
#define EACH_11(m, w, a, ...) EACH_ONE(m, w, a) EACH_10(m, w, __VA_ARGS__)
#define EACH_12(m, w, a, ...) EACH_ONE(m, w, a) EACH_11(m, w, __VA_ARGS__)
#define EACH_13(m, w, a, ...) EACH_ONE(m, w, a) EACH_12(m, w, __VA_ARGS__)
#define EACH_14(m, w, a, ...) EACH_ONE(m, w, a) EACH_13(m, w, __VA_ARGS__)
#define EACH_15(m, w, a, ...) EACH_ONE(m, w, a) EACH_14(m, w, __VA_ARGS__)
#define EACH_16(m, w, a, ...) EACH_ONE(m, w, a) EACH_15(m, w, __VA_ARGS__)
#define EACH_PICK(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, each, ...)   \
  each
#define EACH(m, with, ...)                                                     \
  EACH_PICK(__VA_ARGS__, EACH_16, EACH_15, EACH_14, EACH_13, EACH_12, EACH_11, \
            EACH_10, EACH_9, EACH_8, EACH_7, EACH_6, EACH_5, EACH_4, EACH_3,   \
            EACH_2, EACH_1, 0)                                                 \
  (m, with, __VA_ARGS__)

#endif
