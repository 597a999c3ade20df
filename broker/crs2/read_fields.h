/* The fields that CONSUME and STREAM share, checked in the order of commands-1 3.2. */
#ifndef PGCURSUS_CRS2_READ_FIELDS_H
#define PGCURSUS_CRS2_READ_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#define READ_MAX_RECORDS 8192

struct call;

struct read_fields {
  bool is_uncommitted; /* isolation=read_uncommitted */
  int64_t partition;
  int64_t generation; /* -1: not given. Nobody checks it */
  bool has_offset;
  uint64_t requested_offset; /* as sent */
  int64_t offset;            /* the same within bigint, where nothing lies beyond */
  int64_t max_records;       /* 1 .. READ_MAX_RECORDS */
};

/* Checks 2 to 7: isolation, partition, generation, offset, batch. False when the call was failed.
 */
bool read_fields_parse(struct call *call, struct read_fields *fields)
    __attribute__((warn_unused_result));

/* `code {requested, maximum}`; false, for the caller to return. */
bool read_fields_fail_above(struct call *call, const char *code, const char *name,
                            const char *maximum);
/* `code {maximum}`; likewise. */
bool read_fields_fail_maximum(struct call *call, const char *code, const char *maximum);

#endif
