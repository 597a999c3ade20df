/* What records share with batch.c; private to the codecs. */
#ifndef PGCURSUS_CRS2_WIRE_RECORD_CODEC_H
#define PGCURSUS_CRS2_WIRE_RECORD_CODEC_H

#include "crs2/wire/record.h"

/* As record_encode(), with the u32 length prefix that a batch puts before each record. */
const char *record_encode_prefixed(const struct record *record, struct slice topic,
                                   int32_t partition, struct buffer *out)
    __attribute__((warn_unused_result));

#endif
