/* One value of one setting: from text, to text, copied, freed. By kind, so it knows no setting by
 * name. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "config/config_private.h"

void *config_field(struct config *config, const struct config_setting *setting) {
  return (char *)config + setting->offset;
}

const void *config_field_const(const struct config *config, const struct config_setting *setting) {
  return (const char *)config + setting->offset;
}

static void replace_text(char **field, const char *text) {
  char *copy = text ? memory_copy_text(text) : NULL;
  free(*field);
  *field = copy;
}

/* Numbers */

static bool parse_whole_number(const char *text, int64_t *value) {
  char *end;
  errno = 0;
  *value = strtoll(text, &end, 10);
  return end != text && !*end && errno == 0 && !isspace((unsigned char)*text);
}

static enum config_parsed check_range(const struct config_setting *setting, int64_t value,
                                      char **error) {
  if (value < setting->minimum) {
    *error = config_format("%" PRId64 " is below %" PRId64, value, setting->minimum);
    return CONFIG_PARSE_TOO_SMALL;
  }
  if (value > setting->maximum) {
    *error = config_format("%" PRId64 " is above the largest allowed value, %" PRId64, value,
                           setting->maximum);
    return CONFIG_PARSE_FAILED;
  }
  return CONFIG_PARSE_OK;
}

static enum config_parsed parse_number(void *field, const struct config_setting *setting,
                                       const char *text, char **error) {
  int64_t value;
  if (!parse_whole_number(text, &value)) {
    *error = config_format("\"%s\" is not a whole number", text);
    return CONFIG_PARSE_FAILED;
  }
  enum config_parsed parsed = check_range(setting, value, error);
  if (parsed != CONFIG_PARSE_OK) return parsed;
  switch (setting->kind) {
    case CONFIG_COUNT:
      *(unsigned *)field = (unsigned)value;
      break;
    case CONFIG_BYTES:
      *(size_t *)field = (size_t)value;
      break;
    default:
      *(int64_t *)field = value;
  }
  return CONFIG_PARSE_OK;
}

/* Both ends of the range are outside it. */
static enum config_parsed parse_real(double *field, const struct config_setting *setting,
                                     const char *text, char **error) {
  char *end;
  double value = strtod(text, &end);
  if (end == text || *end) {
    *error = config_format("\"%s\" is not a number", text);
    return CONFIG_PARSE_FAILED;
  }
  if (!(value > (double)setting->minimum && value < (double)setting->maximum)) {
    *error = config_format("%s is not between %" PRId64 " and %" PRId64, text, setting->minimum,
                           setting->maximum);
    return CONFIG_PARSE_TOO_SMALL;
  }
  *field = value;
  return CONFIG_PARSE_OK;
}

/* Milliseconds of the unit at `*text`, which is moved behind it; 0 when there is none. */
static int64_t take_unit(const char **text) {
  static const struct {
    const char *name;
    int64_t milliseconds;
  } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
    size_t length = strlen(units[i].name);
    if (strncmp(*text, units[i].name, length) != 0) continue;
    *text += length;
    return units[i].milliseconds;
  }
  return 0;
}

/* 30m, 1h30m, 500ms. */
static bool parse_duration_text(const char *text, int64_t *milliseconds) {
  bool negative = *text == '-';
  if (negative) text++;
  if (!*text) return false;
  int64_t total = 0;
  while (*text) {
    int64_t number = 0, part;
    if (!isdigit((unsigned char)*text)) return false;
    for (; isdigit((unsigned char)*text); text++) {
      if (number > INT64_MAX / 100) return false;
      number = number * 10 + (*text - '0');
    }
    int64_t unit = take_unit(&text);
    if (!unit || __builtin_mul_overflow(number, unit, &part) ||
        __builtin_add_overflow(total, part, &total)) {
      return false;
    }
  }
  *milliseconds = negative ? -total : total;
  return true;
}

static enum config_parsed parse_duration(int64_t *field, const struct config_setting *setting,
                                         const char *text, char **error) {
  int64_t value;
  if (!parse_duration_text(text, &value)) {
    *error = config_format("\"%s\" is not a duration such as 30m, 1h30m, 45s or 500ms", text);
    return CONFIG_PARSE_FAILED;
  }
  enum config_parsed parsed = check_range(setting, value, error);
  if (parsed == CONFIG_PARSE_OK) *field = value;
  return parsed;
}

/* Words */

static enum config_parsed parse_boolean(bool *field, const char *text, char **error) {
  static const char *const words[2][4] = {{"false", "no", "off", "0"}, {"true", "yes", "on", "1"}};
  for (int value = 0; value <= 1; value++) {
    for (int i = 0; i < 4; i++) {
      if (strcasecmp(text, words[value][i]) != 0) continue;
      *field = value;
      return CONFIG_PARSE_OK;
    }
  }
  *error = config_format("\"%s\" is neither true nor false", text);
  return CONFIG_PARSE_FAILED;
}

static enum config_parsed parse_choice(unsigned *field, const struct config_setting *setting,
                                       const char *text, char **error) {
  for (unsigned i = 0; setting->choices[i]; i++) {
    if (strcasecmp(text, setting->choices[i]) != 0) continue;
    *field = i;
    return CONFIG_PARSE_OK;
  }
  *error = config_format("\"%s\" is not %s", text, setting->help);
  return CONFIG_PARSE_FAILED;
}

/* Addresses */

static bool is_port(const char *text) {
  int64_t number;
  return isdigit((unsigned char)*text) && parse_whole_number(text, &number) && number <= 65535;
}

/* Splits "host:port", "[v6]:port", ":port" or "*:port" in place. */
static bool split_address(char *text, char **host, char **port) {
  char *colon = strrchr(text, ':');
  if (!colon || !is_port(colon + 1)) return false;
  *colon = 0;
  *port = colon + 1;
  *host = text;
  if (text[0] == '[') {
    if (colon[-1] != ']') return false;
    colon[-1] = 0;
    *host = text + 1;
    return true;
  }
  if (strcmp(text, "*") == 0) *text = 0;
  return !strchr(text, ':') && !strpbrk(text, " \t/");
}

static enum config_parsed parse_address(struct config_address *field,
                                        const struct config_setting *setting, const char *text,
                                        char **error) {
  if ((setting->flags & CONFIG_MAY_BE_OFF) && (!*text || strcasecmp(text, "off") == 0)) {
    replace_text(&field->host, NULL);
    replace_text(&field->port, NULL);
    return CONFIG_PARSE_OK;
  }
  char *copy = memory_copy_text(text), *host, *port;
  bool valid = split_address(copy, &host, &port);
  if (valid) {
    replace_text(&field->host, host);
    replace_text(&field->port, port);
  } else {
    *error = config_format("\"%s\" is not HOST:PORT", text);
  }
  free(copy);
  return valid ? CONFIG_PARSE_OK : CONFIG_PARSE_FAILED;
}

enum config_parsed config_value_parse(struct config *config, const struct config_setting *setting,
                                      const char *text, char **error) {
  void *field = config_field(config, setting);
  switch (setting->kind) {
    case CONFIG_TEXT:
    case CONFIG_DATABASE:
      replace_text(field, text);
      return CONFIG_PARSE_OK;
    case CONFIG_BOOLEAN:
      return parse_boolean(field, text, error);
    case CONFIG_INTEGER:
    case CONFIG_COUNT:
    case CONFIG_BYTES:
      return parse_number(field, setting, text, error);
    case CONFIG_REAL:
      return parse_real(field, setting, text, error);
    case CONFIG_DURATION:
      return parse_duration(field, setting, text, error);
    case CONFIG_CHOICE:
      return parse_choice(field, setting, text, error);
    case CONFIG_ADDRESS:
      return parse_address(field, setting, text, error);
    case CONFIG_USERS:
    case CONFIG_GROUPS:
      break;
  }
  *error = config_format("\"%s\" is not a list", text);
  return CONFIG_PARSE_FAILED;
}

/* To text */

/* Bare where YAML cannot take it for anything but text, else quoted. */
void config_print_text(const char *text, FILE *out) {
  bool bare = isalpha((unsigned char)*text) || *text == '/';
  for (const char *c = text; *c && bare; c++) {
    bare = isalnum((unsigned char)*c) || strchr("_-./", *c) != NULL;
  }
  if (bare) {
    fputs(text, out);
    return;
  }
  fputc('"', out);
  for (const char *c = text; *c; c++) {
    if ((unsigned char)*c < 0x20) {
      fprintf(out, "\\x%02x", (unsigned)*c);
      continue;
    }
    if (*c == '"' || *c == '\\') fputc('\\', out);
    fputc(*c, out);
  }
  fputc('"', out);
}

static void print_address(const struct config_address *address, FILE *out) {
  if (!address->host && !address->port) {
    fputs("off", out);
    return;
  }
  const char *host = address->host ? address->host : "",
             *port = address->port ? address->port : "0";
  bool bracketed = strchr(host, ':') != NULL;
  char *text = config_format("%s%s%s:%s", bracketed ? "[" : "", *host ? host : "*",
                             bracketed ? "]" : "", port);
  config_print_text(text, out);
  free(text);
}

static void print_duration(int64_t milliseconds, FILE *out) {
  if (milliseconds % 3600000 == 0) {
    fprintf(out, "%" PRId64 "h", milliseconds / 3600000);
  } else if (milliseconds % 60000 == 0) {
    fprintf(out, "%" PRId64 "m", milliseconds / 60000);
  } else if (milliseconds % 1000 == 0) {
    fprintf(out, "%" PRId64 "s", milliseconds / 1000);
  } else {
    fprintf(out, "%" PRId64 "ms", milliseconds);
  }
}

void config_value_print(const struct config *config, const struct config_setting *setting,
                        FILE *out) {
  const void *field = config_field_const(config, setting);
  switch (setting->kind) {
    case CONFIG_TEXT:
      config_print_text(*(char *const *)field, out);
      break;
    case CONFIG_DATABASE: {
      char *masked = config_mask_database(*(char *const *)field);
      config_print_text(masked, out);
      free(masked);
      break;
    }
    case CONFIG_BOOLEAN:
      fputs(*(const bool *)field ? "true" : "false", out);
      break;
    case CONFIG_INTEGER:
      fprintf(out, "%" PRId64, *(const int64_t *)field);
      break;
    case CONFIG_COUNT:
      fprintf(out, "%u", *(const unsigned *)field);
      break;
    case CONFIG_BYTES:
      fprintf(out, "%zu", *(const size_t *)field);
      break;
    case CONFIG_REAL:
      fprintf(out, "%g", *(const double *)field);
      break;
    case CONFIG_DURATION:
      print_duration(*(const int64_t *)field, out);
      break;
    case CONFIG_CHOICE:
      fputs(setting->choices[*(const unsigned *)field], out);
      break;
    case CONFIG_ADDRESS:
      print_address(field, out);
      break;
    case CONFIG_USERS:
    case CONFIG_GROUPS:
      break;
  }
}

void config_value_copy(struct config *to, const struct config *from,
                       const struct config_setting *setting) {
  void *target = config_field(to, setting);
  const void *source = config_field_const(from, setting);
  switch (setting->kind) {
    case CONFIG_TEXT:
    case CONFIG_DATABASE:
      replace_text(target, *(char *const *)source);
      break;
    case CONFIG_ADDRESS: {
      const struct config_address *address = source;
      struct config_address *copy = target;
      replace_text(&copy->host, address->host);
      replace_text(&copy->port, address->port);
      break;
    }
    case CONFIG_BOOLEAN:
      memcpy(target, source, sizeof(bool));
      break;
    case CONFIG_COUNT:
    case CONFIG_CHOICE:
      memcpy(target, source, sizeof(unsigned));
      break;
    case CONFIG_INTEGER:
    case CONFIG_DURATION:
      memcpy(target, source, sizeof(int64_t));
      break;
    case CONFIG_BYTES:
      memcpy(target, source, sizeof(size_t));
      break;
    case CONFIG_REAL:
      memcpy(target, source, sizeof(double));
      break;
    case CONFIG_USERS:
    case CONFIG_GROUPS:
      break;
  }
}

void config_value_free(struct config *config, const struct config_setting *setting) {
  void *field = config_field(config, setting);
  switch (setting->kind) {
    case CONFIG_TEXT:
    case CONFIG_DATABASE:
      free(*(char **)field);
      break;
    case CONFIG_ADDRESS: {
      struct config_address *address = field;
      free(address->host);
      free(address->port);
      break;
    }
    case CONFIG_USERS:
    case CONFIG_GROUPS:
      config_list_free(config, setting);
      break;
    default:
      break;
  }
}
