/* How a connection moves bytes: a plain socket, or TLS over one. A table of functions, so that
 * neither the connection nor a front end knows which it is. */
#ifndef PGCURSUS_NET_TRANSPORT_H
#define PGCURSUS_NET_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

/* `state` is the transport's own, NULL for a plain socket. Nothing here blocks. */
struct transport_ops {
  /* Bytes read, 0 at the end of input, or -1 with errno (EAGAIN: nothing there yet). */
  ssize_t (*read)(int fd, void *state, void *data, size_t length);

  /* Bytes taken, or -1 with errno (EAGAIN: the peer must read first). Never raises SIGPIPE. */
  ssize_t (*write)(int fd, void *state, const struct iovec *parts, size_t count);

  /* Bytes have left the socket but were not given to the caller yet: read again without waiting for
   * it. */
  bool (*has_pending_input)(const void *state);

  /* The last read (write) got EAGAIN because the other direction is what it waits for: a handshake.
   * The socket is then watched for that direction instead. */
  bool (*read_needs_write)(const void *state);
  bool (*write_needs_read)(const void *state);

  /* The next read does the arithmetic of a handshake, about a millisecond of it. */
  bool (*is_handshaking)(const void *state);

  /* Tells the peer that no more bytes follow. */
  void (*finish_output)(int fd, void *state);

  /* Closes the socket and frees `state`. */
  void (*close)(int fd, void *state);
};

extern const struct transport_ops transport_plain;

struct tls_server;

/* TLS for a connection that was accepted; the handshake is done by the first reads. `peer` is for
 * the log and outlives the transport. NULL when memory is short; the socket is still the caller's
 * then. */
const struct transport_ops *transport_tls_accept(struct tls_server *server, int fd,
                                                 const char *peer, void **state)
    __attribute__((warn_unused_result));

#endif
