/* SPDX-License-Identifier: MIT
**
** hello.h -- how a client and an owner introduce themselves, and what each
** reports to its caller if the other uses another protocol.
**
** THE HEAD  struct greeting of slot.h, the same in every version from protocol
**           6 on.  The rest is read only if the protocols agree.
** OLDER     A client of protocol 5 or less is recognised by the number in its
**           hello, and gets an answer in its own format, with the text.  An
**           owner of protocol 5 hangs up on a hello of another length; so the
**           client then sends one more hello of that length, and the answer has
**           the owner's number [link.c].
** FAILURE   EMB_CANTOPEN, as for any other disagreement between the two:
**           waiting does not help.
*/
#ifndef EMB_SERVE_HELLO_H
#define EMB_SERVE_HELLO_H

#include "engine/table/session/session.h"
#include "slot.h"

/* Makes the head of a message of `bytes` bytes. */
struct greeting hello__head(size_t bytes);
/* Do these n bytes greet in a protocol other than this library's? */
int hello__is_other(const void *came, size_t n);
/* Sets the client's error and returns its code.  `owner` is from the owner's
** message, `client` from the client's.  owner_name: of the owner's process;
** is_same: the client is another copy of the library in that process. */
int hello__refuse(emb_err *err, const char *dir, const char *owner_name,
                  int is_same, const struct greeting *owner,
                  const struct greeting *client);

#endif
