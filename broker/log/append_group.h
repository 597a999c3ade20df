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
  APPEND_STATEMENT_COUNT
};
extern const struct db_statement append_statements[APPEND_STATEMENT_COUNT];

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

/* Forgets items and rows; keeps the memory for the next group. */
void append_group_reset(struct append_group *group);
void append_group_release(struct append_group *group);

#endif
