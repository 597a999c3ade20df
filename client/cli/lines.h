/* Lines of standard input or of several files, without blocking: the caller polls. */
#ifndef PGCURSUS_CLI_LINES_H
#define PGCURSUS_CLI_LINES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/slice.h"

struct line_reader {
  char **files; /* the next ones to open */
  int file_count;
  int fd; /* -1 between files and at the end */
  bool ended;
  struct buffer bytes;
  size_t used, searched; /* bytes given out; bytes known to hold no line feed */
  uint64_t line;         /* number of the last line given out, over all files */
};

/* Reads standard input when there are no files. */
void lines_open(struct line_reader *reader, char **files, int file_count);

/* The next whole line that is in memory, without its line feed, valid until lines_fill(). The last
 * line of a file need not have one. False when there is none yet (or, with `ended`, none any more).
 */
bool lines_next(struct line_reader *reader, struct slice *line);

/* Reads once; may block unless poll(2) said that `fd` is readable. NULL, or what went wrong. */
const char *lines_fill(struct line_reader *reader);

/* Takes what follows as not there. */
void lines_stop(struct line_reader *reader);

void lines_close(struct line_reader *reader);

#endif
