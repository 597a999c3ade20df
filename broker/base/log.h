/* The program's log: one event a line on standard error, as text or JSON.
 *
 * An event is a sentence for a person at night plus the names it is about (peer, node, topic,
 * request) as key/value pairs. Secrets (tokens, passwords in a DSN) must never be passed in. */
#ifndef PGCURSUS_BASE_LOG_H
#define PGCURSUS_BASE_LOG_H

#include <stdbool.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_TEXT, LOG_JSON };

void log_set_level(enum log_level level);
void log_set_format(enum log_format format);
bool log_is_enabled(enum log_level level);

/* Writes one event. After `message` come pairs of `const char *` key and value, ended by NULL; a
 * pair whose value is NULL is left out. Thread-safe: a line is written with one write(2).
 *   log_event(LOG_WARN, "handshake failed", "peer", peer, "reason", reason, NULL); */
void log_event(enum log_level level, const char *message, ...) __attribute__((sentinel));

/* Parses "debug", "info", "warn" or "error"; false when it is none of them. */
bool log_parse_level(const char *text, enum log_level *level) __attribute__((warn_unused_result));

#endif
