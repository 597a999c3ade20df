/* Authentication and authorisation of calls. Holds no secret: cluster/users compares tokens. */
#include "crs2/auth.h"

#include "base/text.h"
#include "cluster/users.h"
#include "crs2/call.h"
#include "crs2/commands.h"
#include "crs2/crs2.h"
#include "crs2/fields.h"
#include "crs2/handlers.h"
#include "crs2/session.h"
#include "log/topics.h"

struct login {
  struct user_login login; /* first */
  struct call *call;
  void (*accepted)(struct call *call, void (*proceed)(struct call *call));
  void (*proceed)(struct call *call);
};

static void refuse_login(struct call *call) {
  call_fail(call, "authentication_failed", FIELD_TEXT("mechanism", "PLAIN"));
}

static void on_login_done(struct user_login *user_login, enum login_outcome outcome) {
  struct login *login = (struct login *)user_login;
  struct call *call = login->call;
  switch (outcome) {
    case LOGIN_ACCEPTED:
      session_set_principal(call->session, arena_copy_text(&call->arena, login->login.principal));
      login->accepted(call, login->proceed);
      break;
    case LOGIN_REFUSED:
      refuse_login(call);
      break;
    case LOGIN_UNKNOWN:
      call_fail_control_status(call, CONTROL_UNAVAILABLE, "the users have not been read yet");
      break;
  }
}

void auth_login(struct call *call, struct slice principal, struct slice token,
                void (*accepted)(struct call *call, void (*proceed)(struct call *call)),
                void (*proceed)(struct call *call)) {
  if (!call->crs2->config->enable_sasl) {
    refuse_login(call);
    return;
  }
  struct login *login = arena_allocate_zeroed(&call->arena, sizeof *login);
  login->login =
      (struct user_login){.principal = principal, .token = token, .on_done = on_login_done};
  login->call = call;
  login->accepted = accepted;
  login->proceed = proceed;
  users_login(call->crs2->users, &login->login);
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
  unsigned granted;
  if (!users_find(call->crs2->users, slice_text(principal), &granted)) {
    call_fail(call, "authentication_failed", FIELD_TEXT("principal", principal));
    return false;
  }
  const char *missing = missing_permission(call, granted);
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

static void check_identity(struct call *call, void (*proceed)(struct call *call)) {
  if (!call->crs2->config->enable_sasl) {
    proceed(call);
  } else if (check_permissions(call)) {
    check_policy(call, proceed);
  }
}

void auth_check(struct call *call, void (*proceed)(struct call *call)) {
  if (call->command->permissions == 0) {
    proceed(call);
    return;
  }
  struct slice principal = text_trim(call_field(call, "principal"));
  struct slice token = call_field(call, "auth_token");
  if (call->is_batch || (principal.length == 0 && token.length == 0)) {
    check_identity(call, proceed);
  } else if (principal.length == 0 || token.length == 0) {
    call_fail(call, "invalid_auth", FIELD_TEXT("reason", "principal_and_auth_token_required"));
  } else {
    auth_login(call, principal, token, check_identity, proceed);
  }
}
