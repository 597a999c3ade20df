/* CRS2 command numbers and names (crs2-wire 6), and the second numbering (6.1).
 *
 * Inside the program a command always has its number of the first table. A connection that
 * negotiated with command 47 uses the shifted table on the wire, in both directions. */
#ifndef PGCURSUS_CRS2_WIRE_COMMAND_ID_H
#define PGCURSUS_CRS2_WIRE_COMMAND_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

#define COMMAND_LIST(X)             \
  X(1, AUTH)                        \
  X(2, CREATE)                      \
  X(3, ALTER_TOPIC_CONFIG)          \
  X(4, DELETE)                      \
  X(5, TRUNCATE)                    \
  X(6, LIST)                        \
  X(7, LIST_CLUSTER)                \
  X(8, CLUSTER_STATUS)              \
  X(9, ELECT_LEADER)                \
  X(10, PUBLISH)                    \
  X(11, CONSUME)                    \
  X(12, STREAM)                     \
  X(13, HELP)                       \
  X(14, HEARTBEAT)                  \
  X(15, JOIN_GROUP)                 \
  X(16, SYNC_GROUP)                 \
  X(17, LEAVE_GROUP)                \
  X(18, COMMIT_OFFSET)              \
  X(19, BATCH_COMMIT)               \
  X(20, REGISTER_GROUP)             \
  X(21, GROUP_STATUS)               \
  X(22, FETCH_OFFSET)               \
  X(23, LIST_GROUPS)                \
  X(24, LIST_OFFSETS)               \
  X(25, DESCRIBE)                   \
  X(26, INIT_PRODUCER_ID)           \
  X(27, BEGIN_TXN)                  \
  X(28, TXN_PUBLISH)                \
  X(29, SEND_OFFSETS_TO_TXN)        \
  X(30, END_TXN)                    \
  X(31, TXN_STATUS)                 \
  X(32, APPEND_STREAM)              \
  X(33, READ_STREAM)                \
  X(34, SAVE_SNAPSHOT)              \
  X(35, READ_SNAPSHOT)              \
  X(36, STREAM_VERSION)             \
  X(37, REPLICATE_MESSAGE)          \
  X(38, REPLICATE_SNAPSHOT)         \
  X(39, LIST_SNAPSHOTS)             \
  X(40, FETCH_SNAPSHOT)             \
  X(41, CATCHUP_SNAPSHOTS)          \
  X(42, FIND_COORDINATOR)           \
  X(43, RAFT_APPLY)                 \
  X(44, METADATA)                   \
  X(45, INTERNAL_BATCH)             \
  X(46, NEGOTIATE)                  \
  X(47, EXIT)                       \
  X(48, JOIN_CLUSTER)               \
  X(49, LEAVE_CLUSTER)              \
  X(50, HEARTBEAT_CLUSTER)          \
  X(51, REPLICA_CATCHUP)            \
  X(52, AGGREGATE_REPLAY_PROOF)     \
  X(53, AGGREGATE_EVENT_RANGE_READ) \
  X(54, TXN_APPEND_STREAM)          \
  X(55, BROWSE_MESSAGES)            \
  X(56, READ_STREAM_HISTORY)

enum command_id {
#define COMMAND_ENUMERATOR(number, name) COMMAND_##name = (number),
  COMMAND_LIST(COMMAND_ENUMERATOR)
#undef COMMAND_ENUMERATOR
      COMMAND_COUNT
};

enum command_numbering { NUMBERING_STANDARD, NUMBERING_SHIFTED };

/* The internal number of a wire number, or 0 when it is unknown in that numbering. */
uint16_t command_from_wire(enum command_numbering numbering, uint16_t wire_number);

/* The wire number of an internal one (which must be known in that numbering, else 0). */
uint16_t command_to_wire(enum command_numbering numbering, uint16_t command);

/* Upper-case name, or "UNKNOWN". */
const char *command_name(uint16_t command);

/* The command of a name in any letter case, or 0. */
uint16_t command_by_name(struct slice name);

#endif
