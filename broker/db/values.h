/* Binary values of statements: parameters built in place and results read back (network byte
 * order). */
#ifndef PGCURSUS_DB_VALUES_H
#define PGCURSUS_DB_VALUES_H

#include <endian.h>
#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/slice.h"
#include "db/connection.h"

/* pg_type oids used by the broker's statements. */
#define DB_BOOL 16
#define DB_BYTEA 17
#define DB_INT8 20
#define DB_INT4 23
#define DB_TEXT 25
#define DB_FLOAT8 701
#define DB_BYTEA_ARRAY 1001
#define DB_INT4_ARRAY 1007
#define DB_TEXT_ARRAY 1009
#define DB_INT8_ARRAY 1016

/* PostgreSQL counts time from 2000-01-01; this many microseconds after 1970-01-01. */
#define DB_EPOCH_US 946684800000000LL

/* Room for one fixed-size value in network byte order. */
union db_scalar {
  uint64_t int8; /* float8 too */
  uint32_t int4;
  uint8_t boolean;
};

static inline struct db_parameter db_int8(union db_scalar *room, int64_t value) {
  room->int8 = htobe64((uint64_t)value);
  return (struct db_parameter){.data = &room->int8, .length = 8};
}

static inline struct db_parameter db_int4(union db_scalar *room, int32_t value) {
  room->int4 = htobe32((uint32_t)value);
  return (struct db_parameter){.data = &room->int4, .length = 4};
}

static inline struct db_parameter db_float8(union db_scalar *room, double value) {
  memcpy(&room->int8, &value, sizeof room->int8);
  room->int8 = htobe64(room->int8);
  return (struct db_parameter){.data = &room->int8, .length = 8};
}

static inline struct db_parameter db_bool(union db_scalar *room, bool value) {
  room->boolean = value;
  return (struct db_parameter){.data = &room->boolean, .length = 1};
}

static inline struct db_parameter db_null(void) {
  return (struct db_parameter){.data = NULL, .length = 0};
}

/* Text, bytes or a whole binary array; an empty text is not NULL. */
static inline struct db_parameter db_bytes(struct slice bytes) {
  return (struct db_parameter){.data = bytes.data ? (const void *)bytes.data : "",
                               .length = (int)bytes.length};
}

static inline bool db_is_null(const PGresult *result, int row, int column) {
  return PQgetisnull(result, row, column) == 1;
}

/* The value's bytes; empty for NULL. Valid as long as the result. */
static inline struct slice db_get_bytes(const PGresult *result, int row, int column) {
  if (db_is_null(result, row, column)) return slice_of(NULL, 0);
  return slice_of(PQgetvalue(result, row, column), (size_t)PQgetlength(result, row, column));
}

/* 0 for NULL. */
static inline int64_t db_get_int8(const PGresult *result, int row, int column) {
  uint64_t value;
  if (PQgetlength(result, row, column) != sizeof value) return 0;
  memcpy(&value, PQgetvalue(result, row, column), sizeof value);
  return (int64_t)be64toh(value);
}

static inline int32_t db_get_int4(const PGresult *result, int row, int column) {
  uint32_t value;
  if (PQgetlength(result, row, column) != sizeof value) return 0;
  memcpy(&value, PQgetvalue(result, row, column), sizeof value);
  return (int32_t)be32toh(value);
}

static inline int32_t db_get_int2(const PGresult *result, int row, int column) {
  uint16_t value;
  if (PQgetlength(result, row, column) != sizeof value) return 0;
  memcpy(&value, PQgetvalue(result, row, column), sizeof value);
  return (int16_t)be16toh(value);
}

static inline bool db_get_bool(const PGresult *result, int row, int column) {
  return PQgetlength(result, row, column) == 1 && PQgetvalue(result, row, column)[0] != 0;
}

#endif
