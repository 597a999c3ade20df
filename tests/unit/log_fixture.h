/* Records, and the batches made of them, for the tests of log/. */
#ifndef PGCURSUS_TESTS_LOG_FIXTURE_H
#define PGCURSUS_TESTS_LOG_FIXTURE_H

#include <stdint.h>

#include "base/arena.h"
#include "log/batch.h"
#include "log/columns.h"
#include "log/record.h"

/* A record of which every part is there or not, as the noise has it; its bytes live in the arena.
 */
struct log_record noise_record(uint64_t *noise, struct arena *arena);

/* A record of `payload` and nothing else. */
struct log_record plain_record(const char *payload);

/* One new row with these records, finished; the caller frees it. */
struct columns *row_of(const struct log_record *records, unsigned count);
/* `count` records whose payloads are `size` bytes. */
struct columns *row_of_size(unsigned count, size_t size);

/* As it comes back from PostgreSQL, at `base_offset` of partition 0 of log 1; one reference. */
struct log_batch *batch_of(const struct columns *columns, int64_t base_offset);
/* The same of `count` records of `size` bytes. */
struct log_batch *batch_of_size(int64_t base_offset, unsigned count, size_t size);

/* Everything but the offset. */
void assert_same_record(const struct log_record *got, const struct log_record *want);

/* The batch holds exactly these records, from its base offset on. */
void assert_batch_holds(const struct log_batch *batch, const struct log_record *records,
                        unsigned count);

#endif
