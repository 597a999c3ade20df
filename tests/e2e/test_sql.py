"""SQL beside CRS2: both see the same records, and a SQL publish counts exactly when it commits."""

import time

import pytest

from crs2client import Batch, Record
from harness import SqlSession, sql

EVERY_BYTE = bytes(range(256))
COLUMNS = (
    "topic,partition,offset,key,payload,timestamp,appended_at,producer_id,producer_epoch,sequence,transaction_state,"
    "is_control,event_type,schema_version,aggregate_version,metadata,headers"
)


@pytest.fixture
def filled(client, topic):
    client.publish_batch(Batch(topic, records=[
        Record(EVERY_BYTE, key=EVERY_BYTE, timestamp=1_700_000_000_123, producer_id=b"p", seq_num=4, epoch=2,
               event_type=b"E", schema_version=3, aggregate_version=9, metadata=b"m"),
        Record(b""),
    ]))
    client.publish(topic, "third", key="k")
    return topic


@pytest.mark.parametrize("source", ["view", "function"])
def test_records_published_over_the_wire_are_seen_in_sql(shared, filled, source):
    where = {
        "view": f"pgcursus.records WHERE topic = '{filled}' AND partition = 0 ORDER BY \"offset\"",
        "function": f"pgcursus.read('{filled}', 0, 0, 100)",
    }[source]
    rows = sql(shared.dsn, (
        "SELECT \"offset\", encode(key, 'hex'), encode(payload, 'hex'), extract(epoch from timestamp), producer_id, "
        f"producer_epoch, sequence, event_type, schema_version, aggregate_version, metadata, is_control FROM {where}"))
    assert rows[0] == ["0", EVERY_BYTE.hex(), EVERY_BYTE.hex(), "1700000000.123000", "p", "2", "4", "E", "3", "9",
                       "m", "f"]
    assert rows[1][:3] == ["1", "", ""]
    assert rows[2][:3] == ["2", b"k".hex(), b"third".hex()]
    assert len(rows) == 3


@pytest.mark.parametrize("source", ["pgcursus.records", "pgcursus.read('{}', 0, 0, 10)"])
def test_view_and_function_have_the_documented_columns(shared, filled, source):
    rows = sql(shared.dsn, f"SELECT * FROM {source.format(filled)} LIMIT 0;"
                           f"CREATE TEMP TABLE t AS SELECT * FROM {source.format(filled)} LIMIT 0;"
                           "SELECT string_agg(column_name, ',' ORDER BY ordinal_position) "
                           "FROM information_schema.columns WHERE table_name = 't' AND table_schema LIKE 'pg_temp%'")
    assert rows == [[COLUMNS]]


def test_read_takes_a_start_and_a_maximum(shared, filled):
    rows = sql(shared.dsn, f"SELECT \"offset\" FROM pgcursus.read('{filled}', 0, 1, 1)")
    assert rows == [["1"]]
    assert len(sql(shared.dsn, f"SELECT * FROM pgcursus.read('{filled}', 0, 3, 10)")) == 0


def test_topics_and_partitions_are_views(shared, client, make_topic):
    topic = make_topic(partitions=2, retention_hours=7)
    client.publish(topic, "x", partition=1)
    assert sql(shared.dsn, f"SELECT partitions, retention_hours FROM pgcursus.topics WHERE topic = '{topic}'") == [
        ["2", "7"]]
    assert sql(shared.dsn, "SELECT partition, earliest_offset, end_offset FROM pgcursus.partitions "
                           f"WHERE topic = '{topic}' ORDER BY 1") == [["0", "0", "0"], ["1", "0", "1"]]



def test_a_sql_publish_is_consumed_after_commit_and_not_before(shared, client, topic):
    with SqlSession(shared.dsn) as session:
        session.run("BEGIN")
        payload = "'\\x00ff27'::bytea"
        assert session.run(
            f"SELECT pgcursus.publish('{topic}', '\\x6b00'::bytea, {payload}, partition => 0)") == ["0"]
        assert client.consume(topic, wait_ms=300).records == []
        assert client.call("LIST_OFFSETS", topic=topic).ok_fields["offsets"].endswith("leo=0:hwm=0")
        request_id = client.send("CONSUME", dict(topic=topic, partition=0, offset=0, member="m", wait_ms=25000))
        time.sleep(0.1)
        session.run("COMMIT")
        records = client.answer(request_id).batch.records
    assert [(r.offset, r.key, r.payload) for r in records] == [(0, b"k\0", b"\x00\xff'")]


def test_a_rolled_back_sql_publish_leaves_no_trace(shared, client, topic):
    with SqlSession(shared.dsn) as session:
        session.run("BEGIN")
        session.run(f"SELECT pgcursus.publish('{topic}', NULL, 'gone'::bytea, partition => 0)")
        session.run("ROLLBACK")
    assert client.publish(topic, "kept")["last_offset"] == 0
    assert [r.payload for r in client.consume(topic).records] == [b"kept"]


def test_sql_and_wire_publishes_share_one_sequence_of_offsets(shared, client, topic):
    offsets = []
    for number in range(6):
        if number % 2:
            offsets.append(client.publish(topic, "w")["last_offset"])
        else:
            rows = sql(shared.dsn, f"SELECT pgcursus.publish('{topic}', NULL, 's'::bytea, partition => 0)")
            offsets.append(int(rows[0][0]))
    assert offsets == list(range(6))
    assert [r.payload for r in client.consume(topic).records] == [b"s", b"w"] * 3


@pytest.mark.parametrize("key", ["a", "user-1", "order-123", "naïve"])
def test_sql_and_wire_put_a_key_into_the_same_partition(shared, client, make_topic, key):
    topic = make_topic(partitions=4)
    client.publish(topic, "w", partition=None, key=key)
    sql(shared.dsn, f"SELECT pgcursus.publish('{topic}', convert_to('{key}', 'UTF8'), 's'::bytea)")
    text = client.call("LIST_OFFSETS", topic=topic).ok_fields["offsets"]
    assert sorted(int(entry.rpartition("=")[2]) for entry in text.split(",")) == [0, 0, 0, 2]


def test_the_writer_role_may_publish_and_the_reader_may_read_and_no_more(shared, topic, client):
    sql(shared.dsn, f"SET ROLE pgcursus_writer; SELECT pgcursus.publish('{topic}', NULL, 'x'::bytea)")
    assert len(sql(shared.dsn, f"SET ROLE pgcursus_reader; SELECT * FROM pgcursus.read('{topic}', 0, 0)")) == 1
    assert sql(shared.dsn, "SET ROLE pgcursus_reader; SELECT count(*) >= 1 FROM pgcursus.records") == [["t"]]
    for role, text in (("reader", f"SELECT pgcursus.publish('{topic}', NULL, 'x'::bytea)"),
                       ("reader", "DELETE FROM pgcursus.record_batches"),
                       ("writer", "INSERT INTO pgcursus.schema_files VALUES ('x', 'y')")):
        with pytest.raises(RuntimeError, match="permission denied"):
            sql(shared.dsn, f"SET ROLE pgcursus_{role}; {text}")
