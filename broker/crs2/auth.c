/* Authentication and authorisation of calls. Holds no secret: users live in the configuration. */
#include "crs2/auth.h"

#include <openssl/crypto.h>
#include <string.h>

#include "base/text.h"
#include "crs2/call.h"
#include "crs2/commands.h"
#include "crs2/crs2.h"
#include "crs2/fields.h"
#include "crs2/handlers.h"
#include "crs2/session.h"
#include "log/topics.h"

static const struct config_user *find_user(const struct crs2 *crs2, struct slice principal) {
  const struct config_users *users = &crs2->config->sasl_users;
  for (unsigned i = 0; i < users->count; i++) {
    if (slice_equals_text(principal, users->items[i].principal)) return &users->items[i];
  }
  return NULL;
}

static bool token_matches(const struct config_user *user, struct slice token) {
  size_t length = strlen(user->token);
  return length == token.length && CRYPTO_memcmp(user->token, token.data, length) == 0;
}

bool auth_login(struct call *call, struct slice principal, struct slice token) {
  if (!call->crs2->config->enable_sasl) return false;
  const struct config_user *user = find_user(call->crs2, principal);
  if (user == NULL || !token_matches(user, token)) return false;
  session_set_principal(call->session, user->principal);
  return true;
}

static bool is_auth_field(const struct request_field *field) {
  return slice_equals_text(field->name, "principal") ||
         slice_equals_text(field->name, "auth_token");
}

bool auth_fields_only(const struct call *call) {
  if (call->command->permissions == 0 || call->fields.positional_count) return false;
  for (uint16_t i = 0; i < call->fields.field_count; i++) {
    if (!is_auth_field(&call->fields.fields[i])) return false;
  }
  return true;
}

/* True when the call may go on; else it has been answered. */
static bool check_inline(struct call *call) {
  struct slice principal = text_trim(call_field(call, "principal"));
  struct slice token = call_field(call, "auth_token");
  if (principal.length == 0 && token.length == 0) return true;
  if (principal.length == 0 || token.length == 0) {
    call_fail(call, "invalid_auth", FIELD_TEXT("reason", "principal_and_auth_token_required"));
    return false;
  }
  if (!auth_login(call, principal, token)) {
    call_fail(call, "authentication_failed", FIELD_TEXT("mechanism", "PLAIN"));
    return false;
  }
  return true;
}

/* The permissions a call needs: the table's, but for FIND_COORDINATOR, where they hang on what is
 * looked for. */
static unsigned needed_permissions(const struct call *call) {
  if (call->command->id == COMMAND_FIND_COORDINATOR && call_field(call, "group").length == 0 &&
      (call_field(call, "transactional_id").length || call_field(call, "txn").length ||
       call_field(call, "transaction").length)) {
    return CONFIG_PERMISSION_TRANSACTION;
  }
  return call->command->permissions;
}

/* The first permission missing, in the order of the matrix, or NULL. */
static const char *missing_permission(const struct call *call, unsigned granted) {
  static const struct {
    unsigned bit;
    const char *name;
  } order[] = {{CONFIG_PERMISSION_ADMIN, "admin"},
               {CONFIG_PERMISSION_TRANSACTION, "transaction"},
               {CONFIG_PERMISSION_TOPIC_READ, "topic.read"},
               {CONFIG_PERMISSION_TOPIC_WRITE, "topic.write"},
               {CONFIG_PERMISSION_GROUP, "group"}};
  unsigned missing = needed_permissions(call) & ~granted;
  for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
    if (missing & order[i].bit) return order[i].name;
  }
  return NULL;
}

static bool check_permissions(struct call *call) {
  const char *principal = session_principal(call->session);
  if (principal == NULL) {
    call_fail_command(call, "authentication_required");
    return false;
  }
  const struct config_user *user = find_user(call->crs2, slice_text(principal));
  if (user == NULL) {
    call_fail(call, "authentication_failed", FIELD_TEXT("principal", principal));
    return false;
  }
  const char *missing = missing_permission(call, user->permissions);
  if (missing) {
    call_fail(call, "NOT_AUTHORIZED_FOR_OPERATION", FIELD_TEXT("command", call->command->name),
              FIELD_TEXT("permission", missing));
    return false;
  }
  return true;
}

/* ------------------------------------------------------------------ the policy of the topic named
 */

struct policy_check {
  struct topic_load load; /* first */
  struct call *call;
  struct slice topic;
  void (*proceed)(struct call *call);
};

/* The operation that the policy denies, or NULL. */
static const char *denied_operation(const struct call *call, const struct topic *topic) {
  const char *principal = session_principal(call->session);
  unsigned needed = call->command->permissions;
  if ((needed & CONFIG_PERMISSION_TOPIC_READ) &&
      !topic_allows(topic, TOPIC_READ_ACCESS, principal)) {
    return "read";
  }
  if ((needed & CONFIG_PERMISSION_TOPIC_WRITE) &&
      !topic_allows(topic, TOPIC_WRITE_ACCESS, principal)) {
    return "write";
  }
  return NULL;
}

static void on_policy_loaded(struct topic_load *load, enum control_status status,
                             struct topic *topic, const char *reason) {
  struct policy_check *check = (struct policy_check *)load;
  struct call *call = check->call;
  if (status != CONTROL_OK) {
    call_fail_control_status(call, status, reason);
    return;
  }
  const char *denied = topic ? denied_operation(call, topic) : NULL;
  if (denied == NULL) {
    check->proceed(call);
  } else {
    call_fail(call, "NOT_AUTHORIZED_FOR_TOPIC", FIELD_TEXT("operation", denied),
              FIELD_SLICE("topic", check->topic));
  }
}

static void check_policy(struct call *call, void (*proceed)(struct call *call)) {
  struct slice name = call->is_batch ? call->batch.topic : call_field(call, "topic");
  unsigned topical = CONFIG_PERMISSION_TOPIC_READ | CONFIG_PERMISSION_TOPIC_WRITE;
  if (!(call->command->permissions & topical) || field_check_topic_name(name) != NULL) {
    proceed(call);
    return;
  }
  /* A refusal must not rest on a cached definition: another node may just have changed it. */
  struct topic *topic = topics_find(call->crs2->topics, name);
  if (topic && denied_operation(call, topic) == NULL) {
    proceed(call);
    return;
  }
  struct policy_check *check = arena_allocate_zeroed(&call->arena, sizeof *check);
  check->call = call;
  check->topic = name;
  check->proceed = proceed;
  check->load.on_done = on_policy_loaded;
  check->load.call.deadline_us = call->deadline_us;
  topics_load(call->crs2->topics, &check->load, name);
}

void auth_check(struct call *call, void (*proceed)(struct call *call)) {
  if (call->command->permissions == 0) {
    proceed(call);
    return;
  }
  if (!call->is_batch && !check_inline(call)) return;
  if (!call->crs2->config->enable_sasl) {
    proceed(call);
    return;
  }
  if (check_permissions(call)) check_policy(call, proceed);
}
