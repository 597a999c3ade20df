/* The inside of a connection, shared by the files of net/ that make it up:
 *
 *   context.c            what all connections of one loop share, and the end of each loop turn
 *   connection.c         life: states, deadlines, the socket watcher, close
 *   connection_input.c   reading, the input block, delivery to the front end
 *   connection_output.c  the output queue
 *   admission.c          who may read on while memory is short
 *
 * A front end never includes this. */
#ifndef PGCURSUS_NET_CONNECTION_PRIVATE_H
#define PGCURSUS_NET_CONNECTION_PRIVATE_H

#include <ev.h>

#include "net/budget.h"
#include "net/connection.h"
#include "net/transport.h"

enum {
  SCRATCH_SIZE = 64 << 10,       /* one read of the shared buffer */
  READ_AHEAD_LIMIT = 64 << 10,   /* unread input that is always allowed */
  READ_PER_TURN = 256 << 10,     /* bytes read from one connection in one turn of the loop */
  WRITE_PER_TURN = 1 << 20,      /* likewise written */
  HANDSHAKES_PER_TURN_US = 5000, /* time for TLS handshakes in one turn, those of all together */
  OUTPUT_HIGH_WATER = 256 << 10, /* connection_output_is_full() above this */
  STALL_LIMIT_US = 1000000, /* silence allowed to the frame that goes on while memory is short */
  HANGUP_CHECK_SECONDS = 1, /* how often sockets that are not read are asked whether they live */
  FULL_CHECK_MS = 250,      /* how often full sockets are looked at */
};

enum connection_state {
  CONNECTION_NEW,     /* accepted, no front end yet */
  CONNECTION_OPEN,    /* both directions */
  CONNECTION_ENDED,   /* the peer has finished sending */
  CONNECTION_CLOSING, /* nothing more is read; closes when the output is written */
  CONNECTION_CLOSED,  /* the socket is gone; freed at the end of the turn */
};

/* What the end of this turn has to do for a connection. */
enum {
  TURN_READ = 1u << 0,    /* the transport holds bytes already */
  TURN_DELIVER = 1u << 1, /* call on_input */
  TURN_FLUSH = 1u << 2,   /* write */
};

struct output_block {
  struct output_block *next;
  struct buffer bytes;
};

struct connection {
  enum connection_state state;
  int fd;
  const struct transport_ops *ops;
  void *transport_state;
  struct net_context *context;
  char *peer;

  const struct connection_handler *handler;
  void *owner;

  /* Input. The unread bytes are input.data + input_start .. input.length. While on_input runs they
   * may lie in the shared scratch buffer (input_is_borrowed); what is left over is then copied to a
   * block. */
  struct buffer input;
  size_t input_start;
  size_t wanted;
  bool input_is_borrowed;
  bool held;
  bool is_reading;      /* the socket is watched on behalf of reading */
  bool delivering;      /* on_input is on the stack */
  bool deliver_again;   /* something changed meanwhile that asks for one more call */
  bool output_was_full; /* on_output_drained is owed */
  unsigned turn_work;
  bool in_turn_list;

  /* Output: a queue of owned blocks, the first of them partly written. */
  struct output_block *output_first, *output_last;
  size_t output_offset; /* written bytes of the first block */
  size_t output_pending;

  ev_io watcher;
  ev_timer
      timer; /* the earliest of the deadlines below; started late and never moved back (lazy) */
  int64_t timer_due_us;
  int64_t write_timeout_us;
  int64_t deadline_us; /* the owner's, or the end of the grace of CONNECTION_CLOSING; 0 = none */
  int64_t write_deadline_us; /* the socket is full; 0 = it is not */
  int64_t write_progress_us; /* when it last took something */
  const char *close_reason;

  struct connection *turn_next;
  struct connection *queue_prev, *queue_next; /* admission: waits for memory */
  bool in_queue;
  int64_t paused_since_us;                      /* 0 = not paused */
  struct connection *unread_prev, *unread_next; /* the socket is not watched for input */
  bool in_unread_list;
  struct connection *full_prev, *full_next; /* the socket takes no more output for now */
  bool in_full_list;

  /* The listener's. */
  struct connection *list_prev, *list_next;
  void (*on_released)(struct connection *connection, void *listener);
  void *listener;
};

/* What the connections of one loop and one budget share. */
struct net_context {
  struct ev_loop *loop;
  struct memory_budget *budget;
  unsigned references;
  uint8_t *scratch;

  struct connection *turn_first, *turn_last;
  int64_t handshakes_us; /* spent in this turn */
  ev_prepare turn;       /* end of the loop's turn */
  ev_idle wake; /* active while the turn list is not empty, so that the loop does not sleep on it */

  struct connection *queue; /* admission's FIFO; its head may read */
  ev_timer stall;
  int64_t head_progress_us;

  struct connection *unread;
  ev_timer hangup_check;

  struct connection *full; /* longest waiting first */
  ev_timer full_check;
};

/* context.c */

/* The context of this loop and budget, made at first use. It takes over budget->on_relief and
 * budget->owner. */
struct net_context *net_context_acquire(struct ev_loop *loop, struct memory_budget *budget);
/* Every connection of the caller must be closed. Not from within a connection's callback. */
void net_context_release(struct net_context *context);
/* Has `work` (TURN_*) done for the connection at the end of this turn. */
void net_context_schedule(struct connection *connection, unsigned work);

/* connection.c */

struct connection_options {
  int fd; /* non-blocking; owned by the connection from here */
  const struct transport_ops *ops;
  void *transport_state; /* owned by the connection from here */
  char *peer;            /* likewise */
  int64_t write_timeout_ms;
  void (*on_released)(struct connection *connection,
                      void *listener); /* the socket is closed; may be NULL */
  void *listener;
};

struct connection *connection_create(struct net_context *context,
                                     const struct connection_options *options);
void connection_move(struct connection *connection, enum connection_state state);
void connection_free(struct connection *connection);
/* Starts the timer, or brings it forward, for the earliest deadline. */
void connection_arm_timer(struct connection *connection);
/* Watches the socket for exactly what is needed now; also enters and leaves admission's queue. */
void connection_update_watcher(struct connection *connection);
static inline bool connection_is_closed(const struct connection *connection) {
  return connection->state == CONNECTION_CLOSED;
}

/* connection_input.c */

static inline size_t connection_unread(const struct connection *connection) {
  return connection->input.length - connection->input_start;
}
/* Unread bytes up to which reading goes on. */
size_t connection_input_limit(const struct connection *connection);
void connection_read(struct connection *connection);
void connection_deliver(struct connection *connection);
/* Has on_input called if a change by the front end made it due; never from within that change. */
void connection_deliver_soon(struct connection *connection);
void connection_drop_input(struct connection *connection);

/* connection_output.c */

void connection_flush(struct connection *connection);
void connection_drop_output(struct connection *connection);

/* admission.c */

/* Joins or leaves the queue as memory and the connection's input ask for. */
void admission_update(struct connection *connection);
void admission_leave(struct connection *connection);
bool admission_is_paused(const struct connection *connection);
/* The connection has received bytes. */
void admission_note_progress(struct connection *connection);
void admission_on_relief(struct memory_budget *budget);
void admission_on_stall(struct ev_loop *loop, ev_timer *timer, int revents);
/* The socket has become full, or takes output again. */
void admission_note_full(struct connection *connection, bool is_full);
void admission_on_full_check(struct ev_loop *loop, ev_timer *timer, int revents);

#endif
