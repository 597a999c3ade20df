/* The calls that a session runs in one transaction: mostly one; several where they say what they
 * lock, so that all of it can be taken before the first of them, in the order that is the same
 * everywhere. */
#ifndef PGCURSUS_DB_CONTROL_BATCH_H
#define PGCURSUS_DB_CONTROL_BATCH_H

#include <stdbool.h>

#include "db/array.h"
#include "db/connection.h"

struct control_call;

/* What holds a batch up holds all its calls up. */
#define CONTROL_BATCH_MAX 32

#define CONTROL_LOCK_PARAMETERS 3

/* A zeroed struct is an empty batch. */
struct control_batch {
  unsigned count;
  struct control_call *members[CONTROL_BATCH_MAX];
  struct db_call calls[CONTROL_BATCH_MAX + 1]; /* the members', after the one that locks */
  unsigned call_count;
  struct db_array transactional_ids, ending, groups;
  struct db_parameter lock_parameters[CONTROL_LOCK_PARAMETERS];
};

/* Whether it may run in one transaction with others that may. */
bool control_batch_takes(const struct control_call *call);

/* The members' order is the calls' order. */
void control_batch_add(struct control_batch *batch, struct control_call *call);

/* Fills calls. They are valid until the batch changes. */
void control_batch_encode(struct control_batch *batch);

/* The member that a call's result is for; NULL for the call that locks. */
struct control_call *control_batch_member(const struct control_batch *batch, unsigned call);

void control_batch_release(struct control_batch *batch);

#endif
