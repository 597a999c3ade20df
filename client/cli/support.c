/* Work that every command shares: parsing with the common options, signals, the end of output,
 * progress, connecting, and what an exit status means. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

/* ---- signals and output ---------------------------------------------------------------------- */

static volatile sig_atomic_t stopping;

static void note_signal(int number) {
  (void)number;
  stopping = 1;
}

bool cli_is_stopping(void) {
  return stopping != 0;
}

/* Waits are interrupted (no SA_RESTART) and the second signal has its default effect. A reader of
 * stdout that went away shows as EPIPE, which ends a command quietly. */
void cli_catch_signals(void) {
  struct sigaction action = {.sa_handler = note_signal, .sa_flags = (int)SA_RESETHAND};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  signal(SIGPIPE, SIG_IGN);
}

int cli_finish_output(void) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return EXIT_DONE;
  if (errno == EPIPE) return EXIT_DONE;
  return cli_complain("cannot write to standard output: %s", strerror(errno));
}

int cli_complain(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  cli_clear_progress();
  fputs("pgcursus: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  return EXIT_UNUSABLE;
}

static bool progress_is_shown;

bool cli_shows_progress(const struct cli *cli) {
  return !cli->quiet && isatty(STDERR_FILENO);
}

void cli_show_progress(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("\r\033[K", stderr);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  progress_is_shown = true;
}

void cli_clear_progress(void) {
  if (progress_is_shown) fputs("\r\033[K", stderr);
  progress_is_shown = false;
}

/* ---- options --------------------------------------------------------------------------------- */

bool cli_parse(struct cli *cli, struct option_usage usage, int argc, char **argv, int minimum,
               int maximum, int *word_count, int *status) {
  usage.common = cli->common;
  usage.common_count = CLI_COMMON_OPTIONS;
  *word_count = 0;
  switch (options_parse(&usage, argc, argv, word_count)) {
    case OPTIONS_HELP_SHOWN:
      *status = cli_finish_output();
      return false;
    case OPTIONS_WRONG:
      *status = EXIT_UNUSABLE;
      return false;
    case OPTIONS_PARSED:
      break;
  }
  cli_hide_token(cli);
  if (*word_count >= minimum && (maximum < 0 || *word_count <= maximum)) return true;
  *status = cli_complain("usage: pgcursus %s %s", usage.command, usage.synopsis);
  return false;
}

/* ---- connecting ------------------------------------------------------------------------------ */

/* Cuts HOST:PORT, [v6]:PORT or HOST in place. */
static void split_address(char *address, const char **host, const char **port) {
  *host = address;
  *port = "9000";
  char *colon = strrchr(address, ':');
  char *bracket = strrchr(address, ']');
  if (colon && (!bracket || colon > bracket) && (bracket || strchr(address, ':') == colon)) {
    *colon = '\0';
    *port = colon + 1;
  }
  if (address[0] == '[' && bracket) {
    *bracket = '\0';
    *host = address + 1;
  }
}

static int parse_compressions(const char *names, enum pgcursus_compression *compressions) {
  char copy[64];
  if (strlen(names) >= sizeof copy) return -1;
  snprintf(copy, sizeof copy, "%s", names);
  int count = 0;
  char *rest = copy;
  for (char *name; (name = strsep(&rest, ",")) != NULL;) {
    if (count == 4 || !pgcursus_compression_by_name(name, &compressions[count])) return -1;
    count++;
  }
  return count;
}

/* The token as the caller gave it; from a file, an allocated first line. NULL when it cannot be
 * read. */
static char *load_token(const struct cli *cli) {
  if (!cli->token_file) return strdup(cli->token ? cli->token : "");
  FILE *file = fopen(cli->token_file, "r");
  char *line = NULL;
  size_t size = 0;
  ssize_t length = file ? getline(&line, &size, file) : -1;
  if (length < 0) {
    (void)cli_complain("cannot read a token from %s: %s", cli->token_file,
                       file ? "it is empty" : strerror(errno));
    free(line);
    line = NULL;
  } else {
    line[strcspn(line, "\r\n")] = '\0';
  }
  if (file) fclose(file);
  return line;
}

static int authenticate(struct cli *cli, struct pgcursus *client) {
  char *token = load_token(cli);
  if (!token) return EXIT_UNUSABLE;
  const struct cli_field fields[] = {{"principal", cli->user}, {"token", token}};
  struct pgcursus_reply reply;
  int status = cli_report(client, cli_call(client, "AUTH", fields, 2, &reply));
  free(token);
  return status;
}

struct pgcursus *cli_connect(struct cli *cli, int *status) {
  enum pgcursus_compression compressions[4];
  int count = parse_compressions(cli->compression, compressions);
  if (count < 0) {
    *status = cli_complain("--compression: none, gzip, snappy or lz4, not %s", cli->compression);
    return NULL;
  }
  char address[300];
  if (snprintf(address, sizeof address, "%s", cli->broker) >= (int)sizeof address) {
    *status = cli_complain("--broker: too long");
    return NULL;
  }
  struct pgcursus_options options = {.compressions = compressions,
                                     .compression_count = (size_t)count,
                                     .timeout_ms = (int)cli->timeout_ms,
                                     .tls = cli_tls(cli)};
  split_address(address, &options.host, &options.port);
  char problem[400];
  struct pgcursus *client = pgcursus_connect(&options, problem, sizeof problem);
  *status = client ? EXIT_DONE : cli_complain("%s", problem);
  if (client && cli->user && *cli->user) *status = authenticate(cli, client);
  if (*status == EXIT_DONE) return client;
  pgcursus_close(client);
  return NULL;
}

int cli_report(const struct pgcursus *client, enum pgcursus_result result) {
  switch (result) {
    case PGCURSUS_OK:
      return EXIT_DONE;
    case PGCURSUS_REFUSED:
      cli_clear_progress();
      fprintf(stderr, "%s\n", pgcursus_last_error(client)->readable);
      return EXIT_REFUSED;
    default:
      return cli_complain("%s", pgcursus_problem(client));
  }
}

/* ---- calls ----------------------------------------------------------------------------------- */

enum pgcursus_result cli_call(struct pgcursus *client, const char *command,
                              const struct cli_field *fields, size_t count,
                              struct pgcursus_reply *reply) {
  struct pgcursus_field sent[24];
  size_t sent_count = 0;
  for (size_t i = 0; i < count; i++) {
    if (!fields[i].value) continue;
    sent[sent_count].name = pgcursus_text(fields[i].name);
    sent[sent_count++].value = pgcursus_text(fields[i].value);
  }
  return pgcursus_call(client, pgcursus_command_by_name(command), sent, sent_count, reply);
}

int cli_run_simple(struct cli *cli, const char *command, const struct cli_field *fields,
                   size_t count) {
  int status;
  struct pgcursus *client = cli_connect(cli, &status);
  if (!client) return status;
  struct pgcursus_reply reply;
  status = cli_report(client, cli_call(client, command, fields, count, &reply));
  if (status == EXIT_DONE) status = cli_print_answer(client, &reply);
  pgcursus_close(client);
  return status;
}

/* A number that ends where the bytes end or at one of `stops`. */
static uint64_t read_number(struct pgcursus_bytes bytes) {
  uint64_t number = 0;
  const char *digits = bytes.data;
  for (size_t i = 0; i < bytes.length && digits[i] >= '0' && digits[i] <= '9'; i++) {
    number = number * 10 + (uint64_t)(digits[i] - '0');
  }
  return number;
}

int32_t cli_partition_count(struct pgcursus *client, const char *topic, int *status) {
  const struct cli_field fields[] = {{"topic", topic}};
  struct pgcursus_reply reply;
  *status = cli_report(client, cli_call(client, "METADATA", fields, 1, &reply));
  if (*status != EXIT_DONE) return -1;
  uint64_t count = read_number(pgcursus_ok_field(reply.payload, "partitions"));
  if (count > 0 && count <= INT32_MAX) return (int32_t)count;
  *status = cli_complain("METADATA names no partition count");
  return -1;
}

/* `P0:earliest=1:latest=5:leo=5:hwm=5`; false when it is something else. */
static bool read_offsets(const char *entry, struct cli_offsets *offsets) {
  unsigned long long earliest, latest, leo;
  int partition;
  if (sscanf(entry, "P%d:earliest=%llu:latest=%llu:leo=%llu", &partition, &earliest, &latest,
             &leo) != 4) {
    return false;
  }
  *offsets = (struct cli_offsets){partition, earliest, latest, leo};
  return true;
}

struct cli_offsets *cli_list_offsets(struct pgcursus *client, const char *topic, int32_t partition,
                                     size_t *count, int *status) {
  char number[16];
  snprintf(number, sizeof number, "%d", partition);
  const struct cli_field fields[] = {{"topic", topic},
                                     {"partition", partition < 0 ? NULL : number}};
  struct pgcursus_reply reply;
  *status = cli_report(client, cli_call(client, "LIST_OFFSETS", fields, 2, &reply));
  if (*status != EXIT_DONE) return NULL;
  struct pgcursus_bytes field = pgcursus_ok_field(reply.payload, "offsets");
  char *text = strndup(field.length ? field.data : "", field.length);
  size_t entries = 1;
  for (const char *each = text; *each; each++) entries += *each == ',';
  struct cli_offsets *offsets = calloc(entries, sizeof *offsets);
  *count = 0;
  char *rest = text;
  for (char *entry; offsets && (entry = strsep(&rest, ",")) != NULL;) {
    if (read_offsets(entry, &offsets[*count])) (*count)++;
  }
  free(text);
  if (offsets && *count == entries) return offsets;
  free(offsets);
  *status = cli_complain("LIST_OFFSETS gave no offsets");
  return NULL;
}
