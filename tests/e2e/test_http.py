"""The HTTP end points: alive, ready, metrics, and nothing else."""

import http.client
import json
import re
import socket

import pytest

from harness import free_port


@pytest.fixture
def ask(broker):
    def ask(path, method="GET", address=None):
        connection = http.client.HTTPConnection(address or broker.http, timeout=60)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read(), dict(answer.getheaders())
        finally:
            connection.close()

    return ask


def test_live(ask):
    status, body, _ = ask("/live")
    assert (status, json.loads(body)) == (200, {"status": "live"})


def test_ready_names_its_checks(ask):
    status, body, _ = ask("/ready")
    answer = json.loads(body)
    assert (status, answer["status"]) == (200, "ready")
    assert answer["checks"] and set(answer["checks"].values()) == {"ok"}


@pytest.mark.parametrize("path", ["/health", "/"])
def test_health_is_plain_ok(ask, path):
    status, body, _ = ask(path)
    assert (status, body.strip()) == (200, b"OK")


@pytest.mark.parametrize("path", ["/live", "/ready", "/health", "/", "/metrics"])
def test_head_is_get_without_a_body(ask, path):
    status, body, _ = ask(path, "HEAD")
    assert (status, body) == (200, b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/live", "/ready", "/health", "/"])
def test_other_methods_are_not_allowed(ask, path, method):
    status, _, headers = ask(path, method)
    assert (status, headers.get("Allow")) == (405, "GET, HEAD")


def test_unknown_paths_are_not_found(ask):
    assert ask("/no-such-page")[0] == 404


SAMPLE = re.compile(
    r'^[a-zA-Z_:][a-zA-Z0-9_:]*(\{[a-zA-Z_][a-zA-Z0-9_]*="(\\.|[^"\\])*"(,[a-zA-Z_][a-zA-Z0-9_]*="(\\.|[^"\\])*")*\})?'
    r" (-?[0-9.]+([eE][-+]?[0-9]+)?|[-+]?Inf|NaN)$")


def test_metrics_are_in_the_format_of_prometheus(ask, client, topic):
    client.publish(topic, "x")
    status, body, headers = ask("/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain")
    lines = body.decode().splitlines()
    samples = [line for line in lines if line and not line.startswith("#")]
    assert samples and [line for line in samples if not SAMPLE.match(line)] == []
    assert all(line.startswith("pgcursus_") or line.startswith("process_") for line in samples)
    typed = {line.split()[2] for line in lines if line.startswith("# TYPE ")}
    bare = {re.sub(r"_(bucket|sum|count)$", "", re.split(r"[{ ]", line)[0]) for line in samples}
    assert {name for name in bare if name not in typed and not any(t.startswith(name) for t in typed)} == set()


def test_published_records_are_counted(ask, client, topic):
    def total():
        return sum(float(line.split()[-1]) for line in ask("/metrics")[1].decode().splitlines()
                   if line.startswith("pgcursus_records_appended_total"))

    before = total()
    for _ in range(10):
        client.publish(topic, "x")
    assert total() == before + 10


def test_garbage_on_the_http_port_harms_nobody(broker, ask):
    host, _, port = broker.http.rpartition(":")
    for data in (b"\0" * 100, b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n", b"GET /live HTTP/9.9\r\n\r\n"):
        with socket.create_connection((host, int(port)), 5) as sock:
            sock.settimeout(2)
            try:
                sock.sendall(data)
                sock.recv(4096)
            except OSError:
                pass
    assert ask("/live")[0] == 200


def test_the_exporter_can_be_switched_off(ask, start_broker, database):
    quiet = start_broker(database, enable_exporter=False, exporter_port=free_port())
    assert ask("/metrics", address=quiet.http)[0] == 404
    assert ask("/live", address=quiet.http)[0] == 200
    assert all("exporter" not in event for event in quiet.events())


def test_the_exporter_may_have_a_port_of_its_own(ask, start_broker, database):
    port = free_port()
    broker = start_broker(database, exporter_port=port)
    for address in (broker.http, f"127.0.0.1:{port}"):
        assert b"pgcursus_connections 0" in ask("/metrics", address=address)[1]
    assert ask("/live", address=f"127.0.0.1:{port}")[0] == 404
