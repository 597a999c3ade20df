/* Who may do what: inline authentication, permissions, topic policy (commands-1 1.2 steps 2 to
 * 4, 1.4 to 1.6). */
#ifndef PGCURSUS_CRS2_AUTH_H
#define PGCURSUS_CRS2_AUTH_H

#include <stdbool.h>

#include "base/slice.h"

struct call;

/* Makes the checks in order and then calls `proceed`, at once or, when a topic's policy must be
 * read first, later. A refused call is answered here. */
void auth_check(struct call *call, void (*proceed)(struct call *call));

/* Checks a principal and token against the users. On success the connection acts as that principal
 * and `accepted` is called with `proceed`, perhaps before this returns; a refused call is answered
 * here. */
void auth_login(struct call *call, struct slice principal, struct slice token,
                void (*accepted)(struct call *call, void (*proceed)(struct call *call)),
                void (*proceed)(struct call *call));

#endif
