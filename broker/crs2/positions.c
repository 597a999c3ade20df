/* A table of positions, bounded. Knows no command. */
#include "crs2/positions.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/buffer.h"
#include "base/memory.h"

#define MAX_ENTRIES 2048u

struct position {
  UT_hash_handle hh;
  int64_t next_offset;
  size_t key_length;
  uint8_t key[];
};

static void encode_key(struct buffer *out, const struct position_key *key) {
  buffer_append_u32(out, (uint32_t)key->partition);
  buffer_append_u64(out, (uint64_t)key->generation);
  buffer_append_u16(out, (uint16_t)key->group.length);
  buffer_append_slice(out, key->group);
  buffer_append_u16(out, (uint16_t)key->member.length);
  buffer_append_slice(out, key->member);
  buffer_append_slice(out, key->topic);
}

static struct position *find(const struct positions *positions, struct slice key) {
  struct position *found;
  HASH_FIND(hh, positions->entries, key.data, key.length, found);
  return found;
}

int64_t positions_find(const struct positions *positions, const struct position_key *key) {
  if (positions->entries == NULL) return -1;
  struct buffer bytes = {0};
  encode_key(&bytes, key);
  struct position *found = find(positions, buffer_slice(&bytes));
  buffer_release(&bytes);
  return found ? found->next_offset : -1;
}

static void drop(struct positions *positions, struct position *position) {
  HASH_DEL(positions->entries, position);
  free(position);
}

/* The table keeps the order of additions, so an entry that changes is added anew. */
void positions_put(struct positions *positions, const struct position_key *key,
                   int64_t next_offset) {
  struct buffer bytes = {0};
  encode_key(&bytes, key);
  struct position *known = find(positions, buffer_slice(&bytes));
  if (known) {
    HASH_DEL(positions->entries, known);
  } else {
    known = memory_allocate_zeroed(1, sizeof *known + bytes.length);
    known->key_length = bytes.length;
    memcpy(known->key, bytes.data, bytes.length);
    if (HASH_COUNT(positions->entries) >= MAX_ENTRIES) drop(positions, positions->entries);
  }
  known->next_offset = next_offset;
  HASH_ADD_KEYPTR(hh, positions->entries, known->key, known->key_length, known);
  buffer_release(&bytes);
}

void positions_release(struct positions *positions) {
  struct position *position, *next;
  HASH_ITER(hh, positions->entries, position, next) drop(positions, position);
}
