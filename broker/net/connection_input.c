/* A connection's input: reading, the bytes not consumed yet, and their delivery to the front end.
 *
 * Most requests arrive whole: they are read into the scratch buffer that all connections share and
 * handled there. Only what is left over gets a block of the connection's own, so an idle connection
 * holds no buffer. Once a frame is larger than the scratch buffer its bytes are read straight into
 * the block, which grows with what has really arrived. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "net/connection_private.h"

enum {
  /* Unread input below this is read on through the scratch buffer, above it into the block. */
  SCRATCH_CARRY_LIMIT = SCRATCH_SIZE / 2,
};

size_t connection_input_limit(const struct connection *connection) {
  if (connection->held || connection->wanted < READ_AHEAD_LIMIT) return READ_AHEAD_LIMIT;
  return connection->wanted;
}

static struct memory_budget *budget_of(const struct connection *connection) {
  return connection->context->budget;
}

static void forget_input(struct connection *connection) {
  connection->input = (struct buffer){0};
  connection->input_start = 0;
  connection->input_is_borrowed = false;
}

void connection_drop_input(struct connection *connection) {
  struct buffer block = connection->input;
  bool owned = !connection->input_is_borrowed && block.data;
  /* Forgotten before the release: relief looks at the connections. */
  forget_input(connection);
  if (!owned) return;
  free(block.data);
  memory_budget_release(budget_of(connection), block.capacity);
}

/* Gives the connection a block of its own with a copy of `bytes`. */
static void store_input(struct connection *connection, const uint8_t *bytes, size_t length) {
  assert(!connection->input.data);
  if (!length) return;
  connection->input = (struct buffer){memory_allocate(length), length, length};
  connection->input_start = 0;
  memcpy(connection->input.data, bytes, length);
  memory_budget_charge(budget_of(connection), length);
}

/* Nothing may stay in the scratch buffer once its connection has had its say. */
static void keep_borrowed_input(struct connection *connection) {
  if (!connection->input_is_borrowed) return;
  const uint8_t *bytes = connection->input.data + connection->input_start;
  size_t length = connection_unread(connection);
  forget_input(connection);
  store_input(connection, bytes, length);
}

struct slice connection_input(const struct connection *connection) {
  size_t unread = connection_unread(connection);
  return slice_of(unread ? connection->input.data + connection->input_start : NULL, unread);
}

/* Closing has dropped the input; a front end that has just decided to close may still consume its
 * frame. */
static bool input_is_gone(const struct connection *connection) {
  return connection->state == CONNECTION_CLOSING || connection_is_closed(connection);
}

void connection_consume(struct connection *connection, size_t count) {
  if (input_is_gone(connection)) return;
  assert(count <= connection_unread(connection));
  connection->input_start += count;
  if (connection_unread(connection) == 0) connection_drop_input(connection);
  connection_update_watcher(connection);
}

/* Gives up the block itself; what follows the taken bytes, which is the smaller part, moves to a
 * new block. */
static void take_block(struct connection *connection, size_t count, struct buffer *out) {
  struct buffer block = connection->input;
  size_t start = connection->input_start, rest = connection_unread(connection) - count;
  forget_input(connection);
  store_input(connection, block.data + start + count, rest);
  if (start) memmove(block.data, block.data + start, count);
  block.length = count;
  *out = block;
  /* The caller's charge first: a release below it would look like relief. */
  memory_budget_charge(budget_of(connection), count);
  memory_budget_release(budget_of(connection), block.capacity);
}

void connection_take_input(struct connection *connection, size_t count, struct buffer *out) {
  if (input_is_gone(connection)) return;
  size_t unread = connection_unread(connection);
  assert(count <= unread && out->length == 0);
  buffer_release(out);
  bool wastes_little = connection->input.capacity <= 2 * count;
  if (!connection->input_is_borrowed && count && unread - count < count && wastes_little) {
    take_block(connection, count, out);
    connection_update_watcher(connection);
    return;
  }
  buffer_append_slice(out, slice_of(connection->input.data + connection->input_start, count));
  memory_budget_charge(budget_of(connection), count);
  connection_consume(connection, count);
}

/* Delivery */

static bool has_wanted_input(const struct connection *connection) {
  return !connection->held && connection_unread(connection) >= connection->wanted &&
         (connection->state == CONNECTION_OPEN || connection->state == CONNECTION_ENDED);
}

/* Calls on_input; once more for each change during the call that asks for it, so that a front end
 * which answers at once and lifts its hold is not called recursively. */
void connection_deliver(struct connection *connection) {
  if (connection->delivering) return;
  connection->delivering = true;
  do {
    connection->deliver_again = false;
    if (!has_wanted_input(connection)) break;
    connection->handler->on_input(connection, connection->owner);
  } while (connection->deliver_again);
  connection->delivering = false;
  keep_borrowed_input(connection);
  connection_update_watcher(connection);
}

void connection_deliver_soon(struct connection *connection) {
  if (!has_wanted_input(connection)) return;
  if (connection->delivering) {
    connection->deliver_again = true;
  } else {
    net_context_schedule(connection, TURN_DELIVER);
  }
}

void connection_want_input(struct connection *connection, size_t length) {
  size_t before = connection->wanted;
  connection->wanted = length ? length : 1;
  if (connection->wanted < before) connection_deliver_soon(connection);
  connection_update_watcher(connection);
}

void connection_hold(struct connection *connection, bool held) {
  bool lifted = connection->held && !held;
  connection->held = held;
  if (lifted) connection_deliver_soon(connection);
  connection_update_watcher(connection);
}

/* Reading */

/* Where the next bytes go, and how many at most. A frame of which little has arrived goes on in the
 * scratch buffer: the small block returns to the heap instead of growing. */
static size_t prepare_target(struct connection *connection, size_t most, uint8_t **target) {
  struct buffer *input = &connection->input;
  size_t unread = connection_unread(connection);
  if (unread <= SCRATCH_CARRY_LIMIT) {
    uint8_t *scratch = connection->context->scratch;
    if (unread) memcpy(scratch, input->data + connection->input_start, unread);
    connection_drop_input(connection);
    *input = (struct buffer){scratch, unread, SCRATCH_SIZE};
    connection->input_is_borrowed = true;
  } else {
    if (connection->input_start) {
      memmove(input->data, input->data + connection->input_start, unread);
      input->length = unread;
      connection->input_start = 0;
    }
    if (input->length == input->capacity) {
      /* Doubles what has arrived, and stops at what was asked for: the frame is then taken without
       * waste. */
      size_t capacity = 2 * unread, limit = connection_input_limit(connection);
      if (capacity > limit) capacity = limit > unread ? limit : unread + 1;
      input->data = memory_resize(input->data, capacity);
      memory_budget_charge(budget_of(connection), capacity - input->capacity);
      input->capacity = capacity;
    }
  }
  size_t room = input->capacity - input->length;
  *target = input->data + input->length;
  return room < most ? room : most;
}

static void end_input(struct connection *connection) {
  keep_borrowed_input(connection);
  connection_move(connection, CONNECTION_ENDED);
  connection_update_watcher(connection);
  connection->handler->on_end_of_input(connection, connection->owner);
}

static const char *read_failure(int error) {
  return error == ECONNRESET ? "connection reset by the peer" : "reading failed";
}

/* One read and what follows from it; false when there is nothing more to read now. */
static bool read_once(struct connection *connection, size_t most, size_t *received) {
  uint8_t *target;
  size_t room = prepare_target(connection, most, &target);
  ssize_t count = connection->ops->read(connection->fd, connection->transport_state, target, room);
  if (count < 0) {
    int error = errno;
    keep_borrowed_input(connection);
    if (error == EINTR) return true;
    if (error != EAGAIN && error != EWOULDBLOCK) connection_close(connection, read_failure(error));
    return false;
  }
  if (count == 0) {
    end_input(connection);
    return false;
  }
  connection->input.length += (size_t)count;
  *received += (size_t)count;
  admission_note_progress(connection);
  connection_deliver(connection);
  /* A short read has emptied the socket. What is left for the next turn, if anything, wakes the
   * loop again. */
  return (size_t)count == room;
}

/* How much may be read now: up to the limit, and while memory is short only the head of admission's
 * queue goes past the read-ahead. */
static size_t readable_now(const struct connection *connection) {
  if (connection->state != CONNECTION_OPEN || admission_is_paused(connection)) return 0;
  size_t limit = connection_input_limit(connection), unread = connection_unread(connection);
  if (memory_budget_is_over(budget_of(connection)) && !connection->in_queue) {
    limit = READ_AHEAD_LIMIT;
  }
  return unread < limit ? limit - unread : 0;
}

void connection_read(struct connection *connection) {
  size_t received = 0;
  connection_update_watcher(connection);
  while (received < READ_PER_TURN) {
    size_t most = readable_now(connection);
    if (most > READ_PER_TURN - received) most = READ_PER_TURN - received;
    if (!most || !read_once(connection, most, &received)) break;
  }
  if (connection_is_closed(connection)) return;
  connection_update_watcher(connection);
  if (connection->is_reading && connection->ops->has_pending_input(connection->transport_state)) {
    net_context_schedule(connection, TURN_READ);
  }
}
