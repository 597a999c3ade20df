#!/usr/bin/env python3
"""Deletion and truncation race with members, transactions and appends: whoever is second sees what the first did."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from sessions import Session, append, create_topic, equal, finish, ok, psql, wait_until_blocked

SERIALIZABLE = "BEGIN ISOLATION LEVEL SERIALIZABLE"


def join(group, topic):
    return f"SELECT count(*) FROM join_group('{group}', 'm', '{topic}', 30000)"


def log_of(topic):
    return psql(f"SELECT log_id FROM pgcursus.topic_definition('{topic}')")


with Session() as first, Session() as second, Session() as observer:
    # A member that joins while the deletion waits for it, in a new group and in a known one.
    for case, group in (("a_new_group", "g1"), ("a_known_group", "g1")):
        if case == "a_new_group":
            psql(create_topic("t", "_partitions => 2"))
        else:
            psql("DELETE FROM pgcursus.group_members")
        first.run(SERIALIZABLE)
        first.run(join(group, "t"))
        second.send("SELECT delete_topic('t', false)")
        ok(wait_until_blocked(observer, second), f"deletion_waits_for_a_member_that_joins_{case}")
        first.run("COMMIT")
        ok("topic_delete_blocked" in second.answer(), f"and_is_blocked_by_it_{case}")

    # A member that joins while the topic is being deleted.
    psql("DELETE FROM pgcursus.group_members")
    second.run("BEGIN")
    equal(second.run("SELECT delete_topic('t', false)"), "t", "without_members_the_topic_is_deleted")
    first.send(SERIALIZABLE + ";" + join("g1", "t"))
    ok(wait_until_blocked(observer, first), "a_member_waits_for_the_deletion")
    second.run("COMMIT")
    ok("could not serialize" in first.answer(), "and_has_to_look_again")
    first.run("ROLLBACK")
    ok("topic_not_found" in first.run(join("g1", "t")), "to_see_that_the_topic_is_gone")

    # A transaction whose first record comes while the truncation waits for its partition.
    psql(create_topic("t", "_partitions => 2"))
    log = log_of("t")
    first.run("BEGIN")
    first.run(f"SELECT pg_advisory_xact_lock(({log}::bigint << 16) | 1);"
              "INSERT INTO transaction_states (transactional_id, producer_id, producer_epoch, state, deadline)"
              " VALUES ('tx', 'p', 1, 'open', now() + interval '1 hour');"
              f"INSERT INTO transaction_partitions SELECT transaction_id, {log}, 1, 0, NULL, false FROM transaction_states")
    second.send("SELECT revision FROM truncate_topic('t', 1)")
    ok(wait_until_blocked(observer, second), "truncation_waits_for_a_transaction_that_appends")
    first.run("COMMIT")
    ok("topic_truncate_blocked" in second.answer(), "and_is_blocked_by_it")
    psql("UPDATE pgcursus.transaction_states SET state = 'aborted'")

    # An append that waits for the truncation, and a second truncation of the same revision.
    second.run("BEGIN")
    equal(second.run("SELECT revision FROM truncate_topic('t', 1)"), "2", "nothing_else_blocks")
    first.send(append("t", "a", log=log))
    ok(wait_until_blocked(observer, first), "an_append_waits_for_the_truncation")
    with Session() as third:
        third.send("SELECT revision FROM truncate_topic('t', 1)")
        ok(wait_until_blocked(observer, third), "so_does_another_truncation")
        second.run("COMMIT")
        equal(first.answer(), "2|", "the_append_is_stale_then")
        ok("topic_revision_conflict" in third.answer(), "the_other_truncation_a_conflict")

    # Whoever holds a partition for long is not waited for; what is held meanwhile is short.
    log = log_of("t")
    first.run("BEGIN")
    first.run(append("t", "b", log=log))
    ok("lock timeout" in second.run("SELECT delete_topic('t', false)"), "deletion_gives_up_waiting_for_a_partition")
    equal(observer.run("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"), "1",
          "and_holds_nothing_then")
    first.run("COMMIT")
    equal(second.run("SELECT delete_topic('t', false)"), "t", "the_next_attempt_succeeds")

    # A transaction of SQL whose snapshot is older than the switch of the log, at each level that has one.
    for level in ("REPEATABLE READ", "SERIALIZABLE"):
        for number, change in enumerate(("SELECT revision FROM pgcursus.truncate_topic('t', 1)",
                                         "SELECT pgcursus.delete_topic('t', false)")):
            psql(create_topic("t", "_partitions => 1"))
            first.run(f"BEGIN ISOLATION LEVEL {level}")
            first.run("SELECT count(*) FROM topics")
            psql(change)
            ok("could not serialize" in first.run("SELECT publish('t', NULL, 'x', partition => 0)"),
               f"publish_never_goes_to_a_log_that_is_gone_{level}_{number}")
            first.run("ROLLBACK")
            psql("SELECT pgcursus.delete_topic('t', true)")
        psql(create_topic("t", "_partitions => 1"))
        first.run(f"BEGIN ISOLATION LEVEL {level}")
        first.run("SELECT count(*) FROM topics")
        psql(create_topic("t", "_retention_hours => 3"))
        equal(first.run("SELECT publish('t', NULL, 'x', partition => 0)"), "0", f"another_change_is_no_trouble_{level}")
        psql(create_topic("t", "_retention_hours => 4"))
        first.run("COMMIT")
        psql("SELECT pgcursus.delete_topic('t', false)")
finish()
