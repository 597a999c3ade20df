/* Listening sockets and addresses as text, for the listener and for HTTP. */
#ifndef PGCURSUS_NET_SOCKET_H
#define PGCURSUS_NET_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

enum {
  SOCKET_LISTEN_MAX = 4,    /* addresses that one host name may stand for */
  SOCKET_ADDRESS_SIZE = 64, /* "[address]:port" with its NUL */
};

/* Binds every address that `host` ("*" or "" = all) stands for and listens; the sockets do not
 * block. With port "0" all get the same free port. `shared` sets SO_REUSEPORT: several processes on
 * one port. Returns how many sockets are in `fds`; 0 with `*reason` set to a text that the caller
 * frees. */
unsigned socket_listen(const char *host, const char *port, bool shared, int fds[SOCKET_LISTEN_MAX],
                       char **reason) __attribute__((warn_unused_result));

/* The local address of `fd` as "address:port" or "[address]:port". */
void socket_local_address(int fd, char text[SOCKET_ADDRESS_SIZE]);

/* Likewise any address; "local" for one without host and port. */
void socket_format_address(const struct sockaddr_storage *address, socklen_t length,
                           char text[SOCKET_ADDRESS_SIZE]);

/* True when `fd` is bound to a loopback address. */
bool socket_is_local(int fd);

#endif
