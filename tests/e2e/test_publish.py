"""PUBLISH of one record: the check table row by row, acknowledgements, the partitioner, bytes kept as sent."""

import json

import pytest

import crs2client as crs2
from crs2client import BrokerError
from refusal import Text, refused, refused_in_order, same

EVERY_BYTE = bytes(range(256))
IDEMPOTENT_ACKS = {"reason": "idempotent publish requires acks=all or acks=-1"}
P = {"command": "PUBLISH"}
TXN = ("transaction_metadata_forbidden", P)

# name: (request over the defaults, None removes a field; code; fields)
REFUSALS = {
    "topic_missing": ({"topic": None}, "missing_topic", P),
    "topic_empty": ({"topic": ""}, "missing_topic", P),
    "message_missing": ({"message": None}, "missing_message", P),
    "message_empty": ({"message": ""}, "missing_message", P),
    "producer_missing": ({"producerId": None}, "missing_producer_id", P),
    "producer_empty": ({"producerId": ""}, "missing_producer_id", P),
    "producer_with_blank": ({"producerId": "a b"}, "invalid_producer_id", P),
    "producer_with_newline": ({"producerId": "a\n"}, "invalid_producer_id", P),
    "producer_with_nul": ({"producerId": "a\0b"}, "invalid_producer_id", P),
    "producer_with_delete": ({"producerId": "a\x7f"}, "invalid_producer_id", P),
    "producer_too_long": ({"producerId": "x" * 250}, "invalid_producer_id", P),
    "internal_topic": (
        {"topic": "__consumer_offsets"}, "internal_topic_write_forbidden", {"topic": "__consumer_offsets"}),
    "is_idempotent_yes": ({"isIdempotent": "yes"}, "invalid_is_idempotent", {"value": "yes"}),
    "is_idempotent_empty": ({"isIdempotent": ""}, "invalid_is_idempotent", {"value": ""}),
    "acks_2": ({"acks": "2"}, "invalid_acks", {"value": "2"}),
    "acks_none": ({"acks": "none"}, "invalid_acks", {"value": "none"}),
    "acks_quorum": ({"acks": "quorum"}, "invalid_acks", {"value": "quorum"}),
    "seq_num_empty": ({"seqNum": ""}, "invalid_seq_num", {"reason": Text()}),
    "seq_num_negative": ({"seqNum": "-1"}, "invalid_seq_num", {"reason": Text()}),
    "seq_num_plus": ({"seqNum": "+1"}, "invalid_seq_num", {"reason": Text()}),
    "seq_num_too_large": ({"seqNum": 1 << 64}, "invalid_seq_num", {"reason": Text()}),
    "epoch_word": ({"epoch": "x"}, "invalid_epoch", {"reason": Text()}),
    "epoch_too_large": ({"epoch": 1 << 63}, "invalid_epoch", {"reason": Text()}),
    "aggregate_version_zero": ({"aggregate_version": "0"}, "invalid_aggregate_version", {"reason": Text()}),
    "aggregate_version_word": ({"aggregate_version": "x"}, "invalid_aggregate_version", {"reason": Text()}),
    "schema_version_negative": ({"schema_version": "-1"}, "invalid_schema_version", {"reason": Text()}),
    "schema_version_33_bits": ({"schema_version": 1 << 32}, "invalid_schema_version", {"reason": Text()}),
    "partition_word": ({"partition": "x"}, "invalid_partition", {"reason": Text()}),
    "partition_decimal": ({"partition": "0.5"}, "invalid_partition", {"reason": Text()}),
    "partition_too_large_to_parse": ({"partition": 1 << 64}, "invalid_partition", {"reason": Text()}),
    "internal_txn_publish": (
        {"internal_txn_publish": "true"}, "internal_txn_publish_forbidden", P),
    "idempotent_with_acks_1": ({"isIdempotent": "true"}, "invalid_acks", IDEMPOTENT_ACKS),
    "partition_at_the_count": ({"partition": "1"}, "partition_not_found", {"partition": "1"}),
    "partition_33_bits": ({"partition": 1 << 32}, "partition_not_found", {"partition": str(1 << 32)}),
    "transactional_id": ({"transactional_id": "t"}, *TXN),
    "transaction_state": ({"transaction_state": "open"}, *TXN),
    "transaction_marker": ({"transaction_marker": "commit"}, *TXN),
    "control_batch_type": ({"control_batch_type": "transaction"}, *TXN),
    "control_batch_version": ({"control_batch_version": "2"}, *TXN),
}


def request_of(topic, changes):
    fields = dict(topic=topic, partition="0", producerId="p", acks="1", message="x") | changes
    return {name: value for name, value in fields.items() if value is not None}


@pytest.mark.parametrize("case", REFUSALS)
def test_publish_refuses_and_stores_nothing(client, topic, case):
    changes, code, fields = REFUSALS[case]
    refused(client, "PUBLISH", request_of(topic, changes), code, **fields)
    assert client.consume(topic).records == []


# With acks=0 every refusal is silent, as long as that value itself was understood.
SILENT = [case for case in REFUSALS if "acks" not in REFUSALS[case][0] and case != "idempotent_with_acks_1"]


@pytest.mark.parametrize("case", SILENT + ["idempotent_with_acks_0", "unknown_topic"])
def test_publish_with_acks_0_refuses_silently(client, topic, case, new_name):
    changes = {"idempotent_with_acks_0": {"isIdempotent": "true"}, "unknown_topic": {"topic": new_name()}}.get(
        case) or REFUSALS[case][0]
    client.send("PUBLISH", request_of(topic, changes | {"acks": "0"}))
    help_id = client.send("HELP")
    assert client.recv().request_id == help_id, "the next answer belongs to the next request"
    assert client.consume(topic).records == []


def test_publish_checks_in_the_order_of_the_specification(client, make_topic):
    replay = make_topic(event_sourcing=True, idempotent=True, aggregate_replay=True)
    topic = make_topic(auth_policy="deny_write", min_in_sync_replicas=2)
    fields = dict(isIdempotent="x", acks="x", seqNum="x", epoch="x", aggregate_version="x", schema_version="x",
                  partition="x", internal_txn_publish="true", transactional_id="t")
    steps = [
        ("missing_topic", {"topic": "__consumer_offsets"}),
        ("missing_message", {"message": "m"}),
        ("missing_producer_id", {"producerId": "a b"}),
        ("invalid_producer_id", {"producerId": "p"}),
        ("internal_topic_write_forbidden", {"topic": "no-such-topic"}),
        ("invalid_is_idempotent", {"isIdempotent": "true"}),
        ("invalid_acks", {"acks": "1"}),
        ("invalid_seq_num", {"seqNum": "7"}),
        ("invalid_epoch", {"epoch": "0"}),
        ("invalid_aggregate_version", {"aggregate_version": "1"}),
        ("invalid_schema_version", {"schema_version": "1"}),
        ("invalid_partition", {"partition": "9"}),
        ("topic_not_found", {"topic": replay}),
        ("aggregate_publish_requires_append_stream", {"topic": topic}),
        ("internal_txn_publish_forbidden", {"internal_txn_publish": ""}),
        ("NOT_AUTHORIZED_FOR_TOPIC", lambda: client.call("CREATE", topic=topic, auth_policy="open")),
        ("invalid_acks", {"acks": "all"}),
        ("partition_not_found", {"partition": "0"}),
        ("transaction_metadata_forbidden", {"transactional_id": ""}),
        ("insufficient_in_sync_replicas", {}),
    ]
    refused_in_order(client, "PUBLISH", fields, steps)


def test_publish_to_an_unknown_topic(client, new_name):
    name = new_name()
    refused(client, "PUBLISH", request_of(name, {}), "topic_not_found", topic=name)


@pytest.mark.parametrize("name", ["'; DROP SCHEMA pgcursus CASCADE; --", "a\0b", b"\xff", "a\nb", "über", "x" * 5000])
def test_odd_topic_names_are_just_unknown(client, name):
    with pytest.raises(BrokerError) as caught:
        client.call("PUBLISH", **request_of(name, {}))
    assert (caught.value.code, list(caught.value.fields)) == ("topic_not_found", ["topic"])


def test_publish_to_an_aggregate_replay_topic(client, make_topic):
    topic = make_topic(event_sourcing=True, idempotent=True, aggregate_replay=True)
    refused(client, "PUBLISH", request_of(topic, {"acks": "all"}), "aggregate_publish_requires_append_stream",
            topic=topic)


@pytest.mark.parametrize("policy", ["deny_write", "acl"])
def test_publish_where_writing_is_denied(client, make_topic, policy):
    topic = make_topic(auth_policy=policy, write_acl="*")
    refused(client, "PUBLISH", request_of(topic, {}), "NOT_AUTHORIZED_FOR_TOPIC", operation="write", topic=topic)


@pytest.mark.parametrize("acks", ["all", "-1"])
def test_too_few_replicas_refuse_acks_all_only(client, make_topic, acks):
    topic = make_topic(min_in_sync_replicas=2)
    refused(client, "PUBLISH", request_of(topic, {"acks": acks}), "insufficient_in_sync_replicas", current="1",
            required="2")
    assert client.publish(topic, "x", acks="1")["last_offset"] == 0, "acks=1 ignores the minimum"


# ---- acknowledgements -----------------------------------------------------------------------------


def test_the_acknowledgement_is_compact_json_in_order(start_broker, database):
    broker = start_broker(database)
    with broker.client() as client:
        client.call("CREATE", topic="t", partitions=1)
        frame = client.call("PUBLISH", topic="t", producerId="p1", message="hi", seqNum=4, epoch=-3)
        assert frame.text == (
            '{"status":"OK","last_offset":0,"producer_id":"p1","producer_epoch":-3,"seq_start":4,"seq_end":4,'
            f'"leader":"{broker.listen}"}}')


def test_large_sequence_numbers_and_epochs_come_back_exactly(client, topic):
    top, low = (1 << 63) - 1, -(1 << 63)
    answer = client.publish(topic, "x", seqNum=top, epoch=low)
    assert (answer["seq_start"], answer["seq_end"], answer["producer_epoch"]) == (top, top, low)
    record = client.consume(topic).records[0]
    assert (record.seq_num, record.epoch, record.producer_id) == (top, low, b"p")


@pytest.mark.parametrize("number", [1 << 63, (1 << 64) - 1])
def test_sequence_numbers_above_63_bits_are_kept_or_refused_but_never_changed(client, topic, number):
    batch = crs2.Batch(topic, records=[crs2.Record(b"x", producer_id=b"p", seq_num=number)])
    for send in (lambda: client.publish(topic, "x", seqNum=number), lambda: client.publish_batch(batch)):
        try:
            assert send()["seq_end"] == number
        except BrokerError as error:
            assert error.class_name == "validation"
    assert {r.seq_num for r in client.consume(topic).records} <= {number}


@pytest.mark.parametrize("acks", ["1", "-1", "all", "ALL", " All ", "", " 1 "])
def test_every_spelling_of_acks_is_taken(client, topic, acks):
    assert client.publish(topic, "x", acks=acks)["last_offset"] == 0


def test_acks_are_optional(client, topic):
    assert client.call("PUBLISH", topic=topic, producerId="p", message="x").json["last_offset"] == 0


@pytest.mark.parametrize("acks", ["0", " 0 "])
def test_acks_0_stores_the_record_and_says_nothing(client, topic, acks):
    for message in "abc":
        client.send("PUBLISH", request_of(topic, {"acks": acks, "message": message}))
    assert client.call("LIST_OFFSETS", topic=topic).ok_fields["partitions"] == "1", "the next frame answers this"
    records = client.consume(topic, wait_ms=5000).records
    while len(records) < 3:
        more = client.consume(topic, offset=len(records), wait_ms=5000).records
        assert more, "an acks=0 record is missing"
        records += more
    assert [r.payload for r in records] == [b"a", b"b", b"c"]


def test_the_request_after_an_acks_0_publish_sees_its_record(client, topic):
    for number in range(20):
        client.send("PUBLISH", request_of(topic, {"acks": "0"}))
        assert client.call("LIST_OFFSETS", topic=topic).ok_fields["offsets"].endswith(f":hwm={number + 1}")


def test_acks_0_is_carried_out_although_the_client_has_gone(broker, client, topic):
    with broker.client() as gone:
        gone.send("PUBLISH", request_of(topic, {"acks": "0"}))
    assert [r.payload for r in client.consume(topic, wait_ms=5000).records] == [b"x"]


# ---- bytes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", [0, 1, 2, 3])
def test_every_byte_comes_back_as_sent(broker, topic, compression):
    payloads = [EVERY_BYTE, EVERY_BYTE[::-1] * 300, b"\0", b" \n", b"=message= acks=0", b"\xff" * 70000]
    with broker.client([compression]) as client:
        for payload in payloads:
            client.publish(topic, payload, key=EVERY_BYTE)
        records = client.consume(topic).records
        assert same([r.payload for r in records], payloads)
        assert {r.key for r in records} == {EVERY_BYTE}


def test_message_is_not_trimmed_and_swallows_nothing(client, topic):
    fields = [("message", b"  a=b message=c \n"), ("topic", topic), ("key", " k "), ("producerId", "p"), ("acks", "1")]
    client.answer(client.send("PUBLISH", fields))
    record = client.consume(topic).records[0]
    assert (record.payload, record.key) == (b"  a=b message=c \n", b" k ")


def test_event_columns_come_back(client, topic):
    client.publish(topic, "x", event_type="Updated ü", metadata='{"a": "b c"}', schema_version=(1 << 32) - 1,
                   aggregate_version=(1 << 63) - 1)
    record = client.consume(topic).records[0]
    assert record.event_type == "Updated ü".encode()
    assert record.metadata == b'{"a": "b c"}'
    assert (record.schema_version, record.aggregate_version) == ((1 << 32) - 1, (1 << 63) - 1)
    assert record.version == 2


def test_absent_columns_stay_absent(client, topic):
    client.publish(topic, "x")
    record = client.consume(topic).records[0]
    assert (record.key, record.event_type, record.metadata) == (b"", b"", b"")
    assert (record.schema_version, record.aggregate_version) == (0, 0)
    assert (record.transactional_id, record.transaction_state, record.control_batch_key) == (b"", b"", None)


@pytest.mark.parametrize("value", [b"\xff", b"a\0b", b"\xed\xa0\x80", b"\xc0\x80"])
@pytest.mark.parametrize("name", ["event_type", "metadata", "producerId"])
def test_text_columns_refuse_what_text_cannot_hold(client, topic, name, value):
    with pytest.raises(BrokerError) as caught:
        client.call("PUBLISH", **request_of(topic, {name: value}))
    assert caught.value.class_name == "validation"
    assert client.consume(topic).records == []


def test_a_record_of_20_mib_passes(client, topic):
    payload = EVERY_BYTE * (20 * 4096)
    assert client.publish(topic, payload)["last_offset"] == 0
    assert same(client.consume(topic).records[0].payload, payload)


def test_what_is_accepted_can_be_consumed_up_to_the_frame_limit(client, topic):
    """Around the largest record that fits a publishing frame: either refused, or readable again."""
    room = crs2.MAX_PAYLOAD - len(crs2.encode_request(request_of(topic, {"message": ""})))
    payload = b"z" * room
    try:
        client.publish(topic, payload)
    except BrokerError as error:
        assert not error.retryable
    client.publish(topic, "after")
    assert client.consume_all(topic)[-1].payload == b"after"


# ---- the partitioner ------------------------------------------------------------------------------

KEYS = {"a": (1, 0), "user-1": (2, 0), "order-123": (0, 2), "foobar": (0, 0), "naïve": (1, 3)}


def ends(client, topic):
    text = client.call("LIST_OFFSETS", topic=topic).ok_fields["offsets"]
    return [int(entry.rpartition("=")[2]) for entry in text.split(",")]


@pytest.mark.parametrize("count,column", [(3, 0), (4, 1)])
@pytest.mark.parametrize("key", KEYS)
def test_keys_choose_the_partition_by_fnv_1a(client, make_topic, key, count, column):
    topic = make_topic(partitions=count)
    client.publish(topic, "x", partition=None, key=key)
    client.publish(topic, "y", partition=-7, key=key)
    want = [0] * count
    want[KEYS[key][column]] = 2
    assert ends(client, topic) == want


def test_records_without_key_take_turns_from_partition_0(start_broker, database):
    with start_broker(database).client() as client:
        client.call("CREATE", topic="t", partitions=3)
        seen = []
        for _ in range(7):
            before = ends(client, "t")
            client.publish("t", "x", partition=None)
            seen.append([a - b for a, b in zip(ends(client, "t"), before)].index(1))
            client.publish("t", "x", partition=2)  # an explicit partition does not take a turn
        assert seen == [0, 1, 2, 0, 1, 2, 0]


def test_round_robin_topics_ignore_the_key(client, make_topic):
    topic = make_topic(partitions=4, partitioner="round_robin")
    for _ in range(8):
        client.publish(topic, "x", partition=None, key="a")
    assert ends(client, topic) == [2, 2, 2, 2]


def test_an_explicit_partition_wins_over_the_key(client, make_topic):
    topic = make_topic(partitions=4)
    client.publish(topic, "x", partition=3, key="a")
    assert ends(client, topic) == [0, 0, 0, 1]


# ---- idempotent producers -------------------------------------------------------------------------


def idempotent(client, topic, seq, epoch=0, producer="p", message="x"):
    return client.publish(topic, message, producer=producer, acks="all", isIdempotent="true", seqNum=seq, epoch=epoch)


GAP, ORDER = "idempotency gap", "idempotency error"
# state before: (epoch, sequences sent); then (epoch, sequence) and its outcome: an offset, or an error
DECISIONS = {
    "none_first_1": (None, (5, 1), 0),
    "none_first_not_1": (None, (0, 2), ORDER),
    "older_epoch": ((4, 3), (3, 4), "stale"),
    "older_epoch_sequence_1": ((4, 3), (3, 1), "stale"),
    "repeated_last": ((4, 3), (4, 3), 2),
    "repeated_older": ((4, 3), (4, 1), 0),
    "next": ((4, 3), (4, 4), 3),
    "gap": ((4, 3), (4, 5), GAP),
    "newer_epoch_first_1": ((4, 3), (5, 1), 3),
    "newer_epoch_not_1": ((4, 3), (5, 4), ORDER),
    "unnumbered": ((4, 3), (4, 0), 3),
}


@pytest.mark.parametrize("case", DECISIONS)
def test_idempotent_decision(client, topic, case):
    state, (epoch, seq), outcome = DECISIONS[case]
    if state:
        for number in range(1, state[1] + 1):
            idempotent(client, topic, number, state[0])
    request = request_of(topic, dict(acks="all", isIdempotent="true", seqNum=seq, epoch=epoch))
    before = len(client.consume(topic).records)
    if outcome == "stale":
        refused(client, "PUBLISH", request, "stale_producer_epoch", producer="p", current=str(state[0]),
                got=str(epoch))
    elif isinstance(outcome, str):
        refused(client, "PUBLISH", request, "broker_error", reason=Text(outcome))
    else:
        answer = client.call("PUBLISH", **request).json
        assert (answer["last_offset"], answer["seq_start"], answer["seq_end"]) == (outcome, seq, seq)
        assert answer["producer_epoch"] == epoch
    appended = isinstance(outcome, int) and outcome == before
    assert len(client.consume(topic).records) == before + appended
    if state and case in ("gap", "older_epoch", "newer_epoch_not_1", "unnumbered"):
        # The state is as it was.
        assert idempotent(client, topic, 4, 4)["last_offset"] == before + appended


def test_a_gap_names_what_was_expected(client, topic):
    idempotent(client, topic, 1)
    refused(client, "PUBLISH", request_of(topic, dict(acks="all", isIdempotent="true", seqNum=3)), "broker_error",
            reason=Text(GAP, "expected 2", "got 3"))


def test_a_duplicate_is_known_by_its_number_not_its_bytes(client, second_client, topic):
    assert idempotent(client, topic, 1, message="first")["last_offset"] == 0
    assert idempotent(client, topic, 1, message="other")["last_offset"] == 0
    assert idempotent(second_client, topic, 1, message="third")["last_offset"] == 0, "on any node"
    assert [r.payload for r in client.consume(topic).records] == [b"first"]


def test_sequences_are_kept_per_partition_and_producer(client, make_topic):
    topic = make_topic(partitions=2)
    for partition in (0, 1):
        for producer in ("p", "q"):
            client.publish(topic, "x", partition, producer, "all", isIdempotent=True, seqNum=1)
    assert ends(client, topic) == [2, 2]


def test_the_flag_of_the_topic_makes_every_publish_idempotent(client, make_topic):
    topic = make_topic(idempotent=True)
    refused(client, "PUBLISH", request_of(topic, {"seqNum": "1"}), "invalid_acks", **IDEMPOTENT_ACKS)
    for _ in range(2):
        assert client.publish(topic, "x", acks="all", seqNum=1, isIdempotent="false")["last_offset"] == 0


def test_the_setting_of_the_broker_makes_every_publish_idempotent(start_broker, database):
    with start_broker(database, enable_idempotence=True).client() as client:
        client.call("CREATE", topic="t", partitions=1)
        refused(client, "PUBLISH", request_of("t", {"seqNum": "1"}), "invalid_acks", **IDEMPOTENT_ACKS)
        assert [client.publish("t", "x", acks="all", seqNum=n)["last_offset"] for n in (1, 1, 2)] == [0, 0, 1]


def test_without_idempotence_sequences_are_only_stored(client, topic):
    for seq in (9, 9, 3, 1):
        client.publish(topic, "x", seqNum=seq, epoch=2)
    assert [(r.seq_num, r.epoch) for r in client.consume(topic).records] == [(9, 2), (9, 2), (3, 2), (1, 2)]


def test_producer_state_survives_a_restart(start_broker, database):
    first = start_broker(database)
    with first.client() as client:
        client.call("CREATE", topic="t", partitions=1)
        for seq in (1, 2, 3):
            idempotent(client, "t", seq)
    first.stop()
    with start_broker(database).client() as client:
        assert [idempotent(client, "t", seq)["last_offset"] for seq in (2, 3, 4)] == [1, 2, 3]


def test_answers_are_valid_json_for_odd_producers(client, topic):
    producer = 'p"\\é</script>'
    text = client.call("PUBLISH", **request_of(topic, {"producerId": producer})).text
    assert json.loads(text)["producer_id"] == producer
