/* A connection's output: a queue of blocks that it owns, written at the end of the loop's turn in
 * as few system calls as possible, and later when the socket takes more.
 *
 * One large answer does not hold the loop: a turn writes a bounded number of bytes to one
 * connection. */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/memory.h"
#include "net/connection_private.h"

enum {
  PARTS_PER_WRITE = 64,
  DISCARD_PER_CLOSE = 1 << 20,
};

static void drop_first_block(struct connection *connection) {
  struct output_block *block = connection->output_first;
  connection->output_first = block->next;
  if (!block->next) connection->output_last = NULL;
  connection->output_offset = 0;
  size_t capacity = block->bytes.capacity;
  buffer_release(&block->bytes);
  free(block);
  memory_budget_release(connection->context->budget, capacity);
}

void connection_drop_output(struct connection *connection) {
  while (connection->output_first) drop_first_block(connection);
  connection->output_pending = 0;
}

void connection_write(struct connection *connection, struct buffer *bytes) {
  if (connection_is_closed(connection) || connection->state == CONNECTION_CLOSING ||
      !bytes->length) {
    buffer_release(bytes);
    return;
  }
  struct output_block *block = memory_allocate(sizeof *block);
  *block = (struct output_block){.bytes = *bytes};
  *bytes = (struct buffer){0};
  if (connection->output_last) {
    connection->output_last->next = block;
  } else {
    connection->output_first = block;
  }
  connection->output_last = block;
  connection->output_pending += block->bytes.length;
  if (connection_output_is_full(connection)) connection->output_was_full = true;
  memory_budget_charge(connection->context->budget, block->bytes.capacity);
  net_context_schedule(connection, TURN_FLUSH);
}

size_t connection_output_pending(const struct connection *connection) {
  return connection->output_pending;
}

bool connection_output_is_full(const struct connection *connection) {
  return connection->output_pending > OUTPUT_HIGH_WATER;
}

void connection_request_drained(struct connection *connection) {
  if (connection_is_closed(connection)) return;
  connection->output_was_full = true;
  net_context_schedule(connection, TURN_FLUSH);
}

void connection_set_write_timeout(struct connection *connection, int64_t milliseconds) {
  connection->write_timeout_us = milliseconds * 1000;
}

/* Up to `most` bytes of the queue as parts for one write. */
static size_t gather(const struct connection *connection, size_t most, struct iovec *parts,
                     size_t *length) {
  size_t count = 0, offset = connection->output_offset;
  *length = 0;
  for (const struct output_block *block = connection->output_first;
       block && count < PARTS_PER_WRITE && *length < most; block = block->next) {
    size_t size = block->bytes.length - offset;
    if (size > most - *length) size = most - *length;
    parts[count++] = (struct iovec){.iov_base = block->bytes.data + offset, .iov_len = size};
    *length += size;
    offset = 0;
  }
  return count;
}

static void drop_written(struct connection *connection, size_t written) {
  connection->output_pending -= written;
  while (written) {
    size_t rest = connection->output_first->bytes.length - connection->output_offset;
    if (written < rest) {
      connection->output_offset += written;
      return;
    }
    written -= rest;
    drop_first_block(connection);
  }
}

/* Writes until the queue is empty, the socket is full, or the turn's share is used up. False when
 * the connection broke. */
static bool write_share(struct connection *connection, size_t *written) {
  while (connection->output_first && *written < WRITE_PER_TURN) {
    struct iovec parts[PARTS_PER_WRITE];
    size_t length;
    size_t count = gather(connection, WRITE_PER_TURN - *written, parts, &length);
    ssize_t taken =
        connection->ops->write(connection->fd, connection->transport_state, parts, count);
    if (taken < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK;
    }
    drop_written(connection, (size_t)taken);
    *written += (size_t)taken;
    if ((size_t)taken < length) break;
  }
  return true;
}

/* Unread bytes in the kernel turn close() into a reset, which can destroy the last answer on its
 * way. */
static void close_gently(struct connection *connection) {
  uint8_t *scratch = connection->context->scratch;
  connection->ops->finish_output(connection->fd, connection->transport_state);
  for (size_t discarded = 0; discarded < DISCARD_PER_CLOSE;) {
    ssize_t count =
        connection->ops->read(connection->fd, connection->transport_state, scratch, SCRATCH_SIZE);
    if (count <= 0) break;
    discarded += (size_t)count;
  }
  connection_close(connection, connection->close_reason);
}

void connection_flush(struct connection *connection) {
  size_t written = 0;
  if (!write_share(connection, &written)) {
    connection_close(connection, "writing failed: the peer is gone");
    return;
  }
  if (connection->output_first) {
    if (written || !connection->write_deadline_us) {
      connection->write_progress_us = clock_monotonic_us();
      connection->write_deadline_us = connection->write_progress_us + connection->write_timeout_us;
      connection_arm_timer(connection);
    }
    admission_note_full(connection, true);
    connection_update_watcher(connection);
    return;
  }
  connection->write_deadline_us = 0;
  admission_note_full(connection, false);
  if (connection->state == CONNECTION_CLOSING) {
    close_gently(connection);
    return;
  }
  connection_update_watcher(connection);
  if (connection->output_was_full) {
    connection->output_was_full = false;
    if (connection->handler->on_output_drained) {
      connection->handler->on_output_drained(connection, connection->owner);
    }
  }
}
