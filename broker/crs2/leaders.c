/* Chooses among the nodes as last read. Asks nobody. */
#include "crs2/leaders.h"

#include "cluster/nodes.h"
#include "cluster/placement.h"
#include "crs2/crs2.h"

static struct leader self_or(const struct crs2 *crs2, const struct node_entry *chosen) {
  if (chosen) return (struct leader){.id = chosen->id, .address = chosen->address};
  return (struct leader){.id = crs2->node_id, .address = crs2->advertised};
}

struct leader leader_of_partition(const struct crs2 *crs2, struct slice topic, int32_t partition,
                                  struct slice preferred) {
  if (!crs2->config->enabled_distribution) return self_or(crs2, NULL);
  size_t count;
  const struct node_entry *nodes = nodes_list(crs2->nodes, &count);
  return self_or(crs2, placement_leader(nodes, count, topic, partition, preferred));
}

struct leader coordinator_of(const struct crs2 *crs2, struct slice key) {
  if (!crs2->config->enabled_distribution) {
    return (struct leader){.id = "standalone", .address = crs2->advertised};
  }
  size_t count;
  const struct node_entry *nodes = nodes_list(crs2->nodes, &count);
  return self_or(crs2, placement_choose(nodes, count, key));
}
