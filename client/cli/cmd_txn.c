/* The `txn` family: looking at transactions, and ending one that hangs. */
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

int cmd_txn_status(struct cli *cli, int argc, char **argv) {
  struct option_usage usage = {
      .command = "txn status",
      .synopsis = "TRANSACTIONAL_ID",
      .description =
          "Prints the state of a transactional id: open, prepare_commit, prepare_abort, committed "
          "or aborted (also when none was begun), with the numbers of its records, partitions and "
          "staged offsets.",
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 1, 1, &words, &status)) return status;
  const struct cli_field fields[] = {{"transactional_id", argv[0]}};
  return cli_run_simple(cli, "TXN_STATUS", fields, 1);
}

/* ---- txn list -------------------------------------------------------------------------------- */

static const char *text_of(struct json_object *object, const char *name) {
  struct json_object *value;
  return json_object_object_get_ex(object, name, &value) ? json_object_get_string(value) : "";
}

static double seconds_of(struct json_object *object, const char *name) {
  struct json_object *value;
  if (!json_object_object_get_ex(object, name, &value)) return 0;
  return (double)json_object_get_int64(value) / 1000.0;
}

static void print_row(struct json_object *row) {
  struct json_object *touched;
  printf("%-32s %-14s %6s %9.1f %8s %8s %10s  ", text_of(row, "transactional_id"),
         text_of(row, "state"), text_of(row, "epoch"), seconds_of(row, "age_ms"),
         text_of(row, "messages"), text_of(row, "offsets"), text_of(row, "holds_back"));
  if (json_object_object_get_ex(row, "touched", &touched) &&
      json_object_is_type(touched, json_type_array)) {
    for (size_t i = 0; i < json_object_array_length(touched); i++) {
      printf("%s%s", i ? "," : "", json_object_get_string(json_object_array_get_idx(touched, i)));
    }
  }
  putchar('\n');
}

static int print_list(const struct pgcursus_reply *reply) {
  char *text = strndup(reply->payload.data, reply->payload.length);
  struct json_object *list = json_tokener_parse(text);
  free(text);
  if (!list || !json_object_is_type(list, json_type_array)) {
    json_object_put(list);
    return cli_complain("TXN_STATUS gave no list");
  }
  printf("%-32s %-14s %6s %9s %8s %8s %10s  %s\n", "TRANSACTIONAL ID", "STATE", "EPOCH", "AGE S",
         "RECORDS", "OFFSETS", "HOLDS BACK", "PARTITIONS");
  for (size_t i = 0; i < json_object_array_length(list); i++) {
    print_row(json_object_array_get_idx(list, i));
  }
  json_object_put(list);
  return EXIT_DONE;
}

int cmd_txn_list(struct cli *cli, int argc, char **argv) {
  bool as_json = false;
  const struct option_spec options[] = {
      {'j', "json", NULL, OPTION_FLAG, &as_json, 0, 0, "Print the broker's JSON."},
  };
  struct option_usage usage = {
      .command = "txn list",
      .synopsis = "[options]",
      .description =
          "Lists the transactions that are not finished, the oldest first: how long ago each was "
          "begun, what it holds, and how many records of its partitions read_committed consumers "
          "cannot see meanwhile.",
      .options = options,
      .option_count = sizeof options / sizeof *options,
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 0, 0, &words, &status)) return status;
  const struct cli_field fields[] = {{"list", "true"}};
  if (as_json) return cli_run_simple(cli, "TXN_STATUS", fields, 1);
  struct pgcursus *client = cli_connect(cli, &status);
  if (!client) return status;
  struct pgcursus_reply reply;
  status = cli_report(client, cli_call(client, "TXN_STATUS", fields, 1, &reply));
  if (status == EXIT_DONE) status = print_list(&reply);
  pgcursus_close(client);
  return status == EXIT_DONE ? cli_finish_output() : status;
}

/* ---- txn abort ------------------------------------------------------------------------------- */

/* A new session aborts what the last one left open. An id that was never known is not made known
 * by this. */
static int start_session(struct pgcursus *client, const struct cli_field *fields) {
  struct pgcursus_reply reply;
  int status = cli_report(client, cli_call(client, "TXN_STATUS", fields, 1, &reply));
  if (status == EXIT_DONE) {
    status = cli_report(client, cli_call(client, "INIT_PRODUCER_ID", fields, 1, &reply));
  }
  return status;
}

int cmd_txn_abort(struct cli *cli, int argc, char **argv) {
  struct option_usage usage = {
      .command = "txn abort",
      .synopsis = "TRANSACTIONAL_ID",
      .description =
          "Aborts the open transaction of a transactional id and locks out its producer, which "
          "must begin a new session (INIT_PRODUCER_ID) to go on. One that is already being "
          "committed is not aborted any more.",
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 1, 1, &words, &status)) return status;
  struct pgcursus *client = cli_connect(cli, &status);
  if (!client) return status;
  const struct cli_field fields[] = {{"transactional_id", argv[0]}};
  status = start_session(client, fields);
  pgcursus_close(client);
  return status;
}
