/* Parses lists of partitions and offsets. Knows no command. */
#include "crs2/offset_list.h"

#include <stdlib.h>
#include <string.h>

#include "crs2/fields.h"

static const char *parse_entry(struct slice entry, struct offset_list *list) {
  const uint8_t *colon = entry.length ? memchr(entry.data, ':', entry.length) : NULL;
  uint64_t partition, offset;
  if (entry.length == 0) return "an entry is empty";
  if (entry.data[0] != 'P' || colon == NULL) return "an entry is P<partition>:<offset>";
  size_t digits = (size_t)(colon - entry.data) - 1;
  if (!field_parse_u64(slice_of(entry.data + 1, digits), &partition) || partition > INT32_MAX) {
    return "a partition is not a number";
  }
  if (!field_parse_u64(slice_of(colon + 1, entry.length - digits - 2), &offset) ||
      offset > INT64_MAX) {
    return "an offset is not a number";
  }
  if (list->count == OFFSET_LIST_MAX) return "more than 1024 entries";
  list->partitions[list->count] = (int32_t)partition;
  list->offsets[list->count++] = (int64_t)offset;
  return NULL;
}

static int compare_partitions(const void *a, const void *b) {
  const int32_t *left = a, *right = b;
  return (*left > *right) - (*left < *right);
}

static const char *check_repeats(const struct offset_list *list) {
  int32_t sorted[OFFSET_LIST_MAX];
  memcpy(sorted, list->partitions, list->count * sizeof *sorted);
  qsort(sorted, list->count, sizeof *sorted, compare_partitions);
  for (unsigned i = 1; i < list->count; i++) {
    if (sorted[i] == sorted[i - 1]) return "a partition is named twice";
  }
  return NULL;
}

const char *offset_list_parse(struct slice text, struct offset_list *list) {
  list->count = 0;
  if (text.length == 0) return "offsets are missing";
  for (size_t start = 0; start <= text.length;) {
    const uint8_t *comma =
        start < text.length ? memchr(text.data + start, ',', text.length - start) : NULL;
    size_t end = comma ? (size_t)(comma - text.data) : text.length;
    const char *problem = parse_entry(slice_of(text.data + start, end - start), list);
    if (problem) return problem;
    start = end + 1;
  }
  return check_repeats(list);
}
