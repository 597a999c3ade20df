"""Topic administration over the wire: CREATE as definition and patch, LIST, HELP, DESCRIBE, METADATA, LIST_OFFSETS."""

import threading

import pytest

import crs2client as crs2
from crs2client import COMMANDS, INTERNAL_COMMANDS, BrokerError
from refusal import Text, refused

POSITIVE = {"reason": "must be a positive integer"}
HELP = (
    "OK commands=CREATE,DELETE,TRUNCATE,LIST,PUBLISH,CONSUME,STREAM,JOIN_GROUP,SYNC_GROUP,LEAVE_GROUP,HEARTBEAT,"
    "COMMIT_OFFSET,BATCH_COMMIT,FETCH_OFFSET,LIST_OFFSETS,INIT_PRODUCER_ID,BEGIN_TXN,TXN_PUBLISH,"
    "SEND_OFFSETS_TO_TXN,END_TXN,TXN_STATUS,REGISTER_GROUP,GROUP_STATUS,LIST_GROUPS,DESCRIBE,APPEND_STREAM,"
    "READ_STREAM,SAVE_SNAPSHOT,READ_SNAPSHOT,STREAM_VERSION,METADATA,FIND_COORDINATOR,LIST_CLUSTER,CLUSTER_STATUS,"
    "ELECT_LEADER,HELP,EXIT,ALTER_TOPIC_CONFIG,AGGREGATE_REPLAY_PROOF,AGGREGATE_EVENT_RANGE_READ"
)
# The two commands newer than the seed may be listed, at their places.
HELP_NEWER = HELP.replace("TXN_PUBLISH,", "TXN_PUBLISH,TXN_APPEND_STREAM,") + ",READ_STREAM_HISTORY"


def line(topic, **changes):
    """The success line of CREATE: every field, in order, defaults unless changed."""
    fields = dict(
        topic=topic, partitions=4, cleanup_policy="delete", partitioner="hash_key", auth_policy="open", read_acl="",
        write_acl="", retention_hours=0, retention_bytes=0, revision=1, replication_factor=3, idempotent="false",
        event_sourcing="false", lifecycle_epoch=1, min_in_sync_replicas="default", effective_min_in_sync_replicas=1,
    )
    assert changes.keys() <= fields.keys() | {"aggregate_replay"}
    return "OK " + " ".join(f"{k}={v}" for k, v in (fields | changes).items())


# ---- CREATE: refusals -----------------------------------------------------------------------------

# name: (definition made before or None, request without topic, code, fields)
REFUSALS = {
    "partitions_zero": (None, {"partitions": 0}, "invalid_partitions", POSITIVE),
    "partitions_negative": (None, {"partitions": -1}, "invalid_partitions", POSITIVE),
    "partitions_empty": (None, {"partitions": ""}, "invalid_partitions", POSITIVE),
    "partitions_decimal": (None, {"partitions": "1.0"}, "invalid_partitions", POSITIVE),
    "partitions_hexadecimal": (None, {"partitions": "0x1"}, "invalid_partitions", POSITIVE),
    "partitions_blank_before": (None, {"partitions": " 1"}, "invalid_partitions", POSITIVE),
    "partitions_blank_after": (None, {"partitions": "1 "}, "invalid_partitions", POSITIVE),
    "partitions_nul_after": (None, {"partitions": b"1\0"}, "invalid_partitions", POSITIVE),
    "partitions_over_64_bits": (None, {"partitions": 1 << 64}, "invalid_partitions", POSITIVE),
    "partitions_just_over_64_bits": (None, {"partitions": 1 << 63}, "invalid_partitions", POSITIVE),
    "partitions_sign_only": (None, {"partitions": "+"}, "invalid_partitions", POSITIVE),
    "replication_factor_zero": (None, {"replication_factor": 0}, "invalid_replication_factor", POSITIVE),
    "replication_factor_word": (None, {"replication_factor": "x"}, "invalid_replication_factor", POSITIVE),
    "idempotent_one": (None, {"idempotent": "1"}, "invalid_idempotent", {"value": "1"}),
    "idempotent_empty": (None, {"idempotent": ""}, "invalid_idempotent", {"value": ""}),
    "event_sourcing_maybe": (None, {"event_sourcing": "maybe"}, "invalid_event_sourcing", {"value": "maybe"}),
    "aggregate_replay_yes": (None, {"aggregate_replay": "yes"}, "invalid_aggregate_replay", {"value": "yes"}),
    "min_isr_zero": (None, {"min_in_sync_replicas": 0}, "invalid_min_in_sync_replicas", {"value": "0"}),
    "min_isr_default": (
        None, {"min_in_sync_replicas": "default"}, "invalid_min_in_sync_replicas", {"value": "default"}),
    "min_isr_empty": (None, {"min_in_sync_replicas": ""}, "invalid_min_in_sync_replicas", {"value": ""}),
    "cleanup_policy_unknown": (
        None, {"cleanup_policy": "shred"}, "invalid_topic_policy", {"field": "cleanup_policy", "reason": Text()}),
    "cleanup_policy_empty": (
        None, {"cleanup_policy": ""}, "invalid_topic_policy", {"field": "cleanup_policy", "reason": Text()}),
    "retention_hours_word": (None, {"retention_hours": "soon"}, "invalid_retention_hours", {"value": "soon"}),
    "retention_hours_empty": (None, {"retention_hours": ""}, "invalid_retention_hours", {"value": ""}),
    "retention_bytes_word": (None, {"retention_bytes": "1k"}, "invalid_retention_bytes", {"value": "1k"}),
    "partitioner_unknown": (
        None, {"partitioner": "random"}, "invalid_topic_policy", {"field": "partitioner", "reason": Text()}),
    "partitioner_empty": (
        None, {"partitioner": ""}, "invalid_topic_policy", {"field": "partitioner", "reason": Text()}),
    "auth_policy_unknown": (
        None, {"auth_policy": "closed"}, "invalid_topic_policy", {"field": "auth_policy", "reason": Text()}),
    "auth_policy_empty": (
        None, {"auth_policy": ""}, "invalid_topic_policy", {"field": "auth_policy", "reason": Text()}),
    "min_isr_above_given_factor": (
        None, {"replication_factor": 1, "min_in_sync_replicas": 2},
        "invalid_min_in_sync_replicas", {"value": "2", "replication_factor": "1"}),
    "min_isr_above_default_factor": (
        None, {"min_in_sync_replicas": 4}, "invalid_min_in_sync_replicas", {"value": "4", "replication_factor": "3"}),
    "min_isr_of_41_bits": (
        None, {"min_in_sync_replicas": 1 << 40},
        "invalid_min_in_sync_replicas", {"value": str(1 << 40), "replication_factor": "3"}),
    "min_isr_above_existing_factor": (
        {"replication_factor": 2}, {"min_in_sync_replicas": 3},
        "invalid_min_in_sync_replicas", {"value": "3", "replication_factor": "2"}),
    "partitions_fewer": ({"partitions": 2}, {"partitions": 1}, "create_topic_failed", {"reason": Text()}),
    "replication_factor_changed": (
        {}, {"replication_factor": 2}, "create_topic_failed", {"reason": Text("replication_factor")}),
    "idempotent_changed": ({}, {"idempotent": True}, "create_topic_failed", {"reason": Text("idempotent")}),
    "event_sourcing_changed": (
        {"event_sourcing": True}, {"event_sourcing": False}, "create_topic_failed",
        {"reason": Text("event_sourcing")}),
    "aggregate_replay_changed": (
        {"event_sourcing": True, "idempotent": True}, {"aggregate_replay": True}, "create_topic_failed",
        {"reason": Text("aggregate_replay")}),
    "aggregate_replay_partitions": (
        {"event_sourcing": True, "idempotent": True, "aggregate_replay": True, "partitions": 2}, {"partitions": 3},
        "create_topic_failed", {"reason": Text()}),
    "retention_hours_negative": (
        None, {"retention_hours": -1}, "invalid_topic_policy", {"reason": Text("retention_hours")}),
    "retention_bytes_negative": (
        None, {"retention_bytes": -1}, "invalid_topic_policy", {"reason": Text("retention_bytes")}),
    "compaction_of_event_sourced": (
        None, {"event_sourcing": True, "cleanup_policy": "compact"}, "invalid_topic_policy",
        {"field": "cleanup_policy", "reason": Text()}),
    "compaction_of_existing_event_sourced": (
        {"event_sourcing": True}, {"cleanup_policy": "delete,compact"}, "invalid_topic_policy",
        {"field": "cleanup_policy", "reason": Text()}),
    "aggregate_replay_alone": (None, {"aggregate_replay": True}, "create_topic_failed", {"reason": Text()}),
    "aggregate_replay_without_idempotent": (
        None, {"aggregate_replay": True, "event_sourcing": True}, "create_topic_failed", {"reason": Text()}),
    "partitions_above_capacity": (None, {"partitions": 1025}, "create_topic_failed", {"reason": Text()}),
    "partitions_above_32_bits": (None, {"partitions": (1 << 32) + 1}, "create_topic_failed", {"reason": Text()}),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_create_refuses(client, new_name, case):
    before, request, code, fields = REFUSALS[case]
    name = new_name()
    if before is not None:
        first = client.call("CREATE", topic=name, **before).text
    if code == "create_topic_failed":
        fields = fields | {"topic": name}
    refused(client, "CREATE", {"topic": name} | request, code, **fields)
    # Nothing else happened: the old definition stands, and a new topic was not made.
    if before is not None:
        assert client.call("CREATE", topic=name).text == first
    else:
        refused(client, "METADATA", {"topic": name}, "topic_not_found", topic=name)


@pytest.mark.parametrize("name", ["", None])
def test_create_without_a_name_is_refused(client, name):
    fields = {} if name is None else {"topic": name}
    refused(client, "CREATE", fields, "missing_topic", expected=Text())


@pytest.mark.parametrize(
    "name",
    ["../x", ".", "..", "a b", "a/b", "x" * 250, "tab\tx", "nul\0x", "über", b"\xff\xfe", "a'b", 'a"b',
     "'; DROP SCHEMA pgcursus CASCADE; --", "a\nb", "a,b", "a:b", "$1", "%s%n", "*", "a?", " a", "a "],
)
def test_create_refuses_names_outside_the_alphabet(client, name):
    shown = name.decode(errors="surrogateescape") if isinstance(name, bytes) else name
    refused(client, "CREATE", {"topic": name}, "invalid_topic_name", topic=shown, reason=Text())


@pytest.mark.parametrize("stem", ["A.b_c-D=9", "-", "=", "...", "x" * 200])
def test_create_accepts_every_letter_of_the_alphabet(client, new_name, stem):
    name = (stem + "." + new_name())[:249]
    assert client.call("CREATE", topic=name).text == line(name)


def test_create_accepts_a_name_of_249_bytes(client, new_name):
    name = (new_name() + "-" + "x" * 249)[:249]
    assert client.call("CREATE", topic=name).text == line(name)


def test_create_checks_in_the_order_of_the_specification(client):
    wrong = {
        "topic": "../x", "partitions": "x", "replication_factor": "x", "idempotent": "x", "event_sourcing": "x",
        "aggregate_replay": "x", "min_in_sync_replicas": "x", "cleanup_policy": "x", "retention_hours": "x",
        "retention_bytes": "x", "partitioner": "x", "auth_policy": "x",
    }
    right = {
        "topic": "order-of-checks", "partitions": 1, "replication_factor": 1, "idempotent": "false",
        "event_sourcing": "true", "aggregate_replay": "false", "min_in_sync_replicas": 2,
        "cleanup_policy": "compact", "retention_hours": -1, "retention_bytes": 0, "partitioner": "hash_key",
        "auth_policy": "open",
    }
    codes = []
    fields = dict(wrong)
    for name in list(wrong):
        with pytest.raises(BrokerError) as caught:
            client.call("CREATE", **fields)
        codes.append(caught.value.code)
        fields[name] = right[name]
    assert codes == [
        "invalid_topic_name", "invalid_partitions", "invalid_replication_factor", "invalid_idempotent",
        "invalid_event_sourcing", "invalid_aggregate_replay", "invalid_min_in_sync_replicas",
        "invalid_topic_policy", "invalid_retention_hours", "invalid_retention_bytes", "invalid_topic_policy",
        "invalid_topic_policy",
    ]
    refused(client, "CREATE", fields, "invalid_min_in_sync_replicas", value="2", replication_factor="1")
    fields["min_in_sync_replicas"] = 1
    refused(client, "CREATE", fields, "invalid_topic_policy", reason=Text("retention_hours"))
    fields["retention_hours"] = 0
    refused(client, "CREATE", fields, "invalid_topic_policy", field="cleanup_policy", reason=Text())


def test_capacity_limits_are_kept(start_broker, database):
    broker = start_broker(database, max_topics=2, max_partitions_per_topic=3, max_partitions=5)
    with broker.client() as client:
        refused(client, "CREATE", {"topic": "a", "partitions": 4}, "create_topic_failed", topic="a", reason=Text())
        client.call("CREATE", topic="a", partitions=3)
        refused(client, "CREATE", {"topic": "b", "partitions": 3}, "create_topic_failed", topic="b", reason=Text())
        client.call("CREATE", topic="b", partitions=2)
        refused(client, "CREATE", {"topic": "b", "partitions": 3}, "create_topic_failed", topic="b", reason=Text())
        refused(client, "CREATE", {"topic": "c", "partitions": 1}, "create_topic_failed", topic="c", reason=Text())
        assert client.call("LIST").text == "OK count=2 topics=a,b"


# ---- CREATE: success ------------------------------------------------------------------------------


def test_create_prints_every_field_in_order(client, new_name):
    name = new_name()
    assert client.call("CREATE", topic=name, partitions=2).text == line(name, partitions=2)


def test_create_takes_every_field(client, new_name):
    name = new_name()
    given = dict(
        partitions="+3", replication_factor=5, idempotent="TRUE", event_sourcing=" False ", min_in_sync_replicas=2,
        cleanup_policy=" Compact , DELETE,delete", retention_hours=24, retention_bytes=1 << 40,
        partitioner="round_robin", auth_policy="acl", read_acl="a, b,,a", write_acl="*",
    )
    want = line(
        name, partitions=3, replication_factor=5, idempotent="true", min_in_sync_replicas=2,
        effective_min_in_sync_replicas=2, cleanup_policy="delete,compact", retention_hours=24,
        retention_bytes=1 << 40, partitioner="round_robin", auth_policy="acl", read_acl="a,b,a", write_acl="*",
    )
    assert client.call("CREATE", topic=name, **given).text == want
    assert client.call("CREATE", topic=name, **given).text == want, "restating the definition changes nothing"


def test_create_shows_aggregate_replay_only_when_set(client, new_name):
    name = new_name()
    text = client.call("CREATE", topic=name, event_sourcing=True, idempotent=True, aggregate_replay=True).text
    assert text == line(name, event_sourcing="true", idempotent="true", aggregate_replay="true")


def test_create_accepts_64_bit_numbers_where_the_rule_does(client, new_name):
    name, big = new_name(), (1 << 63) - 1
    text = client.call("CREATE", topic=name, retention_hours=big, retention_bytes=big).text
    assert text == line(name, retention_hours=big, retention_bytes=big)


def test_a_large_replication_factor_is_never_cut(client, new_name):
    name, big = new_name(), (1 << 32) + 1
    try:
        assert client.call("CREATE", topic=name, replication_factor=big).text == line(name, replication_factor=big)
    except BrokerError as error:
        assert error.code in ("create_topic_failed", "invalid_replication_factor")
        refused(client, "METADATA", {"topic": name}, "topic_not_found", topic=name)


def test_patches_raise_the_revision_once_per_effective_change(client, new_name):
    name = new_name()

    def create(**fields):
        return client.call("CREATE", topic=name, **fields).text

    assert create(partitions=2) == line(name, partitions=2)
    assert create() == line(name, partitions=2)
    assert create(retention_hours=24) == line(name, partitions=2, retention_hours=24, revision=2)
    now = dict(partitions=2, retention_hours=24)
    assert create(read_acl="a, b,,", auth_policy="acl") == line(
        name, **now, auth_policy="acl", read_acl="a,b", revision=3)
    assert create(read_acl="") == line(name, **now, auth_policy="acl", revision=4)
    assert create(read_acl="", write_acl="") == line(name, **now, auth_policy="acl", revision=4)
    assert create(retention_hours=24, partitions=2, replication_factor=3, idempotent=False) == line(
        name, **now, auth_policy="acl", revision=4)
    assert create(retention_bytes=7, auth_policy="open", partitioner="round_robin", cleanup_policy="compact") == line(
        name, **now, retention_bytes=7, partitioner="round_robin", cleanup_policy="compact", revision=5)
    assert create(min_in_sync_replicas=2) == line(
        name, **now, retention_bytes=7, partitioner="round_robin", cleanup_policy="compact",
        min_in_sync_replicas=2, effective_min_in_sync_replicas=2, revision=6)


def test_growing_adds_empty_partitions_and_keeps_the_records(client, new_name):
    name = new_name()
    client.call("CREATE", topic=name, partitions=1)
    client.publish(name, "kept")
    assert client.call("CREATE", topic=name, partitions=3).ok_fields["revision"] == "2"
    assert client.call("LIST_OFFSETS", topic=name).ok_fields["offsets"] == (
        "P0:earliest=0:latest=1:leo=1:hwm=1,P1:earliest=0:latest=0:leo=0:hwm=0,P2:earliest=0:latest=0:leo=0:hwm=0")
    assert client.publish(name, "new", partition=2)["last_offset"] == 0


def test_growth_is_seen_by_the_other_node_at_once(client, second_client, make_topic):
    name = make_topic(partitions=1)
    second_client.publish(name, "x", partition=0)
    client.call("CREATE", topic=name, partitions=2)
    assert second_client.publish(name, "y", partition=1)["last_offset"] == 0
    assert [r.payload for r in second_client.consume(name, 1).records] == [b"y"]


def test_simultaneous_patches_of_different_fields_all_survive(broker, second_broker, new_name):
    name = new_name()
    patches = [{"retention_hours": 5}, {"retention_bytes": 6}, {"read_acl": "r"}, {"partitioner": "round_robin"}]
    with broker.client() as client:
        client.call("CREATE", topic=name, partitions=1)
    gate = threading.Barrier(len(patches))

    def patch(node, fields):
        with node.client() as client:
            gate.wait(120)
            client.call("CREATE", topic=name, **fields)

    threads = [threading.Thread(target=patch, args=((broker, second_broker)[n % 2], p)) for n, p in enumerate(patches)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    with broker.client() as client:
        assert client.call("CREATE", topic=name).text == line(
            name, partitions=1, retention_hours=5, retention_bytes=6, read_acl="r", partitioner="round_robin",
            revision=5)


def test_simultaneous_creators_make_one_topic(broker, second_broker, new_name):
    name, answers, gate = new_name(), [], threading.Barrier(8)

    def create(node):
        with node.client() as client:
            gate.wait(120)
            answers.append(client.call("CREATE", topic=name, partitions=2).text)

    threads = [threading.Thread(target=create, args=((broker, second_broker)[n % 2],)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert answers == [line(name, partitions=2)] * 8


def test_the_internal_topic_is_reserved(client):
    name = "__consumer_offsets"
    refused(client, "CREATE", {"topic": name}, "create_topic_failed", topic=name, reason=Text())
    for command in ("DESCRIBE", "METADATA", "LIST_OFFSETS"):
        refused(client, command, {"topic": name}, "topic_not_found", topic=name)
    assert name not in client.call("LIST").ok_fields["topics"].split(",")


# ---- LIST, HELP -----------------------------------------------------------------------------------


def test_list_is_sorted_by_bytes_and_hides_what_may_not_be_read(start_broker, database):
    with start_broker(database).client() as client:
        assert client.call("LIST").text == "OK count=0 topics="
        for name, policy in {"b": "open", "a.1": "open", "B": "open", "a-1": "deny_write", "_": "deny_read",
                             "acl": "acl", "a": "open"}.items():
            client.call("CREATE", topic=name, partitions=1, auth_policy=policy, read_acl="alice")
        assert client.call("LIST").text == "OK count=5 topics=B,a,a-1,a.1,b"


def test_help_lists_the_commands_in_the_fixed_order(client):
    text = client.call("HELP").text
    assert text in (HELP, HELP_NEWER, HELP_NEWER.replace("TXN_APPEND_STREAM,", ""))


# ---- DESCRIBE, METADATA, LIST_OFFSETS -------------------------------------------------------------


def test_describe_has_the_keys_in_order(client, make_topic):
    name = make_topic(
        partitions=2, retention_hours=1, retention_bytes=2, read_acl="a,b", write_acl="c", min_in_sync_replicas=1)
    client.publish(name, "x", partition=1)
    answer = client.call("DESCRIBE", topic=name).json
    assert list(answer) == ["status", "topic", "definition", "partitions"]
    assert (answer["status"], answer["topic"]) == ("OK", name)
    definition = answer["definition"]
    assert list(definition) == [
        "name", "revision", "partitions", "replication_factor", "idempotent", "event_sourcing", "policy"]
    assert [definition[k] for k in list(definition)[:-1]] == [name, 1, 2, 3, False, False]
    assert list(definition["policy"].items()) == [
        ("retention_hours", 1), ("retention_bytes", 2), ("cleanup_policy", "delete"), ("partitioner", "hash_key"),
        ("auth_policy", "open"), ("read_acl", ["a", "b"]), ("write_acl", ["c"]), ("min_in_sync_replicas", 1)]
    for number, partition in enumerate(answer["partitions"]):
        assert list(partition) == ["id", "leader", "replicas", "isr", "leo", "hwm"]
        assert (partition["id"], partition["leo"], partition["hwm"]) == (number, number, number)
        assert partition["leader"].count(":") == 1
        assert isinstance(partition["replicas"], list) and isinstance(partition["isr"], list)


def test_describe_leaves_out_what_is_not_set(client, make_topic):
    policy = client.call("DESCRIBE", topic=make_topic()).json["definition"]["policy"]
    assert policy == {"cleanup_policy": "delete", "partitioner": "hash_key", "auth_policy": "open"}


def test_metadata_has_the_fields_in_order(start_broker, database):
    broker = start_broker(database)
    with broker.client() as client:
        client.call("CREATE", topic="orders", partitions=2, read_acl="a", retention_hours=9)
        assert client.call("METADATA", topic="orders").text == (
            f"OK topic=orders partitions=2 leaders={broker.listen},{broker.listen} epochs=0,0 revision=1 "
            "replication_factor=3 idempotent=false event_sourcing=false cleanup_policy=delete partitioner=hash_key "
            "auth_policy=open read_acl=a write_acl= retention_hours=9 retention_bytes=0 lifecycle_epoch=1")


def test_metadata_names_the_advertised_address(start_broker, database):
    broker = start_broker(database, advertise="broker.example:9999")
    with broker.client() as client:
        client.call("CREATE", topic="t", partitions=1)
        assert client.call("METADATA", topic="t").ok_fields["leaders"] == "broker.example:9999"
        assert client.publish("t", "x")["leader"] == "broker.example:9999"
        assert client.call("DESCRIBE", topic="t").json["partitions"][0]["leader"] == "broker.example:9999"


def test_list_offsets_prints_each_partition(client, make_topic):
    name = make_topic(partitions=2)
    for message in "abc":
        client.publish(name, message, partition=0)
    empty = "P1:earliest=0:latest=0:leo=0:hwm=0"
    both = f"OK topic={name} partitions=2 offsets=P0:earliest=0:latest=3:leo=3:hwm=3,{empty}"
    assert client.call("LIST_OFFSETS", topic=name).text == both
    assert client.call("LIST_OFFSETS", topic=name, partition="").text == both
    assert client.call("LIST_OFFSETS", topic=name, partition=1).text == f"OK topic={name} partitions=1 offsets={empty}"


@pytest.mark.parametrize("partition", ["x", "1.0", " 0", "0x0", 1 << 64])
def test_list_offsets_refuses_malformed_partitions(client, topic, partition):
    refused(client, "LIST_OFFSETS", {"topic": topic, "partition": partition}, "invalid_partition",
            command="LIST_OFFSETS")


@pytest.mark.parametrize("partition", [-1, 1, 7, 1 << 32, (1 << 63) - 1])
def test_list_offsets_refuses_partitions_that_are_not_there(client, topic, partition):
    refused(client, "LIST_OFFSETS", {"topic": topic, "partition": partition}, "partition_not_found",
            partition=str(partition))


def test_list_offsets_refuses_unreadable_topics(client, make_topic):
    name = make_topic(auth_policy="deny_read")
    refused(client, "LIST_OFFSETS", {"topic": name, "partition": "x"}, "NOT_AUTHORIZED_FOR_TOPIC", operation="read",
            topic=name)


MISSING = {"DESCRIBE": {"expected": Text()}, "METADATA": {"command": "METADATA"},
           "LIST_OFFSETS": {"command": "LIST_OFFSETS"}}


@pytest.mark.parametrize("command", MISSING)
def test_reading_commands_need_a_known_topic(client, new_name, command):
    refused(client, command, {}, "missing_topic", **MISSING[command])
    refused(client, command, {"topic": ""}, "missing_topic", **MISSING[command])
    name = new_name()
    refused(client, command, {"topic": name}, "topic_not_found", topic=name)


@pytest.mark.parametrize("name", ["'; DROP TABLE x; --", "a\0b", "über", b"\xff\xfe", "x" * 100_000, "a\nb c"])
@pytest.mark.parametrize("command", MISSING)
def test_odd_names_are_just_unknown_topics(client, command, name):
    with pytest.raises(BrokerError) as caught:
        client.call(command, topic=name)
    assert (caught.value.code, list(caught.value.fields)) == ("topic_not_found", ["topic"])
    assert client.is_open()


# ---- everything else ------------------------------------------------------------------------------

PUBLIC = [name for name in COMMANDS if name not in INTERNAL_COMMANDS + ["NEGOTIATE", "EXIT", "STREAM", "READ_STREAM"]]


@pytest.mark.parametrize("command", PUBLIC)
def test_every_public_command_answers(client, command):
    request_id = client.send(command, {"topic": "made-by-public-commands", "group": "g", "member": "m"})
    try:
        client.answer(request_id, command)
    except BrokerError as error:
        assert error.code and error.class_name
    assert client.is_open()


@pytest.mark.parametrize("command", ["STREAM", "READ_STREAM"])
def test_streaming_commands_refuse_with_an_error_frame(client, command):
    request_id = client.send(command, {})
    frame = client.recv()
    assert (frame.request_id, frame.status) == (request_id, crs2.ERROR)
    assert crs2.decode_error(frame.payload).code
    assert client.is_open()


@pytest.mark.parametrize("command", INTERNAL_COMMANDS)
def test_internal_commands_are_never_executed_for_a_client(client, command):
    refused(client, command, {"topic": "t", "internal_token": "x"}, "internal_command_unauthorized", command=command)


def test_unknown_fields_and_any_order_are_accepted(client, new_name):
    name = new_name()
    fields = [("zzz", "1"), ("partitions", "2"), ("topic", name), ("_x", ""), ("toPic", "y")]
    request_id = client.send("CREATE", fields)
    assert client.answer(request_id).text == line(name, partitions=2)
    request_id = client.send("CREATE", [("toPic", name)])
    with pytest.raises(BrokerError) as caught:
        client.answer(request_id)
    assert caught.value.code == "missing_topic", "field names are case-sensitive"


def test_positional_arguments_are_ignored_by_commands_with_fields(client, topic):
    request_id = client.send("METADATA", {"topic": topic}, positionals=["a", "b"])
    assert client.answer(request_id).ok_fields["topic"] == topic


@pytest.mark.parametrize("command", ["LIST", "HELP", "LIST_GROUPS", "LIST_CLUSTER", "CLUSTER_STATUS"])
def test_commands_without_fields_ignore_any(client, command):
    request_id = client.send(command, {"topic": "x", "y": ""}, positionals=["z"])
    assert client.answer(request_id).text.startswith("OK ")


def test_authentication_fails_while_it_is_switched_off(client):
    refused(client, "AUTH", {"principal": "a", "token": "b"}, "authentication_failed", mechanism="PLAIN")
    refused(client, "AUTH", {"principal": " ", "token": "b"}, "invalid_auth", command="AUTH")
    refused(client, "LIST", {"principal": "a", "auth_token": "b"}, "authentication_failed", mechanism="PLAIN")
    refused(client, "LIST", {"principal": "a"}, "invalid_auth", reason="principal_and_auth_token_required")
