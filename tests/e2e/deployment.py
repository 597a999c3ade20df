"""What stands around the brokers in a deployment: a load balancer, a standby, a pooler, and producers that survive all of it.

It owns the processes of HAProxy and PgBouncer that it starts, and the standbys. It knows the brokers only by their addresses.
"""

import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

import crs2client as crs2
import harness
from crs2client import BrokerError, CodecError
from harness import ROOT, SLOWNESS, Cluster, free_port, sql, wait_until

PRODUCER_ERRORS = (crs2.Closed, CodecError, OSError)


class Process:
    """A foreground process that is ended with the test."""

    def __init__(self, command, log_path, **more):
        self.log_path = pathlib.Path(log_path)
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            preexec_fn=harness._die_with_parent, **more)

    def log_text(self):
        return self.log_path.read_text(errors="replace")

    def check(self):
        assert self.process.poll() is None, self.log_text()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(120)


class ListeningSocket(socket.socket):
    waiting = ()  # what must stay open as long as it does


def listening_socket(port=0, backlog=256):
    sock = ListeningSocket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    sock.listen(backlog)
    return sock


def unreachable_socket(port):
    """Connecting to it takes for ever, as to a host whose packets get lost: Linux lets nobody in when the queue is full."""
    sock = listening_socket(port, backlog=0)
    waiting = []
    while True:
        waiting.append(socket.socket())
        waiting[-1].settimeout(0.3)
        try:
            waiting[-1].connect(("127.0.0.1", port))
        except TimeoutError:
            sock.waiting = waiting
            return sock


def port_of_dsn(dsn):
    return int(re.search(r":(\d+)/", dsn).group(1))


# ---- HAProxy --------------------------------------------------------------------------------------


class HAProxy(Process):
    """HAProxy with the configuration that is shipped, but for addresses and where it logs.

    `brokers` is a list of (client port, HTTP port). It listens on a socket that it inherits, so no port can be lost.
    """

    shipped = ROOT / "deploy" / "haproxy" / "haproxy.cfg"

    def __init__(self, brokers, directory):
        with listening_socket() as sock:
            self.address = "127.0.0.1:%d" % sock.getsockname()[1]
            descriptor = sock.fileno()
            text = self._adapt(self.shipped.read_text(), brokers, descriptor)
            config = pathlib.Path(tempfile.mkstemp(prefix="haproxy-", suffix=".cfg", dir=directory)[1])
            config.write_text(text)
            super().__init__(["haproxy", "-db", "-f", config], f"{config}.log", pass_fds=[descriptor])

    @staticmethod
    def _adapt(text, brokers, descriptor):
        text = re.sub(r"^global\n(?:[ #].*\n)*", "global\n  log stdout format raw local0\n", text, flags=re.MULTILINE)
        text = re.sub(r"bind :9000", f"bind fd@{descriptor}", text)
        text = text.split("# The page for people")[0]
        text, count = re.subn(r"^  server .*\n", "", text, flags=re.MULTILINE)
        assert count == 3 and f"fd@{descriptor}" in text, "deploy/haproxy/haproxy.cfg has another form now"
        for number, (port, http) in enumerate(brokers):
            text += f"  server broker{number} 127.0.0.1:{port} port {http}\n"
        return text


# ---- PgBouncer ------------------------------------------------------------------------------------


class PgBouncer(Process):
    """PgBouncer in front of a cluster, with a pool of its own for every database."""

    def __init__(self, dsn, directory, pool_mode, pool_size=40):
        self.port = free_port()
        config = pathlib.Path(tempfile.mkstemp(prefix="pgbouncer-", suffix=".ini", dir=directory)[1])
        users = config.with_suffix(".users")
        users.write_text('"postgres" ""\n')
        config.write_text(
            f"[databases]\n* = host=127.0.0.1 port={port_of_dsn(dsn)}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {self.port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {users}\npool_mode = {pool_mode}\n"
            f"default_pool_size = {pool_size}\nmax_client_conn = 200\nserver_idle_timeout = 60\n"
        )
        for file in (config, users):
            file.chmod(0o644)
        self.dsn = re.sub(r":\d+/", f":{self.port}/", dsn)
        more = {"user": "postgres"} if os.getuid() == 0 else {}
        super().__init__(["pgbouncer", config], f"{config}.log", **more)
        wait_until(self._answers, 10 * SLOWNESS, what="PgBouncer")

    def _answers(self):
        self.check()
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", self.port)) == 0


# ---- a primary and its standby --------------------------------------------------------------------


class Standby(Cluster):
    """A streaming standby of `primary`, called `name` in synchronous_standby_names."""

    def __init__(self, directory, primary, name="standby"):
        self.primary, self.name = primary, name
        super().__init__(directory)

    def start(self):
        if self.dsn is None:
            self.dsn = self._call("standby", self.directory, self.primary.directory, "--name", self.name,
                                  *self.settings)
        else:
            super().start()

    def promote(self):
        self._call("promote", self.directory)

    @contextlib.contextmanager
    def stopped_receiver(self):
        """Meanwhile it stays connected to the primary and confirms nothing."""
        receiver = int(sql(self.dsn, "SELECT pid FROM pg_stat_wal_receiver")[0][0])
        os.kill(receiver, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(receiver, signal.SIGCONT)

    def is_synchronous(self):
        rows = sql(self.primary.dsn, "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'"
                                     f" AND application_name = '{self.name}'")
        return rows and rows[0][0] in ("sync", "quorum")


def make_synchronous(primary, standby):
    sql(primary.dsn, f"ALTER SYSTEM SET synchronous_standby_names = '{standby.name}'")
    sql(primary.dsn, "SELECT pg_reload_conf()")
    wait_until(standby.is_synchronous, 20 * SLOWNESS, what="synchronous standby")


def dsn_of_both(first, second, database):
    """A connection string that names two servers, the way a deployment with fail-over has it."""
    ports = [port_of_dsn(cluster.dsn) for cluster in (first, second)]
    return (f"postgresql://postgres@127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}/{database}"
            "?target_session_attrs=read-write")


# ---- a producer that must neither lose nor repeat -------------------------------------------------


class IdempotentProducer(threading.Thread):
    """Numbers its records, keeps a few in flight, and after a lost connection sends the unacknowledged tail again.

    This is all that the protocol asks of a producer, so whatever it is told was stored must be there once, in order.
    """

    WINDOW = 8

    def __init__(self, address, topic, partition, name):
        super().__init__(daemon=True)
        self.address, self.topic, self.partition, self.name_in_log = address, topic, partition, name
        self.offsets = []  # of record 1, 2, ... as they were acknowledged
        self.acknowledged_at = []  # monotonic, one for each of these
        self.errors, self.reconnects, self.problem = [], 0, None
        self.stopping = threading.Event()

    def run(self):
        try:
            while not self.stopping.is_set():
                self._one_connection()
        except Exception as problem:  # shown by whoever joins
            self.problem = problem

    def _one_connection(self):
        client = None
        try:
            client = crs2.Client(self.address, timeout=20 * SLOWNESS)
            self._produce(client)
        except BrokerError as error:
            self.errors.append(error)
            if not error.retryable:
                raise
            time.sleep(0.05)
        except PRODUCER_ERRORS:
            self.reconnects += 1
            time.sleep(0.05)
        finally:
            if client:
                client.close()

    def _produce(self, client):
        sent = len(self.offsets)
        while not self.stopping.is_set() or sent > len(self.offsets):
            while not self.stopping.is_set() and sent - len(self.offsets) < self.WINDOW:
                sent += 1
                client.send("PUBLISH", dict(topic=self.topic, partition=self.partition, producerId=self.name_in_log,
                                            acks="all", isIdempotent=True, seqNum=sent,
                                            message=f"{self.name_in_log}-{sent}"))
            answer = client.answer(command="PUBLISH").json
            self.offsets.append(answer["last_offset"])
            self.acknowledged_at.append(time.monotonic())


class Producers:
    """Several idempotent producers, two a partition."""

    def __init__(self, addresses, topic, partitions, per_partition=2):
        self.topic, self.partitions = topic, partitions
        self.all = [
            IdempotentProducer(addresses[number % len(addresses)], topic, number % partitions, f"p{number}")
            for number in range(partitions * per_partition)
        ]

    def __enter__(self):
        for producer in self.all:
            producer.start()
        return self

    def __exit__(self, kind, *_):
        for producer in self.all:
            producer.stopping.set()
        for producer in self.all:
            producer.join(60 * SLOWNESS)
            assert kind or not producer.is_alive(), "a producer is still waiting for an answer"

    def acknowledged(self):
        return sum(len(producer.offsets) for producer in self.all)

    def wait_for_acks(self, each, within=30.0):
        """Waits until every producer has `each` more acknowledgements."""
        goals = [len(producer.offsets) + each for producer in self.all]

        def reached():
            for producer in self.all:
                assert producer.problem is None, producer.problem
            return all(len(p.offsets) >= goal for p, goal in zip(self.all, goals))

        wait_until(reached, within * SLOWNESS, what=f"{each} acknowledgements for each producer")

    def first_ack_after(self, moment):
        """When the last of the producers was acknowledged for the first time after `moment`."""
        return max(next(t for t in producer.acknowledged_at if t > moment) for producer in self.all)

    @property
    def errors(self):
        return [error for producer in self.all for error in producer.errors]

    @property
    def reconnects(self):
        return sum(producer.reconnects for producer in self.all)

    def verify(self, address):
        """Every producer's records are stored once, in order, at the offsets that were acknowledged."""
        with crs2.Client(address) as client:
            for partition in range(self.partitions):
                records = client.consume_all(self.topic, partition)
                assert [r.offset for r in records] == list(range(len(records))), "offsets are not dense"
                for producer in self.all:
                    assert producer.problem is None, producer.problem
                    if producer.partition != partition:
                        continue
                    prefix = producer.name_in_log.encode() + b"-"
                    mine = [r for r in records if r.payload.startswith(prefix)]
                    assert [r.payload for r in mine] == [prefix + b"%d" % (n + 1) for n in range(len(mine))]
                    assert len(mine) >= len(producer.offsets), "an acknowledged record is lost"
                    assert [r.offset for r in mine][: len(producer.offsets)] == producer.offsets


def freeze(broker):
    broker.process.send_signal(signal.SIGSTOP)


def thaw(broker):
    broker.process.send_signal(signal.SIGCONT)
