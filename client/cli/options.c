/* The option parser of the command line and the help it prints.
 *
 * Knows tables and words only; what an option means is its command's business. */
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option_spec *find_in(const struct option_spec *specs, size_t count,
                                         const char *name, size_t length, char letter) {
  for (size_t i = 0; i < count; i++) {
    if (letter ? specs[i].letter == letter
               : strlen(specs[i].name) == length && memcmp(specs[i].name, name, length) == 0) {
      return &specs[i];
    }
  }
  return NULL;
}

static const struct option_spec *find_option(const struct option_usage *usage, const char *name,
                                             size_t length, char letter) {
  const struct option_spec *spec =
      find_in(usage->options, usage->option_count, name, length, letter);
  return spec ? spec : find_in(usage->common, usage->common_count, name, length, letter);
}

static enum option_outcome wrong(const struct option_usage *usage, const char *option,
                                 size_t length, const char *problem) {
  fprintf(stderr, "pgcursus: %.*s: %s (see: pgcursus %s --help)\n", (int)length, option, problem,
          usage->command);
  return OPTIONS_WRONG;
}

static bool store_integer(const struct option_spec *spec, const char *value, char *problem,
                          size_t size) {
  int64_t maximum = spec->minimum == 0 && spec->maximum == 0 ? INT64_MAX : spec->maximum;
  char *end;
  errno = 0;
  int64_t number = (int64_t)strtoll(value, &end, 10);
  if (errno || end == value || *end || number < spec->minimum || number > maximum) {
    if (maximum == INT64_MAX) {
      snprintf(problem, size, "not a number of at least %lld", (long long)spec->minimum);
    } else {
      snprintf(problem, size, "not a number from %lld to %lld", (long long)spec->minimum,
               (long long)maximum);
    }
    return false;
  }
  *(int64_t *)spec->target = number;
  return true;
}

static bool store(const struct option_spec *spec, const char *value, char *problem, size_t size) {
  switch (spec->kind) {
    case OPTION_FLAG:
      *(bool *)spec->target = true;
      return true;
    case OPTION_SWITCH:
      *(const char **)spec->target = value ? value : "true";
      return true;
    case OPTION_TEXT:
      *(const char **)spec->target = value;
      return true;
    case OPTION_INTEGER:
      return store_integer(spec, value, problem, size);
  }
  return false;
}

static bool takes_argument(const struct option_spec *spec) {
  return spec->kind == OPTION_TEXT || spec->kind == OPTION_INTEGER;
}

/* A cursor over the words. */
struct words {
  int count, next;
  char **values;
};

static enum option_outcome parse_long(const struct option_usage *usage, const char *word,
                                      struct words *words) {
  const char *name = word + 2;
  const char *equals = strchr(name, '=');
  size_t length = equals ? (size_t)(equals - name) : strlen(name);
  const struct option_spec *spec = find_option(usage, name, length, 0);
  if (!spec) return wrong(usage, word, length + 2, "no such option");
  const char *value = equals ? equals + 1 : NULL;
  if (value && spec->kind == OPTION_FLAG) return wrong(usage, word, length + 2, "takes no value");
  if (!value && takes_argument(spec)) {
    if (words->next == words->count) return wrong(usage, word, length + 2, "needs a value");
    value = words->values[words->next++];
  }
  char problem[96];
  if (!store(spec, value, problem, sizeof problem)) return wrong(usage, word, length + 2, problem);
  return OPTIONS_PARSED;
}

/* -e, -en5, -n5, -n 5 */
static enum option_outcome parse_letters(const struct option_usage *usage, const char *word,
                                         struct words *words) {
  for (const char *letter = word + 1; *letter; letter++) {
    const char shown[] = {'-', *letter, '\0'};
    const struct option_spec *spec = find_option(usage, NULL, 0, *letter);
    if (*letter == 'h' && !spec) {
      options_show_help(usage);
      return OPTIONS_HELP_SHOWN;
    }
    if (!spec) return wrong(usage, shown, 2, "no such option");
    const char *value = NULL;
    if (takes_argument(spec)) {
      value = letter + 1;
      if (!*value && words->next == words->count) return wrong(usage, shown, 2, "needs a value");
      if (!*value) value = words->values[words->next++];
    }
    char problem[96];
    if (!store(spec, value, problem, sizeof problem)) return wrong(usage, shown, 2, problem);
    if (value) break;
  }
  return OPTIONS_PARSED;
}

enum option_outcome options_parse(const struct option_usage *usage, int argc, char **argv,
                                  int *word_count) {
  struct words words = {.count = argc, .next = 1, .values = argv};
  int kept = 0;
  bool ended = false;
  while (words.next < argc) {
    char *word = argv[words.next++];
    if (ended || word[0] != '-' || word[1] == '\0') {
      argv[kept++] = word;
      ended = ended || usage->stop_at_word;
      continue;
    }
    if (strcmp(word, "--") == 0) {
      ended = true;
      continue;
    }
    if (strcmp(word, "--help") == 0) {
      options_show_help(usage);
      return OPTIONS_HELP_SHOWN;
    }
    enum option_outcome outcome =
        word[1] == '-' ? parse_long(usage, word, &words) : parse_letters(usage, word, &words);
    if (outcome != OPTIONS_PARSED) return outcome;
  }
  *word_count = kept;
  return OPTIONS_PARSED;
}

/* ---- help ------------------------------------------------------------------------------------ */

/* Text broken at blanks into lines of at most 78 columns, each indented; line feeds begin a new
 * line. */
static void print_wrapped(const char *text, int indent) {
  int column = 0;
  while (*text) {
    size_t length = strcspn(text, " \n");
    if (column > 0 && column + 1 + (int)length > 78) {
      putchar('\n');
      column = 0;
    }
    column += column == 0 ? printf("%*s", indent, "") : printf(" ");
    printf("%.*s", (int)length, text);
    column += (int)length;
    text += length;
    if (*text == '\n') {
      putchar('\n');
      column = 0;
      text++;
      while (*text == '\n') putchar(*text++);
      continue;
    }
    if (*text == ' ') text++;
  }
  putchar('\n');
}

static void print_options(const char *title, const struct option_spec *specs, size_t count) {
  if (count == 0) return;
  printf("\n%s\n", title);
  for (size_t i = 0; i < count; i++) {
    const struct option_spec *spec = &specs[i];
    printf("  ");
    if (spec->letter) printf("-%c, ", spec->letter);
    printf("--%s", spec->name);
    if (spec->argument && spec->kind == OPTION_SWITCH) printf("[=%s]", spec->argument);
    if (spec->argument && spec->kind != OPTION_SWITCH) printf(" %s", spec->argument);
    putchar('\n');
    print_wrapped(spec->help, 10);
  }
}

void options_show_help(const struct option_usage *usage) {
  printf("Usage: pgcursus %s%s%s\n\n", usage->command, *usage->command ? " " : "", usage->synopsis);
  print_wrapped(usage->description, 2);
  print_options("Options:", usage->options, usage->option_count);
  print_options("Common options:", usage->common, usage->common_count);
  if (usage->examples) printf("\nExamples:\n%s", usage->examples);
}
