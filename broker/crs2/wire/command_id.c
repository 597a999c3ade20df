/* Command numbers and names. The two tables live here; nothing else may know that there are two. */
#include "crs2/wire/command_id.h"

#include <strings.h>

/* In the shifted numbering TXN_APPEND_STREAM sits at this number and pushes the standard ones up by
 * one, until its own standard place (54) is reached. */
#define SHIFTED_INSERTION COMMAND_SEND_OFFSETS_TO_TXN

static const char *const command_names[COMMAND_COUNT] = {
#define COMMAND_NAME_ROW(number, name) [number] = #name,
    COMMAND_LIST(COMMAND_NAME_ROW)
#undef COMMAND_NAME_ROW
};

uint16_t command_from_wire(enum command_numbering numbering, uint16_t wire_number) {
  if (wire_number >= COMMAND_COUNT) return 0;
  if (numbering == NUMBERING_STANDARD || wire_number < SHIFTED_INSERTION) return wire_number;
  if (wire_number == SHIFTED_INSERTION) return COMMAND_TXN_APPEND_STREAM;
  return wire_number <= COMMAND_TXN_APPEND_STREAM ? (uint16_t)(wire_number - 1) : wire_number;
}

uint16_t command_to_wire(enum command_numbering numbering, uint16_t command) {
  if (command >= COMMAND_COUNT) return 0;
  if (numbering == NUMBERING_STANDARD || command < SHIFTED_INSERTION) return command;
  if (command == COMMAND_TXN_APPEND_STREAM) return SHIFTED_INSERTION;
  return command < COMMAND_TXN_APPEND_STREAM ? (uint16_t)(command + 1) : command;
}

const char *command_name(uint16_t command) {
  const char *name = command < COMMAND_COUNT ? command_names[command] : NULL;
  return name ? name : "UNKNOWN";
}

uint16_t command_by_name(struct slice name) {
  for (unsigned command = 1; command < COMMAND_COUNT; command++) {
    const char *candidate = command_names[command];
    if (strlen(candidate) == name.length &&
        strncasecmp(candidate, (const char *)name.data, name.length) == 0)
      return (uint16_t)command;
  }
  return 0;
}
