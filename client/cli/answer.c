/* Printing the readable answer of any command, whatever its shape. */
#include <string.h>

#include "cli.h"
#include "format.h"

static bool begins_with(struct pgcursus_bytes bytes, const char *text) {
  size_t length = strlen(text);
  return bytes.length >= length && memcmp(bytes.data, text, length) == 0;
}

/* READ_STREAM reports some failures as JSON in a frame with status OK (crs2-wire 13.5). The
 * document is ours to look at, not to parse: its first or last member is the status. */
static bool is_failure_envelope(struct pgcursus_bytes payload) {
  static const char marker[] = "\"status\":\"ERROR\"";
  return begins_with(payload, "{") && payload.length < 4096 &&
         memmem(payload.data, payload.length, marker, sizeof marker - 1) != NULL;
}

static bool has_two_frames(const struct pgcursus_reply *reply) {
  uint16_t command = reply->command;
  return command == pgcursus_command_by_name("READ_STREAM") ||
         command == pgcursus_command_by_name("READ_STREAM_HISTORY");
}

static int print_frame(struct pgcursus *client, const struct pgcursus_reply *reply) {
  if (reply->payload.length == 0) return EXIT_DONE; /* a keepalive, or acks 0 */
  if (!pgcursus_is_batch(reply->payload)) {
    fwrite(reply->payload.data, 1, reply->payload.length, stdout);
    if (((const char *)reply->payload.data)[reply->payload.length - 1] != '\n') putchar('\n');
    return EXIT_DONE;
  }
  struct pgcursus_batch batch;
  int status = cli_report(client, pgcursus_read_batch(client, reply, &batch));
  if (status == EXIT_DONE) format_batch_listing(stdout, &batch);
  return status;
}

/* A STREAM goes on until the broker closes it or the user does. Keepalives come every 5 s. */
static int follow_stream(struct pgcursus *client, struct pgcursus_reply *reply) {
  while (!reply->is_stream_end && !begins_with(reply->payload, "STREAM_CONTROL type=CLOSE")) {
    if (fflush(stdout) != 0 || cli_is_stopping()) return EXIT_DONE;
    int status = cli_report(client, pgcursus_receive(client, reply));
    if (status == EXIT_DONE) status = print_frame(client, reply);
    if (status != EXIT_DONE) return status;
  }
  return EXIT_DONE;
}

int cli_print_answer(struct pgcursus *client, struct pgcursus_reply *reply) {
  if (has_two_frames(reply) && is_failure_envelope(reply->payload)) {
    fprintf(stderr, "%.*s\n", (int)reply->payload.length, (const char *)reply->payload.data);
    return EXIT_REFUSED;
  }
  int status = print_frame(client, reply);
  if (status == EXIT_DONE && has_two_frames(reply)) {
    status = cli_report(client, pgcursus_receive(client, reply));
    if (status == EXIT_DONE) status = print_frame(client, reply);
  } else if (status == EXIT_DONE && reply->is_stream &&
             reply->command == pgcursus_command_by_name("STREAM")) {
    status = follow_stream(client, reply);
  }
  int output = cli_finish_output();
  return status == EXIT_DONE ? output : status;
}
