/* One group of appends on its way to PostgreSQL: sorted, merged and encoded. Private to
 * log/append*.c. */
#ifndef PGCURSUS_LOG_APPEND_GROUP_H
#define PGCURSUS_LOG_APPEND_GROUP_H

#include <stdbool.h>
#include <stddef.h>

#include "db/array.h"
#include "db/connection.h"
#include "db/values.h"
#include "log/append.h"

#define APPEND_PARAMETERS 25
#define TRANSACTIONAL_PARAMETERS 15

enum append_statement {
  STATEMENT_APPEND,
  STATEMENT_NOTE_STANDBYS,
  STATEMENT_LOCK_TRANSACTIONS,
  STATEMENT_APPEND_TRANSACTIONAL,
  STATEMENT_APPEND_EVENTS,
  APPEND_STATEMENT_COUNT
};
extern const struct db_statement append_statements[APPEND_STATEMENT_COUNT];

/* What append_events() said of one event. */
struct event_answer {
  int status;
  int64_t value;
};

/* One row to insert: one call of the append function, for one item or for several merged ones. */
struct append_row {
  struct columns *columns;
  bool owns_columns;   /* merged for this group */
  unsigned first_item; /* index into the group's items */
  unsigned item_count; /* 0 for the second and later rows of an item */
  union db_scalar scalars[12];
  struct db_parameter parameters[APPEND_PARAMETERS];
  /* the function's answer */
  bool answered;
  int status;
  int64_t base_offset;
  int64_t last_offset;
  int32_t appended_count;
  int64_t appended_at;
  int64_t current;
  int64_t expected;
  struct event_answer *event_answers; /* one an item; NULL: the row's status is that of each */
};

struct append_group {
  struct append_item **items;
  unsigned item_count;
  unsigned item_capacity;
  struct append_row *rows;
  unsigned row_count;
  unsigned row_capacity;
  /* First what the rows need: a look at the standbys and the locks of transactions, if need be;
   * then a call a row. */
  struct db_call *calls;
  unsigned call_count;
  unsigned first_row_call;
  struct db_array transactional_ids;
  struct db_parameter lock_parameters[1];
};

/* Sorts the items, merges what may be merged and encodes the calls. `note_standbys`: the commit
 * will wait for the synchronous standbys, so it has to be known whether they are there. The group
 * must hold at least one item. */
void append_group_encode(struct append_group *group, bool note_standbys, int min_insync_replicas);

/* Reads the answer of call `call`. */
void append_group_take_result(struct append_group *group, unsigned call, const PGresult *result);

void append_group_add(struct append_group *group, struct append_item *item);

/* ---- events (append_event.c) ---- */

extern const Oid append_event_types[];
#define APPEND_EVENT_PARAMETERS 17
#define APPEND_EVENT_SQL                                                                  \
  "SELECT status, base_offset, last_offset, appended_count, appended_at, current_value, " \
  "expected_value, event_statuses, event_values FROM "                                    \
  "pgcursus.append_events($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17)"

static inline bool append_item_is_event(const struct append_item *item) {
  return item->stream_key.length > 0;
}

/* Numbers the events of each stream, so that those of one round all belong to different streams.
 * The items must be sorted; they are put into a new order within their partition. */
void append_event_sort_rounds(struct append_item **items, unsigned count);

/* May an event share a row with `first`, which has `bytes` so far? */
bool append_event_may_merge(const struct append_item *first, const struct append_item *item,
                            size_t bytes);

void append_event_encode(struct append_row *row, const struct append_item *item,
                         int min_insync_replicas);

/* Reads what append_events() returns beyond append(). False: it makes no sense. */
bool append_event_take_answers(struct append_row *row, const PGresult *result)
    __attribute__((warn_unused_result));

/* What one of them means; an event that was appended still needs its offset. */
struct append_result append_event_result(const struct event_answer *event, int32_t partition);

/* Forgets items and rows; keeps the memory for the next group. */
void append_group_reset(struct append_group *group);
void append_group_release(struct append_group *group);

#endif
