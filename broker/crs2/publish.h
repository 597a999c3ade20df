/* What single and batch PUBLISH, and TXN_PUBLISH, share: one publish from its checks to its
 * acknowledgement. Private to cmd_publish*.c and cmd_txn_publish.c. */
#ifndef PGCURSUS_CRS2_PUBLISH_H
#define PGCURSUS_CRS2_PUBLISH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/worker.h"
#include "crs2/call.h"
#include "log/append.h"
#include "log/topics.h"

/* The outcome of checks against a topic's definition. */
enum publish_verdict {
  PUBLISH_PASSED,
  PUBLISH_REFUSED,  /* the call has been answered */
  PUBLISH_DOUBTFUL, /* a cached definition says no, which must not be the last word */
};

struct publish {
  struct append_item item; /* first: append's callback gets it */
  struct topic_load load;
  struct call *call;
  struct slice topic; /* in the call's arena */
  bool acks_all;
  bool wants_idempotence; /* isIdempotent, or the batch's flag */
  unsigned attempts;
  bool is_fresh; /* the definition was read for this publish */
  /* The checks that need the topic, and the choice of the partition. */
  enum publish_verdict (*check)(struct publish *publish, const struct topic *topic,
                                bool idempotent);
  /* Makes the rows. NULL, or why a record cannot be stored, with `refusal` set. Called once, on a
   * worker thread when the payload is large, so it touches the publish and its call's payload only.
   */
  const char *(*build)(struct publish *publish);
  bool is_idempotent;  /* what build goes by */
  const char *refusal; /* the code that goes with build's reason */
  const char *refusal_reason;
  struct worker_job job;
  /* May take the outcome for itself: true when it has answered the call, or will. NULL: none does.
   */
  bool (*answer)(struct publish *publish, const struct append_result *result);
  /* for the acknowledgement */
  struct slice producer_id;
  int64_t producer_epoch;
  int64_t first_sequence;
  int64_t last_sequence;
  void *source; /* the form's own */
};

struct publish *publish_create(struct call *call, struct slice topic)
    __attribute__((returns_nonnull, warn_unused_result));

/* Finds the topic and goes on from there to the end. */
void publish_run(struct publish *publish);

/* Whether a number may be stored as a bigint (ruling D-2). */
bool publish_fits_bigint(uint64_t value);

/* Whether a record would fit a frame on its way to a consumer. */
bool publish_fits_frame(const struct log_record *record);
extern const char publish_too_large[]; /* the reason, with broker_error, when it does not */

/* The same; false when the call has been answered. */
bool publish_check_size(struct call *call, const struct log_record *record);

/* Checks that both forms make, each in its own order. */
enum publish_verdict publish_check_write_access(struct publish *publish, const struct topic *topic);
enum publish_verdict publish_check_replay_topic(struct publish *publish, const struct topic *topic);
enum publish_verdict publish_check_idempotent_acks(struct publish *publish, bool idempotent);
enum publish_verdict publish_fail_partition(struct publish *publish, int64_t partition);
enum publish_verdict publish_fail_transaction_fields(struct publish *publish);

void handle_publish_single(struct call *call);
void handle_publish_batch(struct call *call);

#endif
