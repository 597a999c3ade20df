#!/usr/bin/env python3
"""Two sessions append events of one stream: one waits, and its version is then taken; also across two partitions."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from sessions import Session, create_topic, equal, finish, ok, psql, wait_until_blocked

psql(create_topic("t", "_partitions => 2; _event_sourcing => true"))


def append(key, version, partition=0):
    return ("SELECT status, event_statuses, event_values, base_offset FROM append_events((SELECT log_id FROM"
            f" topic_definition('t')), NULL, {partition}, 2, false, 1, ARRAY['{key}'::bytea], ARRAY[{version}::bigint],"
            " ARRAY['x'::bytea], NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)")


with Session() as first, Session() as second, Session() as observer:
    first.run("BEGIN")
    equal(first.run(append("a", 1)), "0|||0", "the_first_appends")
    second.send(append("a", 1))
    ok(wait_until_blocked(observer, second), "the_second_waits_for_its_end")
    first.run("COMMIT")
    equal(second.answer(), "0|{9}|{1}|", "and_conflicts")

    first.run("BEGIN")
    first.run(append("a", 2))
    second.send(append("a", 2))
    ok(wait_until_blocked(observer, second), "again_the_second_waits")
    first.run("ROLLBACK")
    equal(second.answer(), "0|||1", "and_appends_when_the_first_did_not")

    # Two nodes that disagree about the partition, as when partitions have just been added.
    first.run("BEGIN")
    equal(first.run(append("b", 1, 0)), "0|||2", "a_new_stream_begins_in_one_partition")
    second.send(append("b", 1, 1))
    ok(wait_until_blocked(observer, second), "the_other_partition_waits_at_the_unique_key")
    first.run("COMMIT")
    ok("the same event was appended to another partition" in second.answer(), "and_is_told_to_try_again")
    equal(second.run(append("b", 1, 1)), "0|{10}|{0}|", "then_it_learns_where_the_stream_lives")
    equal(observer.run("SELECT count(*) FROM records WHERE topic = 't' AND key = 'b'"), "1", "there_is_one_event")
finish()
