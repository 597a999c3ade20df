#!/usr/bin/env python3
"""Members of consumer groups over several nodes, while nodes, connections and PostgreSQL sessions die at random; then
the G and O invariants are verified on all that was answered (history.py).

    tests/fault/groups.py [--seconds N] [--seed N] [--members N] [--nodes N]

Prints what happened and `N passed, N failed`. README.md says more.
"""

import argparse
import collections
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))

import crs2client as crs2
import harness
import history as checks

TIMEOUT = 3.0  # the session timeout
TOPICS = {"t": 5, "u": 3}
SINGLE, SEVERAL, PAIR = "single", "several", "pair"
EXPANSIONS = {SINGLE: [("t", n) for n in range(5)], SEVERAL: [(t, n) for t in TOPICS for n in range(TOPICS[t])]}
LOST = (OSError, crs2.Closed, EOFError)
FENCED = ("GEN_MISMATCH", "NOT_OWNER", "member_not_found", "offset_regression")


class World:
    def __init__(self, options, folder):
        self.random = random.Random(options.seed)
        self.folder, self.stopping, self.history = folder, threading.Event(), checks.History()
        self.faults, self.pairs, self.kills = [], [], collections.Counter()
        self.cluster = harness.Cluster(folder / "pg")
        self.dsn = self.cluster.create_database()
        self.nodes, self.started = [None] * options.nodes, 0
        for place in range(options.nodes):
            self.start_node(place)

    def start_node(self, place):
        self.started += 1
        self.nodes[place] = harness.Broker(
            self.dsn, self.folder / f"node-{self.started}.log", consumer_session_timeout_ms=int(TIMEOUT * 1000),
            consumer_heartbeat_check_ms=500, client_request_timeout_ms=5000, offset_trim_interval_ms=300)

    def connect(self, rng):
        while not self.stopping.is_set():
            node = rng.choice(self.nodes)
            if node is not None:
                try:
                    return node.client(timeout=10.0)
                except LOST:
                    pass
            time.sleep(0.02)
        return None

    def close(self):
        for node in self.nodes:
            if node:
                node.kill()
        self.cluster.stop()


class Client:
    """A connection that is replaced when it is lost, and writes down what it is told."""

    def __init__(self, world, seed):
        self.world, self.random, self.connection = world, random.Random(seed), None

    def drop(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def call(self, command, group, fields, facts=None, read=None):
        """(outcome, fields of the answer or of the error); the outcome is None when nobody knows."""
        if self.connection is None:
            self.connection = self.world.connect(self.random)
            if self.connection is None:
                return None, {}
        operation = checks.Operation(command, group, **(facts or {}))
        try:
            answer = self.connection.call(command, **fields)
            found = read(answer) if read else {}
            self.world.history.end(operation, "OK", **found)
            return "OK", found
        except crs2.BrokerError as error:
            known = {}
            if error.code == "GEN_MISMATCH":
                known["generation"] = int(error.fields["current"])
            if error.retryable:
                self.world.history.end(operation, None)
                time.sleep(0.05)
                return None, {}
            if error.code not in FENCED:
                self.world.faults.append(f"{operation}: {error}")
            self.world.history.end(operation, error.code, current=known.get("generation"))
            return error.code, known
        except LOST:
            self.drop()
            self.world.history.end(operation, None)
            return None, {}


class Member(Client):
    """Somebody who joins, works, loses its connection, falls silent, and leaves."""

    def __init__(self, world, number, group, is_steady):
        super().__init__(world, f"{world.random.random()}")
        self.name, self.group, self.is_steady, self.is_single = f"m{number}", group, is_steady, group == SINGLE
        self.id = self.generation = None
        self.mine, self.next = [], {}
        self.thread = threading.Thread(target=self.run, daemon=True)

    def fields(self, **more):
        named = {"topic": "t"} if self.is_single else {}
        return dict(group=self.group, **named, **more)

    def read_assignment(self, answer):
        if self.is_single:
            text = answer.ok_fields["assignments"].strip("[]")
            return [("t", int(n)) for n in text.split(",") if n]
        pairs = [pair.split(":P") for pair in answer.ok_fields["topic_assignments"].split(",") if pair]
        return [(topic, int(number)) for topic, number in pairs]

    def join(self):
        def read(answer):
            found = answer.ok_fields
            return dict(member=found["member"], generation=int(found["generation"]), assigned=self.read_assignment(answer))

        outcome, found = self.call("JOIN_GROUP", self.group, self.fields(member=self.name), {"resumes": False}, read)
        if outcome == "OK":
            self.id, self.generation, self.mine = found["member"], found["generation"], found["assigned"]

    def sync(self):
        facts = dict(member=self.id, generation=self.generation)
        outcome, found = self.call("SYNC_GROUP", self.group, self.fields(**facts), dict(facts),
                                   lambda answer: dict(assigned=self.read_assignment(answer)))
        if outcome == "OK":
            self.mine = found["assigned"]
        self.settle(outcome, found)

    def settle(self, outcome, found):
        if outcome == "member_not_found":
            self.id = None
        elif outcome == "GEN_MISMATCH" and "generation" in found:
            self.generation, self.mine = found["generation"], []
            self.sync()

    def beat(self):
        facts = dict(member=self.id, generation=self.generation)
        self.settle(*self.call("HEARTBEAT", self.group, self.fields(**facts), facts))

    def leave(self):
        self.call("LEAVE_GROUP", self.group, self.fields(member=self.id), dict(member=self.id))
        self.id = None

    def new_offset(self, place):
        offset = self.next.get(place, 0) + self.random.randrange(1, 4)
        if self.random.random() < 0.05:
            offset = max(offset - 5, 0)
        return offset

    def commit(self):
        if not self.mine:
            return self.sync()
        topic = self.random.choice(self.mine)[0]
        places = [p for p in self.mine if p[0] == topic]
        # Now and then somebody else's partition, which must be refused.
        if self.random.random() < 0.05:
            places.append((topic, self.random.randrange(TOPICS[topic])))
        chosen = set(self.random.sample(places, self.random.randrange(1, len(places) + 1)))
        offsets = {place: self.new_offset(place) for place in chosen}
        facts = dict(member=self.id, generation=self.generation)
        common = dict(group=self.group, topic=topic, **facts)
        if len(offsets) == 1:
            (place, offset), = offsets.items()
            outcome, found = self.call("COMMIT_OFFSET", self.group, dict(common, partition=place[1], offset=offset),
                                       dict(facts, offsets=offsets))
        else:
            text = ",".join(f"P{number}:{offset}" for (_, number), offset in offsets.items())
            outcome, found = self.call("BATCH_COMMIT", self.group, dict(common, offsets=text),
                                       dict(facts, offsets=offsets))
        if outcome == "OK":
            self.next.update(offsets)
        elif outcome in ("offset_regression", "NOT_OWNER"):
            self.fetch()
            self.sync()
        else:
            self.settle(outcome, found)
            if outcome == "GEN_MISMATCH" and self.id:
                self.beat()

    def fetch(self):
        topic, number = place = self.random.choice(EXPANSIONS[self.group])

        def read(answer):
            found = answer.ok_fields
            return dict(offsets={place: int(found["offset"]) if found["found"] == "true" else None})

        outcome, found = self.call("FETCH_OFFSET", self.group,
                                   dict(group=self.group, topic=topic, partition=number, include_found="true"), {}, read)
        if outcome == "OK":
            self.next[place] = found["offsets"][place] or 0

    def status(self):
        def read(answer):
            found = answer.json
            assignments = {}
            for member in found["members"]:
                pairs = [(p["topic"], p["partition"]) for p in member.get("topic_assignments", ())]
                assignments[member["member_id"]] = pairs + [("t", n) for n in member["assignments"]]
            return dict(generation=found["generation"], assignments=assignments)

        return self.call("GROUP_STATUS", self.group, dict(group=self.group), {}, read)

    def run(self):
        try:
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
                elif luck < 0.045 and not self.is_steady:
                    self.drop()
                    self.world.stopping.wait(TIMEOUT * self.random.uniform(0.5, 2.0))
                elif luck < 0.12:
                    self.status()
                elif luck < 0.4:
                    self.fetch()
                else:
                    self.commit()
                time.sleep(self.random.random() * 0.02)
        except Exception as problem:
            self.world.faults.append(f"{self.name}: {problem!r}")
        finally:
            self.drop()


class Pair(Client):
    """Commits the same offset of two partitions in one batch, for ever."""

    def run(self):
        outcome = None
        while outcome != "OK" and not self.world.stopping.is_set():
            outcome, found = self.call("JOIN_GROUP", PAIR, dict(group=PAIR, topic="pair", member="p"),
                                       {"resumes": False}, lambda a: dict(member=a.ok_fields["member"], assigned=None))
        offset, beat_at = 0, 0
        while not self.world.stopping.is_set():
            offset += 1
            fields = dict(group=PAIR, topic="pair", member=found["member"], generation=1)
            if time.monotonic() > beat_at:
                beat_at = time.monotonic() + 0.5
                self.call("HEARTBEAT", PAIR, fields, dict(member=found["member"]))
            self.call("BATCH_COMMIT", PAIR, dict(fields, offsets=f"P0:{offset},P1:{offset}"),
                      dict(member=found["member"], generation=1))
        self.drop()

    def watch(self):
        """Both offsets, as one SQL snapshot shows them."""
        while not self.world.stopping.is_set():
            rows = harness.sql(self.world.dsn, f"SELECT committed FROM pgcursus.group_lag WHERE \"group\" = '{PAIR}'")
            if len(rows) == 2:
                self.world.pairs.append((rows[0][0], rows[1][0]))
            time.sleep(0.1)


def torment(world, seconds):
    """Kills what can be killed, until the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(world.random.uniform(0.2, 0.8))
        if world.random.random() < 0.5:
            harness.sql(world.dsn, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name"
                                   " LIKE 'pgcursus%' AND datname = current_database() ORDER BY random() LIMIT 2")
            world.kills["PostgreSQL sessions"] += 2
        else:
            place = world.random.randrange(len(world.nodes))
            node, world.nodes[place] = world.nodes[place], None
            node.kill()
            world.kills["nodes"] += 1
            world.start_node(place)


def prepare(world):
    with world.nodes[0].client() as client:
        for topic, partitions in TOPICS.items():
            client.call("CREATE", topic=topic, partitions=partitions)
        client.call("CREATE", topic="pair", partitions=2)
        client.call("REGISTER_GROUP", group=SEVERAL, topics="t,u")


def work(world, options):
    members = [Member(world, n, (SINGLE, SEVERAL)[n % 2], n < 2) for n in range(options.members)]
    pair = Pair(world, "pair")
    threads = [m.thread for m in members] + [threading.Thread(target=f, daemon=True) for f in (pair.run, pair.watch)]
    for thread in threads:
        thread.start()
    torment(world, options.seconds)
    world.stopping.set()
    for thread in threads:
        thread.join(60)
        if thread.is_alive():
            world.faults.append("a client is still waiting for an answer")
    return members


def final_generations(world):
    """Once everybody has been silent for long enough, nobody is left."""
    found = {}
    deadline = time.monotonic() + (TIMEOUT + 1 + 0.5) * 2 + 10 * harness.SLOWNESS
    for group in (SINGLE, SEVERAL):
        while True:
            with next(n for n in world.nodes if n).client() as client:
                status = client.call("GROUP_STATUS", group=group).json
            if status["member_count"] == 0:
                break
            if time.monotonic() > deadline:
                world.faults.append(f"members that are gone are still in {group}")
                break
            time.sleep(0.2)
        found[group] = status["generation"]
    return found


def verify(world, final):
    log = world.history
    tests = [
        ("G1 generations never fall", lambda: checks.check_generations_never_fall(log)),
        ("G2 assignments follow the formula", lambda: checks.check_assignments(log, EXPANSIONS)),
        ("G3 a partition has one owner", lambda: checks.check_one_owner(log)),
        ("G4 who is gone stays gone", lambda: checks.check_gone_is_gone(log)),
        ("G5 every step is accounted for", lambda: checks.check_steps(log, final)),
        ("G6 who renews is not expired", lambda: checks.check_the_lively_stay(log, TIMEOUT)),
        ("G7 groups are not lost", lambda: checks.check_groups_stay(log)),
        ("O1 O2 offsets never fall", lambda: checks.check_offsets_never_fall(log)),
        ("O2 offsets come from commits", lambda: checks.check_offsets_were_committed(log)),
        ("O3 batches are whole", lambda: checks.check_batches_are_whole(world.pairs)),
        ("O4 regressions have a reason", lambda: checks.check_regressions(log)),
        ("every answer is allowed", lambda: check_faults(world)),
        ("enough happened to mean something", lambda: check_volume(world)),
    ]
    failed = 0
    for name, test in tests:
        try:
            test()
            print(f"ok - {name}")
        except AssertionError as wrong:
            failed += 1
            print(f"not ok - {name}: {wrong}")
    return len(tests) - failed, failed


def check_faults(world):
    assert not world.faults, "\n    ".join(world.faults[:5])


def check_volume(world):
    counts = collections.Counter((o.kind, o.outcome) for o in world.history.operations)
    for kind in ("JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT", "COMMIT_OFFSET", "BATCH_COMMIT", "FETCH_OFFSET", "GROUP_STATUS"):
        assert counts[kind, "OK"] > 5, f"{kind}: {counts[kind, 'OK']}"
    assert sum(n for (_, outcome), n in counts.items() if outcome == "GEN_MISMATCH") > 0, "nobody was fenced"
    assert world.pairs, "no pair was looked at"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8, help="how long to torment the broker")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the random choices")
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--nodes", type=int, default=3)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="pgcursus-fault-"))
    os.chmod(folder, 0o755)
    world, failed = None, 1
    try:
        world = World(options, folder)
        prepare(world)
        work(world, options)
        passed, failed = verify(world, final_generations(world))
        outcomes = collections.Counter(str(o.outcome) for o in world.history.operations)
        print(f"seed {options.seed}: {len(world.history.operations)} operations {dict(outcomes)}, killed {dict(world.kills)}")
        for node in world.nodes:
            if node and node.faults():
                print(node.faults())
                failed += 1
        print(f"{passed} passed, {failed} failed")
    finally:
        if world:
            world.close()
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if failed else 0)


main()
