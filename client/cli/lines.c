/* Cutting input into lines. Owns the descriptors and the bytes; knows nothing of records. */
#include "lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define READ_SIZE 65536u

void lines_open(struct line_reader *reader, char **files, int file_count) {
  *reader = (struct line_reader){.files = files, .file_count = file_count, .fd = -1};
  if (file_count == 0) reader->fd = STDIN_FILENO;
}

bool lines_next(struct line_reader *reader, struct slice *line) {
  size_t have = reader->bytes.length;
  if (reader->searched == have) return false;
  const uint8_t *start = reader->bytes.data + reader->used;
  const uint8_t *from = reader->bytes.data + reader->searched;
  const uint8_t *end = memchr(from, '\n', have - reader->searched);
  if (!end) {
    reader->searched = have;
    return false;
  }
  *line = slice_of(start, (size_t)(end - start));
  reader->used += line->length + 1;
  reader->searched = reader->used;
  reader->line++;
  return true;
}

static void drop_used(struct line_reader *reader) {
  buffer_drop_front(&reader->bytes, reader->used);
  reader->searched -= reader->used;
  reader->used = 0;
}

/* The end of one input: completes its last line, and goes on to the next file. */
static void finish_file(struct line_reader *reader) {
  if (reader->bytes.length > reader->used) buffer_append_text(&reader->bytes, "\n");
  if (reader->fd > STDIN_FILENO) close(reader->fd);
  reader->fd = -1;
  reader->ended = reader->file_count == 0;
}

static const char *open_next(struct line_reader *reader) {
  const char *name = *reader->files++;
  reader->file_count--;
  reader->fd = strcmp(name, "-") == 0 ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
  return reader->fd < 0 ? strerror(errno) : NULL;
}

const char *lines_fill(struct line_reader *reader) {
  if (reader->ended) return NULL;
  drop_used(reader);
  if (reader->fd < 0) {
    const char *problem = open_next(reader);
    if (problem) return problem;
  }
  ssize_t count = read(reader->fd, buffer_reserve(&reader->bytes, READ_SIZE), READ_SIZE);
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return NULL;
  if (count < 0) return strerror(errno);
  if (count == 0) finish_file(reader);
  reader->bytes.length += (size_t)count;
  return NULL;
}

void lines_stop(struct line_reader *reader) {
  reader->ended = true;
  reader->searched = reader->bytes.length;
}

void lines_close(struct line_reader *reader) {
  if (reader->fd > STDIN_FILENO) close(reader->fd);
  buffer_release(&reader->bytes);
}
