/* Options of the command line: one table a command drives both parsing and --help. */
#ifndef PGCURSUS_CLI_OPTIONS_H
#define PGCURSUS_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_kind {
  OPTION_FLAG,    /* bool *: set to true */
  OPTION_SWITCH,  /* const char **: "true", or what follows `=` */
  OPTION_TEXT,    /* const char ** */
  OPTION_INTEGER, /* int64_t *: between minimum and maximum */
};

struct option_spec {
  char letter; /* 0 = none */
  const char *name;
  const char *argument; /* as shown in the help; NULL for flags */
  enum option_kind kind;
  void *target;
  int64_t minimum, maximum; /* of integers; both 0 = any that is not negative */
  const char *help;
};

/* What --help of one command says. */
struct option_usage {
  const char *command;     /* "topic create" */
  const char *synopsis;    /* what follows the command */
  const char *description; /* paragraphs */
  const char *examples;    /* may be NULL */
  const struct option_spec *options;
  size_t option_count;
  const struct option_spec *common; /* options that every command has */
  size_t common_count;
  bool stop_at_word; /* leave everything from the first word that is no option */
};

enum option_outcome { OPTIONS_PARSED, OPTIONS_HELP_SHOWN, OPTIONS_WRONG };

/* Parses argv[1 ..]; the words that are no options are moved to argv[0 ..] and counted in
 * `word_count`. `--` ends the options. On OPTIONS_WRONG a sentence has been written to stderr. */
enum option_outcome options_parse(const struct option_usage *usage, int argc, char **argv,
                                  int *word_count) __attribute__((warn_unused_result));

/* Writes the help to stdout. */
void options_show_help(const struct option_usage *usage);

#endif
