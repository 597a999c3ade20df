/* The `group` and `txn` families: looking at consumer groups and transactions. */
#include <stdlib.h>

#include "cli.h"

int cmd_group_describe(struct cli *cli, int argc, char **argv) {
  struct option_usage usage = {
      .command = "group describe",
      .synopsis = "GROUP",
      .description = "Prints the state, members and assignments of a consumer group as JSON.",
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 1, 1, &words, &status)) return status;
  const struct cli_field fields[] = {{"group", argv[0]}};
  return cli_run_simple(cli, "GROUP_STATUS", fields, 1);
}

/* A line a partition: the committed offset, the end, and how many records lie between. */
static int print_group_offsets(struct pgcursus *client, const char *group, const char *topic) {
  int status;
  size_t count = 0;
  struct cli_offsets *ends = cli_list_offsets(client, topic, -1, &count, &status);
  for (size_t i = 0; i < count && status == EXIT_DONE; i++) {
    char partition[16];
    snprintf(partition, sizeof partition, "%d", ends[i].partition);
    const struct cli_field fields[] = {
        {"topic", topic}, {"partition", partition}, {"group", group}};
    struct pgcursus_reply reply;
    status = cli_report(client, cli_call(client, "FETCH_OFFSET", fields, 3, &reply));
    if (status != EXIT_DONE) break;
    struct pgcursus_bytes field = pgcursus_ok_field(reply.payload, "offset");
    char number[24];
    snprintf(number, sizeof number, "%.*s", (int)field.length,
             field.length ? (const char *)field.data : "0");
    uint64_t committed = strtoull(number, NULL, 10);
    uint64_t lag = ends[i].latest > committed ? ends[i].latest - committed : 0;
    printf("partition=%s offset=%llu latest=%llu lag=%llu\n", partition,
           (unsigned long long)committed, (unsigned long long)ends[i].latest,
           (unsigned long long)lag);
  }
  free(ends);
  return status == EXIT_DONE ? cli_finish_output() : status;
}

int cmd_group_offsets(struct cli *cli, int argc, char **argv) {
  struct option_usage usage = {
      .command = "group offsets",
      .synopsis = "GROUP TOPIC",
      .description =
          "Prints, for each partition of TOPIC, the next offset that GROUP has committed, the "
          "partition's end and the lag between them. An offset never committed shows as 0.",
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 2, 2, &words, &status)) return status;
  struct pgcursus *client = cli_connect(cli, &status);
  if (!client) return status;
  status = print_group_offsets(client, argv[0], argv[1]);
  pgcursus_close(client);
  return status;
}

int cmd_txn_status(struct cli *cli, int argc, char **argv) {
  struct option_usage usage = {
      .command = "txn status",
      .synopsis = "TRANSACTIONAL_ID",
      .description =
          "Prints the state of a transactional id: ready, open, committed or aborted, with the "
          "numbers of its records, partitions and staged offsets.",
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 1, 1, &words, &status)) return status;
  const struct cli_field fields[] = {{"transactional_id", argv[0]}};
  return cli_run_simple(cli, "TXN_STATUS", fields, 1);
}
