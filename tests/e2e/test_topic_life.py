"""The life of a topic after its creation: ALTER_TOPIC_CONFIG, DELETE, TRUNCATE, also while others use the topic."""

import select
import threading
import time

import pytest

from crs2client import BrokerError
from harness import SLOWNESS, SqlSession, sql, wait_until
from refusal import Text, refused

INTERNAL = "__consumer_offsets"
LONG = "x" * 250

# command: {name: (fields, code, fields of the refusal)}; the topic is an existing one unless named.
REFUSALS = {
    "ALTER_TOPIC_CONFIG": {
        "topic_missing": ({"topic": None}, "missing_topic", {"command": "ALTER_TOPIC_CONFIG"}),
        "topic_empty": ({"topic": ""}, "missing_topic", {"command": "ALTER_TOPIC_CONFIG"}),
        "topic_blank": ({"topic": "  "}, "missing_topic", {"command": "ALTER_TOPIC_CONFIG"}),
        "topic_bad": ({"topic": "a/b"}, "invalid_topic_name", {"topic": "a/b", "reason": Text()}),
        "topic_long": ({"topic": LONG}, "invalid_topic_name", {"topic": LONG, "reason": Text()}),
        "value_missing": ({}, "missing_min_in_sync_replicas", {"command": "ALTER_TOPIC_CONFIG"}),
        "value_empty": ({"min_in_sync_replicas": ""}, "missing_min_in_sync_replicas",
                        {"command": "ALTER_TOPIC_CONFIG"}),
        "value_blank": ({"min_in_sync_replicas": " "}, "missing_min_in_sync_replicas",
                        {"command": "ALTER_TOPIC_CONFIG"}),
        "value_zero": ({"min_in_sync_replicas": "0"}, "invalid_min_in_sync_replicas", {"value": "0"}),
        "value_negative": ({"min_in_sync_replicas": "-1"}, "invalid_min_in_sync_replicas", {"value": "-1"}),
        "value_word": ({"min_in_sync_replicas": "two"}, "invalid_min_in_sync_replicas", {"value": "two"}),
        "value_of_65_bits": ({"min_in_sync_replicas": 1 << 64}, "invalid_min_in_sync_replicas",
                             {"value": str(1 << 64)}),
        "topic_unknown": ({"topic": "no-such", "min_in_sync_replicas": "1"}, "topic_not_found", {"topic": "no-such"}),
        "topic_internal": ({"topic": INTERNAL, "min_in_sync_replicas": "1"}, "topic_not_found", {"topic": INTERNAL}),
        "value_above_the_factor": ({"min_in_sync_replicas": "4"}, "invalid_min_in_sync_replicas",
                                   {"value": "4", "replication_factor": "3"}),
        "value_of_41_bits": ({"min_in_sync_replicas": 1 << 40}, "invalid_min_in_sync_replicas",
                             {"value": str(1 << 40), "replication_factor": "3"}),
    },
    "DELETE": {
        "topic_missing": ({"topic": None}, "missing_topic", {"expected": Text("DELETE")}),
        "topic_empty": ({"topic": ""}, "missing_topic", {"expected": Text("DELETE")}),
        "topic_bad": ({"topic": "../x"}, "invalid_topic_name", {"topic": "../x", "reason": Text()}),
        "topic_internal": ({"topic": INTERNAL}, "internal_topic_delete_forbidden", {"topic": INTERNAL}),
        "topic_internal_if_exists": ({"topic": INTERNAL, "if_exists": "true"}, "internal_topic_delete_forbidden",
                                     {"topic": INTERNAL}),
        "if_exists_word": ({"if_exists": "maybe"}, "invalid_if_exists", {"value": "maybe"}),
        "if_exists_empty": ({"if_exists": ""}, "invalid_if_exists", {"value": ""}),
        "if_exists_number": ({"if_exists": "1"}, "invalid_if_exists", {"value": "1"}),
        "topic_unknown": ({"topic": "no-such"}, "topic_not_found", {"topic": "no-such"}),
        "topic_unknown_and_must_exist": ({"topic": "no-such", "if_exists": "False"}, "topic_not_found",
                                         {"topic": "no-such"}),
    },
    "TRUNCATE": {
        "topic_missing": ({"topic": None}, "missing_topic", {"expected": Text("TRUNCATE")}),
        "topic_empty": ({"topic": ""}, "missing_topic", {"expected": Text("TRUNCATE")}),
        "topic_bad": ({"topic": "a b"}, "invalid_topic_name", {"topic": "a b", "reason": Text()}),
        "topic_internal": ({"topic": INTERNAL, "expected_revision": "1"}, "internal_topic_truncate_forbidden",
                           {"topic": INTERNAL}),
        "revision_missing": ({}, "missing_expected_revision", {"command": "TRUNCATE"}),
        "revision_empty": ({"expected_revision": ""}, "missing_expected_revision", {"command": "TRUNCATE"}),
        "revision_zero": ({"expected_revision": "0"}, "invalid_expected_revision", {"value": "0"}),
        "revision_negative": ({"expected_revision": "-1"}, "invalid_expected_revision", {"value": "-1"}),
        "revision_plus": ({"expected_revision": "+1"}, "invalid_expected_revision", {"value": "+1"}),
        "revision_word": ({"expected_revision": "x"}, "invalid_expected_revision", {"value": "x"}),
        "revision_of_65_bits": ({"expected_revision": 1 << 64}, "invalid_expected_revision", {"value": str(1 << 64)}),
        "topic_unknown": ({"topic": "no-such", "expected_revision": "1"}, "topic_not_found", {"topic": "no-such"}),
        "another_revision": ({"expected_revision": "2"}, "topic_revision_conflict",
                             {"expected": "2", "reason": Text("1", "2")}),
        "revision_of_64_bits": ({"expected_revision": (1 << 64) - 1}, "topic_revision_conflict",
                                {"expected": str((1 << 64) - 1), "reason": Text("1")}),
    },
}
CASES = [(command, case) for command, cases in REFUSALS.items() for case in cases]


@pytest.mark.parametrize("command,case", CASES, ids=[f"{command}-{case}" for command, case in CASES])
def test_refusals(client, topic, command, case):
    request, code, fields = REFUSALS[command][case]
    request = {"topic": topic} | request
    if code == "topic_revision_conflict":
        fields = fields | {"topic": topic}
    before = client.call("METADATA", topic=topic).text
    refused(client, command, {k: v for k, v in request.items() if v is not None}, code, **fields)
    assert client.call("METADATA", topic=topic).text == before


def test_checks_come_in_the_order_of_the_specification(client, topic):
    bad = {"topic": "a/b", "min_in_sync_replicas": "", "if_exists": "maybe", "expected_revision": ""}
    for command in ("ALTER_TOPIC_CONFIG", "DELETE", "TRUNCATE"):
        refused(client, command, bad, "invalid_topic_name", topic="a/b", reason=Text())
    for command in ("DELETE", "TRUNCATE"):
        refused(client, command, bad | {"topic": INTERNAL}, f"internal_topic_{command.lower()}_forbidden",
                topic=INTERNAL)
    refused(client, "ALTER_TOPIC_CONFIG", {"topic": "no-such", "min_in_sync_replicas": "x"},
            "invalid_min_in_sync_replicas", value="x")
    refused(client, "DELETE", {"topic": "no-such", "if_exists": "x"}, "invalid_if_exists", value="x")
    refused(client, "TRUNCATE", {"topic": "no-such", "expected_revision": "x"}, "invalid_expected_revision",
            value="x")


# ---- what they do ---------------------------------------------------------------------------------


def revision(client, topic):
    fields = client.call("METADATA", topic=topic).ok_fields
    return int(fields["revision"]), int(fields["lifecycle_epoch"])


def test_alter_changes_the_minimum_and_the_revision_only_when_it_changes(client, topic):
    def alter(value):
        return client.call("ALTER_TOPIC_CONFIG", topic=topic, min_in_sync_replicas=value, partitions="9").text

    for value, shown, effective, expected_revision in [
            ("2", "2", 2, 2), ("+2", "2", 2, 2), ("DEFAULT", "default", 1, 3), ("default", "default", 1, 3),
            ("3", "3", 3, 4)]:
        assert alter(value) == (
            f"OK topic={topic} min_in_sync_replicas={shown} effective_min_in_sync_replicas={effective}")
        assert revision(client, topic) == (expected_revision, 1)
    assert client.call("METADATA", topic=topic).ok_fields["partitions"] == "1", "nothing else can be altered"


def test_delete_is_complete_and_a_namesake_inherits_nothing(client, second_client, make_topic):
    name = make_topic(partitions=2, retention_hours=9, auth_policy="deny_write", idempotent=True)
    client.call("CREATE", topic=name, auth_policy="open")
    for sequence in (1, 2, 3):
        second_client.publish(name, "old", producer="p", acks="all", seqNum=sequence, epoch=7)
    assert client.call("DELETE", topic=name).text == f"OK topic={name} deleted=true"
    for node in (client, second_client):
        for command in ("METADATA", "DESCRIBE", "LIST_OFFSETS"):
            refused(node, command, {"topic": name}, "topic_not_found", topic=name)
        refused(node, "CONSUME", dict(topic=name, partition=0, offset=0, member="m"), "topic_not_found", topic=name)
        refused(node, "PUBLISH", dict(topic=name, producerId="p", message="x"), "topic_not_found", topic=name)
        assert name not in node.call("LIST").ok_fields["topics"].split(",")
    refused(second_client, "DELETE", {"topic": name}, "topic_not_found", topic=name)
    assert second_client.call("DELETE", topic=name, if_exists=" TRUE ").text == f"OK topic={name} deleted=false"

    fresh = second_client.call("CREATE", topic=name, partitions=1).ok_fields
    assert (fresh["revision"], fresh["lifecycle_epoch"], fresh["retention_hours"]) == ("1", "1", "0")
    assert client.consume(name).records == []
    assert client.publish(name, "new", acks="all", seqNum=1, epoch=1, isIdempotent=True)["last_offset"] == 0
    assert [r.payload for r in second_client.consume(name).records] == [b"new"]


def test_truncate_empties_and_keeps_the_definition(client, second_client, make_topic):
    name = make_topic(partitions=2, retention_hours=9, idempotent=True)
    for partition in (0, 1):
        for sequence in (1, 2):
            second_client.publish(name, "old", partition, acks="all", seqNum=sequence, epoch=3)
    before = client.call("METADATA", topic=name).ok_fields
    assert client.call("TRUNCATE", topic=name, expected_revision=1).text == (
        f"OK topic={name} truncated=true revision=2 lifecycle_epoch=2 leo=0 hwm=0")
    after = client.call("METADATA", topic=name).ok_fields
    assert second_client.call("METADATA", topic=name).ok_fields["lifecycle_epoch"] == "2"
    assert after == before | {"revision": "2", "lifecycle_epoch": "2", "epochs": "1,1"}
    for node in (client, second_client):
        assert node.call("LIST_OFFSETS", topic=name).ok_fields["offsets"] == (
            "P0:earliest=0:latest=0:leo=0:hwm=0,P1:earliest=0:latest=0:leo=0:hwm=0")
        assert node.consume(name).records == []
    refused(second_client, "TRUNCATE", {"topic": name, "expected_revision": 1}, "topic_revision_conflict",
            topic=name, expected="1", reason=Text("1", "2"))
    assert second_client.publish(name, "new", acks="all", seqNum=1, epoch=1)["last_offset"] == 0
    assert [r.payload for r in client.consume(name).records] == [b"new"]
    client.call("CREATE", topic=name, retention_hours=1)
    assert client.call("TRUNCATE", topic=name, expected_revision=3).ok_fields["lifecycle_epoch"] == "3"


def test_active_members_block_and_inactive_groups_go_along(client, second_client, make_topic):
    name, other = make_topic(partitions=2), make_topic()
    group = f"group-of-{name}"

    def join():
        answer = second_client.call("JOIN_GROUP", group=group, member="m", topic=name).ok_fields
        return {"group": group, "topic": name, "member": answer["member"], "generation": answer["generation"]}

    member = join()
    second_client.call("COMMIT_OFFSET", partition=0, offset=5, **member)
    for command, code in (("DELETE", "topic_delete_blocked"), ("TRUNCATE", "topic_truncate_blocked")):
        refused(client, command, {"topic": name, "expected_revision": 9, "if_exists": True}, code, topic=name,
                reason=Text(group))
    assert client.call("DELETE", topic=other).ok_fields["deleted"] == "true", "another topic is not blocked"
    second_client.call("LEAVE_GROUP", **member)
    assert client.call("TRUNCATE", topic=name, expected_revision=1).ok_fields["revision"] == "2"
    for node in (client, second_client):
        refused(node, "HEARTBEAT", member, "group_not_found", group=group)
    member = join()
    assert second_client.call("FETCH_OFFSET", group=group, topic=name, partition=0).text == "OK offset=0"
    second_client.call("LEAVE_GROUP", **member)
    assert client.call("DELETE", topic=name).ok_fields["deleted"] == "true"
    refused(second_client, "GROUP_STATUS", {"group": group}, "group_not_found", group=group)


def test_an_open_transaction_blocks(client, second_client, topic):
    who = {"transactional_id": f"tx-of-{topic}"}
    who |= {k: v for k, v in client.call("INIT_PRODUCER_ID", **who).ok_fields.items() if k in ("producerId", "epoch")}
    client.call("BEGIN_TXN", **who)
    client.call("TXN_PUBLISH", topic=topic, partition=0, seqNum=1, message="x", **who)
    refused(second_client, "DELETE", {"topic": topic}, "topic_delete_blocked", topic=topic, reason=Text("tx-of-"))
    refused(second_client, "TRUNCATE", {"topic": topic, "expected_revision": 9}, "topic_truncate_blocked", topic=topic,
            reason=Text("tx-of-"))
    client.call("END_TXN", result="commit", **who)
    assert [r.payload for r in second_client.consume(topic).records] == [b"x"]
    assert client.call("TRUNCATE", topic=topic, expected_revision=1).ok_fields["revision"] == "2"
    assert second_client.consume(topic).records == []
    assert client.call("TXN_STATUS", **who).text.startswith("OK"), "the transaction's outcome is not forgotten"
    assert second_client.call("DELETE", topic=topic).ok_fields["deleted"] == "true"
    assert client.call("TXN_STATUS", **who).text.startswith("OK")


def test_what_postgresql_refuses_is_named_and_changes_nothing(start_broker, database):
    broker = start_broker(database)
    with broker.client() as client:
        client.call("CREATE", topic="t", partitions=1)
        client.publish("t", "x")
        sql(database, """
            CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS
              $$BEGIN RAISE EXCEPTION 'the disk is made of cheese'; END$$;
            CREATE TRIGGER fail BEFORE INSERT OR UPDATE OR DELETE ON pgcursus.topic_definitions
              FOR EACH ROW EXECUTE FUNCTION public.fail()""")
        why = Text("made of cheese")
        refused(client, "CREATE", {"topic": "new"}, "create_topic_failed", topic="new", reason=why)
        refused(client, "CREATE", {"topic": "t", "retention_hours": 1}, "create_topic_failed", topic="t", reason=why)
        refused(client, "ALTER_TOPIC_CONFIG", {"topic": "t", "min_in_sync_replicas": 2}, "alter_topic_config_failed",
                reason=why)
        refused(client, "DELETE", {"topic": "t"}, "delete_topic_failed", topic="t", reason=why)
        refused(client, "TRUNCATE", {"topic": "t", "expected_revision": 1}, "truncate_topic_failed", topic="t",
                reason=why)
        sql(database, "DROP TRIGGER fail ON pgcursus.topic_definitions")
        assert revision(client, "t") == (1, 1) and len(client.consume("t").records) == 1
        assert client.publish("t", "y")["last_offset"] == 1


# ---- while others use the topic -------------------------------------------------------------------


def test_long_polls_of_a_deleted_topic_end_at_once(broker, second_broker, client, topic):
    client.publish(topic, "x")
    with broker.client() as here, second_broker.client() as there:
        here.consume(topic), there.consume(topic)  # both nodes know the topic
        waiting = [(node, node.send("CONSUME", dict(topic=topic, partition=0, offset=1, member="m", wait_ms=20000)))
                   for node in (here, there)]
        time.sleep(0.2)
        client.call("DELETE", topic=topic)
        for node, request in waiting:
            with pytest.raises(BrokerError) as caught:
                node.answer(request)
            assert caught.value.code == "topic_not_found"


def test_long_polls_of_a_truncated_topic_go_on_with_the_new_log(broker, second_broker, client, topic):
    client.publish(topic, "x")
    with broker.client() as here, second_broker.client() as there:
        here.consume(topic), there.consume(topic)
        poll = dict(topic=topic, partition=0, offset=1, member="m", wait_ms=20000)
        waiting = [(node, node.send("CONSUME", poll)) for node in (here, there)]
        with broker.client() as strict:
            bounded = strict.send("CONSUME", poll | {"isolation": "read_uncommitted"})
            time.sleep(0.2)
            client.call("TRUNCATE", topic=topic, expected_revision=1)
            with pytest.raises(BrokerError) as caught:
                strict.answer(bounded)
            assert (caught.value.code, caught.value.fields) == (
                "OFFSET_OUT_OF_RANGE", {"requested": "1", "earliest": "0", "latest": "0"})
        client.publish(topic, "new 0")
        client.publish(topic, "new 1")
        for node, request in waiting:
            assert [(r.offset, r.payload) for r in node.answer(request).batch.records] == [(1, b"new 1")]


def test_deletion_waits_for_a_publishing_transaction_and_then_takes_it_along(broker, client, make_topic):
    name = make_topic(partitions=2)
    with SqlSession(broker.dsn) as session, broker.client() as other:
        session.run(f"BEGIN; SELECT pgcursus.publish('{name}', NULL, 'from SQL', partition => 1)")
        request = client.send("DELETE", {"topic": name})
        time.sleep(0.3)
        other.call("METADATA", topic=name)
        session.run("COMMIT")
        assert client.answer(request).text == f"OK topic={name} deleted=true"
    refused(client, "METADATA", {"topic": name}, "topic_not_found", topic=name)


def test_deletion_gives_up_in_time_and_lets_publishers_through_meanwhile(start_broker, database):
    broker = start_broker(database, client_request_timeout_ms=5000)
    with broker.client() as client, broker.client() as publisher:
        client.call("CREATE", topic="t", partitions=2)
        with SqlSession(database) as session:
            session.run("BEGIN; SELECT pgcursus.publish('t', NULL, 'from SQL', partition => 1)")
            request, published = client.send("DELETE", {"topic": "t"}), 0
            while not select.select([client.sock], [], [], 0)[0]:
                published += publisher.publish("t", "x", 0)["last_offset"] >= 0
            assert published >= 3, "a deletion that waits must not keep every partition"
            with pytest.raises(BrokerError) as caught:
                client.answer(request)
            assert (caught.value.code, caught.value.fields) == ("request_timeout", {"outcome": "not_accepted"})
            session.run("COMMIT")
        assert len(client.consume("t", 1).records) == 1, "nothing was deleted"
        assert client.call("DELETE", topic="t").ok_fields["deleted"] == "true"


def in_parallel(work):
    """Runs the functions at the same time and returns what each returned, or the broker's refusal."""
    answers, gate = [None] * len(work), threading.Barrier(len(work))

    def run(number):
        gate.wait(120)
        try:
            answers[number] = work[number]()
        except BrokerError as error:
            answers[number] = error

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return answers


@pytest.fixture
def eight_clients(broker, second_broker):
    clients = [node.client() for node in (broker, second_broker) for _ in range(4)]
    yield clients
    for client in clients:
        client.close()


def test_of_simultaneous_truncations_one_happens(eight_clients, make_topic):
    name = make_topic(partitions=2)
    for round_number in (1, 2, 3):
        answers = in_parallel([lambda c=c: c.call("TRUNCATE", topic=name, expected_revision=round_number)
                               for c in eight_clients])
        codes = sorted(a.code for a in answers if isinstance(a, BrokerError))
        assert codes == ["topic_revision_conflict"] * 7
        assert revision(eight_clients[0], name) == (round_number + 1, round_number + 1)


def test_of_simultaneous_deletions_one_happens(eight_clients, make_topic):
    name = make_topic(partitions=2)
    answers = in_parallel([lambda c=c, n=n: c.call("DELETE", topic=name, if_exists=n % 2 == 0)
                           for n, c in enumerate(eight_clients)])
    texts = [a.text for a in answers if not isinstance(a, BrokerError)]
    assert texts.count(f"OK topic={name} deleted=true") == 1
    assert {a.code for a in answers if isinstance(a, BrokerError)} <= {"topic_not_found"}
    assert len(texts) >= 4, "if_exists never refuses"


def test_patches_and_alterations_of_different_fields_all_survive(eight_clients, make_topic):
    name = make_topic(partitions=1)
    requests = [("CREATE", {"retention_hours": 5}), ("ALTER_TOPIC_CONFIG", {"min_in_sync_replicas": 2}),
                ("CREATE", {"write_acl": "w"}), ("CREATE", {"partitions": 3}), ("CREATE", {"retention_bytes": 7})]
    answers = in_parallel([lambda c=c, r=r: c.call(r[0], topic=name, **r[1])
                           for c, r in zip(eight_clients, requests)])
    assert not [a for a in answers if isinstance(a, BrokerError)]
    fields = eight_clients[7].call("CREATE", topic=name).ok_fields
    assert [fields[n] for n in ("retention_hours", "min_in_sync_replicas", "write_acl", "partitions",
                                "retention_bytes", "revision")] == ["5", "2", "w", "3", "7", "6"]


class Publisher(threading.Thread):
    """Publishes as fast as answers come; remembers when each request began and ended, and where the record went."""

    def __init__(self, broker, topic, number, stopping):
        super().__init__(daemon=True)
        self.client, self.topic, self.number, self.stopping = broker.client(), topic, number, stopping
        self.acked, self.began, self.wrong = {}, {}, []

    def run(self):
        serial = 0
        with self.client:
            while not self.stopping.is_set():
                serial += 1
                name, begin = b"%d-%d" % (self.number, serial), time.monotonic()
                self.began[name] = begin
                try:
                    offset = self.client.publish(self.topic, name)["last_offset"]
                    self.acked[name] = (begin, time.monotonic(), offset)
                except BrokerError as error:
                    if error.code != "topic_not_found" and not error.retryable:
                        self.wrong.append(error)
                except Exception as problem:
                    self.wrong.append(problem)
                    return


def test_no_record_outlives_its_log_and_none_acknowledged_later_is_lost(broker, second_broker, make_topic):
    """The topic is truncated, deleted and made again by both nodes while both publish.

    Of a record acknowledged before the last switch of the log began nothing is left; a record whose publish began
    after that switch was answered is at the offset of its acknowledgement; offsets are dense and nothing is there
    twice.
    """
    name, stopping = make_topic(partitions=1), threading.Event()
    publishers = [Publisher((broker, second_broker)[n % 2], name, n, stopping) for n in range(4)]
    for publisher in publishers:
        publisher.start()
    deadline, switches = time.monotonic() + 3, 0
    with broker.client() as here, second_broker.client() as there:
        while time.monotonic() < deadline or switches < 6:
            node, other = (here, there) if switches % 2 else (there, here)
            time.sleep(0.05)
            switch_began = time.monotonic()
            if switches % 3:
                node.call("TRUNCATE", topic=name, expected_revision=revision(other, name)[0])
            else:
                node.call("DELETE", topic=name)
                other.call("CREATE", topic=name, partitions=1)
            switch_ended, switches = time.monotonic(), switches + 1
        wait_until(lambda: sum(begin > switch_ended for p in publishers for begin, _, _ in list(p.acked.values())) > 10,
                   what="publishes after the last switch")
        stopping.set()
        for publisher in publishers:
            publisher.join(120)
        records = there.consume_all(name)
        assert records == here.consume_all(name), "both nodes see the same log"
    assert not [w for p in publishers for w in p.wrong]
    found = {r.payload: r.offset for r in records}
    assert [r.offset for r in records] == list(range(len(records))) and len(found) == len(records)
    acked = {record: answer for p in publishers for record, answer in p.acked.items()}
    survivors = [record for record in found if record in acked and acked[record][1] < switch_began]
    assert not survivors, "records of an old log are there"
    later = {record: answer[2] for record, answer in acked.items() if answer[0] > switch_ended}
    assert {record: found.get(record) for record in later} == later

    wait_until(lambda: sql(broker.dsn, f"""
        SELECT count(*) FROM pgcursus.removed_logs""") == [["0"]], 20 * SLOWNESS, every=0.2,
        what="removal of the old logs")
