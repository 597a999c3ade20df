#!/usr/bin/env python3
"""Retention and compaction beside appends, readers, old snapshots, other janitors, removals and crashes."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from sessions import Session, append, create_topic, equal, finish, ok, psql, wait_until_blocked

COMPACT = "SELECT run_steps('compact_logs(0.1, 10, 604800000)')"

# Steps until there is no more, in one transaction; the rows they changed.
RUN_STEPS = """
CREATE FUNCTION pgcursus.run_steps(_step text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  _done bigint := 0;
  _row  record;
BEGIN
  LOOP
    EXECUTE 'SELECT done, more FROM pgcursus.' || _step INTO _row;
    _done := _done + _row.done;
    EXIT WHEN NOT _row.more;
  END LOOP;
  RETURN _done;
END $$"""


def retain(limit=0, roll_ms=604800000):
    return f"SELECT run_steps('retain_logs(168, {limit}, 10, {roll_ms})')"


def earliest(topic):
    return f"SELECT earliest_offset, end_offset FROM describe_topic('{topic}', 0)"


def rows(topic):
    return f"SELECT count(*) FROM record_batches b JOIN topic_definitions t USING (log_id) WHERE t.name = '{topic}'"


def fill(topic, count, size=10):
    psql(f"SELECT count(pgcursus.publish('{topic}', 'k', convert_to(repeat('x', {size - 1}), 'UTF8'), 0))"
         f" FROM generate_series(1, {count})")


def pages(session, query):
    """How many buffers a query touches; it has run before, so that planning does not count."""
    session.run(query)
    plan = json.loads(session.run(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}"))[0]["Plan"]
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


psql(RUN_STEPS)
psql(create_topic("t", "_partitions => 1"))
with Session() as first, Session() as second, Session() as janitor, Session() as observer:
    for session in (first, second, janitor):
        session.run("SET lock_timeout = '2s'")
    fill("t", 3)

    # Appends.
    first.run("BEGIN")
    equal(first.run(append("t", "x" * 10)), "0|3", "an_append_is_not_committed")
    equal(janitor.run(retain()), "2", "retention_does_not_wait_for_it")
    equal(janitor.run(earliest("t")), "2|3", "and_keeps_the_newest_segment_that_it_sees")
    first.run("COMMIT")
    janitor.run("BEGIN")
    equal(janitor.run(retain()), "1", "a_step_is_not_committed")
    equal(first.run(append("t", "x" * 10)), "0|4", "nor_does_an_append_wait_for_it")
    equal(first.run("SELECT next_offset FROM (SELECT end_offset AS next_offset FROM describe_topic('t', 0)) d"), "5",
          "nor_who_asks_for_the_end")

    # Two janitors, and a crash.
    equal(second.run(retain()), "0", "another_janitor_leaves_it_alone")
    equal(observer.run(earliest("t")), "2|5", "nothing_shows_before_the_commit")
    janitor.run("ROLLBACK")
    equal(observer.run(earliest("t") + "; " + rows("t")), "2|5\n3", "a_step_that_is_lost_leaves_nothing_half_done")
    equal(janitor.run(retain()), "2", "it_is_done_again")
    equal(observer.run(earliest("t") + "; " + rows("t")), "4|5\n1", "with_what_came_meanwhile")

    # A reader with an old snapshot.
    fill("t", 4)
    first.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    equal(first.run("SELECT count(*) FROM read('t', 0, 4)"), "5", "a_reader_has_begun")
    equal(janitor.run(retain()), "4", "nothing_waits_for_it")
    equal(first.run("SELECT count(*) FROM read('t', 0, 4)"), "5", "it_reads_on_what_it_saw")
    equal(first.run("SELECT count(*) FROM records"), "5", "in_the_view_too")
    first.run("COMMIT")
    equal(first.run("SELECT count(*) FROM read('t', 0, 4)"), "1", "others_do_not")

    # Dead rows that no vacuum may remove are in nobody's way.
    psql(create_topic("old", "_partitions => 1"))
    psql("SELECT count(pgcursus.publish('old', NULL, 'xxxxxxxxxx', 0)) FROM generate_series(1, 20000)")
    first.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
    second.run(retain(roll_ms=1))
    equal(observer.run(earliest("old")), "20000|20000", "everything_is_gone_while_a_snapshot_is_held")
    log = observer.run("SELECT log_id FROM topic_definition('old')")
    for what, query in {"the_end": f"SELECT end_offset FROM partition_ends(ARRAY[{log}]::bigint[], '{{0}}')",
                        "a_fetch": f"SELECT end_offset FROM fetch_batches({log}, 0, 20000, 10, 1000)",
                        "an_append": "SELECT publish('old', NULL, 'x', 0)"}.items():
        # A plan may be made anew, which reads the catalogue.
        touched = min(pages(observer, query) for _ in range(3))
        ok(touched < 60, f"{what}_does_not_walk_over_what_is_gone", touched)
    first.run("COMMIT")

    janitor.run(retain())

    # Compaction and retention of one partition, and a reader in the middle of it.
    psql(create_topic("c", "_partitions => 1; _cleanup_policy => 'delete,compact'"))
    fill("c", 6)
    first.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    equal(first.run("SELECT count(*) FROM read('c', 0)"), "6", "a_reader_has_begun_there")
    janitor.run("BEGIN")
    equal(janitor.run(COMPACT), "4", "a_step_of_compaction_is_not_committed")
    equal(second.run(retain() + "; " + earliest("c")), "0\n0|6", "retention_passes_by")
    equal(second.run(COMPACT), "0", "so_does_another_compaction")
    equal(second.run(append("c", "x" * 10)), "0|6", "an_append_does_not_wait")
    janitor.run("COMMIT")
    equal(first.run("SELECT count(*) FROM read('c', 0)"), "6", "the_reader_sees_what_it_saw")
    first.run("COMMIT")
    equal(first.run("SELECT string_agg(\"offset\"::text, ' ') FROM read('c', 0)"), "4 5 6", "and_then_what_is_left")
    equal(second.run(retain() + "; " + earliest("c")), "2\n6|7", "retention_comes_again")

    # A snapshot that is older than a removal must not give out offsets again.
    psql(create_topic("s", "_partitions => 1; _event_sourcing => true"))
    psql(create_topic("k", "_partitions => 1; _cleanup_policy => 'compact'"))
    publish = {"t": "publish('t', NULL, 'xxxxxxxxxx', 0)", "k": "publish('k', 'k', 'xxxxxxxxx', 0)",
               "s": "append_stream('s', '{key}', 1, NULL, 'xxxxxxxxx')"}
    for topic, call in publish.items():
        psql(f"SELECT pgcursus.{call.format(key='a')}")
        first.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
        before = first.run(earliest(topic)).split("|")[1]
        for key in "bcd":
            psql(f"SELECT pgcursus.{call.format(key=key)}")
        janitor.run(COMPACT if topic == "k" else retain())
        found = observer.run(f"SELECT count(*) FROM record_batches b JOIN topic_definitions d USING (log_id)"
                             f" WHERE d.name = '{topic}' AND b.base_offset = {before}")
        equal(found, "0", f"the_row_that_followed_is_gone_from_{topic}")
        answer = first.run("SELECT " + call.format(key="e"))
        ok("could not serialize" in answer, f"an_old_snapshot_appends_nothing_to_{topic}", answer)
        first.run("ROLLBACK")
        second.run("BEGIN ISOLATION LEVEL SERIALIZABLE")
        ok(second.run("SELECT " + call.format(key="e")).isdigit(), f"a_new_one_does_to_{topic}")
        equal(janitor.run(COMPACT if topic == "k" else retain()), "0", f"and_holds_off_what_would_remove_from_{topic}")
        second.run("ROLLBACK")

    # A log that is removed while a step is under way leaves nothing.
    psql(create_topic("gone", "_partitions => 1"))
    fill("gone", 3)
    log = observer.run("SELECT log_id FROM topic_definition('gone')")
    janitor.run("BEGIN")
    janitor.run(retain(1000))
    observer.run("SELECT delete_topic('gone', false)")
    second.run("SET lock_timeout = 0")
    second.send("SELECT done FROM remove_old_logs(); SELECT more FROM remove_old_logs()")
    ok(wait_until_blocked(observer, second), "the_removal_waits_for_the_step")
    janitor.run("COMMIT")
    second.answer()
    while second.run("SELECT more FROM remove_old_logs()") == "t":
        pass
    equal(observer.run(f"SELECT (SELECT count(*) FROM log_upkeep WHERE log_id = {log}),"
                       f" (SELECT count(*) FROM log_segments WHERE log_id = {log})"), "0|0", "and_takes_all_that_it_wrote")

    # What the nodes are told.
    first.run("LISTEN pgcursus_control")
    fill("t", 2)
    janitor.run(retain())
    heard = first.run("SELECT 1")
    log = observer.run("SELECT log_id FROM topic_definition('t')")
    offset = observer.run(earliest("t")).split("|")[0]
    ok(f'"trimmed {log} 0 {offset}"' in heard, "the_nodes_are_told_what_is_gone", heard)
finish()
