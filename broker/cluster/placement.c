/* Highest random weight. Knows no database and no clock. */
#include "cluster/placement.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"

/* Spreads the bits: the hash below differs little between keys that end alike. (The finalizer of
 * MurmurHash3.) */
static uint64_t mix(uint64_t value) {
  value ^= value >> 33;
  value *= 0xff51afd7ed558ccdULL;
  value ^= value >> 33;
  value *= 0xc4ceb9fe1a85ec53ULL;
  return value ^ value >> 33;
}

static uint64_t weight(const struct node_entry *node, struct slice key) {
  return mix(mix(hash_fnv1a64(slice_text(node->id))) ^ hash_fnv1a64(key));
}

const struct node_entry *placement_choose(const struct node_entry *nodes, size_t count,
                                          struct slice key) {
  const struct node_entry *best = NULL;
  uint64_t greatest = 0;
  for (size_t i = 0; i < count; i++) {
    if (!nodes[i].is_alive) continue;
    uint64_t its = weight(&nodes[i], key);
    if (best == NULL || its > greatest || (its == greatest && strcmp(nodes[i].id, best->id) < 0)) {
      best = &nodes[i];
      greatest = its;
    }
  }
  return best;
}

const struct node_entry *placement_find(const struct node_entry *nodes, size_t count,
                                        struct slice id) {
  for (size_t i = 0; i < count; i++) {
    if (slice_equals_text(id, nodes[i].id)) return &nodes[i];
  }
  return NULL;
}

const struct node_entry *placement_leader(const struct node_entry *nodes, size_t count,
                                          struct slice topic, int32_t partition,
                                          struct slice preferred) {
  const struct node_entry *elected =
      preferred.length ? placement_find(nodes, count, preferred) : NULL;
  if (elected && elected->is_alive) return elected;
  char key[300];
  int length =
      snprintf(key, sizeof key, "%.*s-%d", (int)topic.length, (const char *)topic.data, partition);
  size_t used = (size_t)length < sizeof key ? (size_t)length : sizeof key - 1;
  return placement_choose(nodes, count, slice_of(key, used));
}
