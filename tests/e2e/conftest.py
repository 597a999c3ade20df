"""Fixtures: one private PostgreSQL for the session, brokers on it, topics with names of their own.

Most tests share one broker and are isolated by topic names; a test that needs settings, several nodes or a
fresh database starts brokers through `start_broker`. Whatever was started is ended and checked in tear-down.
"""

import itertools
import re
import shutil
import signal
import tempfile

import pytest

import harness


def pytest_configure(config):
    # A terminated run cleans up as an interrupted one does.
    def interrupt(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


@pytest.fixture(scope="session")
def scratch():
    directory = tempfile.mkdtemp(prefix="e2e-pgcursus-")
    # PostgreSQL may have to run as another user, who must be able to pass through.
    harness.os.chmod(directory, 0o755)
    yield harness.pathlib.Path(directory)
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def make_cluster(scratch):
    clusters = []

    def make():
        directory = scratch / f"postgres-{len(clusters)}"
        try:
            clusters.append(harness.Cluster(directory))
        except BaseException:
            harness.subprocess.run([harness.Cluster.tool, "stop", directory], capture_output=True)
            raise
        return clusters[-1]

    yield make
    for cluster in clusters:
        cluster.crash()  # a checkpoint of data that is thrown away takes its time


@pytest.fixture(scope="session")
def cluster(make_cluster):
    return make_cluster()


@pytest.fixture
def database(cluster):
    """The connection string of a new, empty database."""
    return cluster.create_database()


class Fleet:
    """Starts brokers and answers for their end."""

    def __init__(self, directory):
        self.directory, self.brokers, self.numbers = directory, [], itertools.count()

    def start(self, dsn, **settings):
        log = self.directory / f"broker-{id(self):x}-{next(self.numbers)}.log"
        broker = harness.Broker(dsn, log, wait=False, **{k: v for k, v in settings.items() if k != "wait"})
        self.brokers.append(broker)
        if settings.get("wait", True):
            broker.wait_ready()
        return broker

    def stop(self):
        faults = []
        for broker in self.brokers:
            try:
                if broker.process.returncode != -signal.SIGKILL:
                    broker.stop()
            except harness.BrokerFault as fault:
                faults.append(str(fault))
            finally:
                broker.kill()
        self.brokers.clear()
        if faults:
            raise harness.BrokerFault("\n".join(faults))


@pytest.fixture
def start_broker(scratch, request):
    """start_broker(dsn, setting=value, ...): a broker of this test's own."""
    fleet = Fleet(scratch)
    yield fleet.start
    fleet.stop()


class SharedBrokers:
    """Two nodes on one database, replaced when a test has broken one."""

    def __init__(self, cluster, directory):
        self.fleet, self.dsn, self.nodes = Fleet(directory), cluster.create_database(), {}

    def node(self, name):
        if name not in self.nodes:
            self.nodes[name] = self.fleet.start(self.dsn)
        return self.nodes[name]

    def check(self):
        for name, broker in list(self.nodes.items()):
            try:
                broker.check()
            except harness.BrokerFault:
                self.fleet.brokers.remove(broker)
                del self.nodes[name]
                broker.kill()
                raise


@pytest.fixture(scope="session")
def shared(cluster, scratch):
    brokers = SharedBrokers(cluster, scratch)
    yield brokers
    brokers.fleet.stop()


@pytest.fixture
def broker(shared):
    yield shared.node("first")
    shared.check()


@pytest.fixture
def second_broker(shared):
    yield shared.node("second")
    shared.check()


@pytest.fixture
def client(broker):
    with broker.client() as connection:
        yield connection


@pytest.fixture
def second_client(second_broker):
    with second_broker.client() as connection:
        yield connection


_serial = itertools.count()


@pytest.fixture
def new_name(request):
    """Topic names no other test uses."""
    stem = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)[:80]
    return lambda: f"{stem}.{next(_serial)}"


@pytest.fixture
def make_topic(client, new_name):
    """make_topic(partitions=1, ...): creates a topic on the shared broker and returns its name."""

    def make(partitions=1, **fields):
        name = new_name()
        client.call("CREATE", topic=name, partitions=partitions, **fields)
        return name

    return make


@pytest.fixture
def topic(make_topic):
    return make_topic()
