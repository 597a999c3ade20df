/* What the commands of `pgcursus` share: the common options, connecting, reporting, exit statuses.
 */
#ifndef PGCURSUS_CLI_CLI_H
#define PGCURSUS_CLI_CLI_H

#include <stdbool.h>
#include <stdio.h>

#include "options.h"
#include "pgcursus.h"

/* Exit statuses (INTERFACE: a contract with scripts). */
enum { EXIT_DONE = 0, EXIT_REFUSED = 1, EXIT_UNUSABLE = 2 };

#define CLI_COMMON_OPTIONS 13

/* Values of the options that every command has. */
struct cli {
  const char *broker;
  const char *compression;
  const char *user;
  const char *token;
  const char *private_token; /* `token`, when it does not lie in the arguments */
  const char *token_file;
  bool use_tls;
  struct pgcursus_tls tls;
  int64_t timeout_ms;
  bool quiet;
  struct option_spec common[CLI_COMMON_OPTIONS];
};

struct cli_command {
  const char *family; /* "topic"; NULL for a command of one word */
  const char *name;
  const char *summary;
  int (*run)(struct cli *cli, int argc,
             char **argv); /* argv[0] is the command; returns the status */
};

/* The table, ended by a row without a name. */
extern const struct cli_command cli_commands[];

/* options_parse() with the common options added; false when the command shall end with `*status`.
 * Wants between `minimum` and `maximum` words (maximum < 0: any number). */
bool cli_parse(struct cli *cli, struct option_usage usage, int argc, char **argv, int minimum,
               int maximum, int *word_count, int *status) __attribute__((warn_unused_result));

/* "pgcursus: ..." on stderr; returns EXIT_UNUSABLE. */
int cli_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Takes the defaults of the security options from the environment. */
void cli_load_security(struct cli *cli);

/* The options of TLS when any of them was given, else NULL. */
const struct pgcursus_tls *cli_tls(const struct cli *cli);

/* Takes a token out of the arguments, which everybody on the machine can read. */
void cli_hide_token(struct cli *cli);

/* Connects and authenticates. NULL with the reason reported and `*status` set. */
struct pgcursus *cli_connect(struct cli *cli, int *status) __attribute__((warn_unused_result));

/* The exit status of a result, which is reported on stderr unless it is OK. */
int cli_report(const struct pgcursus *client, enum pgcursus_result result);

/* A request of fields whose values are C strings; rows without a value are left out. */
struct cli_field {
  const char *name;
  const char *value;
};
enum pgcursus_result cli_call(struct pgcursus *client, const char *command,
                              const struct cli_field *fields, size_t count,
                              struct pgcursus_reply *reply) __attribute__((warn_unused_result));

/* Connects, calls, prints the answer: the whole of a simple command. */
int cli_run_simple(struct cli *cli, const char *command, const struct cli_field *fields,
                   size_t count);

/* Prints all frames of an answer: text and JSON as they are, batches as a listing; follows a STREAM
 * to its end and reads both frames of a READ_STREAM. Returns the exit status. */
int cli_print_answer(struct pgcursus *client, struct pgcursus_reply *reply);

/* Partition count of a topic from METADATA; -1 when it was refused or failed, with `*status` set.
 */
int32_t cli_partition_count(struct pgcursus *client, const char *topic, int *status)
    __attribute__((warn_unused_result));

/* earliest, latest and end of one partition. */
struct cli_offsets {
  int32_t partition;
  uint64_t earliest, latest, leo;
};

/* LIST_OFFSETS of one partition, or of all (-1); an array for the caller to free, NULL with
 * `*status` set. */
struct cli_offsets *cli_list_offsets(struct pgcursus *client, const char *topic, int32_t partition,
                                     size_t *count, int *status)
    __attribute__((warn_unused_result));

/* True once SIGINT or SIGTERM has come; a second one ends the process at once. */
bool cli_is_stopping(void);
void cli_catch_signals(void);

/* Flushes stdout. EXIT_DONE, also when nobody reads any more (a closed pipe); else reported. */
int cli_finish_output(void);

/* True when somebody watches stderr and does not want quiet. */
bool cli_shows_progress(const struct cli *cli);

/* One line of progress that the next one overwrites; NULL clears it. */
void cli_show_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cli_clear_progress(void);

/* The commands. */
int cmd_topic_create(struct cli *cli, int argc, char **argv);
int cmd_topic_alter(struct cli *cli, int argc, char **argv);
int cmd_topic_describe(struct cli *cli, int argc, char **argv);
int cmd_topic_list(struct cli *cli, int argc, char **argv);
int cmd_topic_delete(struct cli *cli, int argc, char **argv);
int cmd_topic_truncate(struct cli *cli, int argc, char **argv);
int cmd_produce(struct cli *cli, int argc, char **argv);
int cmd_consume(struct cli *cli, int argc, char **argv);
int cmd_group_list(struct cli *cli, int argc, char **argv);
int cmd_group_describe(struct cli *cli, int argc, char **argv);
int cmd_group_offsets(struct cli *cli, int argc, char **argv);
int cmd_txn_status(struct cli *cli, int argc, char **argv);
int cmd_txn_list(struct cli *cli, int argc, char **argv);
int cmd_txn_abort(struct cli *cli, int argc, char **argv);
int cmd_user_add(struct cli *cli, int argc, char **argv);
int cmd_user_remove(struct cli *cli, int argc, char **argv);
int cmd_user_list(struct cli *cli, int argc, char **argv);
int cmd_stream_append(struct cli *cli, int argc, char **argv);
int cmd_stream_read(struct cli *cli, int argc, char **argv);
int cmd_stream_version(struct cli *cli, int argc, char **argv);
int cmd_stream_snapshot(struct cli *cli, int argc, char **argv);
int cmd_stream_prove(struct cli *cli, int argc, char **argv);
int cmd_raw(struct cli *cli, int argc, char **argv);
int cmd_ping(struct cli *cli, int argc, char **argv);
int cmd_bench_publish(struct cli *cli, int argc, char **argv);
int cmd_bench_consume(struct cli *cli, int argc, char **argv);
int cmd_bench_transactions(struct cli *cli, int argc, char **argv);
int cmd_bench_latency(struct cli *cli, int argc, char **argv);
int cmd_bench_append_stream(struct cli *cli, int argc, char **argv);
int cmd_bench_read_stream(struct cli *cli, int argc, char **argv);

#endif
