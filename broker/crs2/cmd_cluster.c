/* FIND_COORDINATOR (commands-1 2.10). Every node serves every group and transaction, so the answer
 * is the address that this node tells clients. */
#include <string.h>

#include "crs2/call.h"
#include "crs2/commands.h"
#include "crs2/crs2.h"
#include "crs2/handlers.h"

void handle_find_coordinator(struct call *call) {
  static const char *const keys[] = {"group", "transactional_id", "txn", "transaction"};
  const char *address = call->crs2->advertised;
  const char *colon = strrchr(address, ':');
  bool has_key = false;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    has_key = has_key || call_field(call, keys[i]).length > 0;
  }
  if (!has_key) {
    call_fail_command(call, "missing_coordinator_key");
    return;
  }
  call_reply_format(call, "OK coordinator_id=%s host=%.*s port=%s", call->crs2->node_id,
                    (int)(colon ? colon - address : 0), address, colon ? colon + 1 : "");
}
