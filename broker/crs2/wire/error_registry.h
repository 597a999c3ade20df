/* The table of error codes (commands-1 section 7): code, class and retryable flag. */
#ifndef PGCURSUS_CRS2_WIRE_ERROR_REGISTRY_H
#define PGCURSUS_CRS2_WIRE_ERROR_REGISTRY_H

#include <stddef.h>

#include "crs2/wire/error.h"

struct error_registry_row {
  const char *code;
  enum error_class error_class;
  bool retryable;
};

/* All rows, sorted by code, bytewise. */
const struct error_registry_row *error_registry_rows(size_t *count);

/* The row of a code, or NULL when it is not listed. */
const struct error_registry_row *error_registry_find(struct slice code);

#endif
