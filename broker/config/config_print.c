/* The configuration for people: --help, check-config, and connection strings without passwords. */
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "config/config_private.h"

/* How the value is written in --help. */
static const char *placeholder(const struct config_setting *setting) {
  switch (setting->kind) {
    case CONFIG_BOOLEAN:
      return "";
    case CONFIG_ADDRESS:
      return "HOST:PORT";
    case CONFIG_DATABASE:
      return "DSN";
    case CONFIG_USERS:
    case CONFIG_GROUPS:
      return "FILE";
    case CONFIG_DURATION:
      return "DURATION";
    case CONFIG_INTEGER:
    case CONFIG_COUNT:
    case CONFIG_BYTES:
    case CONFIG_REAL:
      return "N";
    case CONFIG_TEXT:
    case CONFIG_CHOICE:
      break;
  }
  size_t length = strlen(setting->name);
  bool is_path = length > 5 && strcmp(setting->name + length - 5, "_path") == 0;
  return is_path || (setting->flags & CONFIG_NOT_IN_FILE) ? "FILE" : "TEXT";
}

static void print_setting_help(const struct config_setting *setting, FILE *out) {
  char *flag = config_format("--%s %s", setting->name, placeholder(setting));
  for (char *c = flag; *c; c++) {
    if (*c == '_') *c = '-';
  }
  fprintf(out, "  %-42s %s", flag, setting->help);
  if (*setting->default_text) fprintf(out, " [%s]", setting->default_text);
  fputc('\n', out);
  free(flag);
}

void config_print_help(FILE *out) {
  fputs(
      "pgcursusd: a message broker whose only state is PostgreSQL\n"
      "\n"
      "  pgcursusd [--SETTING VALUE ...]               run a broker\n"
      "  pgcursusd migrate [--SETTING VALUE ...]       apply migrations and functions, then exit\n"
      "  pgcursusd check-config [--SETTING VALUE ...]  print every setting and where it came from\n"
      "  pgcursusd --help | --version\n"
      "\n"
      "A setting has one name and three spellings: --min-insync-replicas 2 (or =2), the "
      "environment\n"
      "variable PGCURSUS_MIN_INSYNC_REPLICAS=2, and min_insync_replicas: 2 in the YAML file. A "
      "flag wins\n"
      "over the environment, the environment over the file, the file over the default [in "
      "brackets].\n",
      out);
  for (unsigned row = 0; row < config_setting_count; row++) {
    const struct config_setting *setting = &config_settings[row];
    if (setting->heading) fprintf(out, "\n%s:\n", setting->heading);
    print_setting_help(setting, out);
  }
}

static bool list_is_empty(const struct config *config, const struct config_setting *setting) {
  const void *field = config_field_const(config, setting);
  return setting->kind == CONFIG_USERS ? ((const struct config_users *)field)->count == 0
                                       : ((const struct config_groups *)field)->count == 0;
}

void config_print_effective(const struct config *config, FILE *out) {
  for (unsigned i = 0; i < config->warning_count; i++) {
    fprintf(out, "# warning: %s\n", config->warnings[i]);
  }
  for (unsigned row = 0; row < config_setting_count; row++) {
    const struct config_setting *setting = &config_settings[row];
    const char *origin = config->origins[row].text;
    /* What a file cannot say, or says in another line, is a comment: the output is a valid file. */
    bool comment = setting->flags & (CONFIG_NOT_IN_FILE | CONFIG_ALIAS);
    fprintf(out, "%s%s: ", comment ? "# " : "", setting->name);
    if (setting->kind != CONFIG_USERS && setting->kind != CONFIG_GROUPS) {
      config_value_print(config, setting, out);
      fprintf(out, "  # %s\n", origin);
    } else {
      fprintf(out, "%s # %s\n", list_is_empty(config, setting) ? "[] " : "", origin);
      config_list_print(config, setting, out);
    }
  }
}

const char *config_origin_of(const struct config *config, const char *name) {
  int row = config_setting_find(name);
  return row < 0 ? NULL : config->origins[row].text;
}

/* `value` as libpq wants it in "keyword=value". */
static void print_connection_value(const char *value, FILE *out) {
  fputc('\'', out);
  for (const char *c = value; *c; c++) {
    if (*c == '\'' || *c == '\\') fputc('\\', out);
    fputc(*c, out);
  }
  fputc('\'', out);
}

char *config_mask_database(const char *database) {
  if (!*database) return memory_copy_text("");
  /* libpq knows every form and which of its options are secret (dispchar "*"). */
  PQconninfoOption *options = PQconninfoParse(database, NULL);
  if (!options) return memory_copy_text("***");
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  if (!out) {
    PQconninfoFree(options);
    return memory_copy_text("***");
  }
  const char *separator = "";
  for (const PQconninfoOption *option = options; option->keyword; option++) {
    if (!option->val) continue;
    fprintf(out, "%s%s=", separator, option->keyword);
    separator = " ";
    if (option->dispchar[0] == '*') {
      fputs("***", out);
    } else if (strpbrk(option->val, " '\\") || !*option->val) {
      print_connection_value(option->val, out);
    } else {
      fputs(option->val, out);
    }
  }
  fclose(out);
  PQconninfoFree(options);
  return text;
}
