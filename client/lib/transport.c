/* The built-in transport: a connected stream socket, without encryption.
 *
 * Moves bytes and knows nothing of what they mean. TLS is another implementation of the same
 * struct. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "pgcursus.h"

static ssize_t socket_read(struct pgcursus_transport *transport, void *data, size_t size) {
  ssize_t count;
  do {
    count = recv(transport->fd, data, size, 0);
  } while (count < 0 && errno == EINTR);
  return count;
}

/* MSG_NOSIGNAL: a broker that went away is an error to report, not a signal to die of. */
static ssize_t socket_write(struct pgcursus_transport *transport, const void *data, size_t length) {
  ssize_t count;
  do {
    count = send(transport->fd, data, length, MSG_NOSIGNAL);
  } while (count < 0 && errno == EINTR);
  return count;
}

static void socket_close(struct pgcursus_transport *transport) {
  close(transport->fd);
  free(transport);
}

struct pgcursus_transport *pgcursus_transport_socket(int fd) {
  int flags = fcntl(fd, F_GETFL);
  if (flags >= 0) (void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  struct pgcursus_transport *transport = memory_allocate(sizeof *transport);
  *transport = (struct pgcursus_transport){
      .fd = fd,
      .read_wants = POLLIN,
      .write_wants = POLLOUT,
      .read = socket_read,
      .write = socket_write,
      .close = socket_close,
  };
  return transport;
}
