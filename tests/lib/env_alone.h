/* SPDX-License-Identifier: MIT
**
** env_alone.h -- the calls of an env whose files no other process can see:
** locks of bytes are always there, and nobody can be reached.
*/
#ifndef EMB_TESTS_ENV_ALONE_H
#define EMB_TESTS_ENV_ALONE_H

#include "engine/base/env/env.h"

/* Sets the calls for locks of bytes, ports, peers and paths. */
void env_alone(struct env *env);
/* Only the one for ports: a store cannot serve other processes. */
void env_without_ports(struct env *env);

#endif
