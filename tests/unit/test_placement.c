/* Rendezvous placement: even, stable, and the same on every node. */
#include <stdio.h>
#include <string.h>

#include "cluster/placement.h"
#include "unit.h"

enum { NODES = 5, KEYS = 10000 };

static struct node_entry nodes[NODES] = {
    {.id = "a-9000", .is_alive = true}, {.id = "b-9000", .is_alive = true},
    {.id = "c-9000", .is_alive = true}, {.id = "c-9001", .is_alive = true},
    {.id = "d", .is_alive = true},
};

static const struct node_entry *choose(int key) {
  char text[20];
  snprintf(text, sizeof text, "group-%d", key);
  return placement_choose(nodes, NODES, slice_text(text));
}

static int revive(void **state) {
  (void)state;
  for (int i = 0; i < NODES; i++) nodes[i].is_alive = true;
  return 0;
}

static void keys_are_spread_evenly(void **state) {
  (void)state;
  int counts[NODES] = {0};
  for (int key = 0; key < KEYS; key++) counts[choose(key) - nodes]++;
  for (int i = 0; i < NODES; i++)
    assert_in_range(counts[i], KEYS / NODES * 9 / 10, KEYS / NODES * 11 / 10);
}

static void partitions_of_a_topic_are_spread_too(void **state) {
  (void)state;
  int counts[NODES] = {0};
  for (int partition = 0; partition < 1000; partition++) {
    counts[placement_leader(nodes, NODES, slice_text("orders"), partition, slice_of(NULL, 0)) -
           nodes]++;
  }
  for (int i = 0; i < NODES; i++) assert_in_range(counts[i], 140, 260);
}

static void a_node_that_goes_moves_only_what_it_had(void **state) {
  (void)state;
  const struct node_entry *before[KEYS];
  for (int key = 0; key < KEYS; key++) before[key] = choose(key);
  nodes[2].is_alive = false;
  for (int key = 0; key < KEYS; key++) {
    const struct node_entry *after = choose(key);
    assert_ptr_not_equal(after, &nodes[2]);
    if (before[key] != &nodes[2]) assert_ptr_equal(after, before[key]);
  }
}

static void the_order_of_the_list_does_not_matter(void **state) {
  (void)state;
  struct node_entry reversed[NODES];
  for (int i = 0; i < NODES; i++) reversed[i] = nodes[NODES - 1 - i];
  for (int key = 0; key < 100; key++) {
    char text[20];
    snprintf(text, sizeof text, "group-%d", key);
    assert_string_equal(placement_choose(reversed, NODES, slice_text(text))->id, choose(key)->id);
  }
}

static void nobody_alive_leads_nothing(void **state) {
  (void)state;
  for (int i = 0; i < NODES; i++) nodes[i].is_alive = false;
  assert_null(choose(1));
  assert_null(placement_choose(NULL, 0, slice_text("x")));
  assert_null(placement_leader(nodes, NODES, slice_text("orders"), 0, slice_text("d")));
}

static void an_elected_node_leads_while_it_lives(void **state) {
  (void)state;
  for (int partition = 0; partition < 20; partition++) {
    struct slice topic = slice_text("orders");
    const struct node_entry *usual =
        placement_leader(nodes, NODES, topic, partition, slice_of(NULL, 0));
    assert_string_equal(placement_leader(nodes, NODES, topic, partition, slice_text("d"))->id, "d");
    assert_ptr_equal(placement_leader(nodes, NODES, topic, partition, slice_text("gone")), usual);
    nodes[4].is_alive = false;
    assert_string_not_equal(placement_leader(nodes, NODES, topic, partition, slice_text("d"))->id,
                            "d");
    nodes[4].is_alive = true;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(keys_are_spread_evenly, revive),
      cmocka_unit_test_setup(partitions_of_a_topic_are_spread_too, revive),
      cmocka_unit_test_setup(a_node_that_goes_moves_only_what_it_had, revive),
      cmocka_unit_test_setup(the_order_of_the_list_does_not_matter, revive),
      cmocka_unit_test_setup(nobody_alive_leads_nothing, revive),
      cmocka_unit_test_setup(an_elected_node_leads_while_it_lives, revive),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
