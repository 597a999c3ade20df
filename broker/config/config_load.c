/* Puts the layers together: defaults, then the file, then the environment, then flags, each over
 * the last.
 *
 * Knows no setting by name but `config`; what depends on several settings is config_check.c's. */
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "config/config_private.h"

extern char **environ;

char *config_format(const char *format, ...) {
  va_list arguments;
  char *text;
  va_start(arguments, format);
  int length = vasprintf(&text, format, arguments);
  va_end(arguments);
  return length < 0 ? memory_copy_text("out of memory") : text;
}

void config_warn(struct config *config, const char *format, ...) {
  va_list arguments;
  char *text;
  va_start(arguments, format);
  int length = vasprintf(&text, format, arguments);
  va_end(arguments);
  if (length < 0) return;
  config->warnings =
      memory_resize(config->warnings, (config->warning_count + 1) * sizeof *config->warnings);
  config->warnings[config->warning_count++] = text;
}

void config_set_origin(struct config *config, unsigned row, enum config_source source,
                       const char *text) {
  char *copy = memory_copy_text(text);
  free(config->origins[row].text);
  config->origins[row] = (struct config_origin){source, copy};
}

static bool is_list(const struct config_setting *setting) {
  return setting->kind == CONFIG_USERS || setting->kind == CONFIG_GROUPS;
}

bool config_apply(struct config *config, unsigned row, const char *text, struct config_place place,
                  char **error) {
  const struct config_setting *setting = &config_settings[row];
  if (is_list(setting)) {
    config_set_origin(config, row, place.source, place.text);
    return config_file_load_list(config, setting, text, error);
  }
  char *problem = NULL;
  switch (config_value_parse(config, setting, text, &problem)) {
    case CONFIG_PARSE_OK:
      config_set_origin(config, row, place.source, place.text);
      return true;
    case CONFIG_PARSE_TOO_SMALL: {
      config_warn(config, "%s: %s: %s; using the default, %s", place.text, setting->name, problem,
                  setting->default_text);
      free(problem);
      char *origin = config_format("default, as %s is out of range", place.text);
      config_set_origin(config, row, place.source, origin);
      free(origin);
      return config_value_parse(config, setting, setting->default_text, error) == CONFIG_PARSE_OK;
    }
    case CONFIG_PARSE_FAILED:
      break;
  }
  /* Flags and variables carry the setting's name, lines of a file do not. */
  *error = place.source == CONFIG_FROM_FILE
               ? config_format("%s: %s: %s", place.text, setting->name, problem)
               : config_format("%s: %s", place.text, problem);
  free(problem);
  return false;
}

/* The name as it is written in this kind of place. */
static char *spell(const char *name, enum config_source source) {
  char *spelling = source == CONFIG_FROM_FLAG ? config_format("--%s", name)
                   : source == CONFIG_FROM_ENVIRONMENT
                       ? config_format(CONFIG_ENVIRONMENT_PREFIX "%s", name)
                       : memory_copy_text(name);
  for (char *c = spelling; *c; c++) {
    if (source == CONFIG_FROM_FLAG && *c == '_') *c = '-';
    if (source == CONFIG_FROM_ENVIRONMENT) *c = (char)toupper((unsigned char)*c);
  }
  return spelling;
}

char *config_unknown_name(struct config *config, const char *name, struct config_place place) {
  if (config_name_is_ignored(name)) {
    config_warn(config, "%s: %s means nothing to this broker and is ignored", place.text, name);
    return NULL;
  }
  const char *nearest = config_nearest_name(name);
  if (!nearest) {
    return config_format("%s: unknown setting \"%s\"; --help lists all", place.text, name);
  }
  char *spelling = spell(nearest, place.source);
  char *error =
      config_format("%s: unknown setting \"%s\"; did you mean %s?", place.text, name, spelling);
  free(spelling);
  return error;
}

static bool load_defaults(struct config *config, char **error) {
  for (unsigned row = 0; row < config_setting_count; row++) {
    const struct config_setting *setting = &config_settings[row];
    config_set_origin(config, row, CONFIG_FROM_DEFAULT, "default");
    if (is_list(setting)) continue;
    if (config_value_parse(config, setting, setting->default_text, error) != CONFIG_PARSE_OK) {
      return false;
    }
  }
  return true;
}

/* Environment */

/* Kubernetes puts PGCURSUS_PORT=tcp://10.0.0.1:9000, PGCURSUS_SERVICE_HOST and the like into every
 * pod beside a service named pgcursus. They are not settings. */
static bool is_service_link(const char *name, const char *value) {
  size_t length = strlen(name);
  const char *host = "SERVICE_HOST";
  bool ends_in_host = length >= strlen(host) && strcmp(name + length - strlen(host), host) == 0;
  return strncmp(value, "tcp://", 6) == 0 || strncmp(value, "udp://", 6) == 0 || ends_in_host ||
         strstr(name, "SERVICE_PORT") || strstr(name, "_TCP_") || strstr(name, "_UDP_");
}

/* The command line client and the test suite have variables of their own, and are started from the
 * same shell. */
static bool is_of_another_program(const char *name) {
  static const char *const names[] = {"BROKER",       "USER",     "TOKEN",   "TLS",
                                      "TLS_CA",       "TLS_CERT", "TLS_KEY", "TLS_SERVER_NAME",
                                      "TLS_INSECURE", "BUILD",    "VECTORS", "POSTGRES_BIN"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (strcmp(name, names[i]) == 0) return true;
  }
  return strncmp(name, "TEST_", 5) == 0;
}

static bool apply_variable(struct config *config, const char *name, const char *value,
                           char **error) {
  if (!*value || is_service_link(name, value) || is_of_another_program(name)) return true;
  char *text = config_format("environment " CONFIG_ENVIRONMENT_PREFIX "%s", name);
  struct config_place place = {CONFIG_FROM_ENVIRONMENT, text};
  int row = config_setting_find(name);
  bool applied;
  if (row >= 0) {
    applied = config_apply(config, (unsigned)row, value, place, error);
  } else {
    *error = config_unknown_name(config, name, place);
    applied = !*error;
  }
  free(text);
  return applied;
}

static bool load_environment(struct config *config, char **error) {
  size_t prefix = strlen(CONFIG_ENVIRONMENT_PREFIX);
  for (char **variable = environ; *variable; variable++) {
    const char *equals = strchr(*variable, '=');
    if (!equals || strncmp(*variable, CONFIG_ENVIRONMENT_PREFIX, prefix) != 0) continue;
    char *name = strndup(*variable + prefix, (size_t)(equals - *variable) - prefix);
    bool applied = name && apply_variable(config, name, equals + 1, error);
    free(name);
    if (!applied) return false;
  }
  return true;
}

/* Flags */

static bool is_boolean_word(const char *text) {
  static const char *const words[] = {"true", "false", "yes", "no", "on", "off", "1", "0"};
  for (size_t i = 0; text && i < sizeof words / sizeof words[0]; i++) {
    if (strcasecmp(text, words[i]) == 0) return true;
  }
  return false;
}

/* The value of the flag at argv[*position] and whether it is in the next argument. NULL when it has
 * none. */
static const char *flag_value(const struct config_setting *setting, const char *equals,
                              const char *next, int *position) {
  if (equals) return equals + 1;
  if (setting && setting->kind == CONFIG_BOOLEAN && !is_boolean_word(next)) return "true";
  if (!next || (!setting && strncmp(next, "--", 2) == 0)) return NULL;
  ++*position;
  return next;
}

/* Looks at one flag. With `only_config` everything else is passed over, because the file that it
 * names comes before the other flags. */
static bool take_flag(struct config *config, int argc, char **argv, int *position, bool only_config,
                      char **error) {
  const char *argument = argv[*position], *equals = strchr(argument, '=');
  const char *next = *position + 1 < argc ? argv[*position + 1] : NULL;
  size_t length = equals ? (size_t)(equals - argument) : strlen(argument);
  char *text = config_format("flag %.*s", (int)length, argument);
  struct config_place place = {CONFIG_FROM_FLAG, text};
  const char *name = text + strlen("flag --");
  int row = config_setting_find(name);
  const struct config_setting *setting = row >= 0 ? &config_settings[row] : NULL;
  const char *value = flag_value(setting, equals, next, position);
  bool taken;
  if (only_config && (!setting || strcmp(setting->name, "config") != 0)) {
    taken = true;
  } else if (!setting) {
    *error = config_unknown_name(config, name, place);
    taken = !*error;
  } else if (!value) {
    *error = config_format("%s needs a value", text);
    taken = false;
  } else {
    taken = config_apply(config, (unsigned)row, value, place, error);
  }
  free(text);
  return taken;
}

static bool take_word(struct config *config, const char *word, char **error) {
  enum config_action action = strcmp(word, "migrate") == 0        ? CONFIG_MIGRATE
                              : strcmp(word, "check-config") == 0 ? CONFIG_CHECK_CONFIG
                                                                  : CONFIG_RUN;
  if (action == CONFIG_RUN || (config->action != CONFIG_RUN && config->action != action)) {
    *error = config_format(
        "unexpected \"%s\": the commands are migrate and check-config, settings are --NAME VALUE",
        word);
    return false;
  }
  config->action = action;
  return true;
}

static bool load_flags(struct config *config, int argc, char **argv, bool only_config,
                       char **error) {
  for (int i = 1; i < argc; i++) {
    const char *argument = argv[i];
    if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
      config->action = CONFIG_HELP;
      return true;
    }
    if (strcmp(argument, "--version") == 0 || strcmp(argument, "-V") == 0) {
      config->action = CONFIG_VERSION;
      return true;
    }
    bool taken = strncmp(argument, "--", 2) == 0
                     ? take_flag(config, argc, argv, &i, only_config, error)
                     : take_word(config, argument, error);
    if (!taken) return false;
  }
  return true;
}

static bool load_named_file(struct config *config, char **error) {
  const char *variable = getenv(CONFIG_ENVIRONMENT_PREFIX "CONFIG");
  const char *path = *config->config ? config->config : variable;
  return !path || !*path || config_file_load(config, path, error);
}

static void keep_arguments(struct config *config, int argc, char **argv) {
  config->argc = argc;
  config->argv = memory_allocate_zeroed((size_t)argc + 1, sizeof(char *));
  for (int i = 0; i < argc; i++) config->argv[i] = memory_copy_text(argv[i]);
}

struct config *config_load(int argc, char **argv, char **error) {
  struct config *config = memory_allocate_zeroed(1, sizeof *config);
  config->origins = memory_allocate_zeroed(config_setting_count, sizeof *config->origins);
  keep_arguments(config, argc, argv);
  *error = NULL;
  if (!load_defaults(config, error) || !load_flags(config, argc, argv, true, error)) goto failed;
  if (config->action == CONFIG_HELP || config->action == CONFIG_VERSION) return config;
  if (load_named_file(config, error) && load_environment(config, error) &&
      load_flags(config, argc, argv, false, error) && config_check(config, error)) {
    return config;
  }
failed:
  config_free(config);
  return NULL;
}

static char *printed_value(const struct config *config, const struct config_setting *setting) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  if (!out) return memory_copy_text("");
  if (is_list(setting)) {
    config_list_print(config, setting, out);
  } else {
    config_value_print(config, setting, out);
  }
  fclose(out);
  return text;
}

struct config *config_reload(const struct config *current, char **error) {
  struct config *config = config_load(current->argc, current->argv, error);
  if (!config) return NULL;
  for (unsigned row = 0; row < config_setting_count; row++) {
    const struct config_setting *setting = &config_settings[row];
    if (setting->flags & CONFIG_RELOADABLE) continue;
    char *before = printed_value(current, setting), *after = printed_value(config, setting);
    if (strcmp(before, after) != 0) {
      config_warn(config, "%s: a changed %s takes effect at the next start",
                  config->origins[row].text, setting->name);
    }
    free(before);
    free(after);
    config_value_copy(config, current, setting);
    config_set_origin(config, row, current->origins[row].source, current->origins[row].text);
  }
  return config;
}

void config_free(struct config *config) {
  if (!config) return;
  for (unsigned row = 0; row < config_setting_count; row++) {
    config_value_free(config, &config_settings[row]);
    free(config->origins[row].text);
  }
  for (unsigned i = 0; i < config->warning_count; i++) free(config->warnings[i]);
  for (int i = 0; i < config->argc; i++) free(config->argv[i]);
  free(config->warnings);
  free(config->argv);
  free(config->origins);
  free(config);
}
