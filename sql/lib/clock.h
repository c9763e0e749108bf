/* SPDX-License-Identifier: MIT
**
** clock.h -- clocks to measure with.
*/
#ifndef LIB_CLOCK_H
#define LIB_CLOCK_H

/* Seconds of the monotonic clock. */
double seconds(void);

/* CPU seconds of this thread, without the time it waits. */
double processor_seconds(void);

#endif
