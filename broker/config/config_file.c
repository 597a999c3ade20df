/* Reads the YAML file. It is one mapping from setting to value; JSON is YAML too. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "config/config_private.h"

static bool file_fails(const char *path, const char *what, char **error) {
  *error = config_format("file %s: %s", path, what);
  return false;
}

static bool syntax_fails(const char *path, const yaml_parser_t *parser, char **error) {
  *error = config_format("file %s:%zu: %s", path, parser->problem_mark.line + 1,
                         parser->problem ? parser->problem : "not YAML");
  return false;
}

/* The caller deletes the document when this returns true. */
static bool load_document(const char *path, yaml_document_t *document, char **error) {
  FILE *file = fopen(path, "re");
  if (!file) return file_fails(path, strerror(errno), error);
  yaml_parser_t parser;
  if (!yaml_parser_initialize(&parser)) {
    fclose(file);
    return file_fails(path, "out of memory", error);
  }
  yaml_parser_set_input_file(&parser, file);
  bool loaded = yaml_parser_load(&parser, document);
  if (!loaded) syntax_fails(path, &parser, error);
  yaml_parser_delete(&parser);
  fclose(file);
  return loaded;
}

/* `name:` without a value leaves the setting as it is. */
static bool is_null(const yaml_node_t *node) {
  if (node->type != YAML_SCALAR_NODE || node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) {
    return false;
  }
  const char *text = (const char *)node->data.scalar.value;
  return !*text || strcmp(text, "~") == 0 || strcmp(text, "null") == 0;
}

static bool is_list(const struct config_setting *setting) {
  return setting->kind == CONFIG_USERS || setting->kind == CONFIG_GROUPS;
}

static bool apply_pair(struct config *config, yaml_document_t *document, yaml_node_t *key,
                       yaml_node_t *value, const char *path, char **error) {
  char *text = config_format("file %s:%zu", path, key->start_mark.line + 1);
  struct config_place place = {CONFIG_FROM_FILE, text};
  const char *name = (const char *)key->data.scalar.value;
  int row = config_setting_find(name);
  const struct config_setting *setting = row >= 0 ? &config_settings[row] : NULL;
  bool applied = false;
  if (!setting) {
    *error = config_unknown_name(config, name, place);
    applied = !*error;
  } else if (setting->flags & CONFIG_NOT_IN_FILE) {
    *error = config_format("%s: %s cannot be set in a file", text, name);
  } else if (config->origins[row].source == CONFIG_FROM_FILE) {
    *error = config_format("%s: %s is set twice (%s)", text, name, config->origins[row].text);
  } else if (is_null(value)) {
    applied = true;
  } else if (is_list(setting) && value->type == YAML_SEQUENCE_NODE) {
    applied = config_list_parse(config, setting, document, value, path, error);
    config_set_origin(config, (unsigned)row, CONFIG_FROM_FILE, text);
  } else if (value->type != YAML_SCALAR_NODE ||
             strlen((char *)value->data.scalar.value) != value->data.scalar.length) {
    *error = config_format("%s: %s: one value is expected", text, name);
  } else {
    applied = config_apply(config, (unsigned)row, (char *)value->data.scalar.value, place, error);
  }
  free(text);
  return applied;
}

static bool apply_document(struct config *config, yaml_document_t *document, const char *path,
                           char **error) {
  yaml_node_t *root = yaml_document_get_root_node(document);
  if (!root || is_null(root)) return true; /* an empty file */
  if (root->type != YAML_MAPPING_NODE) {
    return file_fails(path, "settings are expected, as `name: value`", error);
  }
  for (yaml_node_pair_t *pair = root->data.mapping.pairs.start; pair < root->data.mapping.pairs.top;
       pair++) {
    yaml_node_t *key = yaml_document_get_node(document, pair->key);
    yaml_node_t *value = yaml_document_get_node(document, pair->value);
    if (key->type != YAML_SCALAR_NODE) return file_fails(path, "a name is not text", error);
    if (!apply_pair(config, document, key, value, path, error)) return false;
  }
  return true;
}

bool config_file_load(struct config *config, const char *path, char **error) {
  yaml_document_t document;
  if (!load_document(path, &document, error)) return false;
  bool applied = apply_document(config, &document, path, error);
  yaml_document_delete(&document);
  return applied;
}

bool config_file_load_list(struct config *config, const struct config_setting *setting,
                           const char *path, char **error) {
  yaml_document_t document;
  if (!load_document(path, &document, error)) return false;
  yaml_node_t *root = yaml_document_get_root_node(&document);
  bool applied = root ? config_list_parse(config, setting, &document, root, path, error)
                      : file_fails(path, "a list is expected, the file is empty", error);
  yaml_document_delete(&document);
  return applied;
}
