/* The member's side of the group protocol (commands-2 2 and 10). Reads no records. */
#include "consume_group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "cli.h"

#define HEARTBEAT_US 3000000
#define MEMBER_NAME "pgcursus-cli"

static void copy_field(char *to, size_t size, struct pgcursus_bytes field) {
  snprintf(to, size, "%.*s", (int)field.length, field.length ? (const char *)field.data : "");
}

/* `[0,1,2]` */
static void take_partitions(struct group_member *member, struct pgcursus_bytes list) {
  char *text = strndup(list.length ? list.data : "", list.length);
  size_t room = 1;
  for (const char *each = text; *each; each++) room += *each == ',';
  member->partitions = memory_resize(member->partitions, room * sizeof *member->partitions);
  member->partition_count = 0;
  char *rest = text + (*text == '[');
  for (char *item; (item = strsep(&rest, ",]")) != NULL;) {
    if (*item) member->partitions[member->partition_count++] = (int32_t)strtol(item, NULL, 10);
  }
  free(text);
}

static void say(const struct group_member *member, const char *what) {
  if (member->quiet) return;
  fprintf(stderr, "pgcursus: %s: member %s, generation %s, partitions", what, member->id,
          member->generation);
  for (size_t i = 0; i < member->partition_count; i++) {
    fprintf(stderr, "%s%d", i ? "," : " ", member->partitions[i]);
  }
  fputs(member->partition_count ? "\n" : " none\n", stderr);
}

static int join(struct group_member *member) {
  const struct cli_field fields[] = {
      {"group", member->group}, {"topic", member->topic}, {"member", MEMBER_NAME}};
  struct pgcursus_reply reply;
  member->has_joined = false;
  int status =
      cli_report(member->client, cli_call(member->client, "JOIN_GROUP", fields, 3, &reply));
  if (status != EXIT_DONE) return status;
  copy_field(member->id, sizeof member->id, pgcursus_ok_field(reply.payload, "member"));
  copy_field(member->generation, sizeof member->generation,
             pgcursus_ok_field(reply.payload, "generation"));
  take_partitions(member, pgcursus_ok_field(reply.payload, "assignments"));
  member->has_joined = true;
  member->beat_at = clock_monotonic_us() + HEARTBEAT_US;
  say(member, "joined");
  return EXIT_DONE;
}

int group_member_join(struct group_member *member, struct pgcursus *client, const char *group,
                      const char *topic, bool quiet) {
  *member = (struct group_member){.client = client, .group = group, .topic = topic, .quiet = quiet};
  return join(member);
}

static bool is_code(const struct pgcursus_error *error, const char *code) {
  return error->code.length == strlen(code) &&
         memcmp(error->code.data, code, error->code.length) == 0;
}

static bool is_expelled(const struct pgcursus_error *error) {
  return is_code(error, "member_not_found") || is_code(error, "group_not_found");
}

/* Asks for the assignment of the generation that the broker named; the group may move on meanwhile.
 */
static int synchronize(struct group_member *member) {
  for (;;) {
    const struct cli_field fields[] = {{"group", member->group},
                                       {"topic", member->topic},
                                       {"member", member->id},
                                       {"generation", member->generation}};
    struct pgcursus_reply reply;
    enum pgcursus_result result = cli_call(member->client, "SYNC_GROUP", fields, 4, &reply);
    if (result == PGCURSUS_OK) {
      take_partitions(member, pgcursus_ok_field(reply.payload, "assignments"));
      say(member, "rebalanced");
      return EXIT_DONE;
    }
    const struct pgcursus_error *error =
        result == PGCURSUS_REFUSED ? pgcursus_last_error(member->client) : NULL;
    if (error && is_expelled(error)) return join(member);
    if (!error || !is_code(error, "GEN_MISMATCH")) return cli_report(member->client, result);
    copy_field(member->generation, sizeof member->generation,
               pgcursus_error_field(error, "current"));
  }
}

/* What a refusal means for a member: fenced ones come back by themselves, what is worth repeating
 * is left for the next time, anything else ends the command. */
static int settle(struct group_member *member, enum pgcursus_result result, bool *changed) {
  if (result != PGCURSUS_REFUSED) return cli_report(member->client, result);
  const struct pgcursus_error *error = pgcursus_last_error(member->client);
  if (is_code(error, "GEN_MISMATCH")) {
    *changed = true;
    copy_field(member->generation, sizeof member->generation,
               pgcursus_error_field(error, "current"));
    return synchronize(member);
  }
  if (is_code(error, "NOT_OWNER")) {
    *changed = true;
    return synchronize(member);
  }
  if (is_expelled(error)) {
    *changed = true;
    return join(member);
  }
  if (error->retryable) return EXIT_DONE;
  return cli_report(member->client, result);
}

int group_member_beat(struct group_member *member, bool *changed) {
  if (clock_monotonic_us() < member->beat_at) return EXIT_DONE;
  member->beat_at = clock_monotonic_us() + HEARTBEAT_US;
  const struct cli_field fields[] = {{"group", member->group},
                                     {"topic", member->topic},
                                     {"member", member->id},
                                     {"generation", member->generation}};
  struct pgcursus_reply reply;
  return settle(member, cli_call(member->client, "HEARTBEAT", fields, 4, &reply), changed);
}

int group_member_commit(struct group_member *member, int32_t partition, uint64_t next_offset,
                        bool *changed) {
  char partition_text[16], offset_text[24];
  snprintf(partition_text, sizeof partition_text, "%d", partition);
  snprintf(offset_text, sizeof offset_text, "%llu", (unsigned long long)next_offset);
  const struct cli_field fields[] = {
      {"topic", member->topic}, {"partition", partition_text}, {"group", member->group},
      {"offset", offset_text},  {"member", member->id},        {"generation", member->generation},
  };
  struct pgcursus_reply reply;
  return settle(member, cli_call(member->client, "COMMIT_OFFSET", fields, 6, &reply), changed);
}

void group_member_end(struct group_member *member) {
  if (member->client && member->has_joined) {
    const struct cli_field fields[] = {
        {"topic", member->topic}, {"group", member->group}, {"member", member->id}};
    struct pgcursus_reply reply;
    /* Whoever cannot say goodbye is missed when its session times out. */
    enum pgcursus_result result = cli_call(member->client, "LEAVE_GROUP", fields, 3, &reply);
    (void)result;
  }
  pgcursus_close(member->client);
  free(member->partitions);
  *member = (struct group_member){0};
}
