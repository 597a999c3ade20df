#!/usr/bin/env python3
"""Creators of one topic race: their patches of disjoint fields both survive, and all agree on the topic."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from sessions import Session, create_topic, equal, finish, ok, psql, wait_until_blocked

psql(create_topic("t", "_partitions => 2"))

with Session() as first, Session() as second, Session() as observer:
    first.run("BEGIN")
    equal(first.run(create_topic("t", "_retention_hours => 7")), "2", "the_first_patch_makes_revision_2")
    second.send(create_topic("t", "_auth_policy => 'deny_write'"))
    ok(wait_until_blocked(observer, second), "the_second_patch_waits")
    first.run("COMMIT")
    equal(second.answer(), "3", "the_second_patch_makes_revision_3")
    equal(observer.run("SELECT retention_hours, auth_policy, revision FROM topic_definition('t')"), "7|deny_write|3",
          "patches_of_disjoint_fields_both_survive")

    first.run("BEGIN")
    first.run(create_topic("new", "_partitions => 3"))
    second.send(create_topic("new"))
    wait_until_blocked(observer, second)
    first.run("COMMIT")
    equal(second.answer(), "1", "a_concurrent_creator_finds_the_topic")
    equal(observer.run("SELECT partition_count, revision FROM topic_definition('new')"), "3|1",
          "concurrent_creators_agree")

    # As the nodes call it: the loser's snapshot is older than its wait.
    for statement, what in (("_partitions => 3", "a_creator"), ("_retention_hours => 9", "a_patch")):
        first.run("BEGIN ISOLATION LEVEL SERIALIZABLE")
        second.run("\\set VERBOSITY sqlstate\nBEGIN ISOLATION LEVEL SERIALIZABLE")
        first.run(create_topic("serial", statement))
        second.send(create_topic("serial", statement.replace("3", "4").replace("9", "8")))
        wait_until_blocked(observer, second)
        first.run("COMMIT")
        answer = second.answer()
        ok("40001" in answer, f"{what}_with_an_old_snapshot_gets_a_serialization_failure", answer)
        second.run("ROLLBACK")
    equal(observer.run("SELECT partition_count, retention_hours, revision FROM topic_definition('serial')"), "3|9|2",
          "and_the_winner_s_topic_stands")

    second.run("LISTEN pgcursus_control")
    second.run("\\set VERBOSITY terse")
    first.run(create_topic("serial", "_retention_hours => 10"))
    answer = second.run("SELECT 1")
    ok('notification "pgcursus_control" with payload "topic serial"' in answer, "a_change_is_notified", answer)
    first.run(create_topic("serial", "_retention_hours => 10"))
    equal(second.run("SELECT 1"), "1", "no_change_is_not_notified")
finish()
