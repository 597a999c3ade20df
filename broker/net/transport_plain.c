/* The plain socket as a transport. */
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/transport.h"

static ssize_t plain_read(int fd, void *state, void *data, size_t length) {
  (void)state;
  return recv(fd, data, length, 0);
}

static ssize_t plain_write(int fd, void *state, const struct iovec *parts, size_t count) {
  (void)state;
  /* sendmsg() has no const, and does not write to the parts. */
  struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts, .msg_iovlen = count};
  return sendmsg(fd, &message, MSG_NOSIGNAL);
}

static bool plain_has_pending_input(const void *state) {
  (void)state;
  return false;
}

static bool plain_never(const void *state) {
  (void)state;
  return false;
}

static void plain_finish_output(int fd, void *state) {
  (void)state;
  (void)shutdown(fd, SHUT_WR);
}

static void plain_close(int fd, void *state) {
  (void)state;
  close(fd);
}

const struct transport_ops transport_plain = {
    .read = plain_read,
    .write = plain_write,
    .has_pending_input = plain_has_pending_input,
    .read_needs_write = plain_never,
    .write_needs_read = plain_never,
    .is_handshaking = plain_never,
    .finish_output = plain_finish_output,
    .close = plain_close,
};
