"""`pgcursus stream ...` against a live broker."""

import json

import pytest

from test_cli import cli  # noqa: F401  pylint: disable=unused-import


@pytest.fixture
def streams(make_topic):
    return make_topic(4, event_sourcing="true")


def test_events_are_appended_and_read(cli, streams):  # noqa: F811
    assert cli("stream", "append", streams, "order-123", "one", "--version", 1, "--event-type", "T")[:2] == (
        0, b"OK version=1 offset=0 partition=2\n")
    assert cli("stream", "append", streams, "order-123", "two")[:2] == (0, b"OK version=2 offset=1 partition=2\n")
    status, out, _ = cli("stream", "append", streams, "order-123", "--json", data=b"three")
    assert (status, json.loads(out)) == (0, {"version": 3, "offset": 2, "partition": 2})
    status, out, errors = cli("stream", "append", streams, "order-123", "x", "--version", 1)
    assert (status, out) == (1, b"") and "version_conflict" in errors
    assert cli("stream", "version", streams, "order-123")[:2] == (0, b"OK version=3\n")
    assert json.loads(cli("stream", "version", streams, "order-123", "-j")[1]) == {"version": 3}
    status, out, _ = cli("stream", "read", streams, "order-123")
    assert status == 0 and out.startswith(b'{"status":"OK"') and b"two" in out
    lines = [json.loads(line) for line in cli("stream", "read", streams, "order-123", "--json")[1].splitlines()]
    assert lines[0]["count"] == 3
    assert [(e["aggregate_version"], e["payload"]) for e in lines[1:]] == [(1, "one"), (2, "two"), (3, "three")]
    assert cli("stream", "read", streams, "order-123", "--json", "--from-version", 0)[0] == 1
    assert len(cli("stream", "read", streams, "order-123", "--json", "-n", 1)[1].splitlines()) == 2


def test_snapshots_are_saved_and_shown(cli, streams):  # noqa: F811
    cli("stream", "append", streams, "order-123", "one")
    assert cli("stream", "snapshot", streams, "order-123")[:2] == (0, b"OK snapshot=null\n")
    assert cli("stream", "snapshot", streams, "order-123", "state", "--version", 1)[:2] == (
        0, b"OK version=1 partition=2\n")
    assert json.loads(cli("stream", "snapshot", streams, "order-123", "--json")[1]) == {
        "version": 1, "payload": "state"}
    assert cli("stream", "snapshot", streams, "order-123", "state", "--version", 2)[0] == 1
    assert cli("stream", "snapshot", streams, "order-123", "state")[0] == 2
    lines = cli("stream", "read", streams, "order-123", "--json")[1].splitlines()
    assert (len(lines), json.loads(lines[0])["snapshot"]["payload"]) == (1, "state")


def test_streams_are_proved(cli, make_topic):  # noqa: F811
    topic = make_topic(4, event_sourcing="true", aggregate_replay="true", idempotent="true")
    for n in (1, 2):
        assert cli("stream", "append", topic, "match-42", "x", "--event-id", f"e{n}", "--producer-id", "p",
                   "--sequence", n)[0] == 0
    status, out, _ = cli("stream", "prove", topic, "match-42", "--json")
    assert (status, json.loads(out)["status"]) == (0, "complete")
    assert cli("stream", "prove", topic, "match-42")[1].startswith(b"OK proof={")
    status, out, errors = cli("stream", "prove", topic, "match-42", "--expected-last-sequence", 3)
    assert (status, out) == (1, b"") and "aggregate_proof_proof_unavailable" in errors


def test_appending_events_is_measured(cli, new_name):  # noqa: F811
    status, out, _ = cli("bench", "append-stream", "-t", new_name(), "-c", 4, "-n", 100, "--json")
    assert status == 0 and json.loads(out)["records"] >= 100


def test_reading_a_stream_is_measured(cli, new_name):  # noqa: F811
    topic = new_name()
    for _ in range(2):  # the second run finds the stream of the first
        status, out, _ = cli("bench", "read-stream", "-t", topic, "--events", 700, "-n", 1400, "--json")
        assert (status, json.loads(out)["records"]) == (0, 1400)
    assert cli("stream", "version", topic, "bench-read-700-100")[1] == b"OK version=700\n"
