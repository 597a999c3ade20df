/* Tells a service manager about the process: the datagrams of systemd's notification protocol,
 * sd_notify(3), without its library. Does nothing when no manager asked for them. */
#ifndef PGCURSUS_BASE_SERVICE_H
#define PGCURSUS_BASE_SERVICE_H

/* The node takes clients. `status` is a line for people (systemctl status); NULL leaves the last
 * one. */
void service_notify_ready(const char *status);

/* A reload has begun; service_notify_ready() ends it. */
void service_notify_reloading(void);

/* The node is ending. */
void service_notify_stopping(void);

#endif
