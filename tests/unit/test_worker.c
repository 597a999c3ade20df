/* The worker pool against a real event loop. */
#include "base/worker.h"

#include <ev.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "unit.h"

struct test_job {
  struct worker_job job; /* first, so that a job is its test_job */
  struct worker_pool *pool;
  struct ev_loop *loop;
  pthread_t ran_on;
  unsigned order;
  bool resubmit;
};

static pthread_t loop_thread;
static atomic_uint run_count;
static unsigned done_count, done_wanted;

static void run(struct worker_job *job) {
  struct test_job *test = (struct test_job *)job;
  test->ran_on = pthread_self();
  test->order = atomic_fetch_add(&run_count, 1);
}

static void run_slowly(struct worker_job *job) {
  usleep(20000);
  run(job);
}

static void done(struct worker_job *job) {
  struct test_job *test = (struct test_job *)job;
  assert_true(pthread_equal(pthread_self(), loop_thread));
  done_count++;
  if (test->resubmit) {
    test->resubmit = false;
    worker_pool_submit(test->pool, job);
  } else if (done_count == done_wanted) {
    ev_break(test->loop, EVBREAK_ALL);
  }
}

static void expire(struct ev_loop *loop, ev_timer *timer, int events) {
  (void)timer, (void)events;
  ev_break(loop, EVBREAK_ALL);
}

/* Runs the loop until the wanted number of jobs is done, 60 s at most. */
static void run_loop(struct ev_loop *loop) {
  ev_timer timer;
  ev_timer_init(&timer, expire, 60., 0.);
  ev_timer_start(loop, &timer);
  ev_run(loop, 0);
  ev_timer_stop(loop, &timer);
}

static int reset(void **state) {
  *state = ev_loop_new(EVFLAG_AUTO);
  loop_thread = pthread_self();
  run_count = done_count = done_wanted = 0;
  return *state ? 0 : -1;
}

static int tear_down(void **state) {
  ev_loop_destroy(*state);
  return 0;
}

static void jobs_run_on_threads_and_end_on_the_loop(void **state) {
  struct ev_loop *loop = *state;
  struct worker_pool *pool = worker_pool_start(loop, 3);
  struct test_job jobs[200];
  assert_non_null(pool);
  done_wanted = 200;
  for (unsigned i = 0; i < 200; i++) {
    jobs[i] = (struct test_job){.job = {.run = run, .done = done}, .pool = pool, .loop = loop};
    worker_pool_submit(pool, &jobs[i].job);
  }
  run_loop(loop);
  assert_int_equal(done_count, 200);
  for (unsigned i = 0; i < 200; i++) assert_false(pthread_equal(jobs[i].ran_on, loop_thread));
  worker_pool_stop(pool);
}

static void one_thread_keeps_the_order(void **state) {
  struct ev_loop *loop = *state;
  struct worker_pool *pool = worker_pool_start(loop, 1);
  struct test_job jobs[50];
  done_wanted = 50;
  for (unsigned i = 0; i < 50; i++) {
    jobs[i] = (struct test_job){.job = {.run = run, .done = done}, .pool = pool, .loop = loop};
    worker_pool_submit(pool, &jobs[i].job);
  }
  run_loop(loop);
  for (unsigned i = 0; i < 50; i++) assert_int_equal(jobs[i].order, i);
  worker_pool_stop(pool);
}

static void done_may_submit_again(void **state) {
  struct ev_loop *loop = *state;
  struct worker_pool *pool = worker_pool_start(loop, 2);
  struct test_job job = {
      .job = {.run = run, .done = done}, .pool = pool, .loop = loop, .resubmit = true};
  done_wanted = 2;
  worker_pool_submit(pool, &job.job);
  run_loop(loop);
  assert_int_equal(done_count, 2);
  worker_pool_stop(pool);
}

static void stopping_finishes_what_is_queued(void **state) {
  struct ev_loop *loop = *state;
  struct worker_pool *pool = worker_pool_start(loop, 2);
  struct test_job jobs[10];
  for (unsigned i = 0; i < 10; i++) {
    jobs[i] = (struct test_job){
        .job = {.run = run_slowly, .done = done}, .pool = pool, .loop = loop, .resubmit = i == 9};
    worker_pool_submit(pool, &jobs[i].job);
  }
  worker_pool_stop(pool); /* the loop never ran */
  assert_int_equal(run_count, 11);
  assert_int_equal(done_count, 11);
}

static void an_idle_pool_does_not_keep_the_loop_alive(void **state) {
  struct ev_loop *loop = *state;
  struct worker_pool *pool = worker_pool_start(loop, 1);
  ev_run(loop, 0); /* returns at once: nothing else is active */
  worker_pool_stop(pool);
  ev_run(loop, 0);
}

static void read_mask(struct worker_job *job) {
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, NULL, &blocked);
  ((struct test_job *)job)->order = sigismember(&blocked, SIGTERM) == 1;
}

static void workers_take_no_signals(void **state) {
  struct worker_pool *pool = worker_pool_start(*state, 1);
  struct test_job job = {.job = {.run = read_mask, .done = done}, .pool = pool, .loop = *state};
  worker_pool_submit(pool, &job.job);
  worker_pool_stop(pool);
  assert_int_equal(job.order, 1);
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, NULL, &blocked);
  assert_int_equal(sigismember(&blocked, SIGTERM), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(jobs_run_on_threads_and_end_on_the_loop, reset, tear_down),
      cmocka_unit_test_setup_teardown(one_thread_keeps_the_order, reset, tear_down),
      cmocka_unit_test_setup_teardown(done_may_submit_again, reset, tear_down),
      cmocka_unit_test_setup_teardown(stopping_finishes_what_is_queued, reset, tear_down),
      cmocka_unit_test_setup_teardown(an_idle_pool_does_not_keep_the_loop_alive, reset, tear_down),
      cmocka_unit_test_setup_teardown(workers_take_no_signals, reset, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
