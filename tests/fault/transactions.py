#!/usr/bin/env python3
"""Consume-process-produce pipelines over several nodes, while nodes, connections, PostgreSQL sessions and PostgreSQL itself
die at random and replies are lost; readers of both isolation levels and observers write down what they see. Then every
input must be in the output exactly once, and the T invariants are verified on the history and the log.

    tests/fault/transactions.py [--seconds N] [--seed N] [--workers N] [--nodes N]

Prints what happened and `N passed, N failed`. README.md says more.
"""

import collections
import threading
import time

import world as stage
from history import Operation
from transaction_rules import COMMITTED, UNCOMMITTED, Entry, Final, rules
from world import LOST, PATIENCE, Client, crs2, harness

INPUTS, OUTPUTS = 3, 2
GROUP = "pipeline"
TIMEOUT = 3.0  # of a transaction
SETTINGS = dict(client_request_timeout_ms=5000, transaction_timeout_ms=int(TIMEOUT * 1000),
                transaction_check_interval_ms=300, consumer_session_timeout_ms=3000, consumer_heartbeat_check_ms=500)


class Pipeline:
    """What the clients share."""

    def __init__(self, world):
        self.world, self.sent, self.entries = world, set(), {}
        self.calm = threading.Event()  # nothing dies any more, and no input comes
        self.done = threading.Event()  # nothing is written any more

    def entry(self, record):
        """One object for all who see the same."""
        found = Entry(record.offset, record.payload, record.transactional_id.decode(), record.epoch, record.seq_num,
                      record.transaction_marker.decode())
        return self.entries.setdefault(found, found)


class Refused(Exception):
    def __init__(self, operation):
        super().__init__(operation.trouble)
        self.code, self.current = operation.trouble, operation.current


class Unknown(Refused):
    """Nobody knows, or it is worth trying again."""


class Party(Client):
    def __init__(self, pipeline, name):
        super().__init__(pipeline.world, name)
        self.pipeline = pipeline

    def call(self, command, fields, facts=None, read=None, loses_reply=False):
        """The operation, once it is known to have happened."""
        done = self.ask(command.removesuffix("_INPUT"), fields, facts, read, command, loses_reply)
        if done.outcome != "OK":
            raise (Unknown if done.outcome is None else Refused)(done)
        return done

    def insist(self, *arguments):
        while True:
            try:
                return self.call(*arguments)
            except Unknown:
                time.sleep(0.05)


# ---- who writes -----------------------------------------------------------------------------------------


class Publisher(Party):
    """Publishes numbered records outside of transactions, each until it is acknowledged; sequence numbers keep it once."""

    def __init__(self, pipeline, topic, partitions, pause):
        super().__init__(pipeline, f"publisher of {topic}")
        self.topic, self.partitions, self.pause = topic, partitions, pause

    def run(self):
        number = 0
        while not self.pipeline.calm.is_set():
            number += 1
            for partition in range(self.partitions):
                name = f"{partition}-{number}"
                fields = dict(topic=self.topic, partition=partition, producerId="publisher", seqNum=number, acks="all",
                              isIdempotent="true", message=name)
                if self.topic == "in":
                    self.insist("PUBLISH_INPUT", fields)
                    self.pipeline.sent.add(name)
                else:
                    self.insist("PUBLISH", fields, dict(partition=partition, payload=name.encode()),
                                lambda answer: dict(offset=answer.json["last_offset"]))
            time.sleep(self.pause)
        self.drop()


class Worker(Party):
    """A member that turns inputs into outputs in transactions; now and then it aborts, hesitates, ends twice, leaves the
    group, walks away, or is followed by a ghost that goes on with a session that is over."""

    allowed = ("member_not_found", "GEN_MISMATCH", "NOT_OWNER", "offset_regression", "producer_fenced",
               "producer_reinitialization_required", "transaction_publish_failed", "transaction_offsets_failed",
               "transaction_aborted", "transaction_already_committed")

    def __init__(self, pipeline, name):
        super().__init__(pipeline, name)
        self.member, self.mine, self.position, self.lost_replies = None, [], {}, 0.03

    # A member of the group

    def read_assignment(self, answer):
        found = answer.ok_fields
        own = dict(member=found["member"], generation=int(found["generation"])) if "member" in found else {}
        return dict(own, assigned=[int(n) for n in found["assignments"].strip("[]").split(",") if n])

    def join(self):
        done = self.insist("JOIN_GROUP", dict(topic="in", group=GROUP, member=self.name), {}, self.read_assignment)
        self.member = dict(group=GROUP, topic="in", member=done.member, generation=done.generation)
        self.mine, self.position = done.assigned, {}

    def settle(self, problem):
        """After whatever went wrong: the membership and the positions are looked up again."""
        self.position = {}
        if problem.code == "member_not_found":
            self.member = None
        elif problem.code == "GEN_MISMATCH" and self.member:
            self.member["generation"], self.mine = problem.current, []
            done = self.ask("SYNC_GROUP", self.member, self.facts_of_member(), self.read_assignment)
            if done.outcome == "OK":
                self.mine = done.assigned  # else the next heartbeat says more

    def facts_of_member(self):
        return {name: self.member[name] for name in ("group", "member", "generation")}

    def read(self, partition):
        if partition not in self.position:
            self.init()  # so that no ghost of ours commits behind the look
            fetched = self.call("FETCH_OFFSET", dict(topic="in", partition=partition, group=GROUP),
                                dict(partition=partition), lambda answer: dict(offset=int(answer.ok_fields["offset"])))
            self.position[partition] = fetched.offset
        fields = dict(topic="in", partition=partition, offset=self.position[partition], member=self.name,
                      batch=self.random.randrange(1, 8))
        return self.call("CONSUME_INPUT", fields, {}, lambda answer: dict(records=answer.batch.records)).records

    # A session and its transaction

    def step(self, command, facts=None, read=None, **fields):
        return self.call(command, dict(fields, **self.session), dict(facts or {}, id=self.name, epoch=self.epoch), read,
                         self.random.random() < self.lost_replies)

    def init(self):
        done = self.insist("INIT_PRODUCER_ID", dict(transactional_id=self.name), dict(id=self.name),
                           lambda answer: dict(epoch=int(answer.ok_fields["epoch"]), session=answer.ok_fields))
        self.session, self.epoch = done.session, done.epoch

    def publish(self, records):
        requests = []
        for number, record in enumerate(records, 1):
            body = f"{record.payload.decode()} {self.name} {self.epoch} {number}"
            fields = dict(topic="out", message=body, seqNum=number)
            if self.random.random() < 0.5:
                fields["partition"] = number % OUTPUTS
            requests += [fields] * (2 if self.random.random() < 0.1 else 1)  # sometimes sent again for no reason
        if self.random.random() < 0.5:
            requests = self.publish_ahead(requests)
        for fields in requests:
            self.publish_surely(fields)

    def publish_ahead(self, requests):
        """All at once. Returns those of which nobody knows."""
        done = self.ask_ahead("TXN_PUBLISH", [
            (dict(fields, **self.session), dict(payload=fields["message"].encode(), id=self.name, epoch=self.epoch),
             self.read_place) for fields in requests])
        for operation in done:
            if operation.outcome not in ("OK", None):
                raise Refused(operation)
        return [fields for fields, operation in zip(requests, done) if operation.outcome is None]

    def read_place(self, answer):
        return dict(partition=int(answer.ok_fields["partition"]))

    def publish_surely(self, fields):
        for attempt in range(20):
            try:
                return self.step("TXN_PUBLISH", dict(payload=fields["message"].encode()), self.read_place, **fields)
            except Unknown as problem:
                if attempt == 19:
                    raise
                time.sleep(0.03)

    def end(self, result):
        """Until it is answered; then, now and then, once more, and the other way round."""
        def read(answer):
            return dict(state=answer.ok_fields["state"], text=answer.text)

        while True:
            try:
                self.step("END_TXN", dict(result=result), read, result=result)
                break
            except Unknown as problem:
                if problem.code == "transaction_commit_failed":
                    raise
                time.sleep(0.03)
        for again, likelihood in ((result, 0.1), ("abort" if result == "commit" else "commit", 0.05)):
            if self.random.random() < likelihood:
                try:
                    self.step("END_TXN", dict(result=again), read, result=again)
                except Refused:
                    pass

    def transaction(self):
        partition = self.random.choice(self.mine)
        self.call("HEARTBEAT", self.member)
        records = self.read(partition)
        if not records:
            return time.sleep(0.02)
        self.init()
        self.step("BEGIN_TXN", dict(timeout=TIMEOUT))
        self.publish(records)
        is_calm = self.pipeline.calm.is_set()
        luck = 1 if is_calm else self.random.random()
        if luck < 0.05:
            return self.walk_away("abort")  # a commit without the offsets would be wrong of the client
        after = records[-1].offset + 1
        self.step("SEND_OFFSETS_TO_TXN", dict(self.facts_of_member(), offsets={partition: after}), None,
                  offsets=f"P{partition}:{after}", **self.member)
        if luck < 0.1:
            return self.walk_away("commit")
        if not is_calm and self.random.random() < 0.1:
            # The group may move on meanwhile, or the deadline pass.
            time.sleep(self.random.choice([0.2, 0.5, 1.0, TIMEOUT]))
        if luck < 0.2:
            return self.end("abort")
        self.position.pop(partition)
        self.end("commit")
        self.position[partition] = after

    def walk_away(self, result):
        self.position = {}
        if self.random.random() < 0.5:
            ghost = Ghost(self.pipeline, self, result)
            self.world.start([ghost.run])

    def run(self):
        while not self.pipeline.done.is_set():
            try:
                if self.member is None:
                    self.join()
                if self.mine:
                    self.transaction()
                else:
                    time.sleep(0.05)
                    self.call("HEARTBEAT", self.member)
            except Refused as problem:
                self.settle(problem)
                time.sleep(0.02)
            if self.random.random() < 0.02:
                self.drop()
            if self.member and self.random.random() < 0.05 and not self.pipeline.calm.is_set():
                self.ask("LEAVE_GROUP", self.member, self.facts_of_member())
                self.member = None
        self.drop()


class Ghost(Worker):
    """Holds requests of a session back, as a slow network does, perhaps until its successor has begun."""

    def __init__(self, pipeline, worker, result):
        super().__init__(pipeline, worker.name)
        self.random.seed(f"ghost {worker.name} {worker.epoch}")
        self.session, self.epoch, self.result = worker.session, worker.epoch, result

    def run(self):
        time.sleep(self.random.uniform(0.0, 1.0))
        body = f"ghost {self.name} {self.epoch}"
        try:
            self.publish_surely(dict(topic="out", message=body, seqNum=1000))
        except Refused:
            pass
        try:
            self.step("END_TXN", dict(result=self.result),
                      lambda answer: dict(state=answer.ok_fields["state"], text=answer.text), result=self.result)
        except Refused:
            pass
        self.drop()


# ---- who watches ----------------------------------------------------------------------------------------


class Reader(Party):
    """Reads the output from anywhere to its end, over and over, at both isolation levels."""

    def bounds(self, partition):
        def read(answer):
            words = answer.ok_fields["offsets"].split(":")
            return {name: int(value) for name, value in (word.split("=") for word in words[1:])}

        return self.call("LIST_OFFSETS", dict(topic="out", partition=partition), dict(partition=partition), read)

    def consume(self, partition, start, isolation, **more):
        return self.call("CONSUME", dict(topic="out", partition=partition, offset=start, member="m", isolation=isolation,
                                         **more), dict(partition=partition, start=start, isolation=isolation),
                         lambda answer: dict(seen=[self.pipeline.entry(r) for r in answer.batch.records])).seen

    def all(self, partition, start, isolation, **more):
        found = []
        while seen := self.consume(partition, start, isolation, **more):
            found += seen
            start = seen[-1].offset + 1
        return found

    def insist_on_all(self, isolation):
        """Partition -> everything."""
        def everything():
            try:
                return {partition: self.all(partition, 0, isolation) for partition in range(OUTPUTS)}
            except Unknown:
                return None

        return harness.wait_until(everything, PATIENCE, 0.1, "reading it all")

    def run(self):
        while not self.pipeline.done.is_set():
            try:
                partition = self.random.randrange(OUTPUTS)
                end = self.bounds(partition).latest
                isolation = self.random.choice([COMMITTED, UNCOMMITTED])
                back = self.random.randrange(1000 if isolation == COMMITTED else 200)
                start = 0 if self.random.random() < 0.05 else max(end - back, 0)
                more = self.random.choice([{}, {}, {"batch": self.random.randrange(1, 20)}, {"wait_ms": 100}])
                self.all(partition, start, isolation, **more)
                self.bounds(partition)
                time.sleep(self.random.random() * 0.1)
            except Unknown:
                time.sleep(0.05)
            if self.random.random() < 0.1:
                self.drop()
        self.drop()


class Streamer(Party):
    """Follows a partition of the output by STREAM, and goes on where it was when it is cut off."""

    def __init__(self, pipeline, partition, isolation):
        super().__init__(pipeline, f"stream {partition} {isolation}")
        self.partition, self.isolation, self.position = partition, isolation, 0

    def run(self):
        while not self.world.stopping.is_set():
            if not self.connect():
                continue
            try:
                self.connection.send("STREAM", dict(topic="out", partition=self.partition, group=self.name.replace(" ", "-"),
                                                    offset=self.position, isolation=self.isolation))
                self.connection.sock.settimeout(0.5)
                while self.follow():
                    pass
            except LOST:
                pass
            self.drop()
        self.drop()

    def follow(self):
        """Takes a frame; False when the stream is over."""
        operation = Operation("STREAM", partition=self.partition, isolation=self.isolation, start=self.position)
        try:
            frame = self.connection.recv()
        except TimeoutError:
            return not self.world.stopping.is_set()
        if frame.status == crs2.OK and frame.payload:
            seen = [self.pipeline.entry(r) for r in frame.batch.records]
            self.world.history.end(operation, "OK", seen=seen)
            self.position = seen[-1].offset + 1
        elif frame.status == crs2.ERROR:
            error = crs2.decode_error(frame.payload)
            if not error.retryable:
                self.world.faults.append(f"{operation}: {error}")
        return frame.status == crs2.OK


class Observer(Party):
    """Looks at offsets, transactions and the stable offset from outside."""

    allowed = ("transaction_not_found", "group_not_found")

    def look(self):
        operations = [Operation("STABLE", partition=n) for n in range(OUTPUTS)]
        rows = harness.sql(self.world.dsn, "SELECT stable_offset, end_offset FROM pgcursus.partitions"
                                           " WHERE topic = 'out' ORDER BY partition")
        for operation, (stable, end) in zip(operations, rows):
            self.world.history.end(operation, "OK", stable=int(stable), end=int(end))

    def run(self):
        looked_at = 0.0
        while not self.pipeline.done.is_set():
            try:
                if time.monotonic() > looked_at + 0.3:
                    looked_at = time.monotonic()
                    self.look()
                partition, id = self.random.randrange(INPUTS), f"w{self.random.randrange(self.world.options.workers)}"
                self.ask("FETCH_OFFSET", dict(topic="in", partition=partition, group=GROUP), dict(partition=partition),
                         lambda answer: dict(offset=int(answer.ok_fields["offset"])))
                self.ask("TXN_STATUS", dict(transactional_id=id), dict(id=id),
                         lambda answer: dict(state=answer.ok_fields["state"]))
            except RuntimeError:  # psql: PostgreSQL may be away
                pass
            time.sleep(0.02)
        self.drop()


# ---- a run ----------------------------------------------------------------------------------------------


def committed_offsets(world):
    """Input partition -> (committed, lag)."""
    rows = harness.sql(world.dsn, "SELECT partition, coalesce(committed, 0), lag FROM pgcursus.group_lag"
                                  f" WHERE \"group\" = '{GROUP}'")
    return {int(row[0]): (int(row[1]), int(row[2])) for row in rows}


def transaction_rows(world):
    rows = harness.sql(world.dsn, "SELECT transactional_id, producer_epoch, state, messages, offsets FROM pgcursus.transactions"
                                  " WHERE begun_at IS NOT NULL")
    return {(row[0], int(row[1])): (row[2], int(row[3]), int(row[4])) for row in rows}


def is_caught_up(world):
    found = committed_offsets(world)
    return len(found) == INPUTS and all(lag == 0 for _, lag in found.values())


def committed(world):
    return sum(o.state == "committed" for o in world.history.of("END_TXN"))


def work(world):
    pipeline = Pipeline(world)
    with world.nodes[0].client() as client:
        client.call("CREATE", topic="in", partitions=INPUTS)
        client.call("CREATE", topic="out", partitions=OUTPUTS)
    publishers = [Publisher(pipeline, "in", INPUTS, 0.02), Publisher(pipeline, "out", OUTPUTS, 0.1)]
    parties = [Worker(pipeline, f"w{n}") for n in range(world.options.workers)]
    parties += [Reader(pipeline, f"reader {n}") for n in range(2)] + [Observer(pipeline, "observer")]
    streams = [Streamer(pipeline, n, isolation) for n in range(OUTPUTS) for isolation in (COMMITTED, UNCOMMITTED)]
    publishing, working = world.start([p.run for p in publishers]), world.start([p.run for p in parties])
    streaming = world.start([s.run for s in streams])
    world.torment(lambda: committed(world) > 20 and len(world.kills) == 4,
                  ["nodes", "sessions", "connections", "PostgreSQL"])
    pipeline.calm.set()
    world.join(publishing)
    world.expect(lambda: is_caught_up(world), "the end of the input")
    # What nobody ends any more is aborted in time.
    world.expect(lambda: all(state in ("committed", "aborted") for state, *_ in transaction_rows(world).values()),
                 "the end of the last transaction (T10, T11)")
    pipeline.done.set()
    world.join(working)
    reader = Reader(pipeline, "final")
    log, visible = reader.insist_on_all(UNCOMMITTED), reader.insist_on_all(COMMITTED)
    reader.drop()
    ends = {UNCOMMITTED: log, COMMITTED: visible}
    world.expect(lambda: all(s.position > ends[s.isolation][s.partition][-1].offset for s in streams),
                 "the end of the streams")
    world.stopping.set()
    world.join(streaming)
    final = Final(log, visible, transaction_rows(world), {p: at for p, (at, _) in committed_offsets(world).items()},
                  pipeline.sent)
    counts = collections.Counter(f"{o.kind} {o.isolation or ''}".strip() for o in world.history.of("CONSUME", "STREAM"))
    world.notes.append(f"{len(pipeline.sent)} inputs, {sum(map(len, log.values()))} records in the output,"
                       f" {committed(world)} commits answered, {dict(counts)}")
    return rules(world.history, final, slack=2 * harness.SLOWNESS) + [
        ("enough happened to mean something", lambda: check_volume(world))]


def check_volume(world):
    assert committed(world) > 20, committed(world)
    assert len(world.kills) == 4, world.kills
    for kind in ("CONSUME", "STREAM"):
        for isolation in (COMMITTED, UNCOMMITTED):
            assert sum(o.isolation == isolation for o in world.history.of(kind)) > 5, f"{kind} {isolation}"
    for kind in ("LIST_OFFSETS", "FETCH_OFFSET", "TXN_STATUS", "STABLE"):
        assert len(world.history.of(kind)) > 5, kind


if __name__ == "__main__":
    stage.run(__doc__, SETTINGS, work, {"--workers": 4})
