/* What a node tells the others after it has appended: partitions and their ends, as the payload of
 * a notification. Pure.
 *
 * `SENDER LOG:PARTITION=END,PARTITION=END;LOG:...` in decimal; SENDER is any word, by which a node
 * knows its own. */
#ifndef PGCURSUS_LOG_ANNOUNCEMENT_H
#define PGCURSUS_LOG_ANNOUNCEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* PostgreSQL refuses payloads of 8000 bytes. */
#define ANNOUNCEMENT_SIZE 8000

struct partition_end {
  int64_t log_id;
  int32_t partition;
  int64_t end_offset;
};

/* Orders by log and partition, as announcement_encode() wants them. */
int partition_end_compare(const void *left, const void *right);

/* Writes as many of the ends as fit, with a final NUL, and returns how many: at least one if there
 * is one. `sender` has at most 64 bytes and no blank. */
size_t announcement_encode(const char *sender, const struct partition_end *ends, size_t count,
                           char text[ANNOUNCEMENT_SIZE]) __attribute__((warn_unused_result));

/* Calls `visit` for each end. False when the text is malformed: what came before the fault has been
 * visited. */
bool announcement_decode(const char *text, const char *own_sender,
                         void (*visit)(void *context, const struct partition_end *end),
                         void *context) __attribute__((warn_unused_result));

#endif
