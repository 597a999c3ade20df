/* The two settings that are lists of mappings: sasl_users and static_consumer_groups. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "base/memory.h"
#include "base/text.h"
#include "config/config_private.h"

struct reader {
  yaml_document_t *document;
  const char *path;
  char **error;
};

static yaml_node_t *node_at(struct reader *reader, int index) {
  return yaml_document_get_node(reader->document, index);
}

static bool fail(struct reader *reader, const yaml_node_t *node, const char *what,
                 const char *detail) {
  *reader->error = config_format("file %s:%zu: %s%s", reader->path, node->start_mark.line + 1, what,
                                 detail ? detail : "");
  return false;
}

/* A scalar without NUL bytes. */
static bool read_text(struct reader *reader, yaml_node_t *node, const char *field, char **text) {
  if (node->type != YAML_SCALAR_NODE ||
      strlen((char *)node->data.scalar.value) != node->data.scalar.length) {
    return fail(reader, node, "text expected for ", field);
  }
  struct slice trimmed = text_trim(slice_of(node->data.scalar.value, node->data.scalar.length));
  free(*text);
  *text = memory_allocate(trimmed.length + 1);
  memcpy(*text, trimmed.data, trimmed.length);
  (*text)[trimmed.length] = 0;
  return true;
}

/* Calls `read` for each pair of the mapping. */
static bool each_pair(struct reader *reader, yaml_node_t *node, void *target,
                      bool (*read)(struct reader *reader, yaml_node_t *key, yaml_node_t *value,
                                   void *target)) {
  if (node->type != YAML_MAPPING_NODE) return fail(reader, node, "a mapping is expected", NULL);
  for (yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top;
       pair++) {
    yaml_node_t *key = node_at(reader, pair->key), *value = node_at(reader, pair->value);
    if (key->type != YAML_SCALAR_NODE) return fail(reader, key, "a name is expected", NULL);
    if (!read(reader, key, value, target)) return false;
  }
  return true;
}

static size_t sequence_length(const yaml_node_t *node) {
  return (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
}

static bool key_is(const yaml_node_t *key, const char *name) {
  return strcmp((const char *)key->data.scalar.value, name) == 0;
}

/* sasl_users */

unsigned config_permission_of(const char *name) {
  static const struct {
    const char *name;
    unsigned permission;
  } permissions[] = {
      {"admin", CONFIG_PERMISSION_ADMIN},
      {"topic.read", CONFIG_PERMISSION_TOPIC_READ},
      {"topic.write", CONFIG_PERMISSION_TOPIC_WRITE},
      {"group", CONFIG_PERMISSION_GROUP},
      {"transaction", CONFIG_PERMISSION_TRANSACTION},
      {"*", CONFIG_PERMISSION_ALL},
  };
  for (size_t i = 0; i < sizeof permissions / sizeof permissions[0]; i++) {
    if (strcasecmp(name, permissions[i].name) == 0) return permissions[i].permission;
  }
  return 0;
}

static bool read_permissions(struct reader *reader, yaml_node_t *node, struct config_user *user) {
  if (node->type != YAML_SEQUENCE_NODE) {
    return fail(reader, node, "a list is expected for permissions", NULL);
  }
  if (user->permission_names) return fail(reader, node, "permissions is given twice", NULL);
  size_t count = sequence_length(node);
  user->permission_names = memory_allocate_zeroed(count + 1, sizeof(char *));
  for (size_t i = 0; i < count; i++) {
    char **name = &user->permission_names[i];
    yaml_node_t *item = node_at(reader, node->data.sequence.items.start[i]);
    if (!read_text(reader, item, "permissions", name)) return false;
    user->permission_count++;
    user->permissions |= config_permission_of(*name);
  }
  return true;
}

static bool read_user_field(struct reader *reader, yaml_node_t *key, yaml_node_t *value,
                            void *target) {
  struct config_user *user = target;
  if (key_is(key, "principal")) return read_text(reader, value, "principal", &user->principal);
  if (key_is(key, "permissions")) return read_permissions(reader, value, user);
  if (!key_is(key, "token")) {
    return fail(reader, key, "a user has principal, token and permissions, not ",
                (char *)key->data.scalar.value);
  }
  if (!read_text(reader, value, "token", &user->token)) return false;
  /* Tokens are compared exactly, so white space in one counts. */
  free(user->token);
  user->token = memory_copy_text((char *)value->data.scalar.value);
  return true;
}

static void free_users(struct config_users *users) {
  for (unsigned i = 0; i < users->count; i++) {
    struct config_user *user = &users->items[i];
    for (unsigned j = 0; j < user->permission_count; j++) free(user->permission_names[j]);
    free(user->permission_names);
    free(user->principal);
    if (user->token) explicit_bzero(user->token, strlen(user->token));
    free(user->token);
  }
  free(users->items);
  *users = (struct config_users){0};
}

static bool read_users(struct reader *reader, yaml_node_t *node, struct config_users *users) {
  size_t count = sequence_length(node);
  users->items = memory_allocate_zeroed(count + 1, sizeof *users->items);
  for (size_t i = 0; i < count; i++) {
    struct config_user *user = &users->items[users->count++];
    if (!each_pair(reader, node_at(reader, node->data.sequence.items.start[i]), user,
                   read_user_field)) {
      return false;
    }
    if (!user->principal) user->principal = memory_copy_text("");
    if (!user->token) user->token = memory_copy_text("");
  }
  return true;
}

static void print_users(const struct config_users *users, FILE *out) {
  for (unsigned i = 0; i < users->count; i++) {
    const struct config_user *user = &users->items[i];
    fputs("  - {principal: ", out);
    config_print_text(user->principal, out);
    fprintf(out, ", token: %s, permissions: [", *user->token ? "\"***\"" : "\"\"");
    for (unsigned j = 0; j < user->permission_count; j++) {
      if (j) fputs(", ", out);
      config_print_text(user->permission_names[j], out);
    }
    fputs("]}\n", out);
  }
}

/* static_consumer_groups */

static bool read_number(struct reader *reader, yaml_node_t *node, const char *field,
                        int64_t *number) {
  char *text = NULL, *end = NULL;
  bool read = read_text(reader, node, field, &text);
  if (read) {
    *number = strtoll(text, &end, 10);
    if (end == text || *end || *number < 1 || *number > INT32_MAX) {
      read = fail(reader, node, "a number from 1 is expected for ", field);
    }
  }
  free(text);
  return read;
}

/* The topic of this name in the group, added when it is new. `name` is taken over. */
static struct config_group_topic *group_topic(struct config_group *group, char *name) {
  for (unsigned i = 0; i < group->topic_count; i++) {
    if (strcmp(group->topics[i].topic, name) != 0) continue;
    free(name);
    return &group->topics[i];
  }
  group->topics = memory_resize(group->topics, (group->topic_count + 1) * sizeof *group->topics);
  struct config_group_topic *topic = &group->topics[group->topic_count++];
  *topic = (struct config_group_topic){.topic = name};
  return topic;
}

static bool read_group_topics(struct reader *reader, yaml_node_t *node,
                              struct config_group *group) {
  if (node->type != YAML_SEQUENCE_NODE) {
    return fail(reader, node, "a list is expected for topics", NULL);
  }
  for (size_t i = 0; i < sequence_length(node); i++) {
    char *name = NULL;
    yaml_node_t *item = node_at(reader, node->data.sequence.items.start[i]);
    if (!read_text(reader, item, "topics", &name)) return false;
    group_topic(group, name);
  }
  return true;
}

static bool read_topic_partitions(struct reader *reader, yaml_node_t *key, yaml_node_t *value,
                                  void *target) {
  char *name = NULL;
  if (!read_text(reader, key, "topic_partitions", &name)) return false;
  return read_number(reader, value, "topic_partitions", &group_topic(target, name)->partitions);
}

static bool read_group_field(struct reader *reader, yaml_node_t *key, yaml_node_t *value,
                             void *target) {
  struct config_group *group = target;
  if (key_is(key, "name")) return read_text(reader, value, "name", &group->name);
  if (key_is(key, "consumer_count")) {
    return read_number(reader, value, "consumer_count", &group->consumer_count);
  }
  if (key_is(key, "topics")) return read_group_topics(reader, value, group);
  if (key_is(key, "topic_partitions")) {
    return each_pair(reader, value, group, read_topic_partitions);
  }
  return fail(reader, key, "a group has name, consumer_count, topics and topic_partitions, not ",
              (char *)key->data.scalar.value);
}

static void free_groups(struct config_groups *groups) {
  for (unsigned i = 0; i < groups->count; i++) {
    struct config_group *group = &groups->items[i];
    for (unsigned j = 0; j < group->topic_count; j++) free(group->topics[j].topic);
    free(group->topics);
    free(group->name);
  }
  free(groups->items);
  *groups = (struct config_groups){0};
}

static bool is_group_name(const char *name) {
  size_t length = 0;
  while (name && (unsigned char)name[length] > ' ' && name[length] != 0x7F) length++;
  return length > 0 && length <= 249 && name[length] == '\0';
}

static bool read_groups(struct reader *reader, yaml_node_t *node, struct config_groups *groups) {
  size_t count = sequence_length(node);
  groups->items = memory_allocate_zeroed(count + 1, sizeof *groups->items);
  for (size_t i = 0; i < count; i++) {
    struct config_group *group = &groups->items[groups->count++];
    group->consumer_count = 1;
    yaml_node_t *item = node_at(reader, node->data.sequence.items.start[i]);
    if (!each_pair(reader, item, group, read_group_field)) return false;
    if (!is_group_name(group->name)) {
      return fail(reader, item, "a group needs a name, of at most 249 bytes and without blanks",
                  NULL);
    }
    if (group->topic_count == 0) return fail(reader, item, "no topics for group ", group->name);
  }
  return true;
}

static void print_groups(const struct config_groups *groups, FILE *out) {
  for (unsigned i = 0; i < groups->count; i++) {
    const struct config_group *group = &groups->items[i];
    fputs("  - {name: ", out);
    config_print_text(group->name, out);
    fprintf(out, ", consumer_count: %" PRId64 ", topics: [", group->consumer_count);
    for (unsigned j = 0; j < group->topic_count; j++) {
      if (j) fputs(", ", out);
      config_print_text(group->topics[j].topic, out);
    }
    fputs("], topic_partitions: {", out);
    const char *separator = "";
    for (unsigned j = 0; j < group->topic_count; j++) {
      if (!group->topics[j].partitions) continue;
      fputs(separator, out);
      config_print_text(group->topics[j].topic, out);
      fprintf(out, ": %" PRId64, group->topics[j].partitions);
      separator = ", ";
    }
    fputs("}}\n", out);
  }
}

/* Both */

bool config_list_parse(struct config *config, const struct config_setting *setting,
                       struct yaml_document_s *document, struct yaml_node_s *node, const char *path,
                       char **error) {
  struct reader reader = {document, path, error};
  if (node->type != YAML_SEQUENCE_NODE) {
    return fail(&reader, node, "a list is expected for ", setting->name);
  }
  config_list_free(config, setting);
  void *field = config_field(config, setting);
  return setting->kind == CONFIG_USERS ? read_users(&reader, node, field)
                                       : read_groups(&reader, node, field);
}

void config_list_print(const struct config *config, const struct config_setting *setting,
                       FILE *out) {
  const void *field = config_field_const(config, setting);
  if (setting->kind == CONFIG_USERS) {
    print_users(field, out);
  } else {
    print_groups(field, out);
  }
}

void config_list_free(struct config *config, const struct config_setting *setting) {
  void *field = config_field(config, setting);
  if (setting->kind == CONFIG_USERS) {
    free_users(field);
  } else {
    free_groups(field);
  }
}
