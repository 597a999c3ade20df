/* How records look on stdout: the format string of `consume -f`, JSON lines, and the listing of
 * `raw`. */
#ifndef PGCURSUS_CLI_FORMAT_H
#define PGCURSUS_CLI_FORMAT_H

#include <stdio.h>

#include "pgcursus.h"

/* NULL when the format is valid, else why it is not. */
const char *format_check(const char *format);

/* Writes one record as a valid format says. */
void format_record(FILE *to, const char *format, struct pgcursus_bytes topic, int32_t partition,
                   const struct pgcursus_record *record);

/* One JSON object and a line feed. Bytes that are not UTF-8 come as `..._base64`. */
void format_record_json(FILE *to, struct pgcursus_bytes topic, int32_t partition,
                        const struct pgcursus_record *record);

/* A batch for people: a line on the batch, then a line a record. */
void format_batch_listing(FILE *to, const struct pgcursus_batch *batch);

#endif
