/* SPDX-License-Identifier: MIT
**
** env_default.c -- the environment of objects opened from now on.
*/
#include "env.h"

static struct env *environment = &env_posix;

void env_set_default(struct env *env) { environment = env; }
struct env *env_default(void) {
  return environment;
}
