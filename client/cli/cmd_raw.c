/* `raw`: any CRS2 command in its readable form (crs2-wire 9.1); and `ping`. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/slice.h"
#include "cli.h"
#include "crs2/wire/request.h"

static int send_request(struct pgcursus *client, struct slice name, struct arena *arena,
                        const struct request_fields *request) {
  char *command = arena_copy_text(arena, name);
  uint16_t number = pgcursus_command_by_name(command);
  if (number == 0) return cli_complain("raw: no command %s", command);
  if (request->positional_count > 0) {
    return cli_complain("raw: %.*s is not of the form field=value",
                        (int)request->positionals[0].length,
                        (const char *)request->positionals[0].data);
  }
  struct pgcursus_field *fields =
      arena_allocate(arena, ((size_t)request->field_count + 1) * sizeof *fields);
  for (size_t i = 0; i < request->field_count; i++) {
    const struct request_field *field = &request->fields[i];
    fields[i].name = (struct pgcursus_bytes){field->name.data, field->name.length};
    fields[i].value = (struct pgcursus_bytes){field->value.data, field->value.length};
  }
  struct pgcursus_reply reply;
  int status =
      cli_report(client, pgcursus_call(client, number, fields, request->field_count, &reply));
  return status == EXIT_DONE ? cli_print_answer(client, &reply) : status;
}

static int send_line(struct pgcursus *client, struct slice line) {
  struct arena arena = {0};
  struct slice name;
  struct request_fields request;
  const char *reason = request_parse_line(line, &arena, &name, &request);
  int status =
      reason ? cli_complain("raw: %s", reason) : send_request(client, name, &arena, &request);
  arena_release(&arena);
  return status;
}

/* Words that the shell has already cut apart: each is one field, whatever blanks its value holds.
 */
static int send_words(struct pgcursus *client, int count, char **words) {
  struct arena arena = {0};
  struct request_fields request = {0};
  request.fields = arena_allocate(&arena, (size_t)count * sizeof *request.fields);
  int status = EXIT_DONE;
  for (int i = 1; i < count && status == EXIT_DONE; i++) {
    const char *equals = strchr(words[i], '=');
    if (!equals) {
      status = cli_complain("raw: %s is not of the form field=value", words[i]);
    } else {
      struct request_field *field = &request.fields[request.field_count++];
      field->name = slice_of(words[i], (size_t)(equals - words[i]));
      field->value = slice_text(equals + 1);
    }
  }
  if (status == EXIT_DONE) status = send_request(client, slice_text(words[0]), &arena, &request);
  arena_release(&arena);
  return status;
}

/* Quoting is honoured as soon as somebody used it. */
static int send_arguments(struct pgcursus *client, int count, char **words) {
  bool quoted = false;
  for (int i = 1; i < count; i++) quoted = quoted || strpbrk(words[i], " \t\r\n") != NULL;
  if (quoted) return send_words(client, count, words);
  struct buffer line = {0};
  for (int i = 0; i < count; i++) {
    if (i > 0) buffer_append_text(&line, " ");
    buffer_append_text(&line, words[i]);
  }
  int status = send_line(client, buffer_slice(&line));
  buffer_release(&line);
  return status;
}

/* One request a line, all on one connection; goes on after a refusal and reports the worst status.
 */
static int send_standard_input(struct pgcursus *client) {
  char *line = NULL;
  size_t size = 0;
  ssize_t length;
  int worst = EXIT_DONE;
  while (worst != EXIT_UNUSABLE && !cli_is_stopping() &&
         (length = getline(&line, &size, stdin)) >= 0) {
    while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r')) length--;
    if (length == 0 || line[0] == '#') continue;
    int status = send_line(client, slice_of(line, (size_t)length));
    if (status > worst) worst = status;
  }
  free(line);
  return worst;
}

int cmd_raw(struct cli *cli, int argc, char **argv) {
  struct option_usage usage = {
      .command = "raw",
      .synopsis = "[COMMAND field=value ...]",
      .description =
          "Sends any CRS2 command and prints the readable answer: text and JSON as they are, "
          "batches as a "
          "listing, errors on stderr.\n\n"
          "The words are read as one line of the protocol's readable form: everything after "
          "message= (else "
          "payload=) is its value, and before message= everything after metadata= likewise. As "
          "soon as a word "
          "holds a blank, each word is one field instead and its value is taken exactly as it "
          "is.\n\n"
          "Without COMMAND, each line of standard input is a request; empty lines and lines that "
          "begin with # "
          "are skipped.",
      .examples =
          "  pgcursus raw METADATA topic=orders\n"
          "  pgcursus raw PUBLISH topic=orders producerId=p1 message=hello world\n"
          "  pgcursus raw PUBLISH topic=orders producerId=p1 'key=a b' 'message=  exact  '\n"
          "  pgcursus raw CONSUME topic=orders partition=0 offset=0 member=m\n",
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 0, -1, &words, &status)) return status;
  struct pgcursus *client = cli_connect(cli, &status);
  if (!client) return status;
  if (words == 0) {
    status = send_standard_input(client);
  } else if (words == 1) {
    status = send_line(client, slice_text(argv[0]));
  } else {
    status = send_arguments(client, words, argv);
  }
  pgcursus_close(client);
  return status;
}

int cmd_ping(struct cli *cli, int argc, char **argv) {
  int64_t count = 1;
  int64_t interval_ms = 1000;
  const struct option_spec options[] = {
      {'c', "count", "N", OPTION_INTEGER, &count, 1, 1000000000, "How many times. Default: 1."},
      {'i', "interval-ms", "N", OPTION_INTEGER, &interval_ms, 0, 3600000,
       "Time between two. Default: 1000."},
  };
  struct option_usage usage = {
      .command = "ping",
      .synopsis = "[options]",
      .description =
          "Asks the broker for HELP, which needs no permission, and prints how long that took.",
      .options = options,
      .option_count = 2,
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 0, 0, &words, &status)) return status;
  int64_t start = clock_monotonic_us();
  struct pgcursus *client = cli_connect(cli, &status);
  if (!client) return status;
  int64_t connected = clock_monotonic_us();
  printf("%s: connected in %.3f ms, compression %s\n", cli->broker,
         (double)(connected - start) / 1000.0,
         pgcursus_compression_name(pgcursus_negotiated(client)));
  for (int64_t i = 0; i < count && status == EXIT_DONE && !cli_is_stopping(); i++) {
    if (i > 0) usleep((useconds_t)(interval_ms * 1000));
    struct pgcursus_reply reply;
    start = clock_monotonic_us();
    status = cli_report(client, cli_call(client, "HELP", NULL, 0, &reply));
    if (status == EXIT_DONE) {
      printf("%s: answer in %.3f ms\n", cli->broker,
             (double)(clock_monotonic_us() - start) / 1000.0);
      status = cli_finish_output();
    }
  }
  pgcursus_close(client);
  return status;
}
