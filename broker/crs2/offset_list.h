/* The `offsets` field of BATCH_COMMIT and SEND_OFFSETS_TO_TXN (commands-2 3.3):
 * `P<partition>:<next>,...`. Pure. */
#ifndef PGCURSUS_CRS2_OFFSET_LIST_H
#define PGCURSUS_CRS2_OFFSET_LIST_H

#include <stdint.h>

#include "base/slice.h"

#define OFFSET_LIST_MAX 1024u

struct offset_list {
  unsigned count;
  int32_t partitions[OFFSET_LIST_MAX];
  int64_t offsets[OFFSET_LIST_MAX]; /* the next one to read */
};

/* NULL when the text is 1 to 1024 entries, each partition once; else why not. */
const char *offset_list_parse(struct slice text, struct offset_list *list)
    __attribute__((warn_unused_result));

#endif
