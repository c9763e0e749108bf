/* SPDX-License-Identifier: MIT
**
** clock.h -- what time it is, to measure with.
*/
#ifndef LIB_CLOCK_H
#define LIB_CLOCK_H

/* Since some moment, of the clock that nobody sets. */
double seconds(void);

/* Of a processor, that this thread has had: what it does not wait. */
double processor_seconds(void);

#endif
