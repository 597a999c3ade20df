/* `pgcursus`, the command line: common options, the table of commands, dispatch.
 *
 * Data goes to stdout, everything else to stderr. Exit status: 0 done, 1 the broker refused, 2
 * usage or connection. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

const struct cli_command cli_commands[] = {
    {"topic", "create", "create a topic, or change one that exists", cmd_topic_create},
    {"topic", "alter", "change a topic that exists", cmd_topic_alter},
    {"topic", "describe", "show a topic's definition and partitions as JSON", cmd_topic_describe},
    {"topic", "list", "list the topics, one a line", cmd_topic_list},
    {"topic", "delete", "delete a topic and everything in it", cmd_topic_delete},
    {"topic", "truncate", "empty a topic and keep its definition", cmd_topic_truncate},
    {NULL, "produce", "publish lines of stdin or of files", cmd_produce},
    {NULL, "consume", "print the records of a topic", cmd_consume},
    {"group", "list", "list the consumer groups, one a line", cmd_group_list},
    {"group", "describe", "show a group's state, members and assignments", cmd_group_describe},
    {"group", "offsets", "show a group's committed offsets and lag", cmd_group_offsets},
    {"txn", "status", "show the state of a transaction", cmd_txn_status},
    {"txn", "list", "list unfinished transactions", cmd_txn_list},
    {"txn", "abort", "abort a transaction and lock out its producer", cmd_txn_abort},
    {"stream", "append", "append an event to an aggregate's stream", cmd_stream_append},
    {"stream", "read", "print an aggregate's events", cmd_stream_read},
    {"stream", "version", "show an aggregate's version", cmd_stream_version},
    {"stream", "snapshot", "show or save an aggregate's snapshot", cmd_stream_snapshot},
    {"stream", "prove", "prove that an aggregate's events are complete", cmd_stream_prove},
    {"user", "add", "add a user to the table in the database", cmd_user_add},
    {"user", "remove", "remove a user from the table", cmd_user_remove},
    {"user", "list", "list the users of the table, one a line", cmd_user_list},
    {NULL, "raw", "send any command, print the readable answer", cmd_raw},
    {"bench", "publish", "measure publishing", cmd_bench_publish},
    {"bench", "consume", "measure consuming", cmd_bench_consume},
    {"bench", "transactions", "measure transactions", cmd_bench_transactions},
    {"bench", "latency", "measure single publishes at a fixed rate", cmd_bench_latency},
    {"bench", "append-stream", "measure appending events to streams", cmd_bench_append_stream},
    {"bench", "read-stream", "measure reading a whole stream", cmd_bench_read_stream},
    {NULL, "ping", "measure one round trip", cmd_ping},
    {NULL, NULL, NULL, NULL},
};

static void set_up(struct cli *cli) {
  const char *broker = getenv("PGCURSUS_BROKER");
  *cli = (struct cli){
      .broker = broker && *broker ? broker : "127.0.0.1:9000",
      .compression = "none",
      .timeout_ms = 30000,
  };
  cli_load_security(cli);
  const struct option_spec common[CLI_COMMON_OPTIONS] = {
      {'b', "broker", "HOST:PORT", OPTION_TEXT, &cli->broker, 0, 0,
       "The broker. Default: $PGCURSUS_BROKER, else 127.0.0.1:9000."},
      {0, "compression", "C", OPTION_TEXT, &cli->compression, 0, 0,
       "none, gzip, snappy or lz4 for the whole connection; several, best first, separated by "
       "commas. "
       "Default: none."},
      {0, "user", "PRINCIPAL", OPTION_TEXT, &cli->user, 0, 0,
       "Authenticate as PRINCIPAL. Default: $PGCURSUS_USER, else not at all."},
      {0, "token", "TOKEN", OPTION_TEXT, &cli->token, 0, 0,
       "The principal's token. Everybody on the machine can read it in the list of processes: "
       "prefer "
       "$PGCURSUS_TOKEN or --token-file."},
      {0, "token-file", "FILE", OPTION_TEXT, &cli->token_file, 0, 0,
       "Read the token from the first line of FILE."},
      {0, "tls", NULL, OPTION_FLAG, &cli->use_tls, 0, 0,
       "Encrypt with TLS and verify the broker's certificate and name. Implied by the options that "
       "follow. Default: $PGCURSUS_TLS. Each of them has its variable: $PGCURSUS_TLS_CA, ..."},
      {0, "tls-ca", "FILE", OPTION_TEXT, &cli->tls.ca_file, 0, 0,
       "PEM file with the CA of the broker's certificate. Default: the CAs of the system."},
      {0, "tls-cert", "FILE", OPTION_TEXT, &cli->tls.cert_file, 0, 0,
       "PEM file with a client certificate, for a broker that asks for one."},
      {0, "tls-key", "FILE", OPTION_TEXT, &cli->tls.key_file, 0, 0,
       "PEM file with the key of the client certificate."},
      {0, "tls-server-name", "NAME", OPTION_TEXT, &cli->tls.server_name, 0, 0,
       "The name or address that the broker's certificate must be for. Default: the broker's "
       "HOST."},
      {0, "tls-insecure", NULL, OPTION_FLAG, &cli->tls.insecure, 0, 0,
       "Accept any certificate. For trying out only: anybody may then pose as the broker."},
      {0, "timeout-ms", "N", OPTION_INTEGER, &cli->timeout_ms, 1, 86400000,
       "How long to wait for connecting and for an answer. Default: 30000."},
      {'q', "quiet", NULL, OPTION_FLAG, &cli->quiet, 0, 0,
       "No progress and no summary; errors are still written."},
  };
  memcpy(cli->common, common, sizeof common);
}

static void print_commands(FILE *to) {
  fprintf(to, "\nCommands:\n");
  for (const struct cli_command *each = cli_commands; each->name; each++) {
    char name[32];
    snprintf(name, sizeof name, "%s%s%s", each->family ? each->family : "", each->family ? " " : "",
             each->name);
    fprintf(to, "  %-18s %s\n", name, each->summary);
  }
}

static struct option_usage main_usage(const struct cli *cli) {
  return (struct option_usage){
      .command = "",
      .synopsis = "[options] COMMAND [options] ...",
      .description =
          "Client of the pgcursus message broker. Records and answers go to stdout, everything "
          "else to "
          "stderr.\n\n"
          "Exit status: 0 done, 1 the broker refused (its error is on stderr), 2 wrong usage or no "
          "connection.\n\n"
          "`pgcursus COMMAND --help` explains a command.",
      .common = cli->common,
      .common_count = CLI_COMMON_OPTIONS,
      .stop_at_word = true,
  };
}

static int show_main_help(const struct cli *cli) {
  struct option_usage usage = main_usage(cli);
  options_show_help(&usage);
  print_commands(stdout);
  return EXIT_DONE;
}

/* The row for these words; `*used` is how many of them name it. */
static const struct cli_command *find_command(int count, char **words, int *used) {
  for (const struct cli_command *each = cli_commands; each->name; each++) {
    if (!each->family && strcmp(each->name, words[0]) == 0) {
      *used = 1;
      return each;
    }
    if (each->family && count > 1 && strcmp(each->family, words[0]) == 0 &&
        strcmp(each->name, words[1]) == 0) {
      *used = 2;
      return each;
    }
  }
  return NULL;
}

/* A family alone, or with a wrong second word, deserves the list of its members. */
static int refuse_command(char **words, int count) {
  bool is_family = false;
  for (const struct cli_command *each = cli_commands; each->name; each++) {
    if (!each->family || strcmp(each->family, words[0]) != 0) continue;
    if (!is_family) fprintf(stderr, "pgcursus: %s is followed by one of:\n", words[0]);
    fprintf(stderr, "  %s %-12s %s\n", each->family, each->name, each->summary);
    is_family = true;
  }
  if (is_family) return count > 1 && strcmp(words[1], "--help") == 0 ? EXIT_DONE : EXIT_UNUSABLE;
  return cli_complain("no command %s (see: pgcursus --help)", words[0]);
}

static int dispatch(struct cli *cli, int count, char **words) {
  if (strcmp(words[0], "help") == 0) {
    if (count == 1) return show_main_help(cli);
    int used;
    const struct cli_command *command = find_command(count - 1, words + 1, &used);
    if (!command) return refuse_command(words + 1, count - 1);
    char help[] = "--help";
    char *arguments[] = {words[0], help, NULL};
    return command->run(cli, 2, arguments);
  }
  int used;
  const struct cli_command *command = find_command(count, words, &used);
  if (!command) return refuse_command(words, count);
  return command->run(cli, count - used + 1, words + used - 1);
}

int main(int argc, char **argv) {
  struct cli cli;
  set_up(&cli);
  cli_catch_signals();
  if (argc == 2 && strcmp(argv[1], "--help") == 0) return show_main_help(&cli);
  if (argc == 2 && strcmp(argv[1], "--version") == 0) {
    puts("pgcursus " PGCURSUS_VERSION);
    return cli_finish_output();
  }
  struct option_usage usage = main_usage(&cli);
  int count = 0;
  switch (options_parse(&usage, argc, argv, &count)) {
    case OPTIONS_HELP_SHOWN:
      print_commands(stdout);
      return EXIT_DONE;
    case OPTIONS_WRONG:
      return EXIT_UNUSABLE;
    case OPTIONS_PARSED:
      break;
  }
  cli_hide_token(&cli);
  if (count == 0) {
    fprintf(stderr, "Usage: pgcursus [options] COMMAND ...\n");
    print_commands(stderr);
    return EXIT_UNUSABLE;
  }
  return dispatch(&cli, count, argv);
}
