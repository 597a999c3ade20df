"""Who may do what: authentication, the permission matrix, topic policies, and in which order they are looked at."""

import itertools
import time

import pytest

from crs2client import COMMANDS, INTERNAL_COMMANDS, Batch, BrokerError, Record, encode_batch
from refusal import check, refused

ADMIN, READ, WRITE, GROUP, TRANSACTION = "admin", "topic.read", "topic.write", "group", "transaction"

# What each command needs, in the order in which it is looked for. A command that is not here fails the test below.
MATRIX = {
    "AUTH": [], "HELP": [], "EXIT": [],
    **dict.fromkeys(["CREATE", "ALTER_TOPIC_CONFIG", "DELETE", "TRUNCATE", "LIST_CLUSTER", "CLUSTER_STATUS",
                     "ELECT_LEADER"], [ADMIN]),
    **dict.fromkeys(["LIST", "DESCRIBE", "METADATA", "LIST_OFFSETS"], [READ]),
    "PUBLISH": [WRITE],
    **dict.fromkeys(["CONSUME", "STREAM"], [READ, GROUP]),
    **dict.fromkeys(["REGISTER_GROUP", "JOIN_GROUP", "SYNC_GROUP", "LEAVE_GROUP", "HEARTBEAT", "COMMIT_OFFSET",
                     "BATCH_COMMIT", "FETCH_OFFSET", "GROUP_STATUS", "LIST_GROUPS", "FIND_COORDINATOR"], [GROUP]),
    **dict.fromkeys(["INIT_PRODUCER_ID", "BEGIN_TXN", "END_TXN", "TXN_STATUS"], [TRANSACTION]),
    **dict.fromkeys(["TXN_PUBLISH", "TXN_APPEND_STREAM"], [TRANSACTION, WRITE]),
    "SEND_OFFSETS_TO_TXN": [TRANSACTION, GROUP],
    **dict.fromkeys(["APPEND_STREAM", "SAVE_SNAPSHOT"], [WRITE]),
    **dict.fromkeys(["READ_STREAM", "STREAM_VERSION", "READ_SNAPSHOT", "AGGREGATE_REPLAY_PROOF",
                     "AGGREGATE_EVENT_RANGE_READ", "BROWSE_MESSAGES", "READ_STREAM_HISTORY"], [READ]),
}
SINGLE = {"administrator": [ADMIN], "reader": [READ], "writer": [WRITE], "member": [GROUP], "agent": [TRANSACTION]}
PAIRS = {"reading-member": [READ, GROUP], "writing-agent": [TRANSACTION, WRITE], "staging-agent": [TRANSACTION, GROUP],
         "publisher": [READ, WRITE]}
USERS = SINGLE | PAIRS | {"root": ["*"], "Shouting": ["TOPIC.READ", "Group"]}


@pytest.fixture(scope="module")
def users_file(scratch):
    path = scratch / "users.yaml"
    path.write_text("".join(
        f"- principal: {name}\n  token: token-of-{name}\n  permissions: {list(map(str, permissions))!r}\n"
        for name, permissions in USERS.items()))
    return path


@pytest.fixture(scope="module")
def guarded(cluster, scratch, users_file):
    """A broker with authentication on."""
    import conftest

    fleet = conftest.Fleet(scratch)
    broker = fleet.start(cluster.create_database(), enable_sasl=True, sasl_users=users_file)
    yield broker
    fleet.stop()


def logged_in(broker, name):
    client = broker.client()
    client.call("AUTH", principal=name, token=f"token-of-{name}")
    return client


@pytest.fixture
def as_user(guarded):
    clients = []

    def open_client(name=None):
        clients.append(logged_in(guarded, name) if name else guarded.client())
        return clients[-1]

    yield open_client
    for client in clients:
        client.close()


PROTECTED = [name for name in COMMANDS if name not in INTERNAL_COMMANDS + ["NEGOTIATE"] and MATRIX.get(name) != []]


def refusal_of(client, command, fields):
    """The code and fields of the refusal; None when the command was carried out."""
    request = client.send(command, fields)
    try:
        client.answer(request, command)
    except BrokerError as error:
        return error
    return None


def test_every_command_stands_in_the_matrix():
    assert set(MATRIX) == set(COMMANDS) - set(INTERNAL_COMMANDS) - {"NEGOTIATE"}


def test_nothing_protected_is_done_for_a_stranger(as_user):
    client = as_user()
    for command in PROTECTED:
        refused(client, command, {}, "authentication_required", command=command)
    batch = Batch("t", 0, [Record(b"x", producer_id="p")])
    with pytest.raises(BrokerError) as caught:
        client.publish_batch(batch)
    check(caught.value, "authentication_required", command="PUBLISH")
    assert client.call("HELP").text.startswith("OK")
    for command in INTERNAL_COMMANDS:
        refused(client, command, {}, "internal_command_unauthorized", command=command)


@pytest.mark.parametrize("user", USERS)
def test_the_matrix(as_user, user):
    """Without any field, a permitted command is refused for its syntax or done; never for lack of a permission."""
    client = as_user(user)
    held = {p.lower() for p in USERS[user]}
    for command in PROTECTED:
        missing = [p for p in MATRIX[command] if p not in held and "*" not in held]
        error = refusal_of(client, command, {})
        if missing:
            check(error, "NOT_AUTHORIZED_FOR_OPERATION", command=command, permission=missing[0])
        else:
            assert error is None or not error.code.startswith(("NOT_AUTHORIZED", "authentication")), (command, error)


def test_a_coordinator_is_found_by_permission_of_what_it_coordinates(as_user):
    for field, needed in {"group": GROUP, "transactional_id": TRANSACTION, "txn": TRANSACTION,
                          "transaction": TRANSACTION}.items():
        other = "agent" if needed == GROUP else "member"
        refused(as_user(other), "FIND_COORDINATOR", {field: "x"}, "NOT_AUTHORIZED_FOR_OPERATION",
                command="FIND_COORDINATOR", permission=needed)
    refused(as_user("agent"), "FIND_COORDINATOR", {"group": "g", "transactional_id": "x"},
            "NOT_AUTHORIZED_FOR_OPERATION", command="FIND_COORDINATOR", permission=GROUP)


# ---- AUTH and inline authentication ---------------------------------------------------------------


def test_auth(as_user):
    client = as_user()
    for fields in ({}, {"principal": "reader"}, {"token": "x"}, {"principal": "", "token": "x"},
                   {"principal": "  ", "token": "x"}, {"principal": "reader", "token": ""}):
        refused(client, "AUTH", fields, "invalid_auth", command="AUTH")
    for principal, token in [("reader", "nope"), ("Reader", "token-of-reader"), ("nobody", "token-of-reader"),
                             ("reader", "token-of-reader "), ("reader", "token-of-reade"), ("reader", "\0")]:
        refused(client, "AUTH", {"principal": principal, "token": token}, "authentication_failed", mechanism="PLAIN")
        refused(client, "LIST", {}, "authentication_required", command="LIST")
    assert client.call("AUTH", principal=" reader ", token="token-of-reader").text == (
        "OK principal=reader authenticated=true")
    assert client.call("LIST").text.startswith("OK count=")
    refused(client, "AUTH", {"principal": "reader", "token": "nope"}, "authentication_failed", mechanism="PLAIN")
    assert client.call("LIST").text.startswith("OK count="), "a failed attempt changes nothing"
    client.call("AUTH", principal="writer", token="token-of-writer")
    refused(client, "LIST", {}, "NOT_AUTHORIZED_FOR_OPERATION", command="LIST", permission=READ)


def test_inline_authentication(as_user):
    client = as_user()
    only_one = {"reason": "principal_and_auth_token_required"}
    refused(client, "LIST", {"principal": "reader"}, "invalid_auth", **only_one)
    refused(client, "METADATA", {"topic": "t", "auth_token": "x"}, "invalid_auth", **only_one)
    for command in PROTECTED:
        refused(client, command, {"principal": "reader", "auth_token": "nope"}, "authentication_failed",
                mechanism="PLAIN")
    refused(client, "LIST", {}, "authentication_required", command="LIST")
    assert client.call("LIST", principal="reader", auth_token="token-of-reader").text.startswith("OK count=")
    assert client.call("LIST").text.startswith("OK count="), "the connection is authenticated from then on"
    refused(client, "CREATE", {"principal": "writer", "auth_token": "token-of-writer", "topic": "t"},
            "NOT_AUTHORIZED_FOR_OPERATION", command="CREATE", permission=ADMIN)
    refused(client, "LIST", {}, "NOT_AUTHORIZED_FOR_OPERATION", command="LIST", permission=READ)
    # It is looked at on protected commands only.
    assert client.call("EXIT", principal="reader").text == "OK"


def test_inline_authentication_works_on_every_protected_command(as_user):
    client = as_user()
    for command in PROTECTED:
        error = refusal_of(client, command, {"principal": "root", "auth_token": "token-of-root"})
        assert error is None or not error.code.startswith(("NOT_AUTHORIZED", "authentication", "invalid_auth")), command
        assert error is None or command in ("BROWSE_MESSAGES",) or error.code != "unknown_command" or (
            refusal_of(client, command, {}).code == "unknown_command"), "only for want of a handler"


# ---- topic policies -------------------------------------------------------------------------------

ACL = {"read_acl": "reader,root", "write_acl": "*"}
# policy: who may read, who may write, of nobody, reader and publisher
POLICIES = {
    "open": ({None, "reader", "publisher"}, {None, "reader", "publisher"}),
    "deny_write": ({None, "reader", "publisher"}, set()),
    "deny_read": (set(), {None, "reader", "publisher"}),
    "acl": ({"reader"}, {"reader", "publisher"}),
}


def make_topics(client, stem):
    for policy in POLICIES:
        client.call("CREATE", topic=f"{stem}.{policy}", partitions=1, auth_policy=policy, **ACL)
    return {policy: f"{stem}.{policy}" for policy in POLICIES}


def expect(client, command, fields, allowed, operation):
    error = refusal_of(client, command, fields)
    if allowed:
        assert error is None or not error.code.startswith("NOT_AUTHORIZED"), (command, fields, error)
    else:
        check(error, "NOT_AUTHORIZED_FOR_TOPIC", operation=operation, topic=fields["topic"])


def reading(topic):
    yield "CONSUME", dict(topic=topic, partition=0, offset=0, member="m")
    yield "LIST_OFFSETS", dict(topic=topic)
    yield "LIST_OFFSETS", dict(topic=topic, partition="x")  # the policy comes first


def writing(topic):
    yield "PUBLISH", dict(topic=topic, producerId="p", message="x")


def test_policies_without_authentication(client, new_name):
    topics = make_topics(client, new_name())
    listed = client.call("LIST").ok_fields["topics"].split(",")
    for policy, topic in topics.items():
        readers, writers = POLICIES[policy]
        for command, fields in reading(topic):
            expect(client, command, fields, None in readers, "read")
        for command, fields in writing(topic):
            expect(client, command, fields, None in writers, "write")
        batch = Batch(topic, 0, [Record(b"x", producer_id="p")])
        if None in writers:
            client.publish_batch(batch)
        else:
            with pytest.raises(BrokerError) as caught:
                client.publish_batch(batch)
            check(caught.value, "NOT_AUTHORIZED_FOR_TOPIC", operation="write", topic=topic)
        assert (topic in listed) == (None in readers)
        for command in ("METADATA", "DESCRIBE"):  # these look at the policy with authentication only
            client.call(command, topic=topic)
    error = refusal_of(client, "CONSUME", dict(topic=topics["open"][:-4] + "*", partition=0, offset=0, member="m"))
    assert error.code == "NOT_AUTHORIZED_FOR_TOPIC", "a pattern is refused with the first topic it may not read"


@pytest.mark.parametrize("user", ["reader", "publisher"])
def test_policies_with_authentication(as_user, new_name, user):
    admin, root = as_user("administrator"), as_user("root")
    topics = make_topics(admin, new_name())
    client = as_user(user)
    listed = client.call("LIST").ok_fields["topics"].split(",")
    by_read_permission = ["METADATA", "DESCRIBE", "READ_STREAM", "STREAM_VERSION", "READ_SNAPSHOT",
                          "AGGREGATE_REPLAY_PROOF", "AGGREGATE_EVENT_RANGE_READ", "READ_STREAM_HISTORY",
                          "LIST_OFFSETS"]
    for policy, topic in topics.items():
        readers, writers = POLICIES[policy]
        assert (topic in listed) == (user in readers)
        for command in by_read_permission:
            expect(client, command, dict(topic=topic), user in readers, "read")
        if WRITE in USERS[user]:
            for command in ("PUBLISH", "APPEND_STREAM", "SAVE_SNAPSHOT"):
                expect(client, command, dict(topic=topic), user in writers, "write")
            batch = Batch(topic, 0, [Record(b"x", producer_id="p")])
            if user not in writers:
                with pytest.raises(BrokerError) as caught:
                    client.publish_batch(batch)
                check(caught.value, "NOT_AUTHORIZED_FOR_TOPIC", operation="write", topic=topic)
            else:
                client.publish_batch(batch)
        expect(root, "CONSUME", dict(topic=topic, partition=0, offset=0, member="m"), policy != "deny_read", "read")


def test_administration_is_not_subject_to_policies(as_user, new_name):
    admin = as_user("administrator")
    for policy, topic in make_topics(admin, new_name()).items():
        admin.call("CREATE", topic=topic, retention_hours=1)
        admin.call("ALTER_TOPIC_CONFIG", topic=topic, min_in_sync_replicas="2")
        admin.call("TRUNCATE", topic=topic, expected_revision=3)
        admin.call("DELETE", topic=topic)


def test_acl_entries_are_compared_exactly(as_user, new_name):
    admin, reader = as_user("administrator"), as_user("reader")
    for acl, allowed in {"reader": True, " x , reader ": True, "Reader": False, "reader2,read": False, "*": True,
                         "": False, "**": False}.items():
        topic = new_name()
        admin.call("CREATE", topic=topic, partitions=1, auth_policy="acl", read_acl=acl)
        expect(reader, "METADATA", dict(topic=topic), allowed, "read")


def test_a_changed_policy_counts_at_once(as_user, new_name):
    admin, publisher = as_user("administrator"), as_user("publisher")
    topic = new_name()
    admin.call("CREATE", topic=topic, partitions=1)
    for policy, code in itertools.islice(itertools.cycle([("deny_write", "NOT_AUTHORIZED_FOR_TOPIC"), ("open", None)]),
                                         6):
        admin.call("CREATE", topic=topic, auth_policy=policy)
        error = refusal_of(publisher, "PUBLISH", dict(topic=topic, producerId="p", message="x"))
        assert (error and error.code) == code


@pytest.mark.parametrize("pattern", [False, True], ids=["literal", "pattern"])
def test_a_long_poll_gets_nothing_that_was_forbidden_while_it_waited(as_user, new_name, pattern):
    admin, writer, reader = as_user("administrator"), as_user("writer"), as_user("reading-member")
    topic = new_name()
    admin.call("CREATE", topic=topic, partitions=1)
    reader.consume(topic)
    asked = topic[:-1] + "?" if pattern else topic
    waiting = reader.send("CONSUME", dict(topic=asked, partition=0, offset=0, member="m", wait_ms=20000))
    time.sleep(0.2)
    admin.call("CREATE", topic=topic, auth_policy="deny_read")
    writer.publish(topic, "secret")
    with pytest.raises(BrokerError) as caught:
        reader.answer(waiting)
    assert (caught.value.code, caught.value.fields["operation"]) == ("NOT_AUTHORIZED_FOR_TOPIC", "read")


# ---- the order of checks --------------------------------------------------------------------------


def test_checks_come_in_the_order_of_the_specification(as_user, new_name):
    admin, topic = as_user("administrator"), new_name()
    admin.call("CREATE", topic=topic, partitions=1, auth_policy="deny_write")
    client = as_user()
    bad = {"topic": topic, "principal": "reader"}
    refused(client, "PUBLISH", bad, "invalid_auth", reason="principal_and_auth_token_required")
    refused(client, "PUBLISH", bad | {"auth_token": "x"}, "authentication_failed", mechanism="PLAIN")
    refused(client, "PUBLISH", {"topic": topic}, "authentication_required", command="PUBLISH")
    refused(client, "PUBLISH", bad | {"auth_token": "token-of-reader"}, "NOT_AUTHORIZED_FOR_OPERATION",
            command="PUBLISH", permission=WRITE)
    writer = as_user("writer")
    refused(writer, "PUBLISH", {"topic": topic, "acks": "7"}, "NOT_AUTHORIZED_FOR_TOPIC", operation="write",
            topic=topic)
    error = refusal_of(writer, "PUBLISH", {"topic": new_name(), "acks": "7"})
    assert error.class_name == "validation", "a topic that does not exist has no policy; syntax comes next"
    refused(as_user("reader"), "DELETE", {"topic": ""}, "NOT_AUTHORIZED_FOR_OPERATION", command="DELETE",
            permission=ADMIN)


def test_a_batch_is_decoded_before_anything_is_asked(as_user):
    client = as_user()
    request = client.send_payload("PUBLISH", encode_batch(Batch("t", 0, [Record(b"x")]))[:-1])
    with pytest.raises(BrokerError) as caught:
        client.answer(request)
    assert caught.value.code == "batch_decode_failed"
    with pytest.raises(BrokerError) as caught:
        client.publish_batch(Batch("__consumer_offsets", 0, [Record(b"x", producer_id="p")]))
    check(caught.value, "internal_topic_write_forbidden", topic="__consumer_offsets")
