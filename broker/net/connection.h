/* One client connection: bytes, deadlines and back-pressure, not meaning.
 *
 * Owns the socket, the input not yet consumed and the queue of output. A front end (the `owner`)
 * attaches a handler table; everything is called on the loop. Input memory is allocated only while
 * there is input, so an idle connection costs a few hundred bytes here. */
#ifndef PGCURSUS_NET_CONNECTION_H
#define PGCURSUS_NET_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/slice.h"

struct connection;

struct connection_handler {
  /* Unread input has reached the wanted length (connection_want_input) and the connection is not
   * held. Called again only after more input arrives, or hold is lifted, or want_input was lowered
   * to what is there. */
  void (*on_input)(struct connection *connection, void *owner);

  /* The peer has finished sending. Bytes not consumed are still readable. Called once, also while
   * the connection is held. The owner must close the connection when it has nothing left to answer.
   */
  void (*on_end_of_input)(struct connection *connection, void *owner);

  /* The output queue became empty after it was above the high-water mark, or after
   * connection_request_drained(). May be NULL. */
  void (*on_output_drained)(struct connection *connection, void *owner);

  /* The deadline set with connection_set_deadline() passed. The owner decides what follows. */
  void (*on_deadline)(struct connection *connection, void *owner);

  /* The connection is closed, whatever the cause; it is freed after this call. The owner forgets
   * it. */
  void (*on_closed)(struct connection *connection, void *owner, const char *reason);
};

/* Attaches the front end. Called from the listener's accept callback. */
void connection_attach(struct connection *connection, const struct connection_handler *handler,
                       void *owner);

/* Unread input; the view is valid until the next call on this connection. */
struct slice connection_input(const struct connection *connection);

/* Drops `count` bytes of unread input. */
void connection_consume(struct connection *connection, size_t count);

/* Moves the first `count` bytes of unread input into the empty buffer `out`, giving up the whole
 * input block without a copy when they are all there is. The charge on the memory budget moves to
 * the caller, who releases `count` bytes later. */
void connection_take_input(struct connection *connection, size_t count, struct buffer *out);

/* Calls on_input only once at least `length` unread bytes are there (default 1). Memory still grows
 * with what arrives, not with `length`. */
void connection_want_input(struct connection *connection, size_t length);

/* While held, on_input is not called and reading stops at a small read-ahead (64 KiB). End of input
 * and errors are still noticed. */
void connection_hold(struct connection *connection, bool held);

/* Queues bytes and takes ownership of them (`bytes` becomes empty). Written at the end of this turn
 * of the loop, or when the socket takes them. Output held in the queue is charged to the memory
 * budget. */
void connection_write(struct connection *connection, struct buffer *bytes);

/* Bytes queued and not yet accepted by the kernel. */
size_t connection_output_pending(const struct connection *connection);

/* True when more is queued than output_high_water (256 KiB): the owner should stop producing until
 * on_output_drained. */
bool connection_output_is_full(const struct connection *connection);

/* Asks for on_output_drained once the queue is empty, however little is in it; never called before
 * this returns. */
void connection_request_drained(struct connection *connection);

/* Replaces the listener's write_timeout_ms for this connection: a peer that takes none of the
 * queued output for that long is cut off. */
void connection_set_write_timeout(struct connection *connection, int64_t milliseconds);

/* Stops reading and drops unread input, writes what is queued, then closes; closes anyway after
 * `grace_ms`. Never closes before it returns. What is written later is dropped. */
void connection_close_after_output(struct connection *connection, int64_t grace_ms,
                                   const char *reason);

/* Closes at once. on_closed is called before this returns. `reason` is static text for the log. The
 * memory stays until the end of the loop's turn, and calls on a closed connection do nothing, so
 * that a function further up the stack need not know. */
void connection_close(struct connection *connection, const char *reason);

/* One timer for the owner, milliseconds from now; 0 clears it. Time during which the connection may
 * not read because of the memory budget does not count. */
void connection_set_deadline(struct connection *connection, int64_t milliseconds);

/* "address:port" of the peer, for logs. */
const char *connection_peer(const struct connection *connection);

/* The event loop the connection lives on. */
struct ev_loop *connection_loop(const struct connection *connection);

#endif
