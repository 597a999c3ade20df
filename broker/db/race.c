/* Owns the sessions that are being opened. A runner is in one state; only the functions on it
 * change that. Must not judge a session: who wins is the caller's to say. */
#include "db/race.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"

#define HEAD_START_US 250000 /* RFC 8305, section 8 */
#define ASK_AGAIN_US 400000

enum runner_state { WAITING, CONNECTING, REFUSED, GIVEN };

struct runner {
  enum runner_state state;
  PGconn *pg; /* while CONNECTING */
  PostgresPollingStatusType wants;
  int64_t start_us; /* when it (WAITING) starts or (REFUSED) is asked again */
  char *answer;     /* the last refusal; NULL: it never answered */
};

struct db_race {
  const struct db_hosts *hosts;
  const struct db_patience *patience;
  struct pollfd *descriptors;
  struct runner runners[];
};

struct db_race *db_race_start(const struct db_hosts *hosts, const struct db_patience *patience) {
  struct db_race *race =
      memory_allocate_zeroed(1, sizeof *race + hosts->count * sizeof *race->runners);
  race->hosts = hosts;
  race->patience = patience;
  race->descriptors = memory_allocate_zeroed(hosts->count, sizeof *race->descriptors);
  int64_t now_us = clock_monotonic_us();
  for (unsigned i = 0; i < hosts->count; i++) {
    race->runners[i].start_us = now_us + i * HEAD_START_US;
  }
  return race;
}

/* The next in line need not wait as for one that is silent. */
static void refuse(struct db_race *race, struct runner *runner, const char *reason) {
  for (unsigned i = 0; runner->answer == NULL && i < race->hosts->count; i++) {
    race->runners[i].start_us -= HEAD_START_US;
  }
  free(runner->answer);
  runner->answer = memory_copy_text(reason);
  PQfinish(runner->pg);
  runner->pg = NULL;
  runner->state = REFUSED;
  runner->start_us = clock_monotonic_us() + ASK_AGAIN_US;
}

void db_race_refuse(struct db_race *race, unsigned number, const char *reason) {
  refuse(race, &race->runners[number], reason);
}

static void start(struct db_race *race, unsigned number) {
  struct runner *runner = &race->runners[number];
  runner->pg = db_hosts_start(race->hosts, number);
  runner->wants = PGRES_POLLING_WRITING; /* as libpq says of a connection just started */
  runner->state = CONNECTING;
  if (PQstatus(runner->pg) == CONNECTION_BAD) refuse(race, runner, PQerrorMessage(runner->pg));
}

/* Nobody waits for one that may not come when all that started have refused. */
static bool is_anyone_connecting(const struct db_race *race) {
  for (unsigned i = 0; i < race->hosts->count; i++) {
    if (race->runners[i].state == CONNECTING) return true;
  }
  return false;
}

/* Starts those whose time has come; the next in line at once when none is on its way. False when
 * there is none left to wait for. */
static bool start_due(struct db_race *race) {
  int64_t now_us = clock_monotonic_us();
  bool is_racing = is_anyone_connecting(race);
  for (unsigned i = 0; i < race->hosts->count; i++) {
    struct runner *runner = &race->runners[i];
    bool is_due = (runner->state == WAITING && (!is_racing || now_us >= runner->start_us)) ||
                  (runner->state == REFUSED && is_racing && now_us >= runner->start_us);
    if (is_due) start(race, i);
    is_racing = is_racing || runner->state == CONNECTING;
  }
  return is_racing;
}

/* Milliseconds until something must be started, at most `limit`. */
static int until_next_start(const struct db_race *race, int limit) {
  int64_t now_us = clock_monotonic_us();
  for (unsigned i = 0; i < race->hosts->count; i++) {
    const struct runner *runner = &race->runners[i];
    if (runner->state != WAITING && runner->state != REFUSED) continue;
    int64_t left_ms = (runner->start_us - now_us) / 1000 + 1;
    if (left_ms < limit) limit = left_ms < 0 ? 0 : (int)left_ms;
  }
  return limit;
}

/* Waits a turn for any of the sockets. */
static void wait_turn(struct db_race *race) {
  for (unsigned i = 0; i < race->hosts->count; i++) {
    const struct runner *runner = &race->runners[i];
    bool is_reading = runner->wants == PGRES_POLLING_READING;
    /* poll() passes over negative descriptors. libpq may take a new socket at every step. */
    race->descriptors[i] =
        (struct pollfd){.fd = runner->state == CONNECTING ? PQsocket(runner->pg) : -1,
                        .events = is_reading ? POLLIN : POLLOUT};
  }
  int left_ms = until_next_start(race, db_patience_turn_ms(race->patience));
  if (poll(race->descriptors, race->hosts->count, left_ms) < 0) {
    for (unsigned i = 0; i < race->hosts->count; i++) race->descriptors[i].revents = 0;
  }
}

/* One step of a runner whose socket is ready. The session when it is there, else NULL. */
static PGconn *step(struct db_race *race, struct runner *runner) {
  runner->wants = PQconnectPoll(runner->pg);
  if (runner->wants == PGRES_POLLING_FAILED) refuse(race, runner, PQerrorMessage(runner->pg));
  if (runner->wants != PGRES_POLLING_OK) return NULL;
  PGconn *pg = runner->pg;
  runner->pg = NULL;
  runner->state = GIVEN;
  return pg;
}

PGconn *db_race_next(struct db_race *race, unsigned *number) {
  while (start_due(race) && !db_patience_is_over(race->patience)) {
    wait_turn(race);
    for (unsigned i = 0; i < race->hosts->count; i++) {
      bool is_ready = race->runners[i].state == CONNECTING && race->descriptors[i].revents != 0;
      PGconn *pg = is_ready ? step(race, &race->runners[i]) : NULL;
      if (pg == NULL) continue;
      *number = i;
      return pg;
    }
  }
  return NULL;
}

char *db_race_end(struct db_race *race) {
  char *text = NULL;
  size_t size = 0;
  FILE *stream = open_memstream(&text, &size);
  for (unsigned i = 0; i < race->hosts->count; i++) {
    struct runner *runner = &race->runners[i];
    char *name = db_host_name(&race->hosts->list[i]);
    fprintf(stream, "%s", i ? "; " : "");
    if (runner->answer) {
      fprintf(stream, "%s", runner->answer);
    } else {
      fprintf(stream, "PostgreSQL (%s) gave no answer in time", name);
    }
    free(name);
    free(runner->answer);
    PQfinish(runner->pg);
  }
  fclose(stream);
  free(race->descriptors);
  free(race);
  return text;
}
