/* From "OK ..." to JSON. The values of these answers are numbers, or one JSON document at the end.
 */
#include "stream_answer.h"

#include <stdbool.h>
#include <string.h>

static bool is_document(const char *value, const char *end) {
  return value < end && (*value == '{' || strncmp(value, "null", 4) == 0);
}

void stream_print_ok_json(FILE *to, struct pgcursus_bytes text) {
  const char *place = text.data;
  const char *end = place + text.length;
  const char *separator = "{";
  place += text.length > 3 ? 3 : text.length; /* "OK " */
  while (place < end) {
    const char *equals = memchr(place, '=', (size_t)(end - place));
    if (!equals) break;
    if (is_document(equals + 1, end)) {
      fprintf(to, "%.*s\n", (int)(end - equals - 1), equals + 1);
      return;
    }
    const char *blank = memchr(equals, ' ', (size_t)(end - equals));
    if (!blank) blank = end;
    fprintf(to, "%s\"%.*s\":%.*s", separator, (int)(equals - place), place,
            (int)(blank - equals - 1), equals + 1);
    separator = ",";
    place = blank < end ? blank + 1 : end;
  }
  fputs(*separator == '{' ? "{}\n" : "}\n", to);
}
