/* The handlers of the command table, one file a family. */
#ifndef PGCURSUS_CRS2_HANDLERS_H
#define PGCURSUS_CRS2_HANDLERS_H

#include "base/slice.h"
#include "db/control.h"

struct call;

/* cmd_connection.c */
void handle_auth(struct call *call);
void handle_help(struct call *call);
void handle_exit(struct call *call);

/* cmd_topic.c */
void handle_create(struct call *call); /* cmd_create.c */
void handle_list(struct call *call);
void handle_describe(struct call *call);
void handle_metadata(struct call *call);
void handle_list_offsets(struct call *call);

/* cmd_topic_life.c */
void handle_alter_topic_config(struct call *call);
void handle_delete(struct call *call);
void handle_truncate(struct call *call);

/* cmd_publish.c, cmd_publish_batch.c */
void handle_publish(struct call *call);
/* True when an acks value asks for silence: "0", and in a batch also "none". */
bool publish_acks_are_none(struct slice acks, bool is_batch);

/* cmd_consume.c */
void handle_consume(struct call *call);

/* cmd_stream.c */
void handle_stream(struct call *call);

/* outcome.c: answers for what went wrong in the database */
void call_fail_control(struct call *call, const struct control_result *result);
void call_fail_control_status(struct call *call, enum control_status status, const char *reason);

#endif
