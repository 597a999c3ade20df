"""Transactions: the check tables of their commands, states, fences, deadlines, and what readers see of them."""

import struct
import threading
import time

import pytest

import crs2client as crs2
import harness
from crs2client import BrokerError
from refusal import Text, refused

MARKER = b"__cursus_txn_control_marker__"


class Txn:
    """A producer session of one transactional id."""

    def __init__(self, client, name):
        self.client, self.name, self.number = client, name, 0
        self.init()

    def init(self):
        answer = self.client.call("INIT_PRODUCER_ID", transactional_id=self.name).ok_fields
        assert answer["transactional_id"] == self.name
        self.producer, self.epoch = answer["producerId"], int(answer["epoch"])
        return self

    @property
    def session(self):
        return dict(transactional_id=self.name, producerId=self.producer, epoch=str(self.epoch))

    def begin(self):
        text = self.client.call("BEGIN_TXN", **self.session).text
        assert text == (f"OK transactional_id={self.name} state=open producerId={self.producer} "
                        f"epoch={self.epoch}")
        return self

    def publish(self, topic, message, number=None, **more):
        self.number = number or self.number + 1
        fields = self.session | dict(topic=topic, message=message, seqNum=str(self.number)) | more
        answer = self.client.call("TXN_PUBLISH", **fields).ok_fields
        assert (answer["appended"], answer["topic"], answer["state"]) == ("true", topic, "open")
        return int(answer["partition"])

    def end(self, result="commit", client=None):
        answer = (client or self.client).call("END_TXN", result=result, **self.session).ok_fields
        return answer["state"], int(answer["messages"]), int(answer["offsets"])

    def status(self, client=None):
        answer = (client or self.client).call("TXN_STATUS", transactional_id=self.name).ok_fields
        assert answer["mode"] == "exactly_once"
        return answer["state"], int(answer["messages"]), int(answer["participants"]), int(answer["offsets"])


@pytest.fixture
def txn(client, new_name):
    return Txn(client, new_name())


def committed(client, topic, partition=0, offset=0, **more):
    return [(r.offset, r.payload) for r in client.consume(topic, partition, offset, **more).records]


def everything(client, topic, partition=0):
    return client.consume(topic, partition, isolation="read_uncommitted").records


# ---- check tables ----

def C(command):
    return {"command": command}


SESSION_REFUSALS = {
    "id_missing": ({"transactional_id": None}, "missing_transactional_id", None),
    "id_with_blank": ({"transactional_id": "a b"}, "invalid_transactional_id", None),
    "producer_missing": ({"producerId": None}, "missing_producer_id", None),
    "producer_with_blank": ({"producerId": "a b"}, "invalid_producer_id", None),
    "epoch_word": ({"epoch": "x"}, "invalid_epoch", {"reason": Text()}),
}
PUBLISH_REFUSALS = SESSION_REFUSALS | {
    "topic_missing": ({"topic": None}, "missing_topic", None),
    "message_missing": ({"message": ""}, "missing_message", None),
    "partition_word": ({"partition": "x"}, "invalid_partition", {"reason": Text()}),
    "partition_below_minus_1": ({"partition": "-2"}, "invalid_partition", {"reason": Text()}),
    "number_missing": ({"seqNum": None}, "invalid_seq_num", {"command": "TXN_PUBLISH", "reason": Text()}),
    "number_0": ({"seqNum": "0"}, "invalid_seq_num", {"command": "TXN_PUBLISH", "reason": Text()}),
    "number_too_large": ({"seqNum": str(1 << 63)}, "invalid_seq_num", {"command": "TXN_PUBLISH", "reason": Text()}),
    "topic_unknown": ({"topic": "no-such-topic"}, "topic_not_found", {"topic": "no-such-topic"}),
    "topic_internal": ({"topic": "__consumer_offsets"}, "internal_topic_write_forbidden",
                       {"topic": "__consumer_offsets"}),
    "partition_at_the_count": ({"partition": "1"}, "partition_not_found", {"partition": "1"}),
    "id_unknown": ({"transactional_id": "never"}, "transaction_not_found", {"reason": Text("never")}),
    "producer_other": ({"producerId": "txn-0"}, "producer_fenced",
                       {"transactional_id": Text(), "current_epoch": "0", "requested_epoch": "0"}),
    "epoch_higher": ({"epoch": "1"}, "producer_fenced",
                     {"transactional_id": Text(), "current_epoch": "0", "requested_epoch": "1"}),
    "epoch_negative": ({"epoch": "-1"}, "producer_fenced",
                       {"transactional_id": Text(), "current_epoch": "0", "requested_epoch": "-1"}),
    "not_begun": ({}, "transaction_publish_failed", {"reason": Text("is aborted")}),
}


def changed(fields, changes):
    return {name: value for name, value in (fields | changes).items() if value is not None}


@pytest.mark.parametrize("case", PUBLISH_REFUSALS)
def test_txn_publish_refuses_and_stores_nothing(client, topic, txn, case):
    changes, code, fields = PUBLISH_REFUSALS[case]
    request = changed(txn.session | dict(topic=topic, message="x", seqNum="1"), changes)
    refused(client, "TXN_PUBLISH", request, code, **(C("TXN_PUBLISH") if fields is None else fields))
    assert everything(client, topic) == []


def test_txn_publish_checks_in_order(client, make_topic, txn, new_name):
    topic = make_topic(auth_policy="deny_write")
    open_topic = make_topic()
    fields = dict(epoch="x", partition="x", seqNum="x")
    steps = [
        ("missing_transactional_id", {"transactional_id": new_name()}),
        ("missing_topic", {"topic": "no-such-topic"}),
        ("missing_message", {"message": "m"}),
        ("missing_producer_id", {"producerId": txn.producer}),
        ("invalid_epoch", {"epoch": "5"}),
        ("invalid_partition", {"partition": "7"}),
        ("invalid_seq_num", {"seqNum": "1"}),
        ("topic_not_found", {"topic": topic}),
        ("NOT_AUTHORIZED_FOR_TOPIC", {"topic": open_topic}),
        ("partition_not_found", {"partition": "-1"}),
        ("transaction_not_found", {"transactional_id": txn.name}),
        ("producer_fenced", {"epoch": "0"}),
        ("transaction_publish_failed", None),
    ]
    for code, change in steps:
        with pytest.raises(BrokerError) as caught:
            client.call("TXN_PUBLISH", **fields)
        assert caught.value.code == code
        fields |= change or {}


@pytest.mark.parametrize("command", ["BEGIN_TXN", "END_TXN"])
@pytest.mark.parametrize("case", SESSION_REFUSALS)
def test_begin_and_end_check_their_session(client, txn, command, case):
    changes, code, fields = SESSION_REFUSALS[case]
    request = changed(txn.session | {"result": "abort"}, changes)
    refused(client, command, request, code, **(C(command) if fields is None else fields))


def test_begin_refusals(client, txn):
    fenced = dict(transactional_id=txn.name, current_epoch="1")
    refused(client, "BEGIN_TXN", txn.session | {"transactional_id": "never"}, "transaction_begin_failed",
            reason=Text("never"))
    txn.init()
    refused(client, "BEGIN_TXN", txn.session | {"epoch": "0"}, "producer_fenced", requested_epoch="0", **fenced)
    refused(client, "BEGIN_TXN", txn.session | {"producerId": "p"}, "producer_fenced", requested_epoch="1", **fenced)
    refused(client, "BEGIN_TXN", txn.session | {"epoch": "2"}, "transaction_begin_failed", reason=Text("2"))
    txn.begin()
    refused(client, "BEGIN_TXN", txn.session, "producer_reinitialization_required", transactional_id=txn.name,
            epoch="1")


@pytest.mark.parametrize("result", [None, "", "x", "committed"])
def test_end_refuses_other_results(client, txn, result):
    txn.begin()
    refused(client, "END_TXN", changed(txn.session, {"result": result}), "invalid_transaction_result",
            value=result or "")
    assert txn.status()[0] == "open"


@pytest.mark.parametrize("name", ["result", "action", "state"])
def test_end_takes_its_result_by_every_name_in_any_case(client, txn, name):
    txn.begin()
    assert client.call("END_TXN", **txn.session, **{name: "Commit"}).text == (
        f"OK transactional_id={txn.name} state=committed messages=0 offsets=0")


def test_status_and_init_refusals(client):
    refused(client, "TXN_STATUS", {}, "missing_transactional_id", command="TXN_STATUS")
    refused(client, "TXN_STATUS", {"transactional_id": "never"}, "transaction_not_found", reason=Text("never"))
    refused(client, "INIT_PRODUCER_ID", {}, "missing_transactional_id", command="INIT_PRODUCER_ID")
    refused(client, "INIT_PRODUCER_ID", {"transactional_id": "a\x7f"}, "invalid_transactional_id",
            command="INIT_PRODUCER_ID")


# ---- states ----

def test_the_worked_run(client, topic, new_name):
    """commands-2 4.15, without the group."""
    txn = Txn(client, new_name()).begin()
    assert txn.epoch == 0 and txn.producer.startswith("txn-") and len(txn.producer) == 20
    assert txn.publish(topic, "a") == 0
    assert txn.publish(topic, "a", number=1) == 0
    client.publish(topic, "b")
    assert committed(client, topic) == []
    assert txn.end() == ("committed", 1, 0)
    assert committed(client, topic) == [(0, b"a"), (1, b"b")]
    assert txn.end() == ("committed", 1, 0)
    refused(client, "END_TXN", txn.session | {"result": "abort"}, "transaction_already_committed",
            transactional_id=txn.name)
    refused(client, "BEGIN_TXN", txn.session, "producer_reinitialization_required", transactional_id=txn.name,
            epoch="0")
    old = txn.session
    assert txn.init().epoch == 1
    refused(client, "TXN_PUBLISH", old | dict(topic=topic, message="x", seqNum="2"), "producer_fenced",
            transactional_id=txn.name, current_epoch="1", requested_epoch="0")


def test_ends_by_state(client, topic, txn):
    aborted = ("transaction_aborted", {"transactional_id": txn.name})
    refused(client, "END_TXN", txn.session | {"result": "commit"}, aborted[0], **aborted[1])
    assert txn.status() == ("aborted", 0, 0, 0)
    assert txn.end("abort") == ("aborted", 0, 0)
    txn.begin()
    assert txn.status() == ("open", 0, 0, 0)
    txn.publish(topic, "x")
    assert txn.status() == ("open", 1, 1, 0)
    assert txn.end("abort") == ("aborted", 1, 0)
    assert txn.end("abort") == ("aborted", 1, 0)
    refused(client, "END_TXN", txn.session | {"result": "commit"}, aborted[0], **aborted[1])
    refused(client, "TXN_PUBLISH", txn.session | dict(topic=topic, message="x", seqNum="2"),
            "transaction_publish_failed", reason=f"transaction {txn.name} is aborted")
    assert txn.status() == ("aborted", 1, 1, 0)


def test_requests_sent_again_append_once_wherever_they_are_sent(client, second_client, make_topic, txn):
    topic = make_topic(partitions=4)
    txn.begin()
    places = [txn.publish(topic, f"m{n}", number=n, partition="-1") for n in range(1, 9)]
    assert sorted(places) == [0, 0, 1, 1, 2, 2, 3, 3], "without a key records take turns"
    keyed = txn.publish(topic, "k", number=9, key="user-1")
    assert keyed == 0
    again = Txn.__new__(Txn)
    again.__dict__ = txn.__dict__ | {"client": second_client}
    assert [again.publish(topic, f"m{n}", number=n) for n in range(1, 9)] == places
    assert again.publish(topic, "other", number=1, partition="2") == 2, "another requested partition"
    refused(second_client, "TXN_PUBLISH", txn.session | dict(topic=topic, message="other", seqNum="1"),
            "transaction_publish_failed", reason=Text("conflicts with existing client sequence"))
    assert again.end() == ("committed", 10, 0)
    assert sum(len(committed(client, topic, p)) for p in range(4)) == 10


def test_stored_records_and_markers_are_exact(client, make_topic, txn):
    topic = make_topic(partitions=2)
    for _ in range(258):
        txn.init()
    txn.begin()
    txn.publish(topic, "a", number=77, partition="0", key="k")
    txn.publish(topic, "b", number=70, partition="0")
    txn.publish(topic, "c", number=1, partition="1")
    txn.end("abort")
    first, second, marker = everything(client, topic, 0)
    for record, payload, number in ((first, b"a", 1), (second, b"b", 2)):
        assert (record.payload, record.producer_id, record.epoch, record.seq_num) == (
            payload, txn.producer.encode(), 258, number)
        assert (record.transactional_id, record.transaction_state) == (txn.name.encode(), b"open")
        assert record.control_batch_key is None
    assert first.key == b"k"
    assert marker.payload == MARKER and marker.key == b"" and marker.offset == 2
    assert marker.producer_id == f"txn-marker:{txn.name}:258:abort".encode()
    assert (marker.seq_num, marker.epoch, marker.transactional_id) == (1, 258, txn.name.encode())
    assert (marker.transaction_state, marker.transaction_marker) == (b"aborted", b"abort")
    assert (marker.control_batch_type, marker.control_batch_version) == (b"transaction", 2)
    assert marker.control_batch_coordinator_epoch == 258
    assert marker.control_batch_key == struct.pack(">hh", 0, 1)
    assert marker.control_batch_value == bytes.fromhex("0000 0000 0102")
    assert [r.payload for r in everything(client, topic, 1)] == [b"c", MARKER]
    txn.init().begin().publish(topic, "d", number=1, partition="1")
    txn.end()
    marker = everything(client, topic, 1)[-1]
    assert (marker.transaction_state, marker.transaction_marker) == (b"committed", b"commit")
    assert marker.producer_id.endswith(b":259:commit")
    assert marker.control_batch_key == bytes(4)


# ---- what readers see ----

@pytest.mark.parametrize("result, seen", [("commit", 8), ("abort", 3)])
def test_uncommitted_records_hold_what_follows(client, second_client, topic, txn, result, seen):
    """CASES.md 2."""
    txn.begin()
    for n in range(5):
        txn.publish(topic, f"t{n}")
    for n in range(3):
        client.publish(topic, f"p{n}")
    for reader in (client, second_client):
        assert committed(reader, topic) == []
        assert committed(reader, topic, offset=6) == []
        assert len(everything(reader, topic)) == 8
    txn.end(result)
    for reader in (client, second_client):
        assert len(committed(reader, topic)) == seen
        assert len(committed(reader, topic)) == seen, "and again, from the cache"
        assert [o for o, _ in committed(reader, topic, offset=2)] == ([2, 3, 4] if seen == 8 else []) + [5, 6, 7]
        assert [r.transaction_marker for r in everything(reader, topic)][8:] == [result.encode()]


def test_a_reader_waits_for_the_end_of_a_transaction(broker, second_broker, client, second_client, topic, txn):
    txn.begin()
    txn.publish(topic, "a")
    for reader in (client, second_client):
        start = time.monotonic()
        assert reader.consume(topic, wait_ms="300").records == []
        assert time.monotonic() - start > 0.29
    got = {}

    def wait(name, node):
        with node.client() as reader:
            got[name] = committed(reader, topic, wait_ms="25000")

    threads = [threading.Thread(target=wait, args=pair) for pair in enumerate((broker, second_broker))]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    assert not got
    txn.end()
    for thread in threads:
        thread.join(120)
    assert list(got.values()) == [[(0, b"a")]] * 2


def test_a_position_can_reach_the_end(client, topic, new_name):
    """CASES.md 6: markers and aborted records are passed over."""
    for result in ("commit", "commit", "abort", "abort"):
        txn = Txn(client, new_name()).begin()
        txn.publish(topic, result)
        txn.end(result)
    assert "latest=8:" in client.call("LIST_OFFSETS", topic=topic).text
    assert [offset for offset, _ in committed(client, topic)] == [0, 2]
    assert client.consume(topic, 0, 3, wait_ms="200").records == []
    client.publish(topic, "after")
    assert committed(client, topic, offset=3) == [(8, b"after")]
    assert committed(client, topic, offset=8) == [(8, b"after")]


def test_many_aborted_records_are_skipped_in_one_answer(client, topic, txn):
    """CASES.md 5: also from the middle, and over batches."""
    for n in range(3):
        txn.begin()
        for m in range(40):
            txn.publish(topic, f"x{n}-{m}")
        client.publish(topic, f"p{n}")
        txn.end("abort")
        txn.init()
    assert [p for _, p in committed(client, topic)] == [b"p0", b"p1", b"p2"]
    assert [p for _, p in committed(client, topic, offset=50, batch="1")] == [b"p1"]


def test_an_open_transaction_holds_its_partitions_only(client, make_topic, txn):
    topic = make_topic(partitions=2)
    txn.begin()
    txn.publish(topic, "x", partition="0")
    client.publish(topic, "y", partition=1)
    assert committed(client, topic, 1) == [(0, b"y")]
    assert committed(client, topic, 0) == []
    txn.end("abort")


# ---- fences and deadlines ----

def test_a_new_session_ends_and_fences_the_old_one(client, second_client, topic, txn):
    """CASES.md 10: a delayed END of the old session does not touch the new one."""
    txn.begin()
    txn.publish(topic, "old")
    new = Txn(second_client, txn.name).begin()
    assert new.epoch == txn.epoch + 1
    new.publish(topic, "new")
    fence = dict(transactional_id=txn.name, current_epoch=str(new.epoch), requested_epoch=str(txn.epoch))
    for result in ("commit", "abort"):
        refused(client, "END_TXN", txn.session | {"result": result}, "producer_fenced", **fence)
    refused(client, "TXN_PUBLISH", txn.session | dict(topic=topic, message="x", seqNum="9"), "producer_fenced", **fence)
    assert new.status() == ("open", 1, 1, 0)
    assert new.end() == ("committed", 1, 0)
    assert [p for _, p in committed(client, topic)] == [b"new"]


def test_fencing_holds_against_publishes_in_flight(broker, client, second_client, topic, new_name):
    """After INIT has answered no record of the old epoch appears."""
    txn = Txn(client, new_name()).begin()
    stop = threading.Event()

    def publish():
        number = 0
        with broker.client() as producer:
            while not stop.is_set():
                number += 1
                try:
                    producer.call("TXN_PUBLISH", topic=topic, message="x", seqNum=str(number), **txn.session)
                except BrokerError as error:
                    assert error.code == "producer_fenced"
                    return

    thread = threading.Thread(target=publish)
    thread.start()
    harness.wait_until(lambda: len(everything(second_client, topic)) > 1, what="records of the old epoch")
    second_client.call("INIT_PRODUCER_ID", transactional_id=txn.name)
    count = len(everything(second_client, topic))
    thread.join(120)
    stop.set()
    records = everything(second_client, topic)
    assert len(records) == count > 1
    assert records[-1].transaction_marker == b"abort"


def test_deadlines_are_kept_by_touch_and_by_housekeeping(database, start_broker):
    broker = start_broker(database, transaction_timeout_ms=4000, transaction_check_interval_ms=200)
    with broker.client() as client:
        client.call("CREATE", topic="t", partitions="1")
        touched, left = Txn(client, "touched").begin(), Txn(client, "left").begin()
        touched.publish("t", "x")
        left.publish("t", "y")
        time.sleep(4.1)
        refused(client, "TXN_PUBLISH", touched.session | dict(topic="t", message="z", seqNum="2"),
                "transaction_publish_failed", reason="transaction touched is aborted")
        refused(client, "END_TXN", touched.session | {"result": "commit"}, "transaction_aborted",
                transactional_id="touched")
        assert touched.end("abort") == ("aborted", 1, 0)
        client.publish("t", "after")
        harness.wait_until(lambda: committed(client, "t"), 10 * harness.SLOWNESS, what="the sweep")
        assert [p for _, p in committed(client, "t")] == [b"after"]
        assert left.status() == ("aborted", 1, 1, 0)


def test_transactions_survive_their_node(database, start_broker):
    first, second = start_broker(database), start_broker(database)
    with first.client() as client:
        client.call("CREATE", topic="t", partitions="2")
        txn = Txn(client, "tx").begin()
        txn.publish("t", "a", partition="0")
        txn.publish("t", "b", partition="1")
    first.kill()
    with second.client() as client:
        txn.client = client
        assert txn.status() == ("open", 2, 2, 0)
        assert txn.publish("t", "a", number=1, partition="0") == 0
        assert txn.end() == ("committed", 2, 0)
        assert [committed(client, "t", p) for p in (0, 1)] == [[(0, b"a")], [(0, b"b")]]


def test_unfinished_transactions_are_listed(client, topic, txn):
    txn.begin()
    txn.publish(topic, "x")
    row = next(r for r in client.call("TXN_STATUS", list="true").json if r["transactional_id"] == txn.name)
    assert row.pop("age_ms") >= 0
    assert row == dict(transactional_id=txn.name, producer_id=txn.producer, epoch=0, state="open", messages=1, offsets=0,
                       holds_back=1, touched=[f"{topic}/0"])
    txn.end("abort")
    assert txn.name not in [r["transactional_id"] for r in client.call("TXN_STATUS", list="true").json]


# ---- offsets ----

class Member:
    """The only member of a group on a topic."""

    def __init__(self, client, group, topic):
        self.client, self.group, self.topic = client, group, topic
        answer = client.call("JOIN_GROUP", topic=topic, group=group, member="w").ok_fields
        self.member, self.generation = answer["member"], answer["generation"]

    @property
    def claim(self):
        return dict(topic=self.topic, group=self.group, member=self.member, generation=self.generation)

    def stage(self, txn, offsets, client=None):
        text = (client or self.client).call("SEND_OFFSETS_TO_TXN", offsets=offsets, **txn.session, **self.claim).text
        assert text == f"OK transactional_id={txn.name} staged_offsets={offsets.count(':')}"

    def commit(self, offset, partition=0):
        self.client.call("COMMIT_OFFSET", partition=str(partition), offset=str(offset), **self.claim)

    def committed(self, client=None, partition=0):
        answer = (client or self.client).call("FETCH_OFFSET", topic=self.topic, partition=str(partition),
                                              group=self.group).ok_fields
        return int(answer["offset"])


@pytest.fixture
def member(client, make_topic, new_name):
    return Member(client, new_name(), make_topic(partitions=2))


def test_staged_offsets_are_the_group_s_when_the_transaction_commits(client, second_client, member, topic, txn):
    txn.begin()
    txn.publish(topic, "out")
    member.stage(txn, "P0:5,P1:7")
    member.stage(txn, "P0:5")
    member.stage(txn, "P0:6")
    assert txn.status() == ("open", 1, 1, 2)
    assert member.committed() == 0, "until the commit nothing moves"
    assert txn.end() == ("committed", 1, 2)
    for reader in (client, second_client):
        assert (member.committed(reader), member.committed(reader, 1)) == (6, 7)
    assert txn.end() == ("committed", 1, 2)


def test_staged_offsets_are_dropped_with_an_abort(member, txn):
    member.commit(3)
    txn.begin()
    member.stage(txn, "P0:5")
    assert txn.end("abort") == ("aborted", 0, 1)
    assert member.committed() == 3


def test_an_ordinary_commit_meanwhile_is_not_undone(client, member, txn):
    """CASES.md 4: the staged set is validated again, the result is monotonic."""
    txn.begin()
    member.stage(txn, "P0:10")
    member.commit(12)
    refused(client, "END_TXN", txn.session | {"result": "commit"}, "transaction_commit_failed", state="open",
            reason=Text("offset_regression", "12", "10"))
    assert txn.status()[0] == "open"
    assert member.committed() == 12
    txn.end("abort")
    assert member.committed() == 12


def test_a_rebalance_between_staging_and_commit_refuses_the_commit(client, member, topic, txn):
    """CASES.md 12, for transactions."""
    txn.begin()
    txn.publish(topic, "out")
    member.stage(txn, "P0:5")
    client.call("JOIN_GROUP", topic=member.topic, group=member.group, member="other")
    refused(client, "END_TXN", txn.session | {"result": "commit"}, "transaction_commit_failed", state="open",
            reason=Text("GEN_MISMATCH"))
    assert txn.end("abort") == ("aborted", 1, 1)
    assert member.committed() == 0
    assert committed(client, topic) == []


OFFSET_REFUSALS = SESSION_REFUSALS | {
    "topic_missing": ({"topic": ""}, "missing_topic", None),
    "group_missing": ({"group": None}, "missing_group", None),
    "group_with_blank": ({"group": "a b"}, "invalid_group", None),
    "member_missing": ({"member": None}, "missing_member", None),
    "generation_missing": ({"generation": None}, "missing_generation", None),
    "generation_negative": ({"generation": "-1"}, "invalid_generation", None),
    "offsets_missing": ({"offsets": None}, "invalid_txn_offsets", {"reason": Text()}),
    "offsets_malformed": ({"offsets": "0:1"}, "invalid_txn_offsets", {"reason": Text()}),
    "offsets_repeated": ({"offsets": "P0:1,P0:2"}, "invalid_txn_offsets", {"reason": Text()}),
    "id_unknown": ({"transactional_id": "never"}, "transaction_not_found", {"reason": Text("never")}),
    "epoch_other": ({"epoch": "1"}, "producer_fenced",
                    {"transactional_id": Text(), "current_epoch": "0", "requested_epoch": "1"}),
    "not_begun": ({}, "transaction_offsets_failed", {"reason": Text("is aborted")}),
}


@pytest.mark.parametrize("case", OFFSET_REFUSALS)
def test_send_offsets_refuses(client, member, txn, case):
    changes, code, fields = OFFSET_REFUSALS[case]
    request = changed(txn.session | member.claim | {"offsets": "P0:1"}, changes)
    refused(client, "SEND_OFFSETS_TO_TXN", request, code, **(C("SEND_OFFSETS_TO_TXN") if fields is None else fields))


def test_send_offsets_checks_owner_scope_and_order(client, make_topic, member, txn, new_name):
    txn.begin()
    request = txn.session | member.claim | {"offsets": "P0:4,P1:4"}
    other = make_topic()
    refused(client, "SEND_OFFSETS_TO_TXN", request | {"topic": other, "offsets": "x"}, "topic_not_assigned_to_group",
            expected=member.topic, actual=other)
    refused(client, "SEND_OFFSETS_TO_TXN", request | {"group": "no-such"}, "group_not_found", group="no-such")
    refused(client, "SEND_OFFSETS_TO_TXN", request | {"member": "no"}, "member_not_found", member="no",
            group=member.group)
    refused(client, "SEND_OFFSETS_TO_TXN", request | {"generation": "9"}, "GEN_MISMATCH", current=member.generation,
            requested="9", group=member.group, member=member.member)
    refused(client, "SEND_OFFSETS_TO_TXN", request | {"offsets": "P0:4,P9:1"}, "NOT_OWNER", partition="9",
            member=member.member, group=member.group, generation=member.generation)
    member.commit(3, partition=1)
    refused(client, "SEND_OFFSETS_TO_TXN", request | {"offsets": "P0:4,P1:2"}, "offset_regression",
            reason=Text("current=3", "got=2"))
    assert txn.status()[3] == 0, "a refused call stages nothing"
    member.stage(txn, "P0:4,P1:4")
    refused(client, "SEND_OFFSETS_TO_TXN", request | {"offsets": "P0:5,P1:3"}, "transaction_offsets_failed",
            reason=Text("fall from 4 to 3"))
    second = Member(client, new_name(), member.topic)
    refused(client, "SEND_OFFSETS_TO_TXN", request | second.claim, "transaction_offsets_failed",
            reason=Text(member.group))
    assert txn.end() == ("committed", 0, 2)
    assert (member.committed(), member.committed(partition=1)) == (4, 4)


# ---- events ----

@pytest.fixture
def events(make_topic):
    return make_topic(partitions=2, event_sourcing=True)


def append_event(client, txn, topic, key, version, number, **more):
    fields = txn.session | dict(topic=topic, key=key, expected_version=str(version), seqNum=str(number), message="e") | more
    return client.call("TXN_APPEND_STREAM", **{k: v for k, v in fields.items() if v is not None})


def version_of(client, topic, key):
    return client.call("STREAM_VERSION", topic=topic, key=key).text


def test_an_event_in_a_transaction_counts_with_the_commit(client, second_client, events, txn):
    before = version_of(client, events, "k")
    txn.begin()
    answer = append_event(client, txn, events, "k", 1, 1, event_type="made", metadata="m").ok_fields
    assert answer == dict(transactional_id=txn.name, appended="true", topic=events, partition=answer["partition"],
                          version="1", state="open")
    assert append_event(second_client, txn, events, "k", 1, 1, event_type="made", metadata="m").ok_fields == answer
    refused(second_client, "APPEND_STREAM", dict(topic=events, key="k", version="1", message="x", producerId="p"),
            "stream_version_reserved", topic=events, key="k", transactional_id=txn.name)
    assert version_of(client, events, "k") == before
    assert txn.end() == ("committed", 1, 0)
    assert version_of(second_client, events, "k") != before
    client.call("APPEND_STREAM", topic=events, key="k", version="2", message="x", producerId="p")
    records = client.consume(events, int(answer["partition"])).records
    assert [(r.aggregate_version, r.event_type, r.metadata, r.schema_version) for r in records] == [
        (1, b"made", b"m", 1), (2, b"", b"", 1)]


def test_an_aborted_event_leaves_its_version_free(client, events, txn):
    txn.begin()
    append_event(client, txn, events, "k", 1, 1)
    txn.end("abort")
    client.call("APPEND_STREAM", topic=events, key="k", version="1", message="x", producerId="p")


EVENT_REFUSALS = {
    "id_missing": ({"transactional_id": None}, "missing_transactional_id", None),
    "topic_missing": ({"topic": None}, "missing_topic", None),
    "key_missing": ({"key": None}, "missing_key", None),
    "message_missing": ({"message": None}, "missing_message", None),
    "version_missing": ({"expected_version": None}, "invalid_expected_version", {"command": Text(), "reason": Text()}),
    "version_0": ({"expected_version": "0"}, "invalid_expected_version", {"command": Text(), "reason": Text()}),
    "producer_missing": ({"producerId": None}, "missing_producer_id", None),
    "epoch_word": ({"epoch": "x"}, "invalid_epoch", {"reason": Text()}),
    "number_0": ({"seqNum": "0"}, "invalid_seq_num", {"command": Text(), "reason": Text()}),
    "topic_unknown": ({"topic": "no-such-topic"}, "topic_not_found", {"topic": "no-such-topic"}),
    "topic_internal": ({"topic": "__consumer_offsets"}, "internal_topic_write_forbidden", {"topic": Text()}),
    "schema_version_word": ({"schema_version": "x"}, "invalid_schema_version", {}),
    "id_unknown": ({"transactional_id": "never"}, "transaction_not_found", {"reason": Text()}),
    "not_begun": ({}, "transaction_stream_failed", {"reason": Text("is aborted")}),
}


@pytest.mark.parametrize("case", EVENT_REFUSALS)
def test_txn_append_stream_refuses(client, events, txn, case):
    changes, code, fields = EVENT_REFUSALS[case]
    request = changed(txn.session | dict(topic=events, key="k", expected_version="1", seqNum="1", message="e"), changes)
    refused(client, "TXN_APPEND_STREAM", request, code, **(C("TXN_APPEND_STREAM") if fields is None else fields))
    assert all(client.consume(events, p, isolation="read_uncommitted").records == [] for p in (0, 1))


def test_txn_append_stream_refuses_by_topic_and_stream(client, make_topic, topic, events, txn):
    txn.begin()
    request = txn.session | dict(topic=events, key="k", expected_version="1", seqNum="1", message="e")
    replay = make_topic(event_sourcing=True, idempotent=True, aggregate_replay=True)
    denied = make_topic(event_sourcing=True, auth_policy="deny_write")
    refused(client, "TXN_APPEND_STREAM", request | {"topic": topic}, "event_sourcing_not_enabled", topic=topic)
    refused(client, "TXN_APPEND_STREAM", request | {"topic": replay}, "aggregate_publish_requires_append_stream",
            topic=replay)
    refused(client, "TXN_APPEND_STREAM", request | {"topic": denied}, "NOT_AUTHORIZED_FOR_TOPIC", operation="write",
            topic=denied)
    refused(client, "TXN_APPEND_STREAM", request | {"expected_version": "2"}, "stream_version_conflict", expected="2",
            current="0")
    append_event(client, txn, events, "k", 1, 1)
    refused(client, "TXN_APPEND_STREAM", request | {"message": "other"}, "transaction_stream_failed",
            reason=Text("conflicts with existing client sequence"))
    refused(client, "TXN_APPEND_STREAM", request | {"seqNum": "2"}, "transaction_stream_failed", reason=Text("reserved"))
    txn.end("abort")


# ---- requests that are sent ahead ----

TXN_PUBLISH, BEGIN_TXN, END_TXN = (crs2.COMMANDS[name] for name in ("TXN_PUBLISH", "BEGIN_TXN", "END_TXN"))


def request(command, number, fields):
    return crs2.encode_frame(crs2.REQUEST, command, 0, number, crs2.encode_request(fields))


def record(txn, topic, number):
    return txn.session | dict(topic=topic, message=f"m{number}", seqNum=str(number))


def test_a_whole_transaction_may_be_sent_at_once(client, topic, txn):
    frames = [request(BEGIN_TXN, 1000, txn.session)]
    frames += [request(TXN_PUBLISH, n, record(txn, topic, n)) for n in range(1, 101)]
    frames += [request(END_TXN, 101, txn.session | {"result": "commit"})]
    client.send_raw(b"".join(frames))
    answers = [client.recv() for _ in frames]
    assert [a.request_id for a in answers] == [1000] + list(range(1, 102))
    assert all(a.status == crs2.OK for a in answers)
    assert answers[-1].text.endswith("state=committed messages=100 offsets=0")
    assert committed(client, topic, batch=200) == [(n - 1, f"m{n}".encode()) for n in range(1, 101)]


def test_records_that_are_sent_ahead_share_group_commits(broker, client, topic, txn):
    txn.begin()
    before = broker.metric("pgcursus_append_group_publishes_count")
    client.send_raw(b"".join(request(TXN_PUBLISH, n, record(txn, topic, n)) for n in range(1, 61)))
    assert all(client.recv().status == crs2.OK for _ in range(60))
    assert broker.metric("pgcursus_append_group_publishes_count") - before <= 30


def test_a_refusal_among_them_is_answered_in_its_place(client, topic, txn):
    txn.begin()
    wrong = {3: {"seqNum": "0"}, 5: {"topic": "no-such-topic"}, 7: {"partition": "9"}, 8: {"message": ""}}
    client.send_raw(b"".join(request(TXN_PUBLISH, n, record(txn, topic, n) | wrong.get(n, {})) for n in range(1, 11)))
    answers = [client.recv() for _ in range(10)]
    assert [a.request_id for a in answers] == list(range(1, 11))
    assert [a.request_id for a in answers if a.status != crs2.OK] == list(wrong)
    assert txn.end() == ("committed", 6, 0)


def test_what_came_before_a_frame_that_closes_is_answered(broker, client, topic, txn):
    txn.begin()
    bad = bytearray(request(TXN_PUBLISH, 6, record(txn, topic, 6)))
    bad[-1] ^= 1
    for garbage in (bytes(bad), b"\xff" * 64):
        with broker.client() as other:
            other.send_raw(b"".join(request(TXN_PUBLISH, n, record(txn, topic, n)) for n in range(1, 6)) + garbage)
            assert [other.recv().request_id for _ in range(5)] == [1, 2, 3, 4, 5]
            assert other.is_closed()
    assert txn.end() == ("committed", 5, 0)


def test_other_requests_wait_for_the_records_before_them(client, topic, txn):
    txn.begin()
    frames = [request(TXN_PUBLISH, n, record(txn, topic, n)) for n in range(1, 21)]
    frames.insert(10, request(crs2.COMMANDS["TXN_STATUS"], 99, {"transactional_id": txn.name}))
    client.send_raw(b"".join(frames))
    answers = [client.recv() for _ in frames]
    assert [a.request_id for a in answers] == list(range(1, 11)) + [99] + list(range(11, 21))
    assert "messages=10 " in answers[10].text


def test_a_client_that_leaves_records_behind_harms_nobody(broker, client, topic, txn):
    txn.begin()
    for cut in (7, 300, 2000):
        frames = b"".join(request(TXN_PUBLISH, n, record(txn, topic, n)) for n in range(1, 41))
        with broker.client() as leaving:
            leaving.send_raw(frames[:-cut])
    deadline = time.monotonic() + 20 * harness.SLOWNESS
    while txn.status()[1] < 25 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert txn.end()[0] == "committed"
    payloads = [payload for _, payload in committed(client, topic, batch=200)]
    assert len(payloads) >= 25 and payloads == [f"m{n}".encode() for n in range(1, len(payloads) + 1)]


def test_small_pieces_of_records_sent_ahead_are_put_together(client, topic, txn):
    txn.begin()
    frames = b"".join(request(TXN_PUBLISH, n, record(txn, topic, n)) for n in range(1, 11))
    for start in range(0, len(frames), 50):
        client.send_raw(frames[start:start + 50])
        time.sleep(0.002)
    assert [client.recv().request_id for _ in range(10)] == list(range(1, 11))
    assert txn.end() == ("committed", 10, 0)
