#!/usr/bin/env python3
"""Commits, rebalances and the growth of topics race: what was checked stays true until it is stored."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from sessions import Session, create_topic, equal, finish, ok, psql, wait_until_blocked

psql(create_topic("t", "_partitions => 4"))


def join(name, group="g"):
    return f"SELECT max(generation) FROM pgcursus.join_group('{group}', '{name}', 't', 30000)"


def member(name, group="g"):
    return psql("SELECT member_id FROM pgcursus.group_members m JOIN pgcursus.group_definitions g USING (group_id)"
                f" WHERE g.name = '{group}' AND member_id LIKE '{name}-%'")


def commit(who, generation, partition, offset, group="g"):
    return (f"SELECT status, code FROM pgcursus.commit_offsets('{group}', 't', '{who}', {generation}, NULL,"
            f" ARRAY[{partition}], ARRAY[{offset}::bigint])")


def committed(partition, group="g"):
    return psql(f"SELECT next_offset FROM pgcursus.fetch_offset('{group}', 't', {partition})")


psql(join("a"))
a = member("a")

with Session() as first, Session() as second, Session() as third, Session() as observer:
    for session in (second, third):
        session.run("SET default_transaction_isolation = 'serializable'")

    # A commit in progress holds a rebalance up, not the other way round.
    first.run("BEGIN")
    equal(first.run(commit(a, 1, 3, 10)), "0|", "the_owner_commits")
    second.send(join("b"))
    ok(wait_until_blocked(observer, second), "a_join_waits_for_a_commit_in_progress")
    equal(third.run(commit(a, 1, 2, 5)), "2|", "a_commit_does_not_wait_for_a_join_that_waits")
    first.run("COMMIT")
    equal(second.answer(), "2", "the_join_goes_on_when_the_commit_is_done")
    equal(committed(3), "10", "what_was_committed_is_stored")
    equal(first.run(commit(a, 1, 0, 10)), "1|GEN_MISMATCH", "the_old_generation_is_fenced")
    equal(first.run(commit(a, 2, 3, 11)), "1|NOT_OWNER", "the_old_owner_is_fenced")

    # A rebalance in progress: commits are told to come again.
    second.run("BEGIN")
    second.run(join("c"))
    equal(first.run(commit(a, 2, 0, 10)), "2|", "a_commit_does_not_wait_for_a_rebalance")
    second.run("ROLLBACK")
    equal(first.run(commit(a, 2, 0, 10)), "0|", "and_succeeds_when_the_rebalance_did_not_happen")

    # Two joins: the second sees that the group has changed, and is repeated by the node.
    second.run("BEGIN")
    second.run(join("d"))
    third.send(join("e"))
    ok(wait_until_blocked(observer, third), "joins_of_a_group_wait_for_one_another")
    second.run("COMMIT")
    ok("could not serialize" in third.answer(), "a_join_overtaken_is_told_so")
    equal(third.run(join("e")), "4", "and_succeeds_when_repeated")

    # A heartbeat waits for nobody.
    second.run("BEGIN")
    second.run(join("0"))
    group_id = psql("SELECT group_id FROM pgcursus.group_definitions WHERE name = 'g'")
    equal(first.run(f"SELECT current_generation, is_written FROM pgcursus.beat_members(ARRAY[{group_id}], ARRAY['{a}'])"),
          "4|f", "a_heartbeat_does_not_wait_for_a_rebalance")
    second.run("ROLLBACK")
    equal(first.run(f"SELECT current_generation, is_written FROM pgcursus.beat_members(ARRAY[{group_id}], ARRAY['{a}'])"),
          "4|t", "and_is_written_when_it_comes_again")

    # A sweep leaves a group alone that a transaction holds.
    psql("UPDATE pgcursus.group_members SET last_heartbeat = '2020-01-01'")
    first.run("BEGIN")
    first.run(commit(a, 4, 0, 12))
    equal(second.run("SELECT done FROM pgcursus.expire_group_members(1000)"), "0", "a_sweep_does_not_wait_for_commits")
    first.run("COMMIT")
    equal(second.run("SELECT done FROM pgcursus.expire_group_members(1000)"), "1", "and_finds_the_group_the_next_time")

    # Registration and growth: the group has every partition, whichever comes first.
    second.run("BEGIN")
    second.run("SELECT pgcursus.register_group('fresh', 'topic', 't')")
    third.send(create_topic("t", "_partitions => 6"))
    ok(wait_until_blocked(observer, third), "growth_waits_for_a_registration")
    second.run("COMMIT")
    answer = third.answer()
    if "could not serialize" in answer:
        answer = third.run(create_topic("t", "_partitions => 6"))
    equal(answer, "2", "the_topic_grows")
    equal(psql("SELECT string_agg(partition_counts::text, ' ' ORDER BY name) FROM pgcursus.group_definitions"), "{6} {6}",
          "every_group_has_the_new_partitions")

    # A snapshot that is older than a rebalance cannot commit past it.
    psql(join("x", "snap"))
    x = member("x", "snap")
    second.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    second.run("SELECT count(*) FROM pgcursus.group_definitions")
    psql(join("y", "snap"))
    ok("could not serialize" in second.run(f"SELECT pgcursus.commit_offset('snap', 't', 0, 5, '{x}', 1)"),
       "an_old_snapshot_does_not_pass_the_fence")
    second.run("ROLLBACK")
    equal(committed(0, "snap"), "", "nothing_was_stored")

    # Row and advisory lock are taken in one order everywhere.
    psql("SELECT pgcursus.commit_offset('sql', 't', 0, 1)")
    for isolation in ("READ COMMITTED", "SERIALIZABLE"):
        second.run("BEGIN")
        second.run("SELECT FROM pgcursus.lock_group('sql')")
        first.run(f"BEGIN ISOLATION LEVEL {isolation}")
        first.send("SELECT pgcursus.commit_offset('sql', 't', 0, 2)")
        if isolation == "SERIALIZABLE":
            ok(wait_until_blocked(observer, first), "above_read_committed_a_commit_waits_for_the_row")
        else:
            ok("being rebalanced" in first.answer(), "a_commit_does_not_wait_for_a_rebalance_of_its_group")
            first.run("ROLLBACK")
        second.run("ROLLBACK")
        if isolation == "SERIALIZABLE":
            equal(first.answer(), "", "and_goes_on")
            first.run("COMMIT")

    # A transaction that ends frees the row first: whoever has waited for it is not refused in between.
    second.run("BEGIN")
    second.run("SELECT pg_advisory_xact_lock(pgcursus.group_lock_key('sql'))")
    first.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    first.send("SELECT pgcursus.commit_offset('sql', 't', 0, 3)")
    ok(wait_until_blocked(observer, first), "above_read_committed_a_commit_waits_for_the_lock_behind_the_row")
    second.run("ROLLBACK")
    equal(first.answer(), "", "and_succeeds")
    first.run("COMMIT")

    # A member of a group that is being registered again waits at the row as well, and not with the lock in hand.
    psql(create_topic("w") + ";" + join("m", "again").replace("'t'", "'w'") + ";"
         "DELETE FROM pgcursus.group_members m USING pgcursus.group_definitions g"
         " WHERE m.group_id = g.group_id AND g.name = 'again'; SELECT pgcursus.delete_topic('w', false)")
    second.run("BEGIN")
    second.run("SELECT FROM pgcursus.group_definitions WHERE name = 'again' FOR UPDATE")
    first.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    first.send("SELECT pgcursus.commit_offset('again', 't', 0, 3, 'm-1', 1)")
    ok(wait_until_blocked(observer, first), "a_commit_to_a_group_that_is_gone_waits_for_the_row")
    equal(second.run("SELECT pg_try_advisory_xact_lock(pgcursus.group_lock_key('again'))"), "t", "without_the_lock")
    second.run("ROLLBACK")
    ok("group_not_found" in first.answer(), "and_is_refused_then")
    first.run("ROLLBACK")

    # Two that commit for one partition: the greater one stays.
    first.run("BEGIN")
    psql(join("z", "lone"))
    z = member("z", "lone")
    first.run(commit(z, 1, 0, 20, "lone"))
    equal(psql(commit(z, 1, 0, 7, "lone")), "0|", "a_smaller_one_comes_before_what_is_not_committed_yet")
    first.run("COMMIT")
    equal(committed(0, "lone"), "20", "the_greatest_counts")
finish()
