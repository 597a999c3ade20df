"""Aggregate replay: events with identities, proofs and ranges (commands-2 6)."""

import json
import threading

import pytest

from crs2client import Batch, BrokerError, Record
from harness import sql
from refusal import Text, batch_refused, check, refused

DIGEST = b"03494afd4248c42f5fa1237bf2eeebe751ab8d9c977d55405fcb17469dbd91f8"


@pytest.fixture
def matches(make_topic):
    """The name of a new topic with aggregate replay."""
    return make_topic(4, event_sourcing="true", aggregate_replay="true", idempotent="true")


def fields_of(topic, key, version, event_id=None, sequence=None, message=None, **more):
    return dict(dict(topic=topic, key=key, version=version, event_id=event_id or f"{key}-e{version}",
                     producerId=f"p-{key}", seqNum=sequence or version, message=message or f"{key}-{version}"), **more)


def append(client, *arguments, **more):
    return client.call("APPEND_STREAM", **fields_of(*arguments, **more)).text


def proof(client, topic, key, /, **fields):
    answer = client.call("AGGREGATE_REPLAY_PROOF", topic=topic, match_id=key, **fields).text
    return json.loads(answer.removeprefix("OK proof="))


def unproven(client, status, topic, key, /, command="AGGREGATE_REPLAY_PROOF", kind="proof", **fields):
    with pytest.raises(BrokerError) as caught:
        client.call(command, topic=topic, match_id=key, **fields)
    found = json.loads(caught.value.fields["proof"])
    check(caught.value, f"aggregate_{kind}_{status}", proof=caught.value.fields["proof"])
    assert found["status"] == status and found["diagnostic"]
    return found


# ---- APPEND_STREAM --------------------------------------------------------------------------------


def test_identity_fields_are_checked_in_order(client, matches):
    base = dict(topic=matches, key="k", version=1)
    refused(client, "APPEND_STREAM", dict(base), "missing_message")
    base["message"] = "m"
    refused(client, "APPEND_STREAM", dict(base, schema_version="x"), "missing_event_id")
    base["event_id"] = "e"
    refused(client, "APPEND_STREAM", dict(base, schema_version="x"), "missing_producer_id")
    refused(client, "APPEND_STREAM", dict(base, producerId="a b"), "invalid_producer_id", command="APPEND_STREAM")
    base["producerId"] = "p"
    for sequence in ({}, {"seqNum": ""}, {"seqNum": "0"}, {"seqNum": "-1"}, {"seqNum": "x"}):
        refused(client, "APPEND_STREAM", dict(base, **sequence, epoch="x"), "invalid_producer_sequence")
    base["seqNum"] = 1
    for epoch in ("-1", "x", ""):
        refused(client, "APPEND_STREAM", dict(base, epoch=epoch, schema_version="x"), "invalid_producer_epoch")
    refused(client, "APPEND_STREAM", dict(base, event_id=b"\xff"), "invalid_event_id", reason=Text("UTF-8"))
    refused(client, "APPEND_STREAM", dict(base, schema_version="x"), "invalid_schema_version")
    assert client.call("APPEND_STREAM", **base).text.startswith("OK version=1 offset=0 ")


def test_an_exact_repeat_gets_the_first_answer(client, second_client, matches):
    first = append(client, matches, "match-42", 1, "e1", message="started")
    assert first == "OK version=1 offset=0 partition=3"
    for node in (client, second_client, client):
        assert append(node, matches, "match-42", 1, "e1", sequence=9, message="started", producerId="else") == first
    records = client.consume(matches, 3).records
    assert [(r.event_id, r.payload_digest, r.producer_id, r.seq_num, r.epoch, r.version) for r in records] == [
        (b"e1", DIGEST, b"p-match-42", 1, 0, 3)]


def test_conflicts_of_identity(client, matches):
    append(client, matches, "match-42", 1, "e1")
    refused(client, "APPEND_STREAM", fields_of(matches, "match-42", 1, "e1", message="else"),
            "aggregate_identity_conflict", sequence="1")
    refused(client, "APPEND_STREAM", fields_of(matches, "match-42", 1, "e2", message="match-42-1"),
            "aggregate_identity_conflict", sequence="1")
    refused(client, "APPEND_STREAM", fields_of(matches, "match-42", 2, "e1"),
            "aggregate_identity_conflict", event_id="e1")
    refused(client, "APPEND_STREAM", fields_of(matches, "match-42", 7, "e1"),
            "aggregate_identity_conflict", event_id="e1")
    refused(client, "APPEND_STREAM", fields_of(matches, "match-42", 7, "e2"),
            "version_conflict", current="1", expected="7")


def test_the_producer_rule(client, matches):
    append(client, matches, "k", 1)
    refused(client, "APPEND_STREAM", fields_of(matches, "k", 2, sequence=3), "append_stream_failed",
            reason=Text("2", "3"))
    refused(client, "APPEND_STREAM", fields_of(matches, "k", 2, sequence=1), "append_stream_failed",
            reason=Text("has used sequence 1"))
    refused(client, "APPEND_STREAM", fields_of(matches, "k", 2, sequence=2, producerId="new"),
            "append_stream_failed", reason=Text("1", "2"))
    append(client, matches, "k", 2, sequence=1, epoch=4)
    refused(client, "APPEND_STREAM", fields_of(matches, "k", 3, sequence=2), "stale_producer_epoch",
            producer="p-k", current="4", got="0")
    assert append(client, matches, "k", 3, sequence=2, epoch=4).startswith("OK version=3 ")


def test_what_retention_took_cannot_be_compared(client, matches, broker):
    append(client, matches, "k", 1)
    sql(broker.dsn, "DELETE FROM pgcursus.record_batches WHERE log_id ="
                    f" (SELECT log_id FROM pgcursus.topic_definition('{matches}'))")
    refused(client, "APPEND_STREAM", fields_of(matches, "k", 1), "aggregate_proof_unavailable", sequence="1")


def test_other_writes_are_refused(client, matches):
    refused(client, "PUBLISH", dict(topic=matches, producerId="p", message="m", acks="all"),
            "aggregate_publish_requires_append_stream", topic=matches)
    batch_refused(client, Batch(matches, records=[Record(b"x")], acks="all"),
                  "aggregate_publish_requires_append_stream", topic=matches)


def test_the_same_event_sent_to_two_nodes_at_once_is_one(broker, second_broker, client, matches):
    gate, answers = threading.Barrier(4), []

    def send(number):
        with (broker, second_broker)[number % 2].client() as connection:
            for version in range(1, 21):
                gate.wait(120)
                answers.append((version, append(connection, matches, "k", version)))

    threads = [threading.Thread(target=send, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for version in range(1, 21):
        assert [a for v, a in answers if v == version] == [
            f"OK version={version} offset={version - 1} partition={answers[0][1].rpartition('=')[2]}"] * 4
    assert proof(client, matches, "k")["event_count"] == 20


def test_a_large_event_is_digested_too(client, matches):
    payload = b"x" * 3_000_000
    append(client, matches, "k", 1, message=payload)
    append(client, matches, "k", 1, message=payload)
    assert proof(client, matches, "k")["status"] == "complete"


# ---- AGGREGATE_REPLAY_PROOF -----------------------------------------------------------------------


def test_a_complete_proof(client, second_client, matches):
    append(client, matches, "match-42", 1, "e1")
    append(client, matches, "match-42", 2, "e2")
    want = (f'OK proof={{"topic":"{matches}","partition":3,"match_id":"match-42","earliest_retained_sequence":1,'
            '"latest_retained_sequence":2,"first_offset":0,"last_offset":1,"event_count":2,"first_event_id":"e1",'
            '"last_event_id":"e2","sequence_complete":true,"retention_complete_from_sequence_one":true,"proof_hwm":2,'
            '"status":"complete"}')
    for node in (client, second_client):
        for more in ({}, {"partition": 3}, {"expected_last_sequence": 2}):
            assert node.call("AGGREGATE_REPLAY_PROOF", topic=matches, match_id="match-42", **more).text == want
        assert node.call("AGGREGATE_REPLAY_PROOF", topic=matches, key="match-42").text == want


PROOF_COMMANDS = {"AGGREGATE_REPLAY_PROOF": {}, "AGGREGATE_EVENT_RANGE_READ": dict(from_sequence=1, to_sequence=1)}


@pytest.mark.parametrize("command", PROOF_COMMANDS)
def test_the_target_comes_first(client, make_topic, matches, new_name, command):
    more, missing, plain = PROOF_COMMANDS[command], new_name(), make_topic(event_sourcing="true")
    refused(client, command, dict(more, match_id="k"), "missing_topic")
    refused(client, command, dict(more, topic=missing), "missing_match_id")
    refused(client, command, dict(topic=missing, match_id="k"), "topic_not_found", topic=missing)
    refused(client, command, dict(topic=plain, match_id="k"), "aggregate_replay_not_enabled", topic=plain)
    for partition in ("2", "x", "", "-1"):
        refused(client, command, dict(topic=matches, match_id="match-42", partition=partition,
                                      expected_last_sequence="x", from_sequence="x"),
                "aggregate_partition_mismatch", expected="3", got=partition)


@pytest.mark.parametrize("value", ["0", "x", "", "-1"])
def test_the_expected_last_sequence_is_positive(client, matches, value):
    refused(client, "AGGREGATE_REPLAY_PROOF", dict(topic=matches, match_id="k", expected_last_sequence=value),
            "invalid_expected_last_sequence")


def test_incomplete_proofs(client, matches, broker):
    for version in range(1, 4):
        append(client, matches, "match-42", version)
    found = unproven(client, "proof_unavailable", matches, "match-42", expected_last_sequence=4)
    assert (found["event_count"], found["sequence_complete"], found["diagnostic"]) == (
        3, True, "expected last sequence 4, got 3")
    found = unproven(client, "not_found", matches, "nobody")
    assert (found["event_count"], "first_offset" in found, found["sequence_complete"]) == (0, False, False)

    log = f"log_id = (SELECT log_id FROM pgcursus.topic_definition('{matches}')) AND partition = 3"
    sql(broker.dsn, f"UPDATE pgcursus.record_batches SET payloads = ARRAY['x'::bytea] WHERE {log} AND base_offset = 2")
    found = unproven(client, "identity_conflict", matches, "match-42")
    assert (found["event_count"], found["last_offset"], found["retention_complete_from_sequence_one"]) == (2, 1, False)
    unproven(client, "identity_conflict", matches, "match-42", command="AGGREGATE_EVENT_RANGE_READ", kind="range",
             from_sequence=1, to_sequence=1)
    sql(broker.dsn, f"UPDATE pgcursus.record_batches SET payloads = ARRAY['match-42-3'::bytea]"
                    f" WHERE {log} AND base_offset = 2")
    sql(broker.dsn, f"DELETE FROM pgcursus.record_batches WHERE {log} AND base_offset = 1")
    assert unproven(client, "sequence_gap", matches, "match-42")["latest_retained_sequence"] == 1
    unproven(client, "sequence_gap", matches, "match-42", command="AGGREGATE_EVENT_RANGE_READ", kind="range",
             from_sequence=1, to_sequence=1)
    sql(broker.dsn, f"UPDATE pgcursus.partition_states SET earliest_offset = 2 WHERE {log}")
    found = unproven(client, "retention_gap", matches, "match-42")
    assert (found["earliest_retained_sequence"], found["first_offset"]) == (3, 2)
    for kind in ("retention_gap", "not_found"):
        unproven(client, kind, matches, "match-42" if kind == "retention_gap" else "nobody",
                 command="AGGREGATE_EVENT_RANGE_READ", kind="range", from_sequence=1, to_sequence=1)


# ---- AGGREGATE_EVENT_RANGE_READ -------------------------------------------------------------------


def read_range(client, topic, first, last, **more):
    answer = client.call("AGGREGATE_EVENT_RANGE_READ", topic=topic, match_id="match-42", from_sequence=first,
                         to_sequence=last, **more).text
    return json.loads(answer.removeprefix("OK range="))


def test_a_range(client, second_client, matches):
    for version in range(1, 5):
        append(client, matches, "match-42", version, event_type=f"T{version}", message=f'"{version}"')
    for node in (client, second_client):
        got = read_range(node, matches, 2, 3)
        assert list(got) == ["proof", "events"] and got["proof"] == proof(node, matches, "match-42")
        assert got["events"] == [
            {"offset": v - 1, "match_id": "match-42", "event_sequence": v, "event_id": f"match-42-e{v}",
             "event_type": f"T{v}", "payload": f'"{v}"'} for v in (2, 3)]
        assert list(got["events"][0]) == ["offset", "match_id", "event_sequence", "event_id", "event_type", "payload"]
    assert [e["event_sequence"] for e in read_range(client, matches, 1, 4, max_records=2)["events"]] == [1, 2]
    assert [e["event_sequence"] for e in read_range(client, matches, 1, 99, max_records=4)["events"]] == [1, 2, 3, 4]


def test_range_failures(client, matches):
    append(client, matches, "match-42", 1)
    base = dict(topic=matches, match_id="match-42")

    def fails(fields, code, **want):
        refused(client, "AGGREGATE_EVENT_RANGE_READ", dict(base, **fields), code, **want)

    for value in ({}, {"from_sequence": "0"}, {"from_sequence": "x"}):
        fails(dict(value, to_sequence="x"), "invalid_from_sequence")
    for value in ({}, {"to_sequence": "1"}, {"to_sequence": "x"}):
        fails(dict(value, from_sequence=2, max_records="x"), "invalid_to_sequence")
    for value in ("0", "x", "-1"):
        fails(dict(from_sequence=1, to_sequence=1, max_records=value), "invalid_max_records")
    fails(dict(from_sequence=1, to_sequence=2), "aggregate_range_incomplete", **{"from": "1", "to": "2", "returned": "1"})
    fails(dict(from_sequence=2, to_sequence=2**63 - 1, max_records=2**62), "aggregate_range_incomplete",
          **{"from": "2", "to": str(2**63 - 1), "returned": "0"})


def test_a_range_that_does_not_fit_a_frame(client, matches):
    append(client, matches, "match-42", 1)
    append(client, matches, "match-42", 2, message=b"\x01" * (11 << 20))  # six times as long in JSON
    refused(client, "AGGREGATE_EVENT_RANGE_READ", dict(topic=matches, match_id="match-42", from_sequence=1, to_sequence=2),
            "aggregate_range_incomplete", **{"from": "1", "to": "2", "returned": "0"})
    assert len(read_range(client, matches, 1, 2, max_records=1)["events"]) == 1
