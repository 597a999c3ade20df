/* Answers of the stream commands as JSON. */
#ifndef PGCURSUS_CLI_STREAM_ANSWER_H
#define PGCURSUS_CLI_STREAM_ANSWER_H

#include <stdio.h>

#include "pgcursus.h"

/* "OK name=number name=number" as an object; "OK name=<json>" as that JSON; with a line feed. */
void stream_print_ok_json(FILE *to, struct pgcursus_bytes text);

#endif
