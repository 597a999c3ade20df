/* The worker pool: one queue of jobs to run, one of jobs that ran, a mutex over both.
 *
 * Only the loop's thread submits jobs and calls `done`; only worker threads call `run` (except for
 * jobs submitted by a `done` during the stop, when no thread is left). The lock is never held over
 * either. */
#include "base/worker.h"

#include <errno.h>
#include <ev.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/memory.h"

struct job_queue {
  struct worker_job *first, *last;
};

struct worker_pool {
  struct ev_loop *loop;
  ev_async wake;
  pthread_mutex_t lock; /* over everything below */
  pthread_cond_t work;
  struct job_queue waiting, finished;
  atomic_bool stopping; /* also read without the lock */
  unsigned thread_count;
  pthread_t *threads;
};

bool worker_pool_is_stopping(const struct worker_pool *pool) {
  return atomic_load(&pool->stopping);
}

static void queue_push(struct job_queue *queue, struct worker_job *job) {
  job->next = NULL;
  if (queue->last)
    queue->last->next = job;
  else
    queue->first = job;
  queue->last = job;
}

static struct worker_job *queue_pop(struct job_queue *queue) {
  struct worker_job *job = queue->first;
  if (!job) return NULL;
  queue->first = job->next;
  if (!queue->first) queue->last = NULL;
  job->next = NULL;
  return job;
}

/* The next job, or NULL when the pool stops and nothing is left to do. */
static struct worker_job *worker_next_job(struct worker_pool *pool) {
  pthread_mutex_lock(&pool->lock);
  while (!pool->waiting.first && !pool->stopping) pthread_cond_wait(&pool->work, &pool->lock);
  struct worker_job *job = queue_pop(&pool->waiting);
  pthread_mutex_unlock(&pool->lock);
  return job;
}

static void *worker_main(void *argument) {
  struct worker_pool *pool = argument;
  struct worker_job *job;
  while ((job = worker_next_job(pool))) {
    job->run(job);
    pthread_mutex_lock(&pool->lock);
    queue_push(&pool->finished, job);
    pthread_mutex_unlock(&pool->lock);
    ev_async_send(pool->loop, &pool->wake);
  }
  return NULL;
}

/* Takes the finished jobs in one go: a `done` that submits another job must find the lock free. */
static void pool_report_finished(struct worker_pool *pool) {
  pthread_mutex_lock(&pool->lock);
  struct job_queue finished = pool->finished;
  pool->finished = (struct job_queue){0};
  pthread_mutex_unlock(&pool->lock);
  struct worker_job *job;
  while ((job = queue_pop(&finished))) job->done(job);
}

static void pool_on_wake(struct ev_loop *loop, ev_async *watcher, int events) {
  (void)loop;
  (void)events;
  pool_report_finished(watcher->data);
}

/* Signals belong to the loop's thread, so the workers are born with all of them blocked. */
static int pool_start_threads(struct worker_pool *pool, unsigned threads) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failure = 0;
  while (pool->thread_count < threads && failure == 0) {
    failure = pthread_create(&pool->threads[pool->thread_count], NULL, worker_main, pool);
    if (failure == 0) pool->thread_count++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return failure;
}

static void pool_join_threads(struct worker_pool *pool) {
  pthread_mutex_lock(&pool->lock);
  pool->stopping = true;
  pthread_cond_broadcast(&pool->work);
  pthread_mutex_unlock(&pool->lock);
  for (unsigned i = 0; i < pool->thread_count; i++) pthread_join(pool->threads[i], NULL);
}

struct worker_pool *worker_pool_start(struct ev_loop *loop, unsigned threads) {
  struct worker_pool *pool = memory_allocate_zeroed(1, sizeof *pool);
  pool->loop = loop;
  pool->threads = memory_allocate_zeroed(threads, sizeof *pool->threads);
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->work, NULL);
  ev_async_init(&pool->wake, pool_on_wake);
  pool->wake.data = pool;
  ev_async_start(loop, &pool->wake);
  ev_unref(loop);
  int failure = pool_start_threads(pool, threads);
  if (failure == 0) return pool;
  worker_pool_stop(pool);
  errno = failure;
  return NULL;
}

void worker_pool_submit(struct worker_pool *pool, struct worker_job *job) {
  pthread_mutex_lock(&pool->lock);
  queue_push(&pool->waiting, job);
  pthread_cond_signal(&pool->work);
  pthread_mutex_unlock(&pool->lock);
}

void worker_pool_stop(struct worker_pool *pool) {
  pool_join_threads(pool);
  /* What a `done` submits from here on has no thread to run on, so it runs here. */
  pool_report_finished(pool);
  struct worker_job *job;
  while ((job = queue_pop(&pool->waiting))) {
    job->run(job);
    job->done(job);
  }
  ev_ref(pool->loop);
  ev_async_stop(pool->loop, &pool->wake);
  pthread_cond_destroy(&pool->work);
  pthread_mutex_destroy(&pool->lock);
  free(pool->threads);
  free(pool);
}
