"""The command line client against a live broker: round trips, exit statuses, data on stdout and nothing else."""

import json
import os
import subprocess

import pytest

from harness import CLI, SANITIZER_REPORT
from refusal import same


@pytest.fixture
def cli(broker):
    def run(*arguments, data=b"", address=None):
        done = subprocess.run(
            [CLI, "-b", address or broker.listen, *map(str, arguments)], input=data, capture_output=True, timeout=180,
            env={k: v for k, v in os.environ.items() if not k.startswith("PGCURSUS_")})
        errors = done.stderr.decode(errors="replace")
        assert not SANITIZER_REPORT.search(errors), errors[:4000]
        return done.returncode, done.stdout, errors

    return run


LINES = b"first\nsecond line = 2\n\xff\xfe bytes\tand tabs\nmessage=x acks=0\n" + b"x" * 100_000 + b"\n"


@pytest.mark.parametrize("options", [[], ["--batch", 2], ["--acks", "all", "--batch", 100], ["--compression", "lz4"],
                                     ["--compression", "gzip", "--batch", 3], ["--compression", "snappy"]], ids=str)
def test_what_is_produced_is_consumed(cli, topic, options):
    assert cli("produce", topic, *options, data=LINES)[:2] == (0, b"")
    status, out, _ = cli("consume", topic, "-p", 0, "-e")
    assert status == 0 and same(out, LINES)


def test_keys_are_split_off_and_shown(cli, make_topic):
    topic = make_topic(partitions=3)
    assert cli("produce", topic, "-K", ":", data=b"a:1\nuser-1:2\norder-123:3\n")[0] == 0
    status, out, _ = cli("consume", topic, "-e", "-f", "%p %k %s\\n")
    assert status == 0 and sorted(out.splitlines()) == [b"0 order-123 3", b"1 a 1", b"2 user-1 2"]


def test_consuming_starts_and_stops_where_it_was_told(cli, topic):
    cli("produce", topic, data=b"".join(b"%d\n" % n for n in range(10)))
    assert cli("consume", topic, "-p", 0, "-o", 7, "-e")[1] == b"7\n8\n9\n"
    assert cli("consume", topic, "-p", 0, "-o", 2, "-n", 3)[1] == b"2\n3\n4\n"
    assert cli("consume", topic, "-p", 0, "-o", -2, "-e")[1] == b"8\n9\n"
    assert cli("consume", topic, "-p", 0, "-o", "latest", "-e")[1] == b""


def test_json_output_is_one_object_a_record(cli, topic):
    cli("produce", topic, "-k", "k", data=b'a "quoted" line\n')
    record = json.loads(cli("consume", topic, "-e", "-f", "json")[1])
    assert (record["topic"], record["partition"], record["offset"]) == (topic, 0, 0)
    assert (record["key"], record["payload"]) == ("k", 'a "quoted" line')


def test_idempotent_production_may_be_repeated(cli, topic):
    for _ in range(2):
        assert cli("produce", topic, "-p", 0, "--idempotent", "--producer-id", "me", data=b"a\nb\nc\n")[0] == 0
    assert cli("consume", topic, "-p", 0, "-e")[1] == b"a\nb\nc\n"


def test_topics_are_created_described_and_listed(cli, new_name):
    name = new_name()
    status, out, _ = cli("topic", "create", name, "-p", 2, "--retention-hours", 5)
    assert status == 0 and b"partitions=2" in out and b"retention_hours=5" in out
    assert json.loads(cli("topic", "describe", name)[1])["definition"]["partitions"] == 2
    assert name.encode() in cli("topic", "list")[1].splitlines()


def test_raw_prints_the_readable_answer(cli, topic):
    status, out, _ = cli("raw", "LIST_OFFSETS", f"topic={topic}")
    assert (status, out) == (0, f"OK topic={topic} partitions=1 offsets=P0:earliest=0:latest=0:leo=0:hwm=0\n".encode())
    status, out, _ = cli("raw", "PUBLISH", f"topic={topic}", "producerId=p", "partition=0", "message=a  b ")
    assert status == 0 and json.loads(out)["last_offset"] == 0
    assert cli("consume", topic, "-p", 0, "-e")[1].rstrip() == b"a  b"


def test_a_refusal_is_exit_status_1_with_the_error_on_stderr(cli, new_name):
    name = new_name()
    status, out, errors = cli("raw", "DESCRIBE", f"topic={name}")
    assert (status, out) == (1, b"")
    assert "topic_not_found" in errors and name in errors
    for command in (("consume", name, "-e"), ("produce", name), ("topic", "describe", name)):
        status, out, errors = cli(*command, data=b"x\n")
        assert (status, out) == (1, b"") and "topic_not_found" in errors


@pytest.mark.parametrize("words", [["no-such-command"], ["produce"], ["consume", "t", "--no-such-option"],
                                   ["consume", "t", "-p", "x"], ["topic"], ["raw", "NO_SUCH_COMMAND"]], ids=str)
def test_wrong_usage_is_exit_status_2(cli, words):
    status, out, errors = cli(*words)
    assert (status, out) == (2, b"") and errors


def test_no_connection_is_exit_status_2(cli):
    status, out, errors = cli("ping", address="127.0.0.1:1")
    assert (status, out) == (2, b"") and "127.0.0.1:1" in errors


def test_ping(cli):
    assert cli("ping")[0] == 0


@pytest.mark.parametrize("kind", ["publish", "consume", "latency"])
def test_bench_prints_a_table(cli, kind):
    status, out, errors = cli("bench", kind, "--help")
    assert status == 0 and (out or errors)


def test_a_topic_is_altered_truncated_and_deleted(cli, new_name):
    topic = new_name()
    assert cli("topic", "create", topic, "-p", 1)[0] == 0
    assert cli("produce", topic, data=b"x\n")[0] == 0
    status, out, _ = cli("topic", "alter", topic, "--min-in-sync-replicas", 2, "--retention-hours", 3)
    assert (status, out.splitlines()[-1].decode()) == (
        0, f"OK topic={topic} min_in_sync_replicas=2 effective_min_in_sync_replicas=2")
    status, out, errors = cli("topic", "truncate", topic, "--expected-revision", 1)
    assert (status, out) == (1, b"") and "topic_revision_conflict" in errors
    status, out, _ = cli("topic", "truncate", topic)
    assert (status, out.decode()) == (
        0, f"OK topic={topic} truncated=true revision=4 lifecycle_epoch=2 leo=0 hwm=0\n")
    assert cli("consume", topic, "-p", 0, "-e")[:2] == (0, b"")
    assert cli("topic", "delete", topic)[:2] == (0, f"OK topic={topic} deleted=true\n".encode())
    status, out, errors = cli("topic", "delete", topic)
    assert (status, out) == (1, b"") and "topic_not_found" in errors
    assert cli("topic", "delete", "--if-exists", topic)[:2] == (0, f"OK topic={topic} deleted=false\n".encode())
    status, _, errors = cli("topic", "alter", topic, "--retention-hours", 1)
    assert status == 1 and "topic_not_found" in errors, "altering must not create"


def test_a_whole_input_is_produced_in_one_transaction_or_not_at_all(cli, topic, new_name):
    name = new_name()
    assert cli("produce", topic, "-p", 0, "--transactional-id", name, data=b"a\nb\n")[:2] == (0, b"")
    assert cli("consume", topic, "-p", 0, "-e")[1] == b"a\nb\n"
    assert cli("txn", "status", name)[1].split()[3:5] == [b"state=committed", b"messages=2"]
    status, _, errors = cli("produce", topic, "-p", 0, "--transactional-id", name, data=b"c\n\nd\n")
    assert status == 1 and "line 2" in errors and "nothing is published" in errors
    assert cli("consume", topic, "-p", 0, "-e")[1] == b"a\nb\n"
    assert cli("produce", topic, "--transactional-id", name, "--batch", 3)[0] == 2


def test_a_hanging_transaction_is_found_and_aborted(cli, client, topic, new_name):
    name = new_name()
    session = client.call("INIT_PRODUCER_ID", transactional_id=name).ok_fields
    client.call("BEGIN_TXN", **session)
    client.call("TXN_PUBLISH", topic=topic, message="x", seqNum="1", **session)
    out = cli("txn", "list")[1].decode()
    assert "PARTITIONS" in out and [line for line in out.splitlines() if name in line and f"{topic}/0" in line]
    assert name in [row["transactional_id"] for row in json.loads(cli("txn", "list", "--json")[1])]
    assert cli("txn", "abort", name)[0] == 0
    assert name not in cli("txn", "list")[1].decode()
    assert cli("txn", "status", name)[1].split()[3] == b"state=aborted"
    status, _, errors = cli("txn", "abort", "never")
    assert status == 1 and "transaction_not_found" in errors


def test_consume_by_stream_prints_what_is_pushed(cli, client, make_topic):
    topic = make_topic(2)
    for n in range(4):
        client.publish(topic, f"{n}", partition=n % 2)
    status, out, _ = cli("consume", topic, "--stream", "-n", 4)
    assert status == 0 and sorted(out.split()) == [b"0", b"1", b"2", b"3"]
    assert cli("consume", topic, "--stream", "-p", 1, "-o", -1, "-n", 1, "-f", "%p:%o:%s\\n")[1] == b"1:1:3\n"


@pytest.mark.parametrize("words", [["-e"], ["-g", "g"]], ids=str)
def test_consume_by_stream_refuses_what_it_cannot_do(cli, topic, words):
    status, out, errors = cli("consume", topic, "--stream", *words)
    assert (status, out) == (2, b"") and "--stream" in errors


def test_bench_latency_by_stream_ends_and_sees_every_record(cli, topic):
    status, out, _ = cli("bench", "latency", "-t", topic, "-r", 200, "-n", 50, "--stream", "--json")
    report = json.loads(out)
    assert status == 0 and report["records"] == 50, report


@pytest.mark.parametrize("how", ["--end-to-end", "--stream"])
def test_bench_latency_ignores_what_is_older(cli, topic, how):
    assert cli("bench", "publish", "-t", topic, "-n", 400, "--batch", 100, "--verify", "--json")[0] == 0
    for _ in range(2):  # nor does the second run count the first one's
        status, out, _ = cli("bench", "latency", "-t", topic, "-r", 200, "-n", 20, how, "--json")
        report = json.loads(out)
        assert (status, report["records"], report["end_to_end_ms"]["count"]) == (0, 20, 20), report
