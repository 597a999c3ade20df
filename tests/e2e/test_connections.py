"""Connections: order, ends, deadlines, limits, lies, clients that never read; nobody harms a neighbour."""

import resource
import signal
import socket
import struct
import threading
import time

import pytest

import crs2client as crs2
from crs2client import Batch, Client, Record
from harness import COST, SANITIZED, SLOWNESS, SqlSession, sql, wait_until

HELLO = crs2.encode_frame(1, 46, 0, 0, crs2.negotiation_payload())
HELP = crs2.encode_frame(3, 13, 0, 7, crs2.encode_request())


@pytest.fixture(scope="module", autouse=True)
def many_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    want = 8192 if hard == resource.RLIM_INFINITY else min(8192, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, want), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def serves(broker, within=1.0 * SLOWNESS):
    """True when a new client gets an answer quickly."""
    with broker.client(timeout=within) as client:
        return client.is_open()


def fields_of(topic, **changes):
    return dict(topic=topic, partition=0, producerId="p", acks="1", message="x") | changes


# ---- order and ends -------------------------------------------------------------------------------


def test_pipelined_requests_are_answered_in_order(client, make_topic):
    topic = make_topic(partitions=2)
    expected = []
    for number in range(300):
        kind = number % 5
        if kind == 0:
            expected.append(client.send("PUBLISH", fields_of(topic, partition=number % 2)))
        elif kind == 1:
            expected.append(client.send("CONSUME", dict(topic=topic, partition=0, offset=0, member="m", batch=1)))
        elif kind == 2:
            expected.append(client.send("HELP"))
        elif kind == 3:
            client.send("PUBLISH", fields_of(topic, acks="0"))
        else:
            expected.append(client.send("DESCRIBE", {"topic": "no-such-topic"}))
    assert [client.recv().request_id for _ in expected] == expected


@pytest.mark.parametrize(
    "second",
    [("CONSUME", lambda t: dict(topic=t, partition=0, offset=0, member="m", batch=1)), ("HELP", lambda t: {}),
     ("DESCRIBE", lambda t: {"topic": t}), ("LIST_OFFSETS", lambda t: {"topic": t})], ids=lambda pair: pair[0])
def test_pipelined_requests_start_at_once_when_their_turn_comes(client, topic, second):
    """Nothing sleeps between the end of one request and the start of the next that has arrived already."""
    command, fields = second
    client.publish(topic, "x")
    start = time.monotonic()
    for _ in range(30):
        client.send("PUBLISH", fields_of(topic))
        client.send(command, fields(topic))
    for _ in range(60):
        client.recv()
    assert time.monotonic() - start < 0.6 * SLOWNESS


def test_request_ids_need_not_be_unique_or_rising(client):
    ids = [9, 9, 1, (1 << 64) - 1, 5]
    for number in ids:
        client.send("HELP", request_id=number)
    assert [client.recv().request_id for _ in ids] == ids


def test_requests_cut_into_single_bytes_are_understood(broker):
    with broker.client(handshake=False) as client:
        for byte in HELLO + HELP:
            client.send_raw(bytes([byte]))
        assert client.recv().kind == crs2.NEGOTIATION_RESPONSE
        assert client.answer(7, "HELP")


def test_exit_answers_what_came_before_and_nothing_after(client, topic):
    first = client.send("PUBLISH", fields_of(topic))
    last = client.send("EXIT")
    client.send("PUBLISH", fields_of(topic, message="never"))
    assert client.recv().request_id == first
    frame = client.recv()
    assert (frame.request_id, frame.text, frame.status) == (last, "OK", crs2.OK)
    assert client.is_closed()


def test_the_request_behind_exit_is_not_executed(broker, client, topic):
    with broker.client() as leaving:
        leaving.send_raw(
            crs2.encode_frame(3, 47, 0, 1, crs2.encode_request())
            + crs2.encode_frame(3, 10, 0, 2, crs2.encode_request(fields_of(topic))))
        assert leaving.recv().text == "OK"
        assert leaving.is_closed()
    assert client.consume(topic, wait_ms=200).records == []


def test_a_half_closed_client_gets_its_answers(broker, topic):
    with broker.client() as client:
        ids = [client.send("PUBLISH", fields_of(topic, message=str(n))) for n in range(20)]
        ids.append(client.send("CONSUME", dict(topic=topic, partition=0, offset=20, member="m", wait_ms=300)))
        client.sock.shutdown(socket.SHUT_WR)
        assert [client.recv().request_id for _ in ids] == ids
        assert client.is_closed()


def test_a_reset_in_the_middle_of_a_frame_harms_nobody(broker, topic):
    for cut in (1, 16, 32, 40):
        client = broker.client()
        frame = crs2.encode_frame(3, 10, 0, 1, crs2.encode_request(fields_of(topic)))
        client.send_raw(frame[:cut])
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    assert serves(broker)


# ---- deadlines ------------------------------------------------------------------------------------


TIMEOUT = 2  # enough for a handshake on a loaded machine


@pytest.fixture
def hasty(start_broker, database):
    return start_broker(database, handshake_timeout_ms=TIMEOUT * 1000, client_request_timeout_ms=TIMEOUT * 1000)


def closed_after(client, data, pause):
    """Sends one byte every `pause` seconds until the broker closes the connection."""
    client.sock.settimeout(pause)
    for byte in data:
        try:
            client.send_raw(bytes([byte]))
            if client.sock.recv(1) == b"":
                break
        except TimeoutError:
            continue
        except OSError:
            break
    else:
        raise AssertionError("all was taken")


def test_a_handshake_that_trickles_in_is_cut_off(hasty):
    start = time.monotonic()
    with hasty.client(handshake=False) as client:
        closed_after(client, HELLO, 0.15)
        assert time.monotonic() - start > TIMEOUT - 0.1


def test_a_handshake_that_never_starts_is_cut_off(hasty):
    start = time.monotonic()
    with hasty.client(handshake=False) as client:
        assert client.is_closed()
        assert time.monotonic() - start > TIMEOUT - 0.1


@pytest.mark.parametrize("arrived", [0, 31, 32, 40])
def test_a_request_that_trickles_in_is_cut_off(hasty, arrived):
    with hasty.client() as client:
        frame = crs2.encode_frame(3, 13, 0, 7, crs2.encode_request({"a": "b" * 100}))
        start = time.monotonic()
        client.send_raw(frame[:arrived])
        closed_after(client, frame[arrived:], 0.15)
        assert time.monotonic() - start > TIMEOUT - 0.1


@pytest.mark.parametrize("arrived", [1, 31, 32, 40])
def test_a_request_that_stalls_is_cut_off(hasty, arrived):
    with hasty.client() as client:
        start = time.monotonic()
        client.send_raw(crs2.encode_frame(3, 13, 0, 7, crs2.encode_request({"a": "b" * 100}))[:arrived])
        assert client.is_closed()
        assert time.monotonic() - start > TIMEOUT - 0.1


def test_an_idle_connection_is_kept(hasty):
    with hasty.client() as client:
        time.sleep(2 * TIMEOUT)
        assert client.is_open()


def test_an_idle_limit_is_obeyed_when_set(start_broker, database):
    with start_broker(database, client_idle_timeout_ms=TIMEOUT * 1000).client() as client:
        start = time.monotonic()
        assert client.is_open()
        assert client.is_closed()
        assert time.monotonic() - start > TIMEOUT - 0.1


# ---- limits ---------------------------------------------------------------------------------------


def test_connections_above_the_limit_wait_and_are_served_later(start_broker, database):
    broker = start_broker(database, max_client_connections=5)
    inside = [broker.client() for _ in range(5)]
    outside = [Client(broker.listen, handshake=False) for _ in range(20)]
    for client in outside:
        client.send_raw(HELLO + HELP)
    outside[0].sock.settimeout(0.5)
    with pytest.raises(TimeoutError):
        outside[0].recv()
    assert all(client.is_open() for client in inside), "those inside are served as before"
    for client in inside:
        client.close()
    for client in outside:
        client.sock.settimeout(60)
        assert client.recv().kind == crs2.NEGOTIATION_RESPONSE
        assert client.answer(7, "HELP")
        client.close()
    assert serves(broker)


def test_connections_that_come_and_go_leave_nothing(broker):
    assert serves(broker)
    before = broker.descriptors()
    for number in range(400):
        client = broker.client(handshake=number % 3 == 0)
        if number % 3 == 1:
            client.send_raw(HELLO[: number % 39])
        client.close()
    wait_until(lambda: broker.descriptors() <= before, what="end of the connections")
    assert serves(broker)


def test_a_thousand_idle_connections_cost_little(start_broker, database):
    broker = start_broker(database, max_client_connections=1100)
    with broker.client() as client:
        client.call("CREATE", topic="t", partitions=1)
        before = broker.resident_bytes()
        idle = [broker.client() for _ in range(1000)]
        grown = broker.resident_bytes() - before

        def busy():
            before = broker.cpu_seconds()
            time.sleep(1)
            return broker.cpu_seconds() - before

        # In a second in which no periodic work is due.
        least = min(busy() for _ in range(3))
        start = time.monotonic()
        client.publish("t", "x")
        taken = time.monotonic() - start
        for one in idle:
            one.close()
    if not SANITIZED:
        assert grown < 1000 * 8192, f"{grown} bytes for 1000 connections"
    assert least <= 0.05 * COST, f"{least} s of CPU in an idle second"
    assert taken < 0.2 * SLOWNESS


# ---- lies and pressure ----------------------------------------------------------------------------


@pytest.mark.skipif(SANITIZED, reason="the sanitizer keeps freed memory")
def test_a_claimed_length_reserves_nothing(broker):
    before = broker.resident_bytes()
    liars = [broker.client() for _ in range(100)]
    for client in liars:
        client.send_raw(crs2.encode_frame(3, 10, 0, 1, b"x" * 100, encoded_length=64 << 20, decoded_length=64 << 20))
    assert serves(broker)
    assert broker.resident_bytes() - before < 20 << 20
    for client in liars:
        client.close()


BOMBS = {
    "gzip": (1, lambda data: crs2.compress(1, data)),
    "snappy": (2, lambda data: b"\x01" + crs2.compress(2, data)[4:]),
    "lz4": (3, lambda data: crs2.compress(3, data)),
}


@pytest.mark.skipif(SANITIZED, reason="the sanitizer keeps freed memory")
@pytest.mark.parametrize("case", BOMBS)
def test_more_inside_than_announced_is_not_produced(broker, case):
    algorithm, pack = BOMBS[case]
    body = pack(bytes((40 << 20) if case == "gzip" else (2 << 20)))
    before = broker.resident_bytes()
    header = crs2.HEADER.pack(b"CRS2", 2, 3, 1 | algorithm << 1, 13, 0, 7, len(body), 10, crs2.crc32c(body))
    for _ in range(3):
        with broker.client([algorithm]) as client:
            client.send_raw(header + body)
            assert client.is_closed()
    assert broker.resident_bytes() - before < 16 << 20


def test_a_client_that_never_reads_disturbs_nobody(start_broker, database):
    broker = start_broker(database, write_timeout_ms=1500)
    with broker.client() as client:
        client.call("CREATE", topic="t", partitions=1)
        client.call("CREATE", topic="quiet", partitions=1)
        for _ in range(4):
            client.publish("t", b"x" * (4 << 20))
        before = broker.resident_bytes()
        idle = broker.descriptors()
        greedy = [broker.client() for _ in range(8)]
        for one in greedy:
            for _ in range(50):
                one.send("CONSUME", dict(topic="t", partition=0, offset=0, member="m"))
        slowest = 0
        for _ in range(30):
            start = time.monotonic()
            client.publish("quiet", "x")
            slowest = max(slowest, time.monotonic() - start)
            time.sleep(0.02)
        assert slowest < 1.0 * SLOWNESS
        if not SANITIZED:
            assert broker.resident_bytes() - before < 400 << 20
        # Each asked for 800 MiB and took none: it is cut off.
        wait_until(lambda: broker.descriptors() <= idle, what="end of those that never read")
        for one in greedy:
            one.close()


def test_half_sent_large_frames_do_not_starve_small_requests(start_broker, database):
    limit = 8 << 20
    broker = start_broker(database, request_memory_bytes=limit)
    with broker.client() as client:
        client.call("CREATE", topic="t", partitions=1)
        before = broker.resident_bytes()
        head = crs2.encode_frame(3, 10, 0, 1, b"", encoded_length=32 << 20, decoded_length=32 << 20)
        large, stop = [broker.client() for _ in range(12)], threading.Event()

        def push(one):
            one.sock.settimeout(0.2)
            try:
                one.send_raw(head)
                for _ in range(20 * 16):
                    if stop.is_set():
                        return
                    try:
                        one.sock.send(b"x" * 65536)
                    except TimeoutError:
                        pass
            except OSError:
                pass

        threads = [threading.Thread(target=push, args=(one,)) for one in large]
        for thread in threads:
            thread.start()
        slowest = 0
        for _ in range(30):
            start = time.monotonic()
            client.publish("t", "x")
            assert serves(broker)
            slowest = max(slowest, time.monotonic() - start)
            time.sleep(0.03)
        grown = broker.resident_bytes() - before
        stop.set()
        for thread in threads:
            thread.join()
        for one in large:
            one.close()
        assert slowest < 1.0 * SLOWNESS
        if not SANITIZED:
            assert grown < 12 * limit, f"{grown >> 20} MiB held with a budget of {limit >> 20}"
        # When the pressure is gone, large frames pass again.
        assert client.publish("t", b"y" * (12 << 20))["last_offset"] == 30


def test_large_frames_wait_their_turn_under_a_small_budget(start_broker, database):
    broker = start_broker(database, request_memory_bytes=4 << 20)
    with broker.client() as client:
        client.call("CREATE", topic="t", partitions=1)
    answers = []

    def send(number):
        with broker.client() as one:
            answers.append(one.publish("t", b"%d" % number * (6 << 20))["last_offset"])

    threads = [threading.Thread(target=send, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(answers) == list(range(6))


def test_clients_that_never_read_their_answers_cost_bounded_memory(start_broker, database):
    limit, size, count = 32 << 20, 512 << 10, 40
    broker = start_broker(database, request_memory_bytes=limit, tail_cache_bytes=0)
    with broker.client() as client:
        client.call("CREATE", topic="t", partitions=1)
        for _ in range(64):
            client.publish("t", b"r" * size)
        before = broker.resident_bytes()
        greedy = [broker.client() for _ in range(count)]
        for one in greedy:
            one.send("CONSUME", dict(topic="t", partition=0, offset=0, member="m", batch=64))
        most, deadline = 0, time.monotonic() + 4
        while time.monotonic() < deadline:
            most = max(most, broker.resident_bytes() - before)
            time.sleep(0.02)
        records = client.consume("t").records
        assert records and records[0].payload == b"r" * size
        if not SANITIZED:
            assert most < 8 * limit, f"{most >> 20} MiB held with a budget of {limit >> 20}"
        used = "pgcursus_request_memory_bytes"
        wait_until(lambda: broker.metric(used) <= limit, what="memory given back")
        for one in greedy:
            one.close()
        wait_until(lambda: broker.metric(used) == 0, what="all memory given back")


# ---- signals --------------------------------------------------------------------------------------


def lock_of(dsn, topic, partition):
    log_id = sql(dsn, f"SELECT log_id FROM pgcursus.partitions WHERE topic = '{topic}' LIMIT 1")[0][0]
    return f"pg_advisory_lock(({log_id}::bigint << 16) | {partition})"


def refuses(broker):
    try:
        broker.client(timeout=10).close()
    except (ConnectionRefusedError, crs2.Closed, ConnectionResetError):
        return True


def test_sigterm_answers_what_is_in_flight_and_ends_with_0(start_broker, database):
    broker = start_broker(database, append_lock_timeout_ms=60000, drain_timeout_ms=60000)
    client, idle, waiting = broker.client(), broker.client(), broker.client()
    client.call("CREATE", topic="t", partitions=1)
    waiting.send("CONSUME", dict(topic="t", partition=0, offset=0, member="m", wait_ms=20000))
    with SqlSession(database) as session:
        session.run("SELECT " + lock_of(database, "t", 0))
        request_id = client.send("PUBLISH", fields_of("t"))
        wait_until(lambda: sql(database, "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"),
                   what="an append that waits")
        broker.process.send_signal(signal.SIGTERM)
        wait_until(lambda: refuses(broker), what="an end of accepting")
        session.run("SELECT pg_advisory_unlock_all()")
    assert client.answer(request_id).json["last_offset"] == 0
    assert client.is_closed() and idle.is_closed()
    waiting.recv()  # an answer, if only an empty batch
    assert broker.process.wait(60) == 0
    with start_broker(database).client() as again:
        assert [r.payload for r in again.consume("t").records] == [b"x"]


def test_sigterm_ends_an_idle_broker_without_waiting(start_broker, database):
    broker = start_broker(database, drain_timeout_ms=3600000)
    clients = [broker.client() for _ in range(10)]
    broker.stop()
    assert all(client.is_closed() for client in clients)


def test_sigint_ends_the_broker_like_sigterm(start_broker, database):
    broker = start_broker(database)
    broker.process.send_signal(signal.SIGINT)
    assert broker.process.wait(10 * SLOWNESS) == 0


def test_sighup_is_harmless(start_broker, database):
    broker = start_broker(database)
    with broker.client() as client:
        client.call("CREATE", topic="t", partitions=1)
        for number in range(5):
            broker.process.send_signal(signal.SIGHUP)
            assert client.publish("t", "x")["last_offset"] == number
    broker.check()


def test_a_killed_broker_loses_nothing_acknowledged(start_broker, database):
    broker = start_broker(database)
    client = broker.client()
    client.call("CREATE", topic="t", partitions=1)
    acked = [client.publish_batch(Batch("t", records=[Record(b"%d" % n)]))["last_offset"] for n in range(50)]
    broker.kill()
    with start_broker(database).client() as again:
        assert [r.offset for r in again.consume("t").records] == acked
