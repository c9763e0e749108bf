/* SPDX-License-Identifier: MIT
**
** hello.h -- what a client and an owner say of themselves before anything else,
** and what each says to its caller where the other is of another protocol.
**
** THE HEAD  struct greeting of slot.h, the same in every version from protocol
**           6 on.  What follows it is read only if the protocols agree.
** OLDER     A client of protocol 5 or less is known by the number in its hello,
**           and gets the answer that it knows, with the text.  An owner of
**           protocol 5 hangs up on a hello of another length; so a client that
**           is hung up on says hello once more in that length, and the answer
**           has the owner's number [link.c].
** FAILURE   EMB_CANTOPEN, as for anything else that the two do not agree on: it
**           does not go away by waiting.
*/
#ifndef EMB_SERVE_HELLO_H
#define EMB_SERVE_HELLO_H

#include "engine/table/session/session.h"
#include "slot.h"

/* Of a message of so many bytes. */
struct greeting hello__head(size_t bytes);
/* What came, n bytes of it, greets in another protocol than this library's. */
int hello__is_other(const void *came, size_t n);
/* Sets the client's error, and returns its code; `owner` is of the owner's
** message and `client` of the client's.  owner_name: of the owner's
** process; is_same: the client is another copy in that process. */
int hello__refuse(emb_err *err, const char *dir, const char *owner_name,
                  int is_same, const struct greeting *owner,
                  const struct greeting *client);

#endif
