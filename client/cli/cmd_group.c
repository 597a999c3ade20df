/* The `group` family: looking at consumer groups. */
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* ---- GROUP_STATUS ---------------------------------------------------------------------------- */

static const char *text_of(struct json_object *object, const char *name) {
  struct json_object *value;
  return json_object_object_get_ex(object, name, &value) ? json_object_get_string(value) : "";
}

static struct json_object *array_of(struct json_object *object, const char *name) {
  struct json_object *value;
  bool is_array = json_object_object_get_ex(object, name, &value) &&
                  json_object_is_type(value, json_type_array);
  return is_array ? value : NULL;
}

static size_t length_of(struct json_object *array) {
  return array ? json_object_array_length(array) : 0;
}

/* The group as the broker describes it, to be released by the caller; NULL with `*status` set. */
static struct json_object *load_group(struct pgcursus *client, const char *group, int *status) {
  const struct cli_field fields[] = {{"group", group}};
  struct pgcursus_reply reply;
  *status = cli_report(client, cli_call(client, "GROUP_STATUS", fields, 1, &reply));
  if (*status != EXIT_DONE) return NULL;
  char *text = strndup(reply.payload.data, reply.payload.length);
  struct json_object *found = json_tokener_parse(text);
  free(text);
  if (found == NULL) *status = cli_complain("GROUP_STATUS gave no JSON");
  return found;
}

/* ---- group describe -------------------------------------------------------------------------- */

static void print_member(struct json_object *member) {
  struct json_object *numbers = array_of(member, "assignments");
  struct json_object *pairs = array_of(member, "topic_assignments");
  printf("%-32s %-28s ", text_of(member, "member_id"), text_of(member, "last_heartbeat"));
  for (size_t i = 0; i < length_of(numbers); i++) {
    printf("%s%s", i ? "," : "", json_object_get_string(json_object_array_get_idx(numbers, i)));
  }
  for (size_t i = 0; i < length_of(pairs); i++) {
    struct json_object *pair = json_object_array_get_idx(pairs, i);
    printf("%s%s:%s", i ? "," : "", text_of(pair, "topic"), text_of(pair, "partition"));
  }
  if (length_of(numbers) + length_of(pairs) == 0) putchar('-');
  putchar('\n');
}

static void print_group(struct json_object *group) {
  struct json_object *topics = array_of(group, "topics");
  struct json_object *members = array_of(group, "members");
  printf("group           %s\n", text_of(group, "group_name"));
  if (*text_of(group, "topic_pattern"))
    printf("pattern         %s\n", text_of(group, "topic_pattern"));
  printf("topics          ");
  for (size_t i = 0; i < length_of(topics); i++) {
    printf("%s%s", i ? "," : "", json_object_get_string(json_object_array_get_idx(topics, i)));
  }
  printf("%s\n", topics ? "" : text_of(group, "topic_name"));
  printf("state           %s\n", text_of(group, "state"));
  printf("generation      %s\n", text_of(group, "generation"));
  printf("partitions      %s\n", text_of(group, "partition_count"));
  printf("last rebalance  %s\n", text_of(group, "last_rebalance"));
  if (length_of(members) == 0) return;
  printf("\n%-32s %-28s %s\n", "MEMBER", "LAST HEARTBEAT", "PARTITIONS");
  for (size_t i = 0; i < length_of(members); i++) {
    print_member(json_object_array_get_idx(members, i));
  }
}

int cmd_group_describe(struct cli *cli, int argc, char **argv) {
  bool as_json = false;
  const struct option_spec options[] = {
      {0, "json", NULL, OPTION_FLAG, &as_json, 0, 0, "Print the broker's JSON as it is."},
  };
  struct option_usage usage = {
      .command = "group describe",
      .synopsis = "GROUP [--json]",
      .description = "Prints the state, the members and the assignments of a consumer group.",
      .options = options,
      .option_count = sizeof options / sizeof *options,
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 1, 1, &words, &status)) return status;
  if (as_json) {
    const struct cli_field fields[] = {{"group", argv[0]}};
    return cli_run_simple(cli, "GROUP_STATUS", fields, 1);
  }
  struct pgcursus *client = cli_connect(cli, &status);
  if (!client) return status;
  struct json_object *group = load_group(client, argv[0], &status);
  if (group) {
    print_group(group);
    status = cli_finish_output();
  }
  json_object_put(group);
  pgcursus_close(client);
  return status;
}

/* ---- group offsets --------------------------------------------------------------------------- */

static bool has_number(struct json_object *numbers, int32_t number) {
  for (size_t i = 0; i < length_of(numbers); i++) {
    if (json_object_get_int(json_object_array_get_idx(numbers, i)) == number) return true;
  }
  return false;
}

static bool has_pair(struct json_object *pairs, const char *topic, int32_t partition) {
  for (size_t i = 0; i < length_of(pairs); i++) {
    struct json_object *pair = json_object_array_get_idx(pairs, i);
    if (strcmp(text_of(pair, "topic"), topic) == 0 &&
        strtol(text_of(pair, "partition"), NULL, 10) == partition) {
      return true;
    }
  }
  return false;
}

static const char *owner_of(struct json_object *group, const char *topic, int32_t partition) {
  struct json_object *members = array_of(group, "members");
  bool is_single = array_of(group, "topics") == NULL;
  for (size_t i = 0; i < length_of(members); i++) {
    struct json_object *member = json_object_array_get_idx(members, i);
    bool owns = is_single ? has_number(array_of(member, "assignments"), partition)
                          : has_pair(array_of(member, "topic_assignments"), topic, partition);
    if (owns) return text_of(member, "member_id");
  }
  return "-";
}

/* What never was committed is shown as unknown, and lags by all that is retained. */
static int print_partition(struct pgcursus *client, struct json_object *group, const char *topic,
                           const struct cli_offsets *ends) {
  char partition[16], committed_text[24] = "-";
  snprintf(partition, sizeof partition, "%d", ends->partition);
  const struct cli_field fields[] = {{"topic", topic},
                                     {"partition", partition},
                                     {"group", text_of(group, "group_name")},
                                     {"include_found", "true"}};
  struct pgcursus_reply reply;
  int status = cli_report(client, cli_call(client, "FETCH_OFFSET", fields, 4, &reply));
  if (status != EXIT_DONE) return status;
  struct pgcursus_bytes found = pgcursus_ok_field(reply.payload, "found");
  struct pgcursus_bytes offset = pgcursus_ok_field(reply.payload, "offset");
  uint64_t committed = ends->earliest;
  if (found.length == 4 && memcmp(found.data, "true", 4) == 0) {
    snprintf(committed_text, sizeof committed_text, "%.*s", (int)offset.length,
             (const char *)offset.data);
    committed = strtoull(committed_text, NULL, 10);
  }
  uint64_t from = committed > ends->earliest ? committed : ends->earliest;
  uint64_t lag = ends->latest > from ? ends->latest - from : 0;
  printf("%-32s %9d %20s %20llu %12llu  %s\n", topic, ends->partition, committed_text,
         (unsigned long long)ends->latest, (unsigned long long)lag,
         owner_of(group, topic, ends->partition));
  return EXIT_DONE;
}

static int print_topic(struct pgcursus *client, struct json_object *group, const char *topic) {
  int status;
  size_t count = 0;
  struct cli_offsets *ends = cli_list_offsets(client, topic, -1, &count, &status);
  for (size_t i = 0; i < count && status == EXIT_DONE; i++) {
    status = print_partition(client, group, topic, &ends[i]);
  }
  free(ends);
  return status;
}

static int print_offsets(struct pgcursus *client, struct json_object *group, const char *only) {
  struct json_object *topics = array_of(group, "topics");
  int status = EXIT_DONE;
  printf("%-32s %9s %20s %20s %12s  %s\n", "TOPIC", "PARTITION", "COMMITTED", "END", "LAG",
         "MEMBER");
  if (only) return print_topic(client, group, only);
  if (topics == NULL) return print_topic(client, group, text_of(group, "topic_name"));
  for (size_t i = 0; i < length_of(topics) && status == EXIT_DONE; i++) {
    status =
        print_topic(client, group, json_object_get_string(json_object_array_get_idx(topics, i)));
  }
  return status;
}

int cmd_group_offsets(struct cli *cli, int argc, char **argv) {
  struct option_usage usage = {
      .command = "group offsets",
      .synopsis = "GROUP [TOPIC]",
      .description =
          "Prints, for each partition that GROUP consumes (of TOPIC only, when it is given), the "
          "next offset that it has committed, the partition's end, the lag between them, and the "
          "member that has it. `-` is an offset that never was committed, or nobody. The lag "
          "counts what is retained.",
  };
  int words, status;
  if (!cli_parse(cli, usage, argc, argv, 1, 2, &words, &status)) return status;
  struct pgcursus *client = cli_connect(cli, &status);
  if (!client) return status;
  struct json_object *group = load_group(client, argv[0], &status);
  if (group) {
    status = print_offsets(client, group, words > 1 ? argv[1] : NULL);
    int output = cli_finish_output();
    if (status == EXIT_DONE) status = output;
  }
  json_object_put(group);
  pgcursus_close(client);
  return status;
}
