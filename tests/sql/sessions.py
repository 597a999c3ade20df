"""What the scripts with several sessions share: interactive psql sessions, the migrator, and TAP.

A script gets the URI of a database of its own in PGCURSUS_TEST_URI and the daemon in PGCURSUSD (empty when there is
none), and prints TAP.
"""

import os
import pathlib
import subprocess
import sys
import threading
import time

URI = os.environ.get("PGCURSUS_TEST_URI", "")
DAEMON = os.environ.get("PGCURSUSD", "")
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TIMEOUT = 60

_count = 0
_failed = 0


def ok(condition, name, *remarks):
    """One TAP line; remarks are shown when it failed."""
    global _count, _failed
    _count += 1
    print(f"{'ok' if condition else 'not ok'} {_count} - {name}", flush=True)
    if not condition:
        _failed += 1
        for line in "\n".join(map(str, remarks)).splitlines():
            print(f"# {line}")
    return condition


def equal(got, expected, name):
    return ok(got == expected, name, f"got      {got!r}", f"expected {expected!r}")


def finish():
    print(f"1..{_count}")
    sys.exit(1 if _failed else 0)


def database(name):
    """The URI of another database of the cluster."""
    return URI.rpartition("/")[0] + "/" + name


class Session:
    """One psql session: statements are sent without waiting, so that one may be left waiting for a lock."""

    MARK = "--done--"

    def __init__(self, uri=None):
        self.process = subprocess.Popen(
            ["psql", "-X", "-q", "-A", "-t", "-v", "VERBOSITY=terse", uri or URI],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.answers = []
        self.changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()
        self.pid = int(self.run("SET search_path = pgcursus, public; SELECT pg_backend_pid()"))

    def _read(self):
        lines = []
        for line in self.process.stdout:
            line = line.rstrip("\n")
            if line != self.MARK:
                lines.append(line)
                continue
            with self.changed:
                self.answers.append("\n".join(lines))
                self.changed.notify_all()
            lines = []

    def send(self, statements):
        self.process.stdin.write(f"{statements};\n\\echo {self.MARK}\n")
        self.process.stdin.flush()

    def answer(self, timeout=TIMEOUT):
        """The output of the oldest statement sent whose answer was not taken yet."""
        with self.changed:
            if not self.changed.wait_for(lambda: self.answers, timeout):
                raise TimeoutError("no answer from psql")
            return self.answers.pop(0)

    def run(self, statements):
        self.send(statements)
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait(TIMEOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def wait_until_blocked(observer, session):
    """Returns once `session` waits for a lock; False when it never does."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        if observer.run(f"SELECT cardinality(pg_blocking_pids({session.pid}))") != "0":
            return True
        time.sleep(0.01)
    return False


def psql(statements, uri=None):
    """Runs statements in a session of their own; the output."""
    done = subprocess.run(["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", uri or URI], input=statements,
                          capture_output=True, text=True, timeout=TIMEOUT)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout.strip()


def create_topic(topic, fields=""):
    """The statement that creates or patches a topic; fields as `_partitions => 2`."""
    absent = dict.fromkeys(
        ["_partitions", "_replication_factor", "_idempotent", "_event_sourcing", "_aggregate_replay",
         "_min_in_sync_replicas", "_cleanup_policy", "_retention_hours", "_retention_bytes", "_partitioner",
         "_auth_policy", "_read_acl", "_write_acl"], "NULL")
    absent.update(part.strip().split(" => ", 1) for part in fields.split(";") if part.strip())
    given = ", ".join(f"{name} => {value}" for name, value in absent.items())
    return (f"SELECT revision FROM pgcursus.create_topic(_topic => '{topic}', {given}, _default_replication_factor => 3,"
            " _default_cleanup_policy => 'delete', _max_topics => 100, _max_partitions_per_topic => 100,"
            " _max_partitions => 1000)")


def append(topic, payload, log="NULL", producer="NULL", sequence="NULL"):
    """The statement that appends one record to partition 0; answers status|base_offset."""
    log_id = f"(SELECT log_id FROM pgcursus.topic_definition('{topic}'))" if log == "NULL" else log
    idempotent = "false" if producer == "NULL" else "true"
    return (f"SELECT status, base_offset FROM pgcursus.append({log_id}, NULL, 0, 1, {len(payload)}, {idempotent}, false,"
            f" 1, false, {producer}, 1, {sequence}, {sequence}, ARRAY['{payload}'::bytea], NULL, NULL, NULL, NULL, NULL,"
            " NULL, NULL, NULL, NULL, NULL, NULL)")
