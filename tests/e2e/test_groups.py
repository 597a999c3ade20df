"""Consumer groups: the check tables row by row, membership and generations, heartbeats, expiry, other nodes."""

import json
import re
import time
import urllib.request

import pytest

import crs2client as crs2
from harness import SLOWNESS, sql, wait_until
from refusal import Text, refused

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z"


def join(client, group, member="m", **fields):
    """The new member as (id, generation, assignment)."""
    answer = client.call("JOIN_GROUP", group=group, member=member, **fields)
    text = answer.text
    fields = answer.ok_fields
    assigned = fields.get("assignments", fields.get("topic_assignments"))
    assert list(fields) in (["generation", "member", "assignments"], ["generation", "member", "topic_assignments"]), text
    assert re.fullmatch(re.escape(member) + r"-\d{4}", fields["member"])
    return fields["member"], int(fields["generation"]), assigned


@pytest.fixture
def group(new_name):
    return new_name()


@pytest.fixture
def wide(make_topic):
    return make_topic(partitions=4)


# ---- REGISTER_GROUP -------------------------------------------------------------------------------


def named(command):
    return {"command": command}


REGISTER = named("REGISTER_GROUP")
ONE = Text("exactly one")
REGISTER_REFUSALS = {
    "nothing": ({}, "missing_topic", REGISTER),
    "group_only": ({"group": "g"}, "missing_topic", REGISTER),
    "two_selectors": ({"topic": "a", "pattern": "b"}, "invalid_subscription", {**REGISTER, "reason": ONE}),
    "three_selectors": ({"topic": "a", "topics": "a", "pattern": "b"}, "invalid_subscription",
                        {**REGISTER, "reason": ONE}),
    "no_group": ({"topic": "nope"}, "missing_group", REGISTER),
    "group_with_blank": ({"group": "a b", "topic": "nope"}, "invalid_group", REGISTER),
    "group_too_long": ({"group": "g" * 250, "topic": "nope"}, "invalid_group", REGISTER),
    "pattern_too_long": ({"group": "g", "pattern": "*" * 257}, "invalid_subscription", {"reason": Text("256")}),
    "pattern_matches_nothing": ({"group": "g", "pattern": "no-such-?*"}, "invalid_subscription", {"reason": Text()}),
    "pattern_without_wildcard": ({"group": "g", "pattern": "nope"}, "invalid_subscription", {"reason": Text()}),
    "pattern_names_internal": ({"group": "g", "pattern": "__consumer_offset?"}, "invalid_subscription",
                               {"reason": Text()}),
    "topic_unknown": ({"group": "g", "topic": "nope"}, "topic_not_found", {"topic": "nope"}),
    "topics_one_unknown": ({"group": "g", "topics": "{t},nope"}, "topic_not_found", {"topic": "nope"}),
    "topics_empty_element": ({"group": "g", "topics": "{t},"}, "topic_not_found", {"topic": ""}),
    "topics_twice": ({"group": "g", "topics": "{t},{t}"}, "register_group_failed", {"reason": Text()}),
}


@pytest.mark.parametrize("case", REGISTER_REFUSALS)
def test_register_refuses(client, topic, case):
    fields, code, want = REGISTER_REFUSALS[case]
    fields = {name: value.replace("{t}", topic) for name, value in fields.items()}
    refused(client, "REGISTER_GROUP", fields, code, **want)


def test_register_answers_what_was_sent_and_is_idempotent(client, make_topic, group):
    first, second = make_topic(), make_topic()
    for _ in range(2):
        assert client.call("REGISTER_GROUP", group=group, topics=f"{second},{first}").text == (
            f"OK group={group} topics={second},{first} pattern= registered=true")
    assert client.call("REGISTER_GROUP", group=group + "1", topic=first).text == (
        f"OK group={group}1 topic={first} registered=true")
    pattern = first[:-1] + "?"
    found = client.call("REGISTER_GROUP", group=group + "2", pattern=pattern).ok_fields
    assert found["pattern"] == pattern and first in found["topics"].split(",")
    refused(client, "REGISTER_GROUP", {"group": group, "topic": first}, "register_group_failed", reason=Text(group))
    status = client.call("GROUP_STATUS", group=group).json
    assert (status["generation"], status["members"], status["state"]) == (0, [], "Dead")


# ---- JOIN, SYNC, LEAVE, HEARTBEAT: refusals -------------------------------------------------------


def member_refusals(command):
    c = named(command)
    base = {"group": "{g}", "topic": "{t}", "member": "{m}", "generation": "1"}
    rows = {
        "no_group": ({**base, "group": ""}, "missing_group", c),
        "no_member": ({**base, "member": ""}, "missing_member", c),
        "group_with_blank": ({**base, "group": "a b"}, "invalid_group", c),
        "member_with_blank": ({**base, "member": "a b"}, "invalid_member", c),
        "other_topic": ({**base, "topic": "nope"}, "topic_not_assigned_to_group", {"expected": "{t}", "actual": "nope"}),
        "no_topic": ({**base, "topic": ""}, "missing_topic", c),
        "generation_word": ({**base, "generation": "x"}, "invalid_generation", c),
        "generation_negative": ({**base, "generation": "-1"}, "invalid_generation", c),
        "group_unknown": ({**base, "group": "nope"}, "group_not_found", {"group": "nope"}),
        "group_unknown_no_topic": ({**base, "group": "nope", "topic": ""}, "missing_topic", c),
        "member_unknown": ({**base, "member": "nope"}, "member_not_found", {"member": "nope", "group": "{g}"}),
        "generation_old": ({**base, "generation": "0"}, "GEN_MISMATCH",
                           {"current": "1", "requested": "0", "group": "{g}", "member": "{m}"}),
        "generation_ahead": ({**base, "generation": "7"}, "GEN_MISMATCH",
                             {"current": "1", "requested": "7", "group": "{g}", "member": "{m}"}),
    }
    if command == "SYNC_GROUP":
        rows["generation_missing"] = ({**base, "generation": ""}, "missing_generation", c)
        rows["topic_before_generation"] = ({**base, "topic": "nope", "generation": ""}, "topic_not_assigned_to_group",
                                           {"expected": "{t}", "actual": "nope"})
    if command in ("JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT"):
        rows["topic_before_bad_generation"] = ({**base, "topic": "nope", "generation": "x"},
                                               "topic_not_assigned_to_group", {"expected": "{t}", "actual": "nope"})
    if command == "LEAVE_GROUP":
        rows["bad_generation_before_topic"] = ({**base, "topic": "nope", "generation": "x"}, "invalid_generation", c)
    if command in ("LEAVE_GROUP", "HEARTBEAT"):
        rows["topic_before_group"] = ({}, "missing_topic", c)
        rows["topic_before_member"] = ({"group": "{g}"}, "missing_topic", c)
    return rows


COMMANDS = ("JOIN_GROUP", "SYNC_GROUP", "LEAVE_GROUP", "HEARTBEAT")
MEMBER_REFUSALS = {(command, name): row for command in COMMANDS for name, row in member_refusals(command).items()}


@pytest.fixture(scope="module")
def stable(request, shared):
    """A group with one member, which these tests only ask wrong things of."""
    with shared.node("first").client() as client:
        client.call("CREATE", topic="stable-topic", partitions=2)
        return {"g": "stable-group", "t": "stable-topic", "m": join(client, "stable-group", "m", topic="stable-topic")[0]}


@pytest.mark.parametrize("case", MEMBER_REFUSALS, ids="-".join)
def test_member_commands_refuse(client, stable, case):
    fields, code, want = MEMBER_REFUSALS[case]
    refused(client, case[0], {k: v.format(**stable) for k, v in fields.items()}, code,
            **{k: v.format(**stable) for k, v in want.items()})


def test_join_refuses_what_it_would_have_to_register(client, group):
    refused(client, "JOIN_GROUP", {"group": group, "member": "m", "topic": "nope"}, "topic_not_found", topic="nope")
    refused(client, "JOIN_GROUP", {"group": group, "member": "m" * 245, "topic": "nope"}, "invalid_member",
            command="JOIN_GROUP")
    assert group not in client.call("LIST_GROUPS").text


# ---- membership -----------------------------------------------------------------------------------


def test_members_share_the_partitions_and_learn_it_by_synchronizing(client, second_client, wide, group):
    first, generation, assigned = join(client, group, "c1", topic=wide)
    assert (generation, assigned) == (1, "[0,1,2,3]")
    second, generation, assigned = join(second_client, group, "c2", topic=wide)
    assert (generation, assigned) == (2, "[2,3]")
    fields = dict(group=group, topic=wide, member=first)
    want = {"current": "2", "requested": "1", "group": group, "member": first}
    for command in ("JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT", "LEAVE_GROUP"):
        refused(client, command, {**fields, "generation": 1}, "GEN_MISMATCH", **want)
    assert client.call("SYNC_GROUP", **fields, generation=2).text == "OK assignments=[0,1]"
    assert client.call("JOIN_GROUP", **fields, generation=2).text == (
        f"OK generation=2 member={first} assignments=[0,1] resumed=true")
    assert second_client.call("LEAVE_GROUP", group=group, topic=wide, member=second).text == (
        f"OK group={group} member={second} left=true")
    refused(client, "LEAVE_GROUP", dict(group=group, topic=wide, member=second), "member_not_found", member=second,
            group=group)
    assert client.call("SYNC_GROUP", **fields, generation=3).text == "OK assignments=[0,1,2,3]"


def test_a_member_too_many_has_nothing(client, topic, group):
    assert join(client, group, "a", topic=topic)[2] == "[0]"
    assert join(client, group, "b", topic=topic)[2] == "[]"


def test_subscriptions_share_out_all_their_topics(client, make_topic, group):
    a, b = make_topic(partitions=3), make_topic(partitions=2)
    client.call("REGISTER_GROUP", group=group, topics=f"{b},{a}")
    members = [join(client, group, name)[0] for name in ("m1", "m2", "m3")]
    texts = [client.call("SYNC_GROUP", group=group, member=m, generation=3).text for m in members]
    assert texts == [f"OK topic_assignments={a}:P0,{a}:P1", f"OK topic_assignments={a}:P2,{b}:P0",
                     f"OK topic_assignments={b}:P1"]
    assert client.call("SYNC_GROUP", group=group, member=members[1], generation=3, topic=b).text == "OK assignments=[0]"
    assert join(client, group, "m9", topic=a)[2] == "[]"
    join(client, group, "m9")
    assert join(client, group, "m99")[2] == ""
    refused(client, "JOIN_GROUP", {"group": group, "member": "x", "topic": "nope"}, "topic_not_assigned_to_group",
            actual="nope")
    client.call("HEARTBEAT", group=group, member=members[0])
    client.call("LEAVE_GROUP", group=group, member=members[0])


def test_status_shows_members_and_assignments(client, make_topic, new_name):
    a, b, single, many = make_topic(partitions=2), make_topic(), new_name(), new_name()
    member = join(client, single, "c", topic=a)[0]
    status = client.call("GROUP_STATUS", group=single)
    found = status.json
    assert list(found) == ["status", "group_name", "topic_name", "state", "generation", "member_count",
                           "partition_count", "members", "last_rebalance"]
    assert re.fullmatch(TIME, found["last_rebalance"])
    assert re.fullmatch(TIME, found["members"][0].pop("last_heartbeat"))
    assert found["members"] == [{"member_id": member, "assignments": [0, 1]}]
    assert (found["topic_name"], found["state"], found["generation"], found["partition_count"]) == (a, "Stable", 1, 2)
    assert '": ' not in status.text

    client.call("REGISTER_GROUP", group=many, topics=f"{a},{b}")
    found = client.call("GROUP_STATUS", group=many).json
    assert (found["topic_name"], found["topics"], found["members"]) == ("", sorted([a, b]), [])
    assert found["last_rebalance"] == "0001-01-01T00:00:00Z"
    join(client, many, "c")
    found = client.call("GROUP_STATUS", group=many).json["members"][0]
    assert found["assignments"] == []
    assert found["topic_assignments"] == sorted(
        [{"topic": t, "partition": p} for t, p in ((a, 0), (a, 1), (b, 0))], key=lambda x: (x["topic"], x["partition"]))
    pattern = a[:-1] + "*"
    client.call("REGISTER_GROUP", group=many + "p", pattern=pattern)
    found = client.call("GROUP_STATUS", group=many + "p").json
    assert (found["topic_name"], found["topic_pattern"]) == (pattern, pattern)
    refused(client, "GROUP_STATUS", {"group": "nope"}, "group_not_found", group="nope")
    refused(client, "GROUP_STATUS", {}, "missing_group", command="GROUP_STATUS")


def test_groups_are_listed_in_order_and_only_when_registered(start_broker, database):
    broker = start_broker(database)
    with broker.client() as client:
        assert client.call("LIST_GROUPS").text == "OK count=0 groups="
        client.call("CREATE", topic="t", partitions=1)
        for name in ("b", "a", "B"):
            client.call("REGISTER_GROUP", group=name, topic="t")
        client.consume("t", 0, 0, group="z")
        assert client.call("LIST_GROUPS").text == "OK count=3 groups=B,a,b"
        client.call("DELETE", topic="t")
        assert client.call("LIST_GROUPS").text == "OK count=0 groups="
        refused(client, "GROUP_STATUS", {"group": "a"}, "group_not_found", group="a")


def test_new_partitions_are_given_to_the_members(client, second_client, make_topic, group):
    topic = make_topic(partitions=1)
    member = join(client, group, "m", topic=topic)[0]
    assert second_client.call("HEARTBEAT", group=group, member=member, topic=topic, generation=1).text == (
        f"OK member={member} generation=1")
    client.call("CREATE", topic=topic, partitions=3)
    fields = dict(group=group, member=member, topic=topic)
    wait_until(lambda: _code(second_client, "HEARTBEAT", **fields, generation=1) == "GEN_MISMATCH",
               what="news of the growth")
    assert second_client.call("SYNC_GROUP", **fields, generation=2).text == "OK assignments=[0,1,2]"
    assert client.call("REGISTER_GROUP", group=group, topic=topic).ok_fields["registered"] == "true"


def _code(client, command, **fields):
    try:
        client.call(command, **fields)
        return "OK"
    except crs2.BrokerError as error:
        return error.code


# ---- heartbeats and expiry ------------------------------------------------------------------------


def test_heartbeats_tell_the_generation_and_notice_a_change_on_another_node(client, second_client, wide, group):
    first = join(client, group, "a", topic=wide)[0]
    fields = dict(group=group, member=first, topic=wide)
    for _ in range(3):
        assert client.call("HEARTBEAT", **fields, generation=1).text == f"OK member={first} generation=1"
    assert client.call("HEARTBEAT", **fields).text == f"OK member={first} generation=1"
    join(second_client, group, "b", topic=wide)
    wait_until(lambda: _code(client, "HEARTBEAT", **fields, generation=1) == "GEN_MISMATCH", within=2 * SLOWNESS,
               what="news of the new generation")
    assert client.call("HEARTBEAT", **fields).text == f"OK member={first} generation=2"
    refused(client, "HEARTBEAT", {**fields, "topic": "nope"}, "topic_not_assigned_to_group", expected=wide,
            actual="nope")
    second_client.call("LEAVE_GROUP", **fields)
    wait_until(lambda: _code(client, "HEARTBEAT", **fields) == "member_not_found", within=2 * SLOWNESS,
               what="news of the departure")


def test_heartbeats_of_one_node_are_written_together(start_broker, database):
    broker = start_broker(database, consumer_heartbeat_check_ms=3600000)  # nobody expires meanwhile
    with broker.client() as client:
        client.call("CREATE", topic="t", partitions=1)
        members = [join(client, "g", "m", topic="t")[0] for _ in range(20)]
        for _ in range(3):
            for member in members:
                client.call("HEARTBEAT", group="g", member=member, topic="t", generation=20)
        sql(database, "UPDATE pgcursus.group_members SET last_heartbeat = '2020-01-01'")
        for member in members:
            client.call("HEARTBEAT", group="g", member=member, topic="t", generation=20)
        wait_until(lambda: sql(database, "SELECT count(*) FROM pgcursus.group_members"
                                         " WHERE last_heartbeat < '2021-01-01'") == [["0"]],
                   within=5 * SLOWNESS, what="renewal of every member")
        metrics = _metrics(broker)
        assert metrics["pgcursus_heartbeats_from_memory_total"] >= 40


def _metrics(broker):
    with urllib.request.urlopen(f"http://{broker.http}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return {line.split(" ")[0]: float(line.split(" ")[1]) for line in lines if line and line[0] != "#"}


def test_silent_members_expire_together_and_beating_ones_stay(start_broker, database):
    broker = start_broker(database, consumer_session_timeout_ms=5000, consumer_heartbeat_check_ms=200)
    with broker.client() as client:
        client.call("CREATE", topic="t", partitions=4)
        lively = join(client, "g", "a", topic="t")[0]
        for name in ("b", "c"):
            join(client, "g", name, topic="t")
        # Both have been silent for equally long.
        sql(database, f"UPDATE pgcursus.group_members SET last_heartbeat = clock_timestamp() - interval '4 s'"
                      f" WHERE member_id <> '{lively}'")
        generations = set()

        def only_one_left():
            answer = client.call("HEARTBEAT", group="g", member=lively, topic="t").ok_fields
            generations.add(int(answer["generation"]))
            return client.call("GROUP_STATUS", group="g").json["member_count"] == 1

        wait_until(only_one_left, within=15 * SLOWNESS, every=0.2, what="expiry of two members")
        only_one_left()
        assert generations == {3, 4}, "a sweep is one step"
        end = time.monotonic() + 7
        while time.monotonic() < end:
            client.call("HEARTBEAT", group="g", member=lively, topic="t", generation=4)
            time.sleep(0.3)
        status = client.call("GROUP_STATUS", group="g").json
        assert [m["assignments"] for m in status["members"]] == [[0, 1, 2, 3]]


def test_joins_that_disconnect_leave_no_ghosts(start_broker, database):
    broker = start_broker(database, consumer_session_timeout_ms=1000, consumer_heartbeat_check_ms=200)
    with broker.client() as client:
        client.call("CREATE", topic="t", partitions=4)
        client.call("REGISTER_GROUP", group="g", topic="t")
        for number in range(60):
            with broker.client() as short:
                short.send("JOIN_GROUP", dict(group="g", member=f"m{number}", topic="t"))
        status = lambda: client.call("GROUP_STATUS", group="g").json
        wait_until(lambda: status()["generation"] > 30, within=20 * SLOWNESS, what="the joins")
        wait_until(lambda: status()["member_count"] == 0, within=20 * SLOWNESS, what="expiry of the ghosts")


# ---- several nodes --------------------------------------------------------------------------------


def test_find_coordinator_names_a_live_node(client):
    listed = json.loads(client.call("LIST_CLUSTER").text.removeprefix("OK brokers="))
    live = {node["client_addr"] for node in listed if node["status"] == "active"}
    for key in ("group", "transactional_id", "txn", "transaction"):
        found = client.call("FIND_COORDINATOR", **{key: "x"})
        assert found.text.startswith("OK coordinator_id=")
        assert f"{found.ok_fields['host']}:{found.ok_fields['port']}" in live
    refused(client, "FIND_COORDINATOR", {}, "missing_coordinator_key", command="FIND_COORDINATOR")


# ---- groups of the configuration ------------------------------------------------------------------


def _configured(tmp_path, text):
    path = tmp_path / "groups.yaml"
    path.write_text(text)
    return {"static_consumer_groups": path}


def _refusals(node):
    return {e["group"]: e["code"] for e in node.events() if "of the configuration is not registered" in e["message"]}


def test_groups_of_the_configuration_are_registered_before_clients_are_served(start_broker, database, tmp_path):
    with start_broker(database).client() as client:
        client.call("CREATE", topic="a", partitions=4)
        client.call("CREATE", topic="b", partitions=2)
        client.call("REGISTER_GROUP", group="other", topic="b")
    settings = _configured(tmp_path, """
        - {name: one, topics: [a]}
        - {name: two, consumer_count: 3, topics: [a], topic_partitions: {a: 4, b: 2}}
        - {name: wrong, topic_partitions: {a: 5}}
        - {name: other, topics: [a]}
        """)
    for _ in range(2):  # the second finds what the first registered
        node = start_broker(database, **settings)
        with node.client() as client:
            assert client.call("LIST_GROUPS").text == "OK count=3 groups=one,other,two"
            assert client.call("GROUP_STATUS", group="one").json["topic_name"] == "a"
            assert client.call("GROUP_STATUS", group="two").json["topics"] == ["a", "b"]
            assert client.call("GROUP_STATUS", group="other").json["topic_name"] == "b"
        assert _refusals(node) == {"wrong": "register_group_failed", "other": "register_group_failed"}


def test_a_group_of_the_configuration_waits_for_its_topics(start_broker, database, tmp_path):
    node = start_broker(database, **_configured(tmp_path, "- {name: g, topics: [a, b]}"))
    with node.client() as client:
        assert _refusals(node) == {"g": "topic_not_found"}
        for topic in ("c", "a"):
            client.call("CREATE", topic=topic, partitions=1)
            assert client.call("LIST_GROUPS").text == "OK count=0 groups="
        with start_broker(database).client() as other:
            other.call("CREATE", topic="b", partitions=1)
        wait_until(lambda: client.call("LIST_GROUPS").text == "OK count=1 groups=g", within=10 * SLOWNESS,
                   what="registration")
