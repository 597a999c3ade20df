/* AUTH, HELP and EXIT: commands about the connection itself (commands-1 1.4, 2.6, 2.12). */
#include "base/text.h"
#include "crs2/auth.h"
#include "crs2/call.h"
#include "crs2/commands.h"
#include "crs2/handlers.h"

static void answer_login(struct call *call, void (*proceed)(struct call *call)) {
  (void)proceed;
  struct slice principal = text_trim(call_field(call, "principal"));
  call_reply_format(call, "OK principal=%.*s authenticated=true", (int)principal.length,
                    (const char *)principal.data);
}

void handle_auth(struct call *call) {
  struct slice principal = text_trim(call_field(call, "principal"));
  struct slice token = call_field(call, "token");
  if (principal.length == 0 || token.length == 0) {
    call_fail_command(call, "invalid_auth");
    return;
  }
  auth_login(call, principal, token, answer_login, NULL);
}

void handle_help(struct call *call) {
  struct buffer answer = {0};
  size_t count;
  const struct command *commands = command_table(&count);
  const char *separator = "OK commands=";
  for (size_t i = 0; i < count; i++) {
    if (!commands[i].is_listed) continue;
    buffer_append_text(&answer, separator);
    buffer_append_text(&answer, commands[i].name);
    separator = ",";
  }
  call_reply_bytes(call, buffer_slice(&answer));
  buffer_release(&answer);
}

void handle_exit(struct call *call) {
  call->closes_session = true;
  call_reply_format(call, "OK");
}
