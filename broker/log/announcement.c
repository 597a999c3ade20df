/* Text form of announcements. Knows no connection and no waiter. */
#include "log/announcement.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* `;LOG:PARTITION=END` at its longest. */
#define LONGEST_ITEM 64

int partition_end_compare(const void *left, const void *right) {
  const struct partition_end *a = left, *b = right;
  if (a->log_id != b->log_id) return a->log_id < b->log_id ? -1 : 1;
  if (a->partition != b->partition) return a->partition < b->partition ? -1 : 1;
  return 0;
}

size_t announcement_encode(const char *sender, const struct partition_end *ends, size_t count,
                           char text[ANNOUNCEMENT_SIZE]) {
  size_t length = (size_t)snprintf(text, ANNOUNCEMENT_SIZE, "%.64s ", sender);
  size_t i = 0;
  for (; i < count && length + LONGEST_ITEM < ANNOUNCEMENT_SIZE; i++) {
    char *place = text + length;
    size_t room = ANNOUNCEMENT_SIZE - length;
    if (i > 0 && ends[i].log_id == ends[i - 1].log_id) {
      length += (size_t)snprintf(place, room, ",%d=%lld", ends[i].partition,
                                 (long long)ends[i].end_offset);
    } else {
      length +=
          (size_t)snprintf(place, room, "%s%lld:%d=%lld", i ? ";" : "", (long long)ends[i].log_id,
                           ends[i].partition, (long long)ends[i].end_offset);
    }
  }
  return i;
}

/* Reads a decimal number that `stop` follows, and moves past both. */
static bool read_number(const char **text, char stop, int64_t maximum, int64_t *number) {
  char *end;
  if (**text < '0' || **text > '9') return false;
  errno = 0;
  *number = strtoll(*text, &end, 10);
  if (errno || *number > maximum || (stop && *end != stop)) return false;
  *text = stop ? end + 1 : end;
  return true;
}

bool announcement_decode(const char *text, const char *own_sender,
                         void (*visit)(void *context, const struct partition_end *end),
                         void *context) {
  const char *blank = strchr(text, ' ');
  if (blank == NULL) return false;
  size_t length = (size_t)(blank - text);
  if (length == strlen(own_sender) && memcmp(text, own_sender, length) == 0) return true;
  text = blank + 1;
  struct partition_end end = {0};
  bool needs_log = true;
  for (;;) {
    int64_t partition;
    if (needs_log && !read_number(&text, ':', INT64_MAX, &end.log_id)) return false;
    if (!read_number(&text, '=', INT32_MAX, &partition)) return false;
    if (!read_number(&text, '\0', INT64_MAX, &end.end_offset)) return false;
    end.partition = (int32_t)partition;
    visit(context, &end);
    if (*text == '\0') return true;
    needs_log = *text == ';';
    if (!needs_log && *text != ',') return false;
    text++;
  }
}
