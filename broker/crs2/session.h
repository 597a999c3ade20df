/* One client connection speaking CRS2: negotiation, then requests one at a time, answered in order.
 */
#ifndef PGCURSUS_CRS2_SESSION_H
#define PGCURSUS_CRS2_SESSION_H

#include <stdbool.h>

struct call;
struct session;

/* A call has its answer in call->frame (or none, by acks=0): sends it, frees the call, goes on with
 * the next request. */
void session_call_finished(struct call *call);

/* The principal that the connection acts as, or NULL. */
const char *session_principal(const struct session *session);
void session_set_principal(struct session *session, const char *principal);

/* "address:port" of the client. */
const char *session_peer(const struct session *session);

#endif
