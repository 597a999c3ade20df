"""Housekeeping: one node does it, another takes over when that node dies, and it leaves nothing of a removed log."""

import re
import urllib.request

import pytest

import harness
from harness import sql, wait_until


def metric(broker, name, task=None):
    """The value of a metric, None when the broker does not show it."""
    with urllib.request.urlopen(f"http://{broker.http}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    label = re.escape('{task="%s"}' % task) if task else ""
    found = re.search(rf"^{name}{label} (\S+)$", text, re.MULTILINE)
    return float(found.group(1)) if found else None


def keeps_house(broker):
    return metric(broker, "pgcursus_housekeeping_active") == 1


@pytest.fixture
def nodes(database, start_broker):
    return [start_broker(database, removal_check_interval_ms=100) for _ in range(2)]


def keeper_of(brokers):
    """The one of them that keeps house, and the others."""
    wait_until(lambda: sum(map(keeps_house, brokers)) == 1, 10 * harness.SLOWNESS, what="one node that keeps house")
    keeper = next(b for b in brokers if keeps_house(b))
    return keeper, [b for b in brokers if b is not keeper]


def leave_a_removed_log(broker, records=50):
    """The rows of a log that no topic has; its id."""
    with broker.client() as client:
        client.call("CREATE", topic="gone", partitions=2)
        for number in range(records):
            client.publish("gone", b"x" * 1000, number % 2)
    return sql(broker.dsn, """
        BEGIN;
        INSERT INTO pgcursus.removed_logs (log_id, partition_count)
          SELECT log_id, partition_count FROM pgcursus.topic_definitions WHERE name = 'gone' RETURNING log_id;
        DELETE FROM pgcursus.topic_definitions WHERE name = 'gone';
        COMMIT;""")[0][0]


def rows_of_log(dsn, log):
    return int(sql(dsn, f"""SELECT (SELECT count(*) FROM pgcursus.record_batches WHERE log_id = {log})
                                 + (SELECT count(*) FROM pgcursus.partition_states WHERE log_id = {log})
                                 + (SELECT count(*) FROM pgcursus.removed_logs)""")[0][0])


def wait_until_removed(dsn, log):
    wait_until(lambda: rows_of_log(dsn, log) == 0, 15 * harness.SLOWNESS, every=0.1, what="removal of the log")


def test_one_node_keeps_house_and_removes_a_log(nodes):
    keeper, (other,) = keeper_of(nodes)
    log = leave_a_removed_log(other)
    wait_until_removed(keeper.dsn, log)
    assert metric(keeper, "pgcursus_housekeeping_rows_total", "removed_logs") >= 52
    assert metric(keeper, "pgcursus_housekeeping_steps_total", "removed_logs") >= 2
    assert metric(keeper, "pgcursus_housekeeping_step_seconds_sum", "removed_logs") > 0
    assert not [e for e in keeper.events() if e["message"] == "a housekeeping step failed"]
    assert metric(other, "pgcursus_housekeeping_steps_total", "removed_logs") in (0, None)


def test_another_node_takes_over_from_a_killed_one_and_goes_on(nodes):
    keeper, (other,) = keeper_of(nodes)
    keeper.kill()
    log = leave_a_removed_log(other)
    wait_until(lambda: keeps_house(other), 5 * harness.SLOWNESS, what="the take-over")
    wait_until_removed(other.dsn, log)


def test_a_stopped_node_hands_over(nodes):
    keeper, (other,) = keeper_of(nodes)
    keeper.stop()
    wait_until(lambda: keeps_house(other), 5 * harness.SLOWNESS, what="the take-over")


def test_a_lost_session_is_replaced_and_nobody_notices(nodes):
    keeper, _ = keeper_of(nodes)
    sql(keeper.dsn, "SELECT pg_terminate_backend(pid) FROM pg_locks"
                    " WHERE locktype = 'advisory' AND (classid, objid, objsubid) = (1885823843, 2, 2)")
    wait_until(lambda: any("housekeeping session is lost" in e["message"] for e in keeper.events()), what="the loss")
    keeper, (other,) = keeper_of(nodes)
    wait_until_removed(keeper.dsn, leave_a_removed_log(other))
    with keeper.client() as client:
        client.call("LIST")


def test_a_step_that_fails_is_counted_named_and_tried_again(nodes):
    keeper, (other,) = keeper_of(nodes)
    with other.client() as client:
        client.call("CREATE", topic="alive", partitions=1)
    sql(keeper.dsn, "INSERT INTO pgcursus.removed_logs (log_id, partition_count)"
                    " SELECT log_id, 1 FROM pgcursus.topic_definitions WHERE name = 'alive'")
    wait_until(lambda: (metric(keeper, "pgcursus_housekeeping_errors_total", "removed_logs") or 0) >= 2,
               10 * harness.SLOWNESS)
    assert any(e["message"] == "a housekeeping step failed" and e["task"] == "removed_logs" for e in keeper.events())
    with other.client() as client:
        client.publish("alive", b"still here")
    sql(keeper.dsn, "DELETE FROM pgcursus.topic_definitions WHERE name = 'alive'")
    wait_until(lambda: sql(keeper.dsn, "SELECT count(*) FROM pgcursus.record_batches") == [["0"]],
               10 * harness.SLOWNESS, what="the step that succeeds at last")
