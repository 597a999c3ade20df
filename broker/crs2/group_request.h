/* What the commands of groups and offsets share: their common fields, and one SQL function in
 * flight. Private to the cmd_*.c pages of groups, offsets and transactions. */
#ifndef PGCURSUS_CRS2_GROUP_REQUEST_H
#define PGCURSUS_CRS2_GROUP_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "db/control.h"

struct call;

struct group_request {
  struct control_call control; /* first */
  struct call *call;
  struct slice group, member, topic; /* empty when absent */
  int64_t generation;
  bool has_generation;
  uint64_t heartbeat_changes; /* HEARTBEAT */
  bool is_resume;             /* JOIN_GROUP with a generation */
  const char *failed_code;    /* for errors of PostgreSQL; NULL: coordinator_error */
  void (*answer)(struct group_request *request, const PGresult *rows);
};

/* In the call's arena, with the fields read; `answer` gets the rows of what group_request_submit()
 * asks. */
struct group_request *group_request_create(struct call *call,
                                           void (*answer)(struct group_request *request,
                                                          const PGresult *rows));

void group_request_submit(struct group_request *request, enum control_statement statement);

/* As the above, one after another on this node for the same group: for what changes it. */
void group_request_submit_exclusive(struct group_request *request,
                                    enum control_statement statement);

/* Checks of the common fields. False: the call has been answered. */
bool group_request_need_group(struct group_request *request) __attribute__((warn_unused_result));
bool group_request_need_topic_text(struct group_request *request)
    __attribute__((warn_unused_result));

/* NULL when `generation` is absent (and may be) or a number from 0 on, which is then set; else the
 * code of what is wrong with it. */
const char *group_request_read_generation(struct group_request *request, bool needed);

/* NULL when the member's id can be one; else the code of what is wrong with it. */
const char *group_request_check_member(const struct group_request *request);

/* `code` {command}, unless the group or the topic is refused, which comes first
 * (commands-2 2.8, 3.2). */
void group_request_fail_after_topic(struct group_request *request, const char *code);

/* The parameter of a field that may be absent. */
struct db_parameter group_request_text(struct slice value);

#endif
