#!/usr/bin/env python3
"""Consume-process-produce pipelines over several nodes, while nodes, connections, PostgreSQL sessions and PostgreSQL itself
die at random and replies are lost; then every input must be in the output exactly once, and the T invariants are
verified on all that was answered and on the log.

    tests/fault/transactions.py [--seconds N] [--seed N] [--workers N] [--nodes N]

Prints what happened and `N passed, N failed`. README.md says more.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))

import crs2client as crs2
import harness

INPUTS, OUTPUTS = 3, 2
GROUP = "pipeline"
GHOST = b"ghost"
LOST = (OSError, crs2.Closed, EOFError)
TIMEOUT_MS = 3000  # of a transaction
DRAIN_SECONDS = 60 * harness.SLOWNESS


class Proxy:
    """Forwards connections to a random live node, and swallows replies on demand: the request arrives, the answer is
    lost with the connection."""

    def __init__(self, world):
        self.world, self.swallowing = world, set()
        self.server = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.server.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, peer = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client, peer[1]), daemon=True).start()

    def serve(self, client, port):
        nodes = [n for n in self.world.nodes if n is not None]
        try:
            host, _, node_port = self.world.choose(nodes).listen.rpartition(":")
            node = socket.create_connection((host, int(node_port)), 5)
        except (OSError, IndexError):
            client.close()
            return
        threading.Thread(target=self.pump, args=(client, node, None), daemon=True).start()
        self.pump(node, client, port)
        self.swallowing.discard(port)

    def pump(self, source, target, port):
        try:
            while data := source.recv(65536):
                if port in self.swallowing:
                    break
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.server.close()


class World:
    def __init__(self, options, folder):
        self.random, self.lock = random.Random(options.seed), threading.Lock()
        self.folder, self.stopping, self.calm = folder, threading.Event(), threading.Event()
        self.faults, self.kills = [], collections.Counter()
        self.outcomes = collections.Counter()
        self.sent = set()  # inputs that are surely stored
        self.ends = collections.defaultdict(set)  # (id, epoch) -> answers of END_TXN
        self.epochs = collections.defaultdict(list)  # id -> epochs in the order of their answers
        self.accepted = set()  # (id, epoch, number) of TXN_PUBLISH that were answered OK
        self.committed_at = {}  # (id, epoch) -> when the commit was answered
        self.passes = []  # of the readers
        self.cluster = harness.Cluster(folder / "pg")
        self.dsn = self.cluster.create_database()
        self.nodes, self.started = [None] * options.nodes, 0
        for place in range(options.nodes):
            self.start_node(place)
        self.proxy = Proxy(self)

    def choose(self, things):
        with self.lock:
            return self.random.choice(things)

    def start_node(self, place, **more):
        self.started += 1
        self.nodes[place] = harness.Broker(
            self.dsn, self.folder / f"node-{self.started}.log", client_request_timeout_ms=5000,
            transaction_timeout_ms=TIMEOUT_MS, transaction_check_interval_ms=300, consumer_session_timeout_ms=3000,
            consumer_heartbeat_check_ms=500, **more)

    def close(self):
        self.proxy.close()
        for node in self.nodes:
            if node:
                node.kill()
        self.cluster.stop()


# Of a reader: when it was, the stable offsets before it, and the (offset, payload) of each partition.
Pass = collections.namedtuple("Pass", "started ended stable seen")


class Refused(Exception):
    """The broker said no, for good."""

    def __init__(self, code, fields=None):
        super().__init__(code)
        self.fields = fields or {}


class Unknown(Refused):
    """Nobody knows, or it is worth trying again."""


class Client:
    def __init__(self, world, seed):
        self.world, self.random, self.connection = world, random.Random(seed), None

    def drop(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def call(self, command, loses_reply=False, **fields):
        try:
            if self.connection is None:
                self.connection = crs2.Client(self.world.proxy.address, timeout=10.0)
            if loses_reply:
                self.world.proxy.swallowing.add(self.connection.sock.getsockname()[1])
            return self.connection.call(command, **fields)
        except crs2.BrokerError as error:
            self.world.outcomes[f"{command} {error.code}"] += 1
            raise (Unknown if error.retryable else Refused)(error.code, error.fields) from None
        except LOST:
            self.world.outcomes[f"{command} lost"] += 1
            self.drop()
            raise Unknown("lost") from None

    def insist(self, command, **fields):
        while True:
            try:
                return self.call(command, **fields)
            except Unknown:
                time.sleep(0.05)


class Feeder(Client):
    """Publishes numbered inputs, each until it is acknowledged; sequence numbers keep it once."""

    def run(self):
        try:
            number = 0
            while not self.world.calm.is_set():
                number += 1
                for partition in range(INPUTS):
                    name = f"{partition}-{number}"
                    self.insist("PUBLISH", topic="in", partition=partition, producerId="feeder", seqNum=number, acks="all",
                                isIdempotent="true", message=name)
                    self.world.sent.add(name)
                time.sleep(0.02)
        except Exception as problem:
            self.world.faults.append(f"feeder: {problem!r}")


class Worker(Client):
    """A member that turns inputs into outputs in transactions; now and then it aborts, walks away, or is followed by a
    ghost that goes on with a session that is over."""

    def __init__(self, world, number):
        super().__init__(world, f"worker {number} {world.random.random()}")
        self.name, self.member, self.position = f"w{number}", None, {}

    def init(self):
        found = self.insist("INIT_PRODUCER_ID", transactional_id=self.name).ok_fields
        self.session, self.epoch = found, int(found["epoch"])
        self.world.epochs[self.name].append(self.epoch)

    def join(self):
        found = self.insist("JOIN_GROUP", topic="in", group=GROUP, member=self.name).ok_fields
        self.member = dict(group=GROUP, topic="in", member=found["member"], generation=found["generation"])
        self.mine = [int(n) for n in found["assignments"].strip("[]").split(",") if n]
        self.position = {}

    def settle(self, problem):
        """After whatever went wrong: the membership and the positions are looked up again."""
        self.position = {}
        if str(problem) in ("member_not_found", "group_not_found"):
            self.member = None
        elif str(problem) == "GEN_MISMATCH" and self.member:
            self.member["generation"] = problem.fields["current"]
            self.mine = []
            try:
                found = self.call("SYNC_GROUP", **self.member).ok_fields
                self.mine = [int(n) for n in found["assignments"].strip("[]").split(",") if n]
            except Refused:
                pass  # the next heartbeat says more

    def read(self, partition):
        if partition not in self.position:
            answer = self.call("FETCH_OFFSET", topic="in", partition=partition, group=GROUP).ok_fields
            self.position[partition] = int(answer["offset"])
        answer = self.call("CONSUME", topic="in", partition=partition, offset=self.position[partition], member=self.name,
                           batch=self.random.randrange(1, 8))
        return answer.batch.records

    def publish(self, records, total):
        for number, record in enumerate(records, 1):
            body = json.dumps([record.payload.decode(), self.name, self.epoch, number, total])
            fields = dict(topic="out", message=body, seqNum=number, **self.session)
            if self.random.random() < 0.5:
                fields["partition"] = number % OUTPUTS
            for _ in range(2 if self.random.random() < 0.1 else 1):  # sometimes sent again for no reason
                self.publish_surely(fields)
            self.world.accepted.add((self.name, self.epoch, number))

    def publish_surely(self, fields):
        for _ in range(20):
            try:
                return self.call("TXN_PUBLISH", **fields)
            except Unknown:
                time.sleep(0.03)
        raise Unknown("gave up")

    def end(self, result):
        """Until it is answered, with a lost reply now and then."""
        while True:
            try:
                answer = self.call("END_TXN", loses_reply=self.random.random() < 0.15, result=result, **self.session)
                break
            except Unknown as problem:
                if str(problem) == "transaction_commit_failed":
                    raise
                time.sleep(0.03)
        self.world.ends[self.name, self.epoch].add(answer.text)
        if "state=committed" in answer.text:
            self.world.committed_at[self.name, self.epoch] = time.monotonic()
            self.world.outcomes["committed"] += 1

    def transaction(self):
        partition = self.random.choice(self.mine)
        self.call("HEARTBEAT", **self.member)
        records = self.read(partition)
        if not records:
            return time.sleep(0.02)
        self.init()
        self.call("BEGIN_TXN", **self.session)
        self.publish(records, len(records))
        luck = self.random.random() if not self.world.calm.is_set() else 1
        if luck < 0.05:
            return self.walk_away("abort")  # a commit without the offsets would be wrong of the client
        after = records[-1].offset + 1
        self.call("SEND_OFFSETS_TO_TXN", offsets=f"P{partition}:{after}", **self.session, **self.member)
        if luck < 0.1:
            return self.walk_away("commit")
        if luck < 0.2:
            return self.end("abort")
        self.end("commit")
        self.position[partition] = after

    def walk_away(self, result):
        self.position = {}
        if self.random.random() < 0.5:
            ghost = Ghost(self.world, self.name, self.session, self.epoch, result)
            threading.Thread(target=ghost.run, daemon=True).start()

    def run(self):
        try:
            while not self.world.stopping.is_set():
                try:
                    if self.member is None:
                        self.join()
                    if not self.mine:
                        time.sleep(0.05)
                        self.call("HEARTBEAT", **self.member)
                    else:
                        self.transaction()
                except Refused as problem:
                    self.settle(problem)
                    time.sleep(0.02)
                if self.random.random() < 0.02:
                    self.drop()
        except Exception as problem:
            self.world.faults.append(f"{self.name}: {problem!r}")
        finally:
            self.drop()


class Ghost(Client):
    """Holds requests of a session back, as a slow network does, until its successor has begun."""

    def __init__(self, world, name, session, epoch, result):
        super().__init__(world, f"ghost {name} {epoch}")
        self.name, self.session, self.epoch, self.result = name, session, epoch, result

    def run(self):
        time.sleep(self.random.uniform(0.0, 1.0))
        is_over = self.world.epochs[self.name][-1] > self.epoch
        for command, fields in (("TXN_PUBLISH", dict(topic="out", message=GHOST, seqNum=1000)),
                                ("END_TXN", dict(result=self.result))):
            try:
                answer = self.call(command, **fields, **self.session)
            except Refused:
                continue
            if is_over:
                self.world.faults.append(f"a ghost of {self.name} {self.epoch} was served: {answer.text}")
            elif command == "END_TXN":
                self.world.ends[self.name, self.epoch].add(answer.text)
        self.drop()


class Reader(Client):
    """Reads all of the output, over and over, and remembers what it saw."""

    def passing(self, isolation="read_committed"):
        seen = {}
        for partition in range(OUTPUTS):
            records, offset = [], 0
            while True:
                batch = self.call("CONSUME", topic="out", partition=partition, offset=offset, member="reader",
                                  isolation=isolation).batch.records
                if not batch:
                    break
                records += batch
                offset = batch[-1].offset + 1
            seen[partition] = records
        return seen

    def run(self):
        while not self.world.stopping.is_set():
            try:
                stable = dict(harness.sql(self.world.dsn, "SELECT partition, stable_offset FROM pgcursus.partitions"
                                                          " WHERE topic = 'out'"))
                started = time.monotonic()
                seen = self.passing()
                self.world.passes.append(Pass(started, time.monotonic(), {int(p): int(o) for p, o in stable.items()}, {
                    p: [(r.offset, r.payload) for r in records] for p, records in seen.items()}))
                time.sleep(0.2)
            except (Unknown, RuntimeError):  # PostgreSQL may be away
                time.sleep(0.05)
            except Exception as problem:
                self.world.faults.append(f"reader: {problem!r}")
                return
            if self.random.random() < 0.3:
                self.drop()


def torment(world, seconds):
    end, crash_at = time.monotonic() + seconds, time.monotonic() + seconds / 2
    while time.monotonic() < end:
        time.sleep(world.random.uniform(0.2, 0.8))
        if time.monotonic() > crash_at:
            crash_at += max(20.0, seconds / 10)
            world.cluster.crash()
            world.cluster.start()
            world.kills["PostgreSQL"] += 1
        elif world.random.random() < 0.5:
            harness.sql(world.dsn, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name"
                                   " LIKE 'pgcursus%' AND datname = current_database() ORDER BY random() LIMIT 2")
            world.kills["PostgreSQL sessions"] += 2
        else:
            place = world.random.randrange(len(world.nodes))
            node, world.nodes[place] = world.nodes[place], None
            node.kill()
            world.kills["nodes"] += 1
            world.start_node(place)


def lag(world):
    rows = harness.sql(world.dsn, "SELECT coalesce(sum(p.end_offset - coalesce(c.next_offset, 0)), 0) FROM pgcursus.partitions p"
                       " LEFT JOIN LATERAL (SELECT max(o.next_offset) AS next_offset FROM pgcursus.offset_commits o"
                       "   JOIN pgcursus.group_definitions g USING (group_id) WHERE o.log_id = p.log_id AND o.partition = p.partition"
                       f"  AND g.name = '{GROUP}') c ON true WHERE p.topic = 'in'")
    return int(rows[0][0])


def work(world, options):
    workers = [Worker(world, n) for n in range(options.workers)]
    readers = [Reader(world, f"reader {n}") for n in range(2)]
    feeder = threading.Thread(target=Feeder(world, "feeder").run, daemon=True)
    threads = [threading.Thread(target=client.run, daemon=True) for client in workers + readers]
    for thread in threads + [feeder]:
        thread.start()
    torment(world, options.seconds)
    world.calm.set()
    feeder.join(DRAIN_SECONDS)
    # What nobody ends any more is aborted in time (T10), and the pipeline catches up.
    harness.wait_until(lambda: lag(world) == 0, DRAIN_SECONDS, 0.2, "the end of the input")
    world.stopping.set()
    for thread in threads:
        thread.join(60)
        if thread.is_alive():
            world.faults.append("a client is still waiting for an answer")
    unfinished = "SELECT count(*) FROM pgcursus.transactions WHERE NOT is_final"
    harness.wait_until(lambda: harness.sql(world.dsn, unfinished) == [["0"]], TIMEOUT_MS / 1000 + 30, 0.2,
                       "the end of the last transaction (T10, T11)")


# ---- what must hold -------------------------------------------------------------------------------


class Final:
    def __init__(self, world):
        reader = Reader(world, "final")
        self.committed = reader.passing()
        self.everything = reader.passing("read_uncommitted")
        reader.drop()

    def outputs(self):
        return [json.loads(r.payload) for records in self.committed.values() for r in records if r.payload != GHOST]


def check_exactly_once(world, final):
    counts = collections.Counter(output[0] for output in final.outputs())
    twice = [name for name, count in counts.items() if count > 1]
    assert not twice, f"{len(twice)} inputs are there more than once: {twice[:5]}"
    missing = world.sent - set(counts)
    assert not missing, f"{len(missing)} inputs are missing: {sorted(missing)[:5]}"
    made_up = set(counts) - world.sent
    assert not made_up, f"outputs of no input: {sorted(made_up)[:5]}"


def transactions_of(records):
    found = collections.defaultdict(list)
    for payload in records:
        if payload != GHOST:
            _, name, epoch, number, total = json.loads(payload)
            found[name, epoch].append((number, total))
    return found


def check_atomic(world, final):
    """T1: who has seen a part of a transaction sees all of it from then on, and so does everybody after its commit."""
    for key, numbers in transactions_of(r.payload for records in final.committed.values() for r in records).items():
        assert sorted(n for n, _ in numbers) == list(range(1, numbers[0][1] + 1)), f"{key}: {numbers}"
    places = collections.defaultdict(list)
    for partition, records in final.committed.items():
        for record in records:
            if record.payload != GHOST:
                places[tuple(json.loads(record.payload)[1:3])].append((partition, record.offset))
    known = dict(world.committed_at)  # transaction -> when it was known to be committed
    for one in sorted(world.passes, key=lambda p: p.started):
        seen = {(partition, offset) for partition, records in one.seen.items() for offset, _ in records}
        for key, when in known.items():
            # What is beyond the stable offset may still have to wait for other transactions.
            due = [(p, o) for p, o in places[key] if when < one.started and o < one.stable[p]]
            assert seen.issuperset(due), f"{key} is not whole in a later pass"
        for key in transactions_of(payload for records in one.seen.values() for _, payload in records):
            known[key] = min(known.get(key, one.ended), one.ended)


def check_only_committed(world, final):
    """T2, T3: a record that was once seen is there for good, at its offset; passes agree."""
    last = {(p, r.offset): r.payload for p, records in final.committed.items() for r in records}
    for one in world.passes:
        for partition, records in one.seen.items():
            offsets = [offset for offset, _ in records]
            assert offsets == sorted(set(offsets)), "out of order, or twice"
            for offset, payload in records:
                assert last.get((partition, offset)) == payload, f"{payload} at {partition}/{offset} was seen, and is not there"
            if records:
                end = records[-1][0]
                all_below = [o for (p, o) in last if p == partition and o <= end]
                assert len(all_below) == len(offsets), "a record appeared below a position that had been passed"


def check_markers(world, final):
    """T5, and T2 again from the log itself."""
    state = {}
    for partition, records in final.everything.items():
        data, markers = collections.defaultdict(list), {}
        for record in records:
            key = (record.transactional_id.decode(), record.epoch)
            if record.transaction_marker:
                assert (partition, key) not in markers, f"two markers of {key}"
                markers[partition, key] = record.offset
                assert state.setdefault(key, record.transaction_marker) == record.transaction_marker, f"both kinds: {key}"
            else:
                assert (partition, key) not in markers, f"a record of {key} after its marker"
                data[key].append(record)
        assert {k for _, k in markers} == set(data), "markers and data do not match"
        shown = {r.offset for r in final.committed[partition]}
        for key, found in data.items():
            for record in found:
                assert (record.offset in shown) == (state[key] == b"commit"), f"{key}: {record}"
            assert [r.seq_num for r in found] == list(range(1, len(found) + 1)), "stored sequences"


def check_requests(world, final):
    """T6: one record for each request that was accepted, however often it was sent."""
    counts = collections.Counter()
    for records in final.everything.values():
        for record in records:
            if not record.transaction_marker and record.payload != GHOST:
                _, name, epoch, number, _ = json.loads(record.payload)
                counts[name, epoch, number] += 1
    assert not [key for key, count in counts.items() if count > 1], "a request has two records"
    missing = [key for key in world.accepted if key not in counts]
    assert not missing, f"accepted, and not stored: {missing[:5]}"


def check_epochs(world, final):
    for name, epochs in world.epochs.items():
        assert all(a < b for a, b in zip(epochs, epochs[1:])), f"{name}: {epochs}"


def check_outcomes(world, final):
    """T8, and the answers agree with the log."""
    rows = harness.sql(world.dsn, "SELECT transactional_id, producer_epoch, state, messages, offsets FROM pgcursus.transactions")
    known = {(r[0], int(r[1])): r[2:] for r in rows}
    for key, answers in world.ends.items():
        assert len(answers) == 1, f"{key}: {answers}"
        state, messages, offsets = known[key]
        text = f"OK transactional_id={key[0]} state={state} messages={messages} offsets={offsets}"
        assert answers == {text}, f"{answers} against {text}"


def check_stable(world, final):
    """T4, T10: nothing holds readers back any more."""
    rows = harness.sql(world.dsn, "SELECT end_offset - stable_offset FROM pgcursus.partitions WHERE topic = 'out'")
    assert rows == [["0"]] * OUTPUTS, rows


def check_volume(world, final):
    assert world.outcomes["committed"] > 20, world.outcomes["committed"]
    assert len(world.passes) > 5
    assert world.kills["nodes"] and world.kills["PostgreSQL"] and world.kills["PostgreSQL sessions"]


def check_faults(world, final):
    assert not world.faults, "\n    ".join(world.faults[:5])


TESTS = [
    ("every input is in the output exactly once (T9)", check_exactly_once),
    ("T1 transactions are seen whole", check_atomic),
    ("T2 T3 what was seen stays, and nothing appears behind", check_only_committed),
    ("T5 markers", check_markers),
    ("T6 one record a request", check_requests),
    ("T7 epochs rise", check_epochs),
    ("T8 one outcome", check_outcomes),
    ("T4 T10 T11 everything is decided", check_stable),
    ("every answer is allowed", check_faults),
    ("enough happened to mean something", check_volume),
]


def verify(world):
    final, failed = Final(world), 0
    for name, test in TESTS:
        try:
            test(world, final)
            print(f"ok - {name}")
        except AssertionError as wrong:
            failed += 1
            print(f"not ok - {name}: {wrong}")
    return len(TESTS) - failed, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8, help="how long to torment the broker")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the random choices")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--nodes", type=int, default=3)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="pgcursus-fault-"))
    os.chmod(folder, 0o755)
    world, failed = None, 1
    try:
        world = World(options, folder)
        with world.nodes[0].client() as client:
            client.call("CREATE", topic="in", partitions=INPUTS)
            client.call("CREATE", topic="out", partitions=OUTPUTS)
        work(world, options)
        passed, failed = verify(world)
        print(f"seed {options.seed}: {len(world.sent)} inputs, {len(world.passes)} passes, killed {dict(world.kills)},"
              f" {dict(world.outcomes.most_common(14))}")
        for node in world.nodes:
            if node and node.faults():
                print(node.faults())
                failed += 1
        print(f"{passed} passed, {failed} failed")
    except AssertionError as wrong:
        print(f"not ok - {wrong}\n{dict(world.outcomes) if world else ''} {world.faults[:3] if world else ''}\n0 passed, 1 failed")
    finally:
        if world:
            world.close()
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if failed else 0)


main()
