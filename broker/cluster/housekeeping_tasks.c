/* The table of housekeeping tasks. Data only; housekeeping.h says how to add a row. */
#include "cluster/housekeeping.h"
#include "db/values.h"

#define TYPE(value) _Generic((value), int64_t : DB_INT8, double : DB_FLOAT8, char * : DB_TEXT)
#define SETTING(member) \
  { offsetof(struct config, member), TYPE(((struct config *)NULL)->member) }

const struct housekeeping_task housekeeping_tasks[] = {
    {.name = "removed_logs",
     .statement = "SELECT done, more FROM pgcursus.remove_old_logs()",
     .interval = SETTING(removal_check_interval_ms)},
    {.name = "retention",
     .statement = "SELECT done, more, records, bytes FROM pgcursus.retain_logs($1, $2, $3, $4)",
     .interval = SETTING(log_retention_check_interval_ms),
     .parameters = {SETTING(log_retention_hours), SETTING(log_retention_bytes),
                    SETTING(log_segment_bytes), SETTING(log_segment_roll_ms)},
     .counts_removed = true},
    {.name = "compaction",
     .statement = "SELECT done, more, records, bytes FROM pgcursus.compact_logs($1, $2, $3)",
     .interval = SETTING(log_compaction_check_interval_ms),
     .parameters = {SETTING(log_min_cleanable_dirty_ratio), SETTING(log_segment_bytes),
                    SETTING(log_segment_roll_ms)},
     .counts_removed = true},
    {.name = "expired_members",
     .statement = "SELECT done, more FROM pgcursus.expire_group_members($1)",
     .interval = SETTING(consumer_heartbeat_check_ms),
     .parameters = {SETTING(consumer_session_timeout_ms)},
     .is_serializable = true},
    {.name = "superseded_offsets",
     .statement = "SELECT done, more FROM pgcursus.trim_offset_commits()",
     .interval = SETTING(offset_trim_interval_ms)},
    {.name = "overdue_transactions",
     .statement = "SELECT done, more FROM pgcursus.abort_overdue_transactions(200)",
     .interval = SETTING(transaction_check_interval_ms)},
    {.name = "finished_transactions",
     .statement = "SELECT done, more FROM pgcursus.clean_transactions()",
     .interval = SETTING(transaction_cleanup_interval_ms)},
    {.name = "rested_transactional_ids",
     .statement = "SELECT done, more FROM pgcursus.expire_transactional_ids($1)",
     .interval = SETTING(transaction_cleanup_interval_ms),
     .parameters = {SETTING(transactional_id_expiration_ms)}},
    {.name = "lost_nodes",
     .statement = "SELECT done, more FROM pgcursus.note_lost_nodes($1)",
     .interval = SETTING(removal_check_interval_ms),
     .parameters = {SETTING(node_expiration_ms)}},
};

const unsigned housekeeping_task_count = sizeof housekeeping_tasks / sizeof *housekeeping_tasks;
