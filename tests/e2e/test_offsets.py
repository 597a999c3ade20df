"""Committed offsets: the check tables row by row, fencing, monotonic commits, and where a group's CONSUME begins."""

import threading
import time

import pytest

import crs2client as crs2
from harness import SLOWNESS, sql, wait_until
from refusal import Text, check, refused


def member_of(client, group, topic, name="m"):
    answer = client.call("JOIN_GROUP", group=group, member=name, topic=topic).ok_fields
    return answer["member"], int(answer["generation"])


class Consumer:
    """A member of a group of one topic."""

    def __init__(self, client, group, topic, name="m"):
        self.client, self.group, self.topic = client, group, topic
        self.member, self.generation = member_of(client, group, topic, name)

    def fields(self, **changes):
        return dict(topic=self.topic, group=self.group, member=self.member, generation=self.generation) | changes

    def commit(self, partition, offset, **changes):
        return self.client.call("COMMIT_OFFSET", **self.fields(partition=partition, offset=offset, **changes)).text

    def batch(self, offsets, **changes):
        return self.client.call("BATCH_COMMIT", **self.fields(offsets=offsets, **changes)).text

    def consume(self, partition=0, offset=0, client=None, **more):
        answer = (client or self.client).consume(self.topic, partition, offset, member=self.member, group=self.group,
                                                 generation=self.generation, **more)
        return [record.offset for record in answer.records]


def committed(client, group, topic, partition=0):
    answer = client.call("FETCH_OFFSET", topic=topic, partition=partition, group=group, include_found="true").ok_fields
    return int(answer["offset"]) if answer["found"] == "true" else None


@pytest.fixture
def group(new_name):
    return new_name()


@pytest.fixture
def consumer(client, make_topic, group):
    return Consumer(client, group, make_topic(partitions=3))


def fill(client, topic, count, partition=0):
    for number in range(count):
        client.publish(topic, b"%d" % number, partition)


# ---- refusals -------------------------------------------------------------------------------------

FETCH, COMMIT, BATCH = ({"command": name} for name in ("FETCH_OFFSET", "COMMIT_OFFSET", "BATCH_COMMIT"))
WRONG_TOPIC = {"expected": "{topic}", "actual": "nope"}
ENTRY = ("invalid_batch_commit_entry", {"reason": Text()})
REFUSALS = {
    "FETCH_OFFSET": {
        "no_topic": ({"topic": None}, "missing_topic", FETCH),
        "no_partition": ({"partition": None}, "missing_partition", FETCH),
        "partition_word": ({"partition": "x", "group": None}, "invalid_partition", {}),
        "partition_negative": ({"partition": "-1"}, "invalid_partition", {}),
        "no_group": ({"group": None}, "missing_group", FETCH),
        "group_unknown": ({"group": "nope", "topic": "nope"}, "group_not_found", {"group": "nope"}),
        "other_topic": ({"topic": "nope"}, "topic_not_assigned_to_group", WRONG_TOPIC),
    },
    "COMMIT_OFFSET": {
        "no_topic": ({"topic": None, "partition": None}, "missing_topic", COMMIT),
        "no_partition": ({"partition": None, "group": None}, "missing_partition", COMMIT),
        "partition_word": ({"partition": "x", "group": None}, "invalid_partition", {}),
        "partition_negative": ({"partition": "-1"}, "invalid_partition", {}),
        "no_group": ({"group": None, "offset": None}, "missing_group", COMMIT),
        "no_offset": ({"offset": None, "topic": "nope"}, "missing_offset", COMMIT),
        "offset_word": ({"offset": "x", "topic": "nope"}, "invalid_offset", {}),
        "offset_negative": ({"offset": "-1"}, "invalid_offset", {}),
        "offset_too_large": ({"offset": 1 << 63}, "invalid_offset", {}),
        "other_topic": ({"topic": "nope", "member": None}, "topic_not_assigned_to_group", WRONG_TOPIC),
        "no_member": ({"member": None, "generation": None}, "missing_member", COMMIT),
        "no_generation": ({"generation": None, "member": "nope"}, "missing_generation", COMMIT),
        "generation_word": ({"generation": "x", "member": "nope"}, "invalid_generation", COMMIT),
        "generation_negative": ({"generation": "-1"}, "invalid_generation", COMMIT),
        "group_unknown": ({"group": "nope", "topic": "nope"}, "group_not_found", {"group": "nope"}),
        "other_incarnation": ({"registration_epoch": "2"}, "group_epoch_mismatch", {"group": "{group}"}),
        "member_unknown": ({"member": "nope", "generation": "9"}, "member_not_found",
                           {"member": "nope", "group": "{group}"}),
        "generation_old": ({"generation": "0", "partition": "9"}, "GEN_MISMATCH",
                           {"current": "1", "requested": "0", "group": "{group}", "member": "{member}"}),
        "partition_beyond": ({"partition": "9"}, "NOT_OWNER",
                             {"partition": "9", "group": "{group}", "member": "{member}", "generation": "1"}),
    },
    "BATCH_COMMIT": {
        "no_topic": ({"topic": None, "group": None}, "missing_topic", BATCH),
        "no_group": ({"group": None, "member": None}, "missing_group", BATCH),
        "no_member": ({"member": None, "generation": None}, "missing_member", BATCH),
        "no_generation": ({"generation": None, "topic": "nope"}, "missing_generation", BATCH),
        "generation_word": ({"generation": "x", "topic": "nope"}, "invalid_generation", BATCH),
        "other_topic": ({"topic": "nope", "offsets": None}, "topic_not_assigned_to_group", WRONG_TOPIC),
        "no_offsets": ({"offsets": None}, *ENTRY),
        "offsets_empty_entry": ({"offsets": "P0:1,"}, *ENTRY),
        "offsets_small_p": ({"offsets": "p0:1"}, *ENTRY),
        "offsets_no_colon": ({"offsets": "P0"}, *ENTRY),
        "offsets_blank": ({"offsets": "P0:1, P1:1"}, *ENTRY),
        "offsets_negative": ({"offsets": "P0:-1"}, *ENTRY),
        "offsets_too_large": ({"offsets": f"P0:{1 << 63}"}, *ENTRY),
        "offsets_no_number": ({"offsets": "P:1"}, *ENTRY),
        "offsets_twice": ({"offsets": "P0:1,P1:1,P0:2"}, *ENTRY),
        "offsets_too_many": ({"offsets": ",".join(f"P{n}:1" for n in range(1025))}, *ENTRY),
        "bad_offsets_before_member": ({"offsets": "x", "member": "nope"}, *ENTRY),
        "group_unknown": ({"group": "nope"}, "group_not_found", {"group": "nope"}),
        "not_the_owner": ({"offsets": "P0:1,P7:1,P9:1"}, "NOT_OWNER",
                          {"partition": "7", "group": "{group}", "member": "{member}", "generation": "1"}),
        "internal": ({"reservation_action": "x", "topic": None}, "internal_command_unauthorized", BATCH),
    },
}


@pytest.fixture(scope="module")
def standing(shared):
    """A member that these tests only ask wrong things for."""
    with shared.node("first").client() as client:
        client.call("CREATE", topic="standing-topic", partitions=3)
        yield Consumer(client, "standing-group", "standing-topic")


@pytest.mark.parametrize("case", [(c, n) for c, rows in REFUSALS.items() for n in rows], ids="-".join)
def test_offset_commands_refuse(client, standing, case):
    changes, code, want = REFUSALS[case[0]][case[1]]
    fields = standing.fields(partition="0", offset="1", offsets="P0:1") | changes
    fill_in = dict(topic=standing.topic, group=standing.group, member=standing.member)
    want = {name: value.format(**fill_in) if isinstance(value, str) else value for name, value in want.items()}
    fields = {k: v for k, v in fields.items() if v is not None}
    refused(client, case[0], fields, code, **want)
    if case[0] == "COMMIT_OFFSET":
        refused(client, case[0], fields | {"validate_only": "true"}, code, **want)


# ---- committing -----------------------------------------------------------------------------------


def test_offsets_only_rise(consumer, second_client):
    fetch = dict(topic=consumer.topic, partition=0, group=consumer.group)
    client = consumer.client
    assert client.call("FETCH_OFFSET", **fetch).text == "OK offset=0"
    assert client.call("FETCH_OFFSET", **fetch, include_found="TRUE").text == "OK offset=0 found=false"
    assert consumer.commit(0, 0) == "OK"
    assert client.call("FETCH_OFFSET", **fetch, include_found="true", include_epoch="true").text == (
        "OK offset=0 found=true registration_epoch=1")
    assert client.call("FETCH_OFFSET", **fetch, include_epoch="true").text == "OK offset=0"
    assert consumer.commit(0, 5, registration_epoch=1) == "OK"
    assert committed(second_client, consumer.group, consumer.topic) == 5
    assert consumer.commit(0, 5) == "OK"
    with pytest.raises(crs2.BrokerError) as caught:
        consumer.commit(0, 4)
    check(caught.value, "offset_regression",
          reason=Text(f"group={consumer.group} topic={consumer.topic} partition=0 current=5 got=4"))
    assert consumer.commit(0, (1 << 63) - 1) == "OK"
    assert client.call("FETCH_OFFSET", **{**fetch, "partition": "4294967296"}).text == "OK offset=0"


def test_a_commit_may_be_tried_without_writing(consumer, second_client):
    for _ in range(2):
        assert consumer.commit(0, 5, validate_only="True") == "OK validated=true"
        assert committed(second_client, consumer.group, consumer.topic) is None
    assert consumer.commit(0, 5, validate_only="false") == "OK"
    assert consumer.commit(0, 5, validate_only="true", registration_epoch=1) == "OK validated=true"
    reason = Text(f"group={consumer.group} topic={consumer.topic} partition=0 current=5 got=4")
    for more in ({}, {"ownership_only": "false"}):
        with pytest.raises(crs2.BrokerError) as caught:
            consumer.commit(0, 4, validate_only="true", **more)
        check(caught.value, "offset_regression", reason=reason)
    assert consumer.commit(0, 4, validate_only="true", ownership_only="true") == "OK validated=true"
    with pytest.raises(crs2.BrokerError) as caught:
        consumer.commit(9, 4, validate_only="true", ownership_only="true")
    assert caught.value.code == "NOT_OWNER"
    with pytest.raises(crs2.BrokerError) as caught:
        consumer.commit(0, 4, ownership_only="true")
    check(caught.value, "offset_regression", reason=reason)  # only a trial leaves it out
    assert committed(second_client, consumer.group, consumer.topic) == 5


def test_a_batch_is_stored_whole_or_not_at_all(consumer):
    client = consumer.client
    assert consumer.batch("P0:100,P1:200,P2:0") == "OK batched=3"
    for offsets, code in (("P0:101,P1:199", "offset_regression"), ("P0:101,P1:201,P3:1", "NOT_OWNER")):
        with pytest.raises(crs2.BrokerError) as caught:
            consumer.batch(offsets)
        assert caught.value.code == code
    assert [committed(client, consumer.group, consumer.topic, p) for p in range(3)] == [100, 200, 0]
    assert consumer.batch("P2:7,P0:100") == "OK batched=2"
    assert [committed(client, consumer.group, consumer.topic, p) for p in range(3)] == [100, 200, 7]


def test_who_was_passed_over_in_a_rebalance_commits_nothing(consumer, second_client):
    # CASES 12: the old owner resumes after another took over.
    old = dict(generation=consumer.generation)
    other = Consumer(second_client, consumer.group, consumer.topic, "z")
    for call in (lambda: consumer.commit(0, 9, **old), lambda: consumer.batch("P0:9,P2:9", **old)):
        with pytest.raises(crs2.BrokerError) as caught:
            call()
        assert caught.value.code == "GEN_MISMATCH"
    consumer.generation = other.generation
    for call in (lambda: consumer.commit(2, 9), lambda: consumer.batch("P0:9,P2:9")):
        with pytest.raises(crs2.BrokerError) as caught:
            call()
        assert caught.value.code == "NOT_OWNER"
    assert [committed(second_client, consumer.group, consumer.topic, p) for p in range(3)] == [None] * 3
    assert consumer.batch("P0:1,P1:1") == "OK batched=2"
    assert other.commit(2, 1) == "OK"


def test_members_of_subscriptions_commit_their_part(client, make_topic, group):
    a, b = make_topic(partitions=2), make_topic(partitions=1)
    client.call("REGISTER_GROUP", group=group, topics=f"{a},{b}")
    joined = client.call("JOIN_GROUP", group=group, member="m").ok_fields
    fields = dict(group=group, member=joined["member"], generation=1)
    assert client.call("COMMIT_OFFSET", topic=b, partition=0, offset=3, **fields).text == "OK"
    assert client.call("BATCH_COMMIT", topic=a, offsets="P0:1,P1:2", **fields).text == "OK batched=2"
    refused(client, "COMMIT_OFFSET", dict(topic=b, partition=1, offset=3, **fields), "NOT_OWNER", partition="1",
            topic=b, **{k: str(v) for k, v in fields.items()})
    assert committed(client, group, b) == 3


def test_a_group_registered_again_has_no_offsets(client, make_topic, group):
    topic = make_topic()
    first = Consumer(client, group, topic)
    first.commit(0, 5)
    client.call("LEAVE_GROUP", **first.fields())
    client.call("DELETE", topic=topic)
    refused(client, "FETCH_OFFSET", dict(topic=topic, partition=0, group=group), "group_not_found", group=group)
    client.call("CREATE", topic=topic, partitions=1)
    again = Consumer(client, group, topic)
    assert committed(client, group, topic) is None
    answer = client.call("FETCH_OFFSET", topic=topic, partition=0, group=group, include_found="true",
                         include_epoch="true")
    assert answer.ok_fields["registration_epoch"] == "3"
    with pytest.raises(crs2.BrokerError) as caught:
        again.commit(0, 1, registration_epoch=1)
    check(caught.value, "group_epoch_mismatch", group=group)


def test_commits_go_on_beside_a_transaction_that_commits_for_the_same_group(consumer, broker):
    with sql_session(broker.dsn) as session:
        session.run("BEGIN")
        session.run(f"SELECT pgcursus.commit_offset('{consumer.group}', '{consumer.topic}', 1, 4,"
                    f" '{consumer.member}', {consumer.generation})")
        assert consumer.commit(0, 1) == "OK"
        assert committed(consumer.client, consumer.group, consumer.topic, 1) is None
        session.run("COMMIT")
    assert committed(consumer.client, consumer.group, consumer.topic, 1) == 4


def sql_session(dsn):
    from harness import SqlSession
    return SqlSession(dsn)


def test_superseded_offsets_are_removed(start_broker, database):
    broker = start_broker(database, offset_trim_interval_ms=200)
    with broker.client() as client:
        client.call("CREATE", topic="t", partitions=2)
        own = Consumer(client, "g", "t")
        for offset in range(1, 40):
            own.batch(f"P0:{offset},P1:{offset}")
        wait_until(lambda: sql(database, "SELECT count(*) FROM pgcursus.offset_commits") == [["2"]],
                   within=15 * SLOWNESS, what="removal of superseded offsets")
        assert committed(client, "g", "t", 1) == 39


# ---- where CONSUME begins -------------------------------------------------------------------------


def test_a_group_begins_at_its_committed_offset(consumer, second_client):
    client = consumer.client
    fill(client, consumer.topic, 5)
    assert consumer.consume(offset=1) == [1, 2, 3, 4]
    consumer.commit(0, 2)
    assert consumer.consume(client=second_client) == [2, 3, 4]
    assert consumer.consume(offset=4, client=second_client) == []
    assert [r.offset for r in second_client.consume(consumer.topic, 0, 1, group="other").records] == [1, 2, 3, 4]
    assert [r.offset for r in second_client.consume(consumer.topic, 0, 3).records] == [3, 4]


def test_a_connection_goes_on_behind_what_it_has_delivered(consumer, broker):
    # clients poll ahead of their commits.
    fill(consumer.client, consumer.topic, 10)
    consumer.commit(0, 2)
    with broker.client() as poller:
        assert consumer.consume(client=poller, batch=3) == [2, 3, 4]
        consumer.commit(0, 4)
        assert consumer.consume(client=poller, batch=3) == [5, 6, 7]
        assert consumer.consume(client=poller, batch=3) == [8, 9]
        began = time.monotonic()
        assert consumer.consume(client=poller, wait_ms=200) == []
        assert time.monotonic() - began >= 0.2
        other = poller.consume(consumer.topic, 0, 0, member="another", group=consumer.group)
        assert [r.offset for r in other.records] == list(range(4, 10)), "positions belong to members"
        consumer.commit(0, 10)
        assert consumer.consume(client=poller) == []
    with broker.client() as fresh:
        assert consumer.consume(client=fresh) == [], "the committed offset is all that is left"


def test_without_a_commit_the_request_decides_every_time(consumer):
    fill(consumer.client, consumer.topic, 4)
    assert consumer.consume(offset=1) == [1, 2, 3]
    assert consumer.consume(offset=0) == [0, 1, 2, 3]
    assert consumer.consume(offset=0, batch=2) == [0, 1]
    consumer.commit(0, 1)
    assert consumer.consume() == [2, 3], "it goes on behind what was delivered last"


def test_a_committed_zero_counts(consumer):
    fill(consumer.client, consumer.topic, 2)
    consumer.commit(0, 0)
    assert consumer.consume(offset=1) == [0, 1]


def test_the_default_group_has_offsets_too(client, make_topic, shared):
    topic = make_topic(partitions=2)
    fill(client, topic, 3)
    sql(shared.dsn, "SELECT pgcursus.register_group('default-group', 'pattern', '*')")
    try:
        joined = client.call("JOIN_GROUP", group="default-group", member="m").ok_fields
        client.call("COMMIT_OFFSET", topic=topic, partition=0, offset=2, group="default-group",
                    member=joined["member"], generation=joined["generation"])
        client.call("LEAVE_GROUP", group="default-group", member=joined["member"])
        for group in (None, "", "-", "default-group"):
            more = {} if group is None else {"group": group}
            assert [r.offset for r in client.consume(topic, 0, 0, member=f"m{group}", **more).records] == [2]
    finally:
        sql(shared.dsn, "DELETE FROM pgcursus.group_definitions WHERE name = 'default-group'")


def test_every_topic_of_a_pattern_has_its_own_offset(client, new_name):
    stem = new_name()
    names = [f"{stem}.{letter}" for letter in "abc"]
    for name in names:
        client.call("CREATE", topic=name, partitions=1)
        for number in range(4):
            client.publish(name, f"{name[-1]}{number}".encode())
    client.call("REGISTER_GROUP", group=stem, topics=",".join(names))
    joined = client.call("JOIN_GROUP", group=stem, member="m").ok_fields
    for name, offset in ((names[0], 3), (names[1], 1)):
        client.call("COMMIT_OFFSET", topic=name, partition=0, offset=offset, group=stem, member=joined["member"],
                    generation=1)

    def poll(**more):
        answer = client.consume(f"{stem}.*", 0, 2, member=joined["member"], group=stem, generation=1, **more)
        return [record.payload.decode() for record in answer.records]

    assert poll(batch=2) == ["a3", "b1"]
    assert poll(batch=3) == ["b2", "b3", "c2"]
    assert poll() == ["c2", "c3"], "where nothing is committed the request decides"


def test_an_offset_that_was_removed_is_out_of_range(consumer, broker):
    # CASES 13.
    fill(consumer.client, consumer.topic, 6)
    consumer.commit(0, 2)
    sql(broker.dsn, "UPDATE pgcursus.partition_states SET earliest_offset = 4 WHERE partition = 0 AND log_id ="
                    f" (SELECT log_id FROM pgcursus.topic_definitions WHERE name = '{consumer.topic}')")
    sql(broker.dsn, "DELETE FROM pgcursus.record_batches WHERE last_offset < 4 AND partition = 0 AND log_id ="
                    f" (SELECT log_id FROM pgcursus.topic_definitions WHERE name = '{consumer.topic}')")
    with pytest.raises(crs2.BrokerError) as caught:
        consumer.consume(offset=5)
    check(caught.value, "OFFSET_OUT_OF_RANGE", requested="2", earliest="4", latest="6")
    lag = sql(broker.dsn, f"SELECT committed, lag FROM pgcursus.group_lag WHERE \"group\" = '{consumer.group}'"
                          " AND partition = 0")
    assert lag == [["2", "2"]]


def test_a_stream_begins_at_the_committed_offset(consumer, broker):
    fill(consumer.client, consumer.topic, 4)
    consumer.commit(0, 3)
    with broker.client() as stream:
        stream.send("STREAM", dict(topic=consumer.topic, partition="0", group=consumer.group, offset="0"))
        assert [r.offset for r in stream.recv().batch.records] == [3]


# ---- without a database ---------------------------------------------------------------------------


def test_what_is_not_known_is_never_shown_as_0(make_cluster, start_broker):
    # CASES 14.
    cluster = make_cluster()
    broker = start_broker(cluster.create_database(), client_request_timeout_ms=3000)
    with broker.client() as client:
        client.call("CREATE", topic="t", partitions=1)
        own = Consumer(client, "g", "t")
        own.commit(0, 7)
        client.call("HEARTBEAT", group="g", member=own.member, topic="t", generation=1)
        cluster.crash()
        for command, fields in (
                ("FETCH_OFFSET", dict(topic="t", partition=0, group="g")),
                ("COMMIT_OFFSET", own.fields(partition=0, offset=8)),
                ("HEARTBEAT", own.fields()),
                ("CONSUME", dict(topic="t", partition=0, offset=0, member="m", group="g")),
                ("JOIN_GROUP", dict(topic="t", group="g", member="x"))):
            with pytest.raises(crs2.BrokerError) as caught:
                client.call(command, **fields)
            assert caught.value.retryable, (command, caught.value)
        cluster.start()
        wait_until(lambda: _when_back(lambda: committed(client, "g", "t")) in (7, 8), within=30 * SLOWNESS, what="the offset after the restart")
        members = wait_until(lambda: _when_back(lambda: client.call("GROUP_STATUS", group="g").json["members"]),
                             what="the group after the restart")
        assert len(members) == 1, "an outage expires nobody"
    cluster.stop()


def _when_back(ask):
    try:
        return ask()
    except crs2.BrokerError as error:
        assert error.retryable, error
        return None


def test_offsets_survive_the_death_of_a_node_between_commits(start_broker, database):
    nodes = [start_broker(database) for _ in range(2)]
    with nodes[0].client() as client:
        client.call("CREATE", topic="t", partitions=1)
        own = Consumer(client, "g", "t")
        acknowledged = []

        def commit_on():
            try:
                for offset in range(1, 100000):
                    own.commit(0, offset)
                    acknowledged.append(offset)
            except (OSError, crs2.Closed, EOFError):
                pass

        thread = threading.Thread(target=commit_on)
        thread.start()
        wait_until(lambda: len(acknowledged) > 50, what="commits")
        nodes[0].kill()
        thread.join(120)
    with nodes[1].client() as client:
        assert committed(client, "g", "t") in (acknowledged[-1], acknowledged[-1] + 1)
        own.client = client
        assert own.commit(0, acknowledged[-1] + 1) == "OK"
        answer = client.call("HEARTBEAT", group="g", member=own.member, topic="t", generation=1)
        assert answer.ok_fields["generation"] == "1", "any node serves any member"
