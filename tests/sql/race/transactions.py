#!/usr/bin/env python3
"""Ends of transactions race with what belongs to them: appends, new sessions, commits of offsets, rebalances."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from sessions import Session, append, create_topic, equal, finish, ok, psql, wait_until_blocked

PRODUCER = "(SELECT producer_id FROM producers WHERE transactional_id = '{0}')"


def init(name):
    return f"SELECT producer_epoch FROM init_producer_id('{name}', 100000, 200)"


def begin(name, epoch):
    return f"SELECT state FROM begin_transaction('{name}', '{producer(name)}', {epoch}, 60000)"


def end(name, epoch, commit=True):
    return f"SELECT coalesce(refusal, state) FROM end_transaction('{name}', '{producer(name)}', {epoch}, {commit}, NULL, 200)"


def add(name, epoch, number, partition=0, requested=None):
    return (f"SELECT status, base_offset FROM append_transactional({LOG}, NULL, {partition}, 1, '{name}', '{producer(name)}',"
            f" {epoch}, {partition if requested is None else requested}, {number}, ARRAY['x'::bytea], NULL, NULL, NULL, NULL,"
            " NULL)")


def producer(name):
    return psql(f"SELECT producer_id FROM pgcursus.producers WHERE transactional_id = '{name}'")


def start(session, name):
    epoch = session.run(init(name))
    session.run(begin(name, epoch))
    return epoch


psql(create_topic("t", "_partitions => 3"))
LOG = psql("SELECT log_id FROM pgcursus.topic_definition('t')")

with Session() as first, Session() as second, Session() as third, Session() as observer:
    # An append in flight, then the end: the end waits, and its marker is behind the record.
    epoch = start(first, "a")
    first.run("BEGIN")
    equal(first.run(add("a", epoch, 1)), "0|0", "a_record_is_appended")
    second.send(end("a", epoch))
    ok(wait_until_blocked(observer, second), "the_end_waits_for_the_append")
    first.run("COMMIT")
    equal(second.answer(), "committed", "and_commits_it")
    equal(psql("SELECT string_agg(kind::text, ' ' ORDER BY base_offset) FROM pgcursus.record_batches"), "0 1",
          "the_marker_is_last")

    # The end in flight, then an append: it is too late.
    epoch = start(first, "a")
    first.run("BEGIN")
    equal(first.run(end("a", epoch, False)), "aborted", "an_end_is_in_progress")
    second.send(add("a", epoch, 1))
    ok(wait_until_blocked(observer, second), "an_append_waits_for_it")
    first.run("COMMIT")
    equal(second.answer(), "12|", "and_finds_the_transaction_ended")

    # A new session while the old one commits: whoever is first wins, and there is one outcome.
    epoch = start(first, "a")
    first.run(add("a", epoch, 1))
    first.run("BEGIN")
    equal(first.run(end("a", epoch)), "committed", "a_commit_is_in_progress")
    second.send(init("a"))
    ok(wait_until_blocked(observer, second), "a_new_session_waits_for_it")
    first.run("COMMIT")
    equal(second.answer(), str(int(epoch) + 1), "and_leaves_it_committed")
    epoch = second.run("SELECT producer_epoch FROM producers WHERE transactional_id = 'a'")
    second.run(begin("a", epoch))
    second.run(add("a", epoch, 1))
    first.run("BEGIN")
    first.run(init("a"))
    second.send(end("a", epoch))
    ok(wait_until_blocked(observer, second), "a_commit_waits_for_a_new_session")
    first.run("COMMIT")
    ok("producer_fenced" in second.answer(), "and_is_fenced")
    equal(psql(f"SELECT state FROM pgcursus.transaction_states WHERE transactional_id = 'a' AND producer_epoch = {epoch}"),
          "aborted", "the_new_session_has_aborted_it")

    # Two first sessions of one id.
    first.run("BEGIN")
    equal(first.run(init("new")), "0", "a_first_session")
    second.send(init("new"))
    ok(wait_until_blocked(observer, second), "another_one_waits")
    first.run("COMMIT")
    equal(second.answer(), "1", "and_is_the_next")

    # The lock order: a group that appends to partitions 0 and 2 has locked the transaction first.
    epoch = start(first, "b")
    first.run(add("b", epoch, 1, 2))
    first.run("BEGIN")
    first.run("SELECT lock_transactions('{b,new}')")
    first.run(append("t", "plain"))
    second.send(end("b", epoch))
    ok(wait_until_blocked(observer, second), "the_end_waits_before_it_locks_any_partition")
    equal(first.run(add("b", epoch, 2, 2)).split("|")[0], "0", "so_the_group_goes_on")
    first.run("COMMIT")
    equal(second.answer(), "committed", "and_then_the_end")

    # Changes that share a database transaction: all locks before the first change, in the one order.
    epochs = {name: start(first, name) for name in "de"}
    first.run(add("d", epochs["d"], 1, 2))
    first.run(add("e", epochs["e"], 1, 0))
    first.run("BEGIN")
    equal(first.run("SELECT lock_changes('{e,d}', '{d,e}', '{}')"), "", "two_ends_are_to_share_a_transaction")
    second.send("SELECT lock_transactions('{e}')")
    ok(wait_until_blocked(observer, second), "nobody_appends_to_one_that_is_to_end")
    third.send(append("t", "plain"))
    ok(wait_until_blocked(observer, third), "nor_to_a_partition_of_it_in_between")
    equal(first.run(end("d", epochs["d"])), "committed", "one_ends")
    equal(first.run(end("e", epochs["e"])), "committed", "and_the_other_though_its_partition_comes_earlier")
    first.run("COMMIT")
    second.answer()
    third.answer()
    first.run("BEGIN")
    first.run("SELECT lock_changes('{d,e}', '{}', '{}')")
    second.run("SET lock_timeout = '20s'")
    equal(second.run(append("t", "plain")).split("|")[0], "0", "what_ends_nothing_locks_no_partition")
    first.run("COMMIT")

    # The same request in two partitions at once: one of them.
    epoch = start(first, "c")
    first.run("BEGIN")
    equal(first.run(add("c", epoch, 1, 0, -1)).split("|")[0], "0", "a_request_is_served")
    second.send(add("c", epoch, 1, 1, -1))
    ok(wait_until_blocked(observer, second), "the_same_one_elsewhere_waits")
    first.run("COMMIT")
    ok("just been served" in second.answer(), "and_has_to_try_again")
    equal(second.run(add("c", epoch, 1, 1, -1)).split("|")[0], "1", "to_find_what_was_done")

    # A commit of offsets under a rebalance.
    psql("SELECT FROM pgcursus.join_group('g', 'm', 't', 30000)")
    member = psql("SELECT member_id FROM pgcursus.group_members")
    second.run(f"SELECT refusal FROM stage_offsets('c', '{producer('c')}', {epoch}, 'g', 't', '{member}', 1, '{{0}}', '{{5}}',"
               " NULL, 10000, 200)")
    first.run("BEGIN")
    equal(first.run(end("c", epoch)), "committed", "a_commit_with_offsets_is_in_progress")
    second.send("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM join_group('g', 'n', 't', 30000); COMMIT")
    ok(wait_until_blocked(observer, second), "a_rebalance_waits_for_it")
    equal(third.run(f"SELECT status FROM commit_offsets('g', 't', '{member}', 1, NULL, '{{0}}', '{{6}}')"), "2",
          "ordinary_commits_do_not_wait")
    first.run("COMMIT")
    second.answer()
    equal(psql("SELECT max(next_offset) >= 5 FROM pgcursus.offset_commits"), "t", "the_offset_is_committed")
finish()
