/* The program's log. A line is built in memory and leaves in one write(2), so lines of several
 * threads (and of several processes on one pipe, up to PIPE_BUF) never mix.
 *
 * It must never fail its caller: a line that cannot be written is dropped. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/text.h"

/* A value that a peer made (a name, a database's error text) must not fill the disk. */
#define LOG_LONGEST_VALUE 2048u

static atomic_int log_threshold = LOG_INFO;
static atomic_int log_line_format = LOG_TEXT;

static const char *const level_names[] = {
    [LOG_DEBUG] = "debug", [LOG_INFO] = "info", [LOG_WARN] = "warn", [LOG_ERROR] = "error"};
static const char *const level_labels[] = {
    [LOG_DEBUG] = "DEBUG", [LOG_INFO] = "INFO", [LOG_WARN] = "WARN", [LOG_ERROR] = "ERROR"};

void log_set_level(enum log_level level) {
  atomic_store_explicit(&log_threshold, (int)level, memory_order_relaxed);
}

void log_set_format(enum log_format format) {
  atomic_store_explicit(&log_line_format, (int)format, memory_order_relaxed);
}

bool log_is_enabled(enum log_level level) {
  return (int)level >= atomic_load_explicit(&log_threshold, memory_order_relaxed);
}

bool log_parse_level(const char *text, enum log_level *level) {
  for (size_t i = 0; i < sizeof level_names / sizeof *level_names; i++) {
    if (strcasecmp(text, level_names[i]) != 0) continue;
    *level = (enum log_level)i;
    return true;
  }
  return false;
}

static void append_timestamp(struct buffer *line) {
  int64_t now = clock_wall_us();
  time_t seconds = (time_t)(now / 1000000);
  struct tm parts;
  char text[32];
  gmtime_r(&seconds, &parts);
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  buffer_append_format(line, "%s.%03dZ", text, (int)(now / 1000 % 1000));
}

/* At most LOG_LONGEST_VALUE bytes, not cut inside a character. */
static struct slice shorten(const char *text) {
  struct slice value = slice_of(text, strnlen(text, LOG_LONGEST_VALUE + 1));
  if (value.length <= LOG_LONGEST_VALUE) return value;
  value.length = LOG_LONGEST_VALUE;
  while (value.length && (value.data[value.length] & 0xC0) == 0x80) value.length--;
  return value;
}

static bool needs_quotes(struct slice value) {
  for (size_t i = 0; i < value.length; i++) {
    uint8_t byte = value.data[i];
    if (byte <= ' ' || byte == '"' || byte == '\\' || byte == '=' || byte == 0x7F) return true;
  }
  return value.length == 0 || !text_is_utf8(value);
}

static void append_text_pair(struct buffer *line, const char *key, struct slice value) {
  buffer_append_u8(line, ' ');
  buffer_append_text(line, key);
  buffer_append_u8(line, '=');
  if (needs_quotes(value))
    text_append_json_string(line, value);
  else
    buffer_append_slice(line, value);
}

/* The message is the program's own sentence; only what would break the line is replaced. */
static void append_text_message(struct buffer *line, struct slice message) {
  for (size_t i = 0; i < message.length; i++) {
    uint8_t byte = message.data[i];
    buffer_append_u8(line, byte < ' ' || byte == 0x7F ? (uint8_t)' ' : byte);
  }
}

static void append_text_line(struct buffer *line, enum log_level level, const char *message,
                             va_list pairs) {
  append_timestamp(line);
  buffer_append_format(line, " %s ", level_labels[level]);
  append_text_message(line, shorten(message));
  for (const char *key; (key = va_arg(pairs, const char *));) {
    const char *value = va_arg(pairs, const char *);
    if (value) append_text_pair(line, key, shorten(value));
  }
}

static void append_json_pair(struct buffer *line, const char *key, struct slice value) {
  buffer_append_u8(line, ',');
  text_append_json_string(line, slice_text(key));
  buffer_append_u8(line, ':');
  text_append_json_string(line, value);
}

static void append_json_line(struct buffer *line, enum log_level level, const char *message,
                             va_list pairs) {
  buffer_append_text(line, "{\"time\":\"");
  append_timestamp(line);
  buffer_append_u8(line, '"');
  append_json_pair(line, "level", slice_text(level_names[level]));
  append_json_pair(line, "message", shorten(message));
  for (const char *key; (key = va_arg(pairs, const char *));) {
    const char *value = va_arg(pairs, const char *);
    if (value) append_json_pair(line, key, shorten(value));
  }
  buffer_append_u8(line, '}');
}

void log_event(enum log_level level, const char *message, ...) {
  if (!log_is_enabled(level)) return;
  int saved_errno = errno; /* callers log between a failing call and their look at errno */
  struct buffer line = {0};
  va_list pairs;
  va_start(pairs, message);
  if (atomic_load_explicit(&log_line_format, memory_order_relaxed) == LOG_JSON)
    append_json_line(&line, level, message, pairs);
  else
    append_text_line(&line, level, message, pairs);
  va_end(pairs);
  buffer_append_u8(&line, '\n');
  ssize_t written;
  do {
    written = write(STDERR_FILENO, line.data, line.length);
  } while (written < 0 && errno == EINTR);
  buffer_release(&line);
  errno = saved_errno;
}
