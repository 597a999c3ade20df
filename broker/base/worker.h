/* A small pool of threads for work that would hold the loop too long: (de)compression and checksums
 * of large payloads, blocking connects to PostgreSQL, large sends.
 *
 * A job's `run` is called on a worker thread; its `done` is called on the loop, in the order jobs
 * finish (wake-up by ev_async). A job owns what it touches while it runs; nothing else may. */
#ifndef PGCURSUS_BASE_WORKER_H
#define PGCURSUS_BASE_WORKER_H

#include <stdbool.h>
#include <stddef.h>

struct ev_loop;
struct worker_pool;

/* Embedded in the caller's own struct, which stays valid until `done` has been called. */
struct worker_job {
  void (*run)(struct worker_job *job);  /* on a worker thread */
  void (*done)(struct worker_job *job); /* on the loop */
  struct worker_job *next;              /* private to the pool */
};

/* Starts `threads` threads whose results come back on `loop`; NULL with errno when a thread cannot
 * be started. The pool does not keep the loop alive (ev_unref). */
struct worker_pool *worker_pool_start(struct ev_loop *loop, unsigned threads)
    __attribute__((warn_unused_result));

/* Queues a job. Jobs start in the order they were submitted. */
void worker_pool_submit(struct worker_pool *pool, struct worker_job *job);

/* True once the pool stops: a job that waits for others should give up. Any thread may ask. */
bool worker_pool_is_stopping(const struct worker_pool *pool);

/* Waits for every queued job to finish running, calls what is left of their `done`, frees the pool.
 */
void worker_pool_stop(struct worker_pool *pool);

#endif
