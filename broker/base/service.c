/* One datagram a state, to the socket that $NOTIFY_SOCKET names. Never waits and never fails: a
 * manager that does not listen is no reason to stop. */
#include "base/service.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"

/* A path, or with "@" in front a name in the abstract space. 0 when it is neither or too long. */
static socklen_t parse_address(const char *text, struct sockaddr_un *address) {
  size_t length = strlen(text);
  if ((text[0] != '/' && text[0] != '@') || length >= sizeof address->sun_path) return 0;
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  memcpy(address->sun_path, text, length);
  if (text[0] == '@') address->sun_path[0] = '\0';
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
}

static void notify(const char *state) {
  const char *name = getenv("NOTIFY_SOCKET");
  struct sockaddr_un address;
  socklen_t length = name ? parse_address(name, &address) : 0;
  if (length == 0) return;
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return;
  (void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address, length);
  close(fd);
}

void service_notify_ready(const char *status) {
  char state[600];
  snprintf(state, sizeof state, "READY=1%s%s", status ? "\nSTATUS=" : "", status ? status : "");
  notify(state);
}

void service_notify_reloading(void) {
  char state[80];
  snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%lld",
           (long long)clock_monotonic_us());
  notify(state);
}

void service_notify_stopping(void) {
  notify("STOPPING=1");
}
