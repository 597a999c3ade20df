"""What the checkers run in: nodes on a private PostgreSQL behind a proxy, clients that write down what they are told, and
what may happen to all of them.

It owns every process and thread that it starts. It knows no workload and no invariant.
"""

import argparse
import collections
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
from history import History, Operation

LOST = (OSError, crs2.Closed, EOFError)
PATIENCE = 10 * harness.SLOWNESS  # seconds for what must come true once nothing dies any more


class Proxy:
    """Forwards connections to a random live node. It can cut a connection, or swallow its next reply: the request
    arrives, the answer is lost with the connection."""

    def __init__(self, world):
        self.world, self.swallowing, self.pairs = world, set(), {}
        self.server = socket.create_server(("127.0.0.1", 0), backlog=200)
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
        node.settimeout(None)
        for end in (client, node):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pairs[port] = client, node
        upward = threading.Thread(target=self.pump, args=(client, node, None), daemon=True)
        upward.start()
        self.pump(node, client, port)
        upward.join()
        del self.pairs[port]
        self.swallowing.discard(port)
        client.close()
        node.close()

    def pump(self, source, target, port):
        try:
            while data := source.recv(65536):
                if port in self.swallowing:
                    break
                target.sendall(data)
        except OSError:
            pass
        self.end(source, target)

    @staticmethod
    def end(*sockets):
        for one in sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        """Ends a connection at random, in whatever it is doing."""
        pairs = list(self.pairs.values())
        if pairs:
            self.end(*self.world.choose(pairs))

    def close(self):
        self.server.close()
        for pair in list(self.pairs.values()):
            self.end(*pair)


class World:
    """`settings` are those of every node."""

    def __init__(self, options, folder, settings):
        self.options, self.settings, self.folder = options, settings, folder
        self.random, self.lock = random.Random(options.seed), threading.Lock()
        self.history, self.stopping = History(), threading.Event()
        self.kills, self.notes = collections.Counter(), []
        self.faults = []  # what must not have happened, whatever the history says
        self.cluster = harness.Cluster(folder / "pg")
        self.dsn = self.cluster.create_database()
        self.nodes, self.started = [None] * options.nodes, 0
        for place in range(options.nodes):
            self.start_node(place)
        self.proxy = Proxy(self)

    def choose(self, things):
        with self.lock:
            return self.random.choice(things)

    def start_node(self, place):
        self.started += 1
        self.nodes[place] = harness.Broker(self.dsn, self.folder / f"node-{self.started}.log", **self.settings)

    def close(self):
        self.proxy.close()
        for node in self.nodes:
            if node:
                node.kill()
        self.cluster.crash()

    # ---- threads

    def start(self, functions):
        """Runs each in a thread; what it raises is a fault."""
        def run(function):
            try:
                function()
            except Exception as problem:
                self.faults.append(f"{function.__qualname__}: {problem!r}")

        threads = [threading.Thread(target=run, args=(f,), daemon=True) for f in functions]
        for thread in threads:
            thread.start()
        return threads

    def join(self, threads):
        deadline = time.monotonic() + PATIENCE
        for thread in threads:
            thread.join(max(deadline - time.monotonic(), 0))
            if thread.is_alive():
                self.faults.append("a client is still waiting for an answer")

    def expect(self, condition, what, within=PATIENCE):
        """Waits until it holds; that it does not is a fault, and the run goes on."""
        try:
            harness.wait_until(condition, within, 0.1, what)
        except AssertionError as problem:
            self.faults.append(str(problem))

    # ---- faults

    def kill_node(self):
        place = self.random.randrange(len(self.nodes))
        node, self.nodes[place] = self.nodes[place], None
        fault = node.faults()
        if fault:
            self.faults.append(fault)
        node.kill()
        self.start_node(place)

    def kill_sessions(self):
        harness.sql(self.dsn, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name"
                              " LIKE 'pgcursus%' AND datname = current_database() ORDER BY random() LIMIT 2")

    def cut_connection(self):
        self.proxy.cut()

    def crash_postgres(self):
        self.cluster.crash()
        self.cluster.start()

    def torment(self, is_enough, faults):
        """Kills at random for the time asked for, and longer while that was not enough. `faults` are names of the above:
        "a node", ...; PostgreSQL as a whole dies now and then, the first time in the middle."""
        seconds, begun = self.options.seconds, time.monotonic()
        crash_at = begun + seconds / 2
        while time.monotonic() < begun + seconds or (not is_enough() and time.monotonic() < begun + seconds + PATIENCE):
            time.sleep(self.random.uniform(0.2, 0.8))
            if "PostgreSQL" in faults and time.monotonic() > crash_at:
                crash_at = time.monotonic() + max(20.0, seconds / 10)
                fault = "PostgreSQL"
            else:
                fault = self.random.choice([f for f in faults if f != "PostgreSQL"])
            FAULTS[fault](self)
            self.kills[fault] += 1


FAULTS = {"nodes": World.kill_node, "sessions": World.kill_sessions, "connections": World.cut_connection,
          "PostgreSQL": World.crash_postgres}


class Client:
    """A connection that is replaced when it is lost. `allowed` are the refusals that its work may meet."""

    allowed = ()

    def __init__(self, world, name):
        self.world, self.name, self.connection = world, name, None
        self.random = random.Random(f"{name} {world.options.seed}")

    def drop(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def connect(self):
        """False when nobody is there."""
        try:
            self.connection = self.connection or crs2.Client(self.world.proxy.address, timeout=10.0 * harness.SLOWNESS)
        except LOST:
            time.sleep(0.02)
        return self.connection is not None

    def ask(self, command, fields, facts=None, read=None, kind=None, loses_reply=False):
        """The operation, written down with its facts and what `read` makes of the answer. A request that could not be
        sent is not written down."""
        operation = Operation(kind or command, trouble="unreachable", **(facts or {}))
        if not self.connect():
            return operation
        if loses_reply:
            self.world.proxy.swallowing.add(self.connection.sock.getsockname()[1])
        return self.conclude(operation, lambda: self.connection.call(command, **fields), read)

    def ask_ahead(self, command, requests):
        """The operations of several requests, (fields, facts, read), that are all sent before any answer is awaited."""
        operations = [Operation(command, trouble="unreachable", **facts) for _, facts, _ in requests]
        if not self.connect():
            return operations
        connection, sent = self.connection, iter(())
        try:
            sent = iter([connection.send(command, fields) for fields, _, _ in requests])
        except LOST:
            self.drop()  # some may have arrived
        return [self.conclude(operation, lambda: connection.answer(next(sent, None), command), read)
                for operation, (_, _, read) in zip(operations, requests)]

    def conclude(self, operation, answer, read):
        """Waits for the answer and writes the operation down."""
        found = {}
        try:
            answer = answer()
            outcome, found = "OK", read(answer) if read else {}
        except crs2.BrokerError as error:
            outcome, trouble = None if error.retryable else error.code, error.code
            if error.code == "GEN_MISMATCH":
                found["current"] = int(error.fields["current"])
            if not error.retryable and error.code not in self.allowed:
                self.world.faults.append(f"{operation}: {error}")
        except LOST:
            self.drop()
            outcome, trouble = None, "lost"
        return self.world.history.end(operation, outcome, trouble=None if outcome == "OK" else trouble, **found)


# ---- a run --------------------------------------------------------------------------------------------


def settle(tests):
    """(passed, failed)"""
    failed = 0
    for name, test in tests:
        try:
            test()
            print(f"ok - {name}")
        except AssertionError as wrong:
            failed += 1
            print(f"not ok - {name}: {wrong}")
    return len(tests) - failed, failed


def run(description, settings, work, arguments):
    """The main program of a checker. work(world) does everything and returns the tests; `arguments`: name -> default."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8, help="how long to torment the broker")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the random choices")
    parser.add_argument("--nodes", type=int, default=3)
    for name, default in arguments.items():
        parser.add_argument(name, type=int, default=default)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="pgcursus-fault-"))
    os.chmod(folder, 0o755)
    world, passed, failed = None, 0, 1
    try:
        world = World(options, folder, settings)
        passed, failed = settle(work(world) + [("every answer is allowed", lambda: check_faults(world))])
        outcomes = collections.Counter(o.outcome or f"unknown ({o.trouble})" for o in world.history.operations)
        print(f"seed {options.seed}: {len(world.history.operations)} operations {dict(outcomes.most_common())},"
              f" killed {dict(world.kills)}", *world.notes, sep="\n")
        print(f"{passed} passed, {failed} failed")
    finally:
        if world:
            world.close()
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if failed else 0)


def check_faults(world):
    faults = world.faults + [node.faults() for node in world.nodes if node and node.faults()]
    assert not faults, "\n    ".join(faults[:5])
