"""What the end-to-end tests run against: a private PostgreSQL, broker processes, SQL sessions, load.

It owns the processes that the tests start and ends every one of them, also after a failure or Ctrl-C. A broker
that crashes, leaks or trips a sanitizer is a fault of the test that was running. It knows the command
lines of the programs and nothing of their insides.
"""

import contextlib
import ctypes
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.request

import crs2client as crs2

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / os.environ.get("PGCURSUS_BUILD", "build")
BROKER, CLI = BUILD / "pgcursusd", BUILD / "pgcursus"
SANITIZED = "asan" in BUILD.name
# Deadlines are what an idle machine keeps; they are stretched by this, for a loaded one and for the sanitizers. What
# must be told from a time-out of the broker's own is told by its outcome, or by a time-out of minutes.
SLOWNESS = 25 if SANITIZED else 8
# What processor time costs under the sanitizers.
COST = 5 if SANITIZED else 1
SANITIZER_REPORT = re.compile(
    r"ERROR: AddressSanitizer|runtime error:|LeakSanitizer|ERROR: ThreadSanitizer|Assertion .* failed"
)


def wait_until(condition, within=10.0 * SLOWNESS, every=0.02, what="condition"):
    """Returns the first true value of condition(); fails when there is none in time."""
    deadline = time.monotonic() + within
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {within} s")
        time.sleep(every)


def _die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def free_port():
    """A port of 127.0.0.1 that nobody uses, outside of those that the kernel chooses from meanwhile."""
    while True:
        port = random.randrange(10000, 32768)
        try:
            socket.create_server(("127.0.0.1", port)).close()
            return port
        except OSError:
            pass


# ---- PostgreSQL -----------------------------------------------------------------------------------


def dsn_with(dsn, **parameters):
    """The connection string with parameters replaced (in libpq's keyword form the last one wins)."""
    if "://" in dsn:
        base, _, query = dsn.partition("?")
        pairs = dict(pair.split("=", 1) for pair in query.split("&") if pair)
        return base + "?" + "&".join(f"{k}={v}" for k, v in (pairs | parameters).items())
    return dsn + "".join(f" {name}={value}" for name, value in parameters.items())


def sql(dsn, text):
    """Runs SQL and returns its rows as lists of strings (NULL is the empty string)."""
    done = subprocess.run(
        ["psql", "-XAtq", "-F", "\x1f", "-v", "ON_ERROR_STOP=1", "-d", dsn, "-f", "-"],
        input=text, capture_output=True, text=True, timeout=30 * SLOWNESS,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return [line.split("\x1f") for line in done.stdout.splitlines()]


class SqlSession:
    """An open psql session, for transactions and locks that outlast one statement."""

    def __init__(self, dsn):
        self.process = subprocess.Popen(
            ["psql", "-XAtq", "-d", dsn], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, bufsize=1, preexec_fn=_die_with_parent,
            start_new_session=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(10 * SLOWNESS)
        self.process.stdout.close()

    def run(self, text):
        self.process.stdin.write(text.rstrip().rstrip(";") + ";\n\\echo =done=\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line == "=done=\n":
                return lines
            lines.append(line.rstrip("\n"))
        raise RuntimeError("psql ended: " + " ".join(lines))


class Cluster:
    """A private PostgreSQL cluster below `directory`, started and stopped by tools/private-postgres."""

    tool = ROOT / "tools" / "private-postgres"
    settings = ("--conf", "max_connections=200", "--conf", "recovery_init_sync_method=syncfs")

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.names = 0
        self.frozen = []
        self.dsn = None
        self.start()

    def _call(self, *arguments):
        done = subprocess.run([self.tool, *arguments], capture_output=True, text=True, timeout=60 * SLOWNESS)
        if done.returncode:
            raise RuntimeError(f"private-postgres {arguments}: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def start(self):
        if self.dsn is None:
            self.dsn = self._call("start", self.directory, *self.settings)
        elif subprocess.run([self.tool, "status", self.directory], capture_output=True).returncode:
            self._call("restart", self.directory)

    def stop(self):
        self._call("stop", self.directory)

    def crash(self):
        """An immediate stop: nothing is flushed, the next start replays the write-ahead log."""
        self.thaw()
        self._call("stop", self.directory, "--mode", "immediate")

    def processes(self):
        """The process ids, the parent's first."""
        parent = (self.directory / "data" / "postmaster.pid").read_text().split()[0]
        children = (pathlib.Path("/proc") / parent / "task" / parent / "children").read_text().split()
        return [int(pid) for pid in [parent, *children]]

    def freeze(self):
        """From now on it accepts connections, as far as the kernel does that, and says nothing."""
        while self.frozen != self.processes():  # one may have been on its way
            self.frozen = self.processes()
            self._signal_frozen(signal.SIGSTOP)

    def thaw(self):
        self._signal_frozen(signal.SIGCONT)
        self.frozen = []

    def _signal_frozen(self, number):
        for pid in self.frozen:
            with contextlib.suppress(ProcessLookupError):  # one may have been at its end
                os.kill(pid, number)

    def create_database(self):
        self.names += 1
        name = f"e2e_{self.names}"
        sql(self.dsn, f"CREATE DATABASE {name}")
        return dsn_with(self.dsn, dbname=name)


# ---- brokers --------------------------------------------------------------------------------------


class BrokerFault(AssertionError):
    """The broker process itself did something wrong: a crash, a leak, a sanitizer report."""


class Broker:
    """One broker process. Settings are given as keyword arguments: client_request_timeout_ms=500."""

    def __init__(self, dsn, log_path, wait=True, **settings):
        self.dsn, self.log_path = dsn, pathlib.Path(log_path)
        command = [BROKER, "--database", dsn, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        command += ["--log-format", "json"]
        for name, value in settings.items():
            command += ["--" + name.replace("_", "-"), str(value).lower() if isinstance(value, bool) else str(value)]
        environment = os.environ | {"UBSAN_OPTIONS": "print_stacktrace=1", "ASAN_OPTIONS": "detect_leaks=1"}
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
                preexec_fn=_die_with_parent, start_new_session=True,  # Ctrl-C is for us; we end the broker
            )
        self.listen = self.http = None
        if wait:
            self.wait_ready()

    @property
    def pid(self):
        return self.process.pid

    def log_text(self):
        return self.log_path.read_text(errors="replace")

    def events(self):
        """The log as JSON objects; lines that are none are left out."""
        out = []
        for line in self.log_text().splitlines():
            try:
                out.append(json.loads(line))
            except ValueError:
                continue
        return [event for event in out if isinstance(event, dict)]

    def wait_ready(self, within=30.0):
        def ready():
            if self.process.poll() is not None:
                raise BrokerFault(f"the broker ended with {self.process.returncode}: {self.log_text()[-3000:]}")
            return next((e for e in self.events() if e.get("message") == "ready"), None)

        try:
            event = wait_until(ready, within * SLOWNESS, what="ready line")
        except AssertionError:
            self.kill()
            raise
        self.listen, self.http = event["listen"], event["http"]

    def faults(self):
        """What is wrong with the process so far, or None."""
        found = SANITIZER_REPORT.search(self.log_text())
        if found:
            return f"{found.group()}:\n{self.log_text()[found.start() - 200 if found.start() > 200 else 0:][:6000]}"
        code = self.process.poll()
        if code not in (None, 0):
            return f"the broker ended with {code}:\n{self.log_text()[-3000:]}"
        return None

    def check(self):
        fault = self.faults()
        if fault:
            raise BrokerFault(fault)
        if self.process.poll() is not None:
            raise BrokerFault("the broker has ended")

    def stop(self, within=20.0):
        """Ends the broker as an operator would and insists on a clean end."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(within * SLOWNESS)
            except subprocess.TimeoutExpired:
                self.kill()
                raise BrokerFault(f"no end {within} s after SIGTERM:\n{self.log_text()[-3000:]}") from None
        fault = self.faults()
        if fault:
            raise BrokerFault(fault)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10 * SLOWNESS)

    def client(self, *arguments, **more):
        return crs2.Client(self.listen, *arguments, **more)

    def terminate(self):
        """Asks the broker to end, as an operator would, and does not wait."""
        self.process.send_signal(signal.SIGTERM)

    def metric(self, name):
        """The sum of a metric's series."""
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=20 * SLOWNESS) as answer:
            lines = answer.read().decode().splitlines()
        values = [float(line.split()[-1]) for line in lines if re.match(rf"{name}[ {{]", line)]
        assert values, f"no metric {name}"
        return sum(values)

    # What the process costs, from /proc.

    def resident_bytes(self):
        text = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", text).group(1)) * 1024

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))


def status_of(broker, path):
    """The HTTP status of one of the broker's own pages."""
    connection = http.client.HTTPConnection(broker.http, timeout=10 * SLOWNESS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def metric_of(broker, series):
    """The value of one series, named as on the page, of the broker's metrics; None when it is not there."""
    connection = http.client.HTTPConnection(broker.http, timeout=10 * SLOWNESS)
    try:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    finally:
        connection.close()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.rpartition(" ")[0] == series), None)


# ---- load -----------------------------------------------------------------------------------------


class Load:
    """Threads that publish records with unique ids until told to stop, and what they were told about each.

    A refused or unanswered record is never sent again, so the log must hold each acknowledged id exactly once, at the
    offset of its acknowledgement, and any other id at most once.
    """

    def __init__(self, brokers, topic, partitions, threads=4, acks="all", pause=0.0):
        self.brokers, self.topic, self.partitions, self.acks = brokers, topic, partitions, acks
        self.pause = pause
        self.acked, self.refusals, self.wrong, self.sent = {}, [], [], 0
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(threads)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(60 * SLOWNESS)
            assert not thread.is_alive(), "a producer is still waiting for an answer"

    def _run(self, number):
        client, serial = None, 0
        while not self.stopping.is_set():
            serial += 1
            name = b"p%d-%06d" % (number, serial)
            partition = (number + serial) % self.partitions
            try:
                if client is None:
                    client = self.brokers[number % len(self.brokers)].client()
                with self.lock:
                    self.sent += 1
                answer = client.publish(self.topic, name, partition, f"p{number}", self.acks)
                with self.lock:
                    self.acked[name] = (partition, answer["last_offset"])
            except crs2.BrokerError as error:
                with self.lock:
                    (self.refusals if error.retryable else self.wrong).append(error)
                time.sleep(0.02)
            except Exception as problem:  # a lost or garbled connection: allowed to none of these tests
                with self.lock:
                    self.wrong.append(problem)
                client = None
                time.sleep(0.05)
            if self.pause:
                time.sleep(self.pause)
        if client:
            client.close()

    def wait_for_acks(self, count, within=30.0):
        """Waits until `count` more records are acknowledged."""
        goal = len(self.acked) + count
        wait_until(lambda: len(self.acked) >= goal, within * SLOWNESS, what=f"{count} acknowledgements")

    def verify(self, broker):
        assert not self.wrong, self.wrong[:3]
        with broker.client() as client:
            for partition in range(self.partitions):
                records = client.consume_all(self.topic, partition)
                assert [r.offset for r in records] == list(range(len(records))), "offsets are not dense"
                by_name = {r.payload: r.offset for r in records}
                assert len(by_name) == len(records), "a record is there twice"
                for name, (place, offset) in self.acked.items():
                    if place == partition:
                        assert by_name.get(name) == offset, f"acknowledged {name} at {offset}: {by_name.get(name)}"
                order = {}
                for record in records:
                    producer, _, serial = record.payload.partition(b"-")
                    assert order.get(producer, 0) < int(serial), "the order of a producer is broken"
                    order[producer] = int(serial)
