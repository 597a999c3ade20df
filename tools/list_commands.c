/* Prints the reference page of CRS2 commands from the command table. Part of `make docs`. */
#include <stdio.h>

#include "config/config.h"
#include "crs2/commands.h"

static void print_permissions(unsigned permissions) {
  static const struct {
    unsigned bit;
    const char *name;
  } names[] = {{CONFIG_PERMISSION_ADMIN, "admin"},
               {CONFIG_PERMISSION_TRANSACTION, "transaction"},
               {CONFIG_PERMISSION_TOPIC_READ, "topic.read"},
               {CONFIG_PERMISSION_TOPIC_WRITE, "topic.write"},
               {CONFIG_PERMISSION_GROUP, "group"}};
  const char *separator = "";
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (!(permissions & names[i].bit)) continue;
    printf("%s%s", separator, names[i].name);
    separator = ", ";
  }
  if (permissions == 0) printf("none");
}

int main(void) {
  static const char *const availability[] = {"served", "answers `unknown_command` for now",
                                             "internal"};
  size_t count;
  const struct command *commands = command_table(&count);
  puts(
      "# CRS2 commands\n\nMade by `make docs` from the table in `broker/crs2/commands.c`. Fields "
      "in brackets "
      "are optional.\n");
  puts("| id | command | fields | permissions | |\n|---|---|---|---|---|");
  for (size_t i = 0; i < count; i++) {
    const struct command *command = &commands[i];
    if (command->availability == COMMAND_INTERNAL) continue;
    printf("| %u | %s | %s | ", command->id, command->name, command->fields);
    print_permissions(command->permissions);
    printf(" | %s (%s) |\n", command->summary, availability[command->availability]);
  }
  return 0;
}
