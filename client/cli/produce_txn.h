/* The transaction that `produce --transactional-id` puts its records into. */
#ifndef PGCURSUS_CLI_PRODUCE_TXN_H
#define PGCURSUS_CLI_PRODUCE_TXN_H

#include "cli.h"

struct produce_txn {
  const char *id; /* NULL: there is none */
  char producer[64], epoch[24];
  uint64_t number; /* of the last request */
};

/* Starts a session and its transaction; an exit status. */
int produce_txn_begin(struct produce_txn *txn, struct pgcursus *client);

/* Queues one record. */
enum pgcursus_result produce_txn_send(struct produce_txn *txn, struct pgcursus *client,
                                      const char *topic, int64_t partition,
                                      struct pgcursus_bytes key, struct pgcursus_bytes payload)
    __attribute__((warn_unused_result));

/* Commits, or aborts; nothing may be in flight. */
int produce_txn_end(struct produce_txn *txn, struct pgcursus *client, bool commit);

#endif
