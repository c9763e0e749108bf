/* SPDX-License-Identifier: MIT
**
** fence.h -- memory fences that ThreadSanitizer does not model.
**
** The data they order is atomic throughout, so leaving them out under
** ThreadSanitizer hides nothing from it.  Each use says what it orders.
*/
#ifndef EMB_BASE_FENCE_H
#define EMB_BASE_FENCE_H

#include <stdatomic.h>

#if defined(__SANITIZE_THREAD__)
#define FENCE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FENCE_TSAN 1
#endif
#endif
#ifndef FENCE_TSAN
#define FENCE_TSAN 0
#endif

static inline void fence_acquire(void) {
#if !FENCE_TSAN
  atomic_thread_fence(memory_order_acquire);
#endif
}
static inline void fence_release(void) {
#if !FENCE_TSAN
  atomic_thread_fence(memory_order_release);
#endif
}

#endif
