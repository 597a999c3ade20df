/* Reading the golden vectors (tests/vectors/crs2-wire-v2.json, or what PGCURSUS_VECTORS names). */
#ifndef PGCURSUS_TESTS_VECTORS_H
#define PGCURSUS_TESTS_VECTORS_H

#include <json-c/json.h>

#include "base/arena.h"
#include "base/slice.h"
#include "crs2/wire/batch.h"

/* The whole file; the test fails when it cannot be read. Kept until vectors_close(). */
struct json_object *vectors_open(void);
void vectors_close(void);

/* A member that must exist. */
struct json_object *vectors_member(struct json_object *owner, const char *key);

/* A list of the file that must exist and must not be empty: a loop over nothing proves nothing. */
struct json_object *vectors_list(const char *key);

/* Typed members, which must exist. Text may contain NUL. */
struct slice vectors_text(struct json_object *owner, const char *key);
struct slice vectors_hex(struct json_object *owner, const char *key, struct arena *arena);
uint64_t vectors_number(struct json_object *owner, const char *key);
const char *vectors_name(struct json_object *item);

/* The text of a list's element, or the bytes of a hex string. */
struct slice vectors_string(struct json_object *text);
struct slice vectors_bytes(struct json_object *hex, struct arena *arena);

/* Builds the batch that a vector describes, and checks that a decoded one is equal to it. */
void vectors_build_batch(struct json_object *want, struct arena *arena, struct batch *batch);
void vectors_check_batch(const char *name, struct json_object *want, const struct batch *got);

#endif
