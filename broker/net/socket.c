/* Opens listening sockets and turns socket addresses into text. Blocks only to resolve a host name,
 * at start. */
#include "net/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"

enum { LISTEN_BACKLOG = 4096 };

static char *listen_failure(const char *host, const char *port, const char *what) {
  struct buffer text = {0};
  buffer_append_format(&text, "cannot listen on %s:%s: %s", *host ? host : "*", port, what);
  buffer_append_u8(&text, 0);
  return (char *)text.data;
}

static bool set_option(int fd, int level, int name, int value) {
  return setsockopt(fd, level, name, &value, sizeof value) == 0;
}

/* -1 with errno when this address cannot be had. */
static int listen_on(const struct addrinfo *address, bool shared) {
  int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  bool ready = set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1) &&
               (!shared || set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1)) &&
               (address->ai_family != AF_INET6 || set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1)) &&
               bind(fd, address->ai_addr, address->ai_addrlen) == 0 &&
               listen(fd, LISTEN_BACKLOG) == 0;
  if (ready) return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

static uint16_t *port_of(struct sockaddr *address) {
  return address->sa_family == AF_INET6 ? &((struct sockaddr_in6 *)(void *)address)->sin6_port
                                        : &((struct sockaddr_in *)(void *)address)->sin_port;
}

/* The port that the system chose for the first socket becomes that of the other addresses. */
static void share_port(int fd, struct addrinfo *rest) {
  struct sockaddr_storage bound = {0};
  socklen_t length = sizeof bound;
  if (getsockname(fd, (struct sockaddr *)&bound, &length) != 0) return;
  for (; rest; rest = rest->ai_next) {
    /* The analyser does not see that the kernel has filled it in. */
    *port_of(rest->ai_addr) = *port_of((struct sockaddr *)&bound);  // NOLINT
  }
}

unsigned socket_listen(const char *host, const char *port, bool shared, int fds[SOCKET_LISTEN_MAX],
                       char **reason) {
  struct addrinfo hints = {
      .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
  bool every_address = !*host || strcmp(host, "*") == 0;
  struct addrinfo *addresses;
  int failure = getaddrinfo(every_address ? NULL : host, port, &hints, &addresses);
  if (failure) {
    *reason = listen_failure(host, port, gai_strerror(failure));
    return 0;
  }
  unsigned count = 0;
  int error = 0;
  for (struct addrinfo *a = addresses; a && count < SOCKET_LISTEN_MAX; a = a->ai_next) {
    fds[count] = listen_on(a, shared);
    if (fds[count] >= 0) {
      if (count++ == 0) share_port(fds[0], a->ai_next);
      continue;
    }
    error = errno;
    /* A host without IPv6 still serves IPv4; a port that somebody else has is a mistake to report.
     */
    if (error == EADDRINUSE || error == EACCES) break;
  }
  freeaddrinfo(addresses);
  if (error == EADDRINUSE || error == EACCES) {
    while (count) close(fds[--count]);
  }
  if (!count) *reason = listen_failure(host, port, strerror(error));
  return count;
}

void socket_format_address(const struct sockaddr_storage *address, socklen_t length,
                           char text[SOCKET_ADDRESS_SIZE]) {
  char host[INET6_ADDRSTRLEN], port[8];
  if (getnameinfo((const struct sockaddr *)address, length, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0 ||
      (address->ss_family != AF_INET && address->ss_family != AF_INET6)) {
    snprintf(text, SOCKET_ADDRESS_SIZE, "local");
    return;
  }
  if (address->ss_family == AF_INET6) {
    snprintf(text, SOCKET_ADDRESS_SIZE, "[%s]:%s", host, port);
  } else {
    snprintf(text, SOCKET_ADDRESS_SIZE, "%s:%s", host, port);
  }
}

void socket_local_address(int fd, char text[SOCKET_ADDRESS_SIZE]) {
  struct sockaddr_storage address = {0};
  socklen_t length = sizeof address;
  if (getsockname(fd, (struct sockaddr *)&address, &length) != 0) {
    snprintf(text, SOCKET_ADDRESS_SIZE, "unknown");
    return;
  }
  socket_format_address(&address, length, text);
}

bool socket_is_local(int fd) {
  struct sockaddr_storage address = {0};
  socklen_t length = sizeof address;
  if (getsockname(fd, (struct sockaddr *)&address, &length) != 0) return false;
  if (address.ss_family == AF_INET6) {
    return IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)(void *)&address)->sin6_addr);
  }
  const struct sockaddr_in *v4 = (const struct sockaddr_in *)(void *)&address;
  return address.ss_family == AF_INET && (ntohl(v4->sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
}
