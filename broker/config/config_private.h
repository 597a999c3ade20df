/* What the files of this folder share. Nobody else includes this. */
#ifndef PGCURSUS_CONFIG_CONFIG_PRIVATE_H
#define PGCURSUS_CONFIG_CONFIG_PRIVATE_H

#include "config/config_table.h"

#define CONFIG_ENVIRONMENT_PREFIX "PGCURSUS_"

/* A place a value comes from: its rank, and how a message names it ("flag --listen", "file
 * x.yaml:3"). */
struct config_place {
  enum config_source source;
  const char *text;
};

/* config_load.c */

/* printf into memory that the caller frees. */
char *config_format(const char *format, ...)
    __attribute__((format(printf, 1, 2), warn_unused_result));
void config_warn(struct config *config, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void config_set_origin(struct config *config, unsigned row, enum config_source source,
                       const char *text);
/* Gives row `row` the value `text`. False with `*error` when the text means nothing. */
bool config_apply(struct config *config, unsigned row, const char *text, struct config_place place,
                  char **error) __attribute__((warn_unused_result));
/* The text of the error for a name that is not in the table, or NULL when it is one of the
 * reference's that are ignored (a warning is then added). */
char *config_unknown_name(struct config *config, const char *name, struct config_place place);

/* config_value.c */

enum config_parsed { CONFIG_PARSE_FAILED, CONFIG_PARSE_OK, CONFIG_PARSE_TOO_SMALL };

void *config_field(struct config *config, const struct config_setting *setting);
const void *config_field_const(const struct config *config, const struct config_setting *setting);
/* Replaces the field's value. When it fails, or is out of range, `*error` says what was expected.
 * Not for lists. */
enum config_parsed config_value_parse(struct config *config, const struct config_setting *setting,
                                      const char *text, char **error);
/* The value as YAML, without secrets. Not for lists. */
void config_value_print(const struct config *config, const struct config_setting *setting,
                        FILE *out);
void config_value_copy(struct config *to, const struct config *from,
                       const struct config_setting *setting);
void config_value_free(struct config *config, const struct config_setting *setting);
void config_print_text(const char *text, FILE *out);

/* config_file.c */

bool config_file_load(struct config *config, const char *path, char **error)
    __attribute__((warn_unused_result));
/* Reads a list setting from a YAML file of its own. */
bool config_file_load_list(struct config *config, const struct config_setting *setting,
                           const char *path, char **error) __attribute__((warn_unused_result));

/* config_list.c */

struct yaml_document_s;
struct yaml_node_s;
/* Replaces the list with the YAML sequence `node`; `path` is for messages. */
bool config_list_parse(struct config *config, const struct config_setting *setting,
                       struct yaml_document_s *document, struct yaml_node_s *node, const char *path,
                       char **error) __attribute__((warn_unused_result));
void config_list_print(const struct config *config, const struct config_setting *setting,
                       FILE *out);
void config_list_free(struct config *config, const struct config_setting *setting);

/* config_check.c */

/* Works out what depends on several settings, then refuses what must not start. */
bool config_check(struct config *config, char **error) __attribute__((warn_unused_result));

#endif
