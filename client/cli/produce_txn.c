/* A producer session with one transaction. Knows the commands and nothing of where records come
 * from. */
#include "produce_txn.h"

#include <inttypes.h>
#include <stdio.h>

static void keep_field(const struct pgcursus_reply *reply, const char *name, char *text,
                       size_t size) {
  struct pgcursus_bytes value = pgcursus_ok_field(reply->payload, name);
  snprintf(text, size, "%.*s", (int)value.length, value.length ? (const char *)value.data : "");
}

int produce_txn_begin(struct produce_txn *txn, struct pgcursus *client) {
  struct pgcursus_reply reply;
  struct cli_field fields[] = {
      {"transactional_id", txn->id}, {"producerId", txn->producer}, {"epoch", txn->epoch}};
  int status = cli_report(client, cli_call(client, "INIT_PRODUCER_ID", fields, 1, &reply));
  if (status != EXIT_DONE) return status;
  keep_field(&reply, "producerId", txn->producer, sizeof txn->producer);
  keep_field(&reply, "epoch", txn->epoch, sizeof txn->epoch);
  return cli_report(client, cli_call(client, "BEGIN_TXN", fields, 3, &reply));
}

enum pgcursus_result produce_txn_send(struct produce_txn *txn, struct pgcursus *client,
                                      const char *topic, int64_t partition,
                                      struct pgcursus_bytes key, struct pgcursus_bytes payload) {
  char number[24], place[24];
  snprintf(number, sizeof number, "%" PRIu64, ++txn->number);
  snprintf(place, sizeof place, "%" PRId64, partition);
  const struct pgcursus_field fields[] = {
      {pgcursus_text("transactional_id"), pgcursus_text(txn->id)},
      {pgcursus_text("producerId"), pgcursus_text(txn->producer)},
      {pgcursus_text("epoch"), pgcursus_text(txn->epoch)},
      {pgcursus_text("topic"), pgcursus_text(topic)},
      {pgcursus_text("partition"), pgcursus_text(place)},
      {pgcursus_text("seqNum"), pgcursus_text(number)},
      {pgcursus_text("message"), payload},
      {pgcursus_text("key"), key},
  };
  size_t count = sizeof fields / sizeof *fields - (key.length == 0);
  return pgcursus_send(client, pgcursus_command_by_name("TXN_PUBLISH"), fields, count, NULL);
}

int produce_txn_end(struct produce_txn *txn, struct pgcursus *client, bool commit) {
  const struct cli_field fields[] = {{"transactional_id", txn->id},
                                     {"producerId", txn->producer},
                                     {"epoch", txn->epoch},
                                     {"result", commit ? "commit" : "abort"}};
  struct pgcursus_reply reply;
  return cli_report(client, cli_call(client, "END_TXN", fields, 4, &reply));
}
