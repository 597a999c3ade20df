#!/usr/bin/env python3
"""Members of consumer groups over several nodes: first a crowd that joins, commits and leaves at once while nothing dies,
of which every join is timed; then members that work on while nodes, connections and PostgreSQL sessions die at random.
The G and O invariants are verified on all that was answered.

    tests/fault/groups.py [--seconds N] [--seed N] [--members N] [--nodes N] [--crowd N] [--turns N]

Prints what happened and `N passed, N failed`. README.md says more.
"""

import collections
import time

import group_rules as rules
import world as stage
from history import Operation
from world import Client, harness

TIMEOUT, SWEEP = 3.0, 0.5  # of a session, and between sweeps
SETTINGS = dict(consumer_session_timeout_ms=int(TIMEOUT * 1000), consumer_heartbeat_check_ms=int(SWEEP * 1000),
                client_request_timeout_ms=20000, offset_trim_interval_ms=300)
TOPICS = {"t": 5, "u": 3, "crowd": 8}
SINGLE, SEVERAL, PAIR = "single", "several", "pair"
CROWDS = ["same"] + [f"crowd{n}" for n in range(5)]
EXPANSIONS = {SINGLE: [("t", n) for n in range(5)], SEVERAL: [(t, n) for t in "tu" for n in range(TOPICS[t])]}
EXPANSIONS |= {group: [("crowd", n) for n in range(8)] for group in CROWDS}
JOIN_SECONDS = 2.0  # on an idle machine


def read_assignment(answer, topic):
    found = answer.ok_fields
    own = dict(member=found["member"], generation=int(found["generation"])) if "member" in found else {}
    if "assignments" in found:
        return dict(own, assigned=[(topic, int(n)) for n in found["assignments"].strip("[]").split(",") if n])
    pairs = [pair.split(":P") for pair in found["topic_assignments"].split(",") if pair]
    return dict(own, assigned=[(name, int(number)) for name, number in pairs])


class Member(Client):
    """What a member of a group can do. `topic` is its only one, or None in a subscription."""

    allowed = ("GEN_MISMATCH", "NOT_OWNER", "member_not_found", "offset_regression")

    def __init__(self, world, name, group, topic):
        super().__init__(world, name)
        self.group, self.topic = group, topic
        self.id = self.generation = None
        self.mine, self.next = [], {}

    def request(self, command, fields, facts=None, read=None, **more):
        named = {"topic": self.topic} if self.topic else {}
        return self.ask(command, dict(named, group=self.group, **fields), dict(facts or {}, group=self.group), read, **more)

    def assigned(self, answer):
        return read_assignment(answer, self.topic)

    def own(self):
        return dict(member=self.id, generation=self.generation)

    def join(self):
        done = self.request("JOIN_GROUP", dict(member=self.name), {}, self.assigned)
        if done.outcome == "OK":
            self.id, self.generation, self.mine = done.member, done.generation, done.assigned

    def resume(self):
        self.settle(self.request("JOIN_GROUP", self.own(), self.own(), self.assigned, kind="RESUME"))

    def sync(self):
        done = self.request("SYNC_GROUP", self.own(), self.own(), self.assigned)
        if done.outcome == "OK":
            self.mine = done.assigned
        self.settle(done)

    def settle(self, done):
        if done.outcome == "member_not_found":
            self.id = None
        elif done.outcome == "GEN_MISMATCH":
            self.generation, self.mine = done.current, []
            self.sync()

    def beat(self):
        self.settle(self.request("HEARTBEAT", self.own(), self.own()))

    def leave(self):
        done = self.request("LEAVE_GROUP", dict(member=self.id), dict(member=self.id))
        self.id = None
        return done

    def commit(self, offsets):
        """offsets: (topic, partition) -> offset, of one topic."""
        topic, facts = next(iter(offsets))[0], dict(self.own(), group=self.group, offsets=offsets)
        fields = dict(group=self.group, topic=topic, **self.own())
        if len(offsets) == 1:
            (place, offset), = offsets.items()
            return self.ask("COMMIT_OFFSET", dict(fields, partition=place[1], offset=offset), facts)
        text = ",".join(f"P{number}:{offset}" for (_, number), offset in offsets.items())
        return self.ask("BATCH_COMMIT", dict(fields, offsets=text), facts)

    def status(self):
        def read(answer):
            found, assignments = answer.json, {}
            for member in found["members"]:
                pairs = [(p["topic"], p["partition"]) for p in member.get("topic_assignments", ())]
                assignments[member["member_id"]] = pairs + [(self.topic, n) for n in member["assignments"]]
            return dict(generation=found["generation"], assignments=assignments)

        return self.ask("GROUP_STATUS", dict(group=self.group), dict(group=self.group), read)


class Visitor(Member):
    """One of the crowd: joins, commits, leaves, and begins again."""

    def __init__(self, world, number):
        super().__init__(world, f"v{number}", CROWDS[1 + number % 5] if number % 2 else CROWDS[0], "crowd")
        self.number = number

    def connect(self):
        self.connection = self.connection or self.world.nodes[self.number % len(self.world.nodes)].client(timeout=60.0)
        return True

    def run(self):
        for turn in range(self.world.options.turns):
            self.join()
            done = [self.commit({place: (turn << 40) + self.generation}) for place in self.mine[:2] if self.id]
            if self.id is None or self.leave().outcome != "OK" or None in [o.outcome for o in done]:
                self.world.faults.append(f"{self.name} was held up though nothing died: {done}")
                break
        self.drop()


class Worker(Member):
    """Somebody who joins, works, loses its connection and resumes, falls silent, and leaves."""

    def __init__(self, world, number, is_steady):
        group, topic = (SINGLE, "t") if number % 2 == 0 else (SEVERAL, None)
        super().__init__(world, f"m{number}", group, topic)
        self.is_steady = is_steady

    def new_offset(self, place):
        offset = self.next.get(place, 0) + self.random.randrange(1, 4)
        if self.random.random() < 0.05:
            offset = max(offset - 5, 0)
        return offset

    def commit_something(self):
        if not self.mine:
            return self.sync()
        topic = self.random.choice(self.mine)[0]
        places = [p for p in self.mine if p[0] == topic]
        # Now and then somebody else's partition, which must be refused.
        if self.random.random() < 0.05:
            places.append((topic, self.random.randrange(TOPICS[topic])))
        chosen = set(self.random.sample(places, self.random.randrange(1, len(places) + 1)))
        offsets = {place: self.new_offset(place) for place in chosen}
        done = self.commit(offsets)
        if done.outcome == "OK":
            self.next.update(offsets)
        elif done.outcome in ("offset_regression", "NOT_OWNER"):
            self.fetch()
            self.sync()
        else:
            self.settle(done)
            if done.outcome == "GEN_MISMATCH" and self.id:
                self.beat()

    def fetch(self):
        topic, number = place = self.random.choice(EXPANSIONS[self.group])

        def read(answer):
            found = answer.ok_fields
            return dict(offsets={place: int(found["offset"]) if found["found"] == "true" else None})

        done = self.ask("FETCH_OFFSET", dict(group=self.group, topic=topic, partition=number, include_found="true"),
                        dict(group=self.group), read)
        if done.outcome == "OK":
            self.next[place] = done.offsets[place] or 0

    def run(self):
        beat_at = 0
        while not self.world.stopping.is_set():
            if self.id is None:
                self.join()
                continue
            if time.monotonic() > beat_at:
                beat_at = time.monotonic() + 0.5
                self.beat()
                continue
            luck = self.random.random()
            if luck < 0.02 and not self.is_steady:
                self.leave()
            elif luck < 0.04:
                self.drop()
                self.resume()
            elif luck < 0.045 and not self.is_steady:
                self.drop()
                self.world.stopping.wait(TIMEOUT * self.random.uniform(0.5, 2.0))
            elif luck < 0.12:
                self.status()
            elif luck < 0.4:
                self.fetch()
            else:
                self.commit_something()
            time.sleep(self.random.random() * 0.02)
        self.drop()


class Pair(Member):
    """Commits the same offset of two partitions in one batch, for ever."""

    def __init__(self, world):
        super().__init__(world, "p", PAIR, "pair")

    def run(self):
        offset, beat_at = 0, 0
        while not self.world.stopping.is_set():
            if self.id is None:
                self.join()
                continue
            offset += 1
            if time.monotonic() > beat_at:
                beat_at = time.monotonic() + 0.5
                self.beat()
            else:
                self.commit({("pair", 0): offset, ("pair", 1): offset})
        self.drop()

    def watch(self):
        """Both offsets, as one SQL snapshot shows them."""
        while not self.world.stopping.is_set():
            look = Operation("PAIR", group=PAIR)
            rows = harness.sql(self.world.dsn, "SELECT partition, committed FROM pgcursus.group_lag"
                                               f" WHERE \"group\" = '{PAIR}'")
            if len(rows) == 2:
                self.world.history.end(look, "OK", offsets=dict(rows))
            time.sleep(0.1)


# ---- a run ----------------------------------------------------------------------------------------------


def crowd(world):
    """Joins, commits and departures at once, while nothing dies."""
    world.join(world.start([Visitor(world, n).run for n in range(world.options.crowd)]))
    retries = sum(node.metric("pgcursus_control_retries_total") for node in world.nodes)
    joins = sorted(o.ended - o.began for o in world.history.of("JOIN_GROUP"))
    slowest = joins[-1] if joins else 0.0
    if joins:
        of = lambda share: joins[int(share * (len(joins) - 1))] * 1000
        world.notes.append(f"{len(joins)} joins of {world.options.crowd} clients at once: p50 {of(0.5):.0f} ms,"
                           f" p99 {of(0.99):.0f} ms, slowest {of(1):.0f} ms; {retries:.0f} retries inside")
    return slowest


def final_generations(world):
    """Group -> its generation once everybody has been silent for long enough, so that nobody is left."""
    found = {}
    for group in {o.group for o in world.history.of("JOIN_GROUP")} - {PAIR}:
        member = Member(world, "last", group, "t" if group == SINGLE else None)

        def is_empty():
            status = member.status()
            found[group] = status.generation
            return status.outcome == "OK" and not status.assignments

        world.expect(is_empty, f"the end of all members of {group} (G6)")
        member.drop()
    return found


def work(world):
    with world.nodes[0].client() as client:
        for topic, partitions in TOPICS.items():
            client.call("CREATE", topic=topic, partitions=partitions)
        client.call("CREATE", topic="pair", partitions=2)
        client.call("REGISTER_GROUP", group=SEVERAL, topics="t,u")
    slowest_join = crowd(world)
    workers, pair = [Worker(world, n, n < 2) for n in range(world.options.members)], Pair(world)
    threads = world.start([w.run for w in workers] + [pair.run, pair.watch])
    world.torment(lambda: len(world.kills) == 3, ["nodes", "sessions", "connections"])
    calm = time.monotonic()
    world.stopping.set()
    world.join(threads)
    final, log = final_generations(world), world.history
    # A node sweeps once it has been in touch with PostgreSQL for a session's time.
    bound = 2 * TIMEOUT + SWEEP + harness.SLOWNESS
    return [
        ("G1 generations never fall", lambda: rules.check_generations_never_fall(log)),
        ("G2 assignments follow the formula", lambda: rules.check_assignments(log, EXPANSIONS)),
        ("G3 a partition has one owner", lambda: rules.check_one_owner(log)),
        ("G4 who is gone stays gone", lambda: rules.check_gone_is_gone(log)),
        ("G5 every step is accounted for", lambda: rules.check_steps(log, final)),
        ("G6 who renews is not expired", lambda: rules.check_the_lively_stay(log, TIMEOUT)),
        ("G6 who is silent is", lambda: rules.check_the_silent_go(log, calm, bound)),
        ("G7 groups are not lost", lambda: rules.check_groups_stay(log)),
        ("O1 O2 offsets never fall", lambda: rules.check_offsets_never_fall(log)),
        ("O2 offsets come from commits", lambda: rules.check_offsets_were_committed(log)),
        ("O3 batches are whole", lambda: rules.check_batches_are_whole(log)),
        ("O4 regressions have a reason", lambda: rules.check_regressions(log)),
        ("nobody waits long to join", lambda: check_joins(slowest_join)),
        ("enough happened to mean something", lambda: check_volume(world)),
    ]


def check_joins(slowest):
    assert slowest < JOIN_SECONDS * harness.SLOWNESS, f"{slowest:.1f} s"


def check_volume(world):
    counts = collections.Counter((o.kind, o.outcome) for o in world.history.operations)
    for kind in ("JOIN_GROUP", "RESUME", "SYNC_GROUP", "HEARTBEAT", "COMMIT_OFFSET", "BATCH_COMMIT", "FETCH_OFFSET",
                 "GROUP_STATUS", "LEAVE_GROUP", "PAIR"):
        assert counts[kind, "OK"] > 5, f"{kind}: {counts[kind, 'OK']}"
    assert sum(n for (_, outcome), n in counts.items() if outcome == "GEN_MISMATCH") > 0, "nobody was fenced"
    assert len(world.kills) == 3, world.kills


if __name__ == "__main__":
    stage.run(__doc__, SETTINGS, work, {"--members": 10, "--crowd": 32, "--turns": 8})
