#!/usr/bin/env python3
"""Two sessions append to one partition: the second waits, and continues from what the first committed."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from sessions import Session, append, create_topic, equal, finish, ok, psql, wait_until_blocked

psql(create_topic("t", "_partitions => 2"))

with Session() as first, Session() as second, Session() as observer:
    first.run("BEGIN")
    equal(first.run(append("t", "a")), "0|0", "the_first_gets_offset_0")
    second.run("BEGIN")
    second.send(append("t", "b"))
    ok(wait_until_blocked(observer, second), "the_second_waits_for_the_first")
    equal(observer.run("SELECT count(*) FROM records"), "0", "nobody_sees_what_is_not_committed")
    first.run("COMMIT")
    equal(second.answer(), "0|1", "the_second_follows_the_committed_one")
    second.run("COMMIT")

    first.run("BEGIN")
    equal(first.run(append("t", "lost")), "0|2", "a_third_is_appended")
    second.send(append("t", "c"))
    wait_until_blocked(observer, second)
    first.run("ROLLBACK")
    equal(second.answer(), "0|2", "the_offset_of_a_rolled_back_append_goes_to_the_next")
    equal(observer.run("SELECT string_agg(convert_from(payload, 'UTF8'), '' ORDER BY \"offset\") FROM records"), "abc",
          "there_is_no_hole")

    first.run("BEGIN")
    equal(first.run(append("t", "p1", producer="'p'", sequence=1)), "0|3", "a_producer_s_record_is_appended")
    second.send(append("t", "p1", producer="'p'", sequence=1))
    wait_until_blocked(observer, second)
    first.run("COMMIT")
    equal(second.answer(), "1|", "its_retry_elsewhere_waits_and_is_a_duplicate")

    first.run("BEGIN")
    first.run(append("t", "p2", producer="'p'", sequence=2))
    second.send(append("t", "p2", producer="'p'", sequence=2))
    wait_until_blocked(observer, second)
    first.run("ROLLBACK")
    equal(second.answer(), "0|4", "its_retry_after_a_roll_back_is_appended")

    # Another partition is not in the way.
    first.run("BEGIN")
    first.run(append("t", "d"))
    second.run("SET lock_timeout = '5s'")
    equal(second.run("SELECT publish('t', NULL, 'e', 1)"), "0", "another_partition_does_not_wait")
    first.run("COMMIT")

    # publish() in a transaction whose snapshot is older than another's append.
    first.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM records LIMIT 1")
    second.run("SELECT publish('t', NULL, 'f', 0)")
    answer = first.run("SELECT publish('t', NULL, 'g', 0)")
    ok("at the same time" in answer, "publish_with_an_old_snapshot_is_told_to_try_again", answer)
    first.run("ROLLBACK")
    second.run("BEGIN ISOLATION LEVEL SERIALIZABLE")
    equal(second.run("SELECT publish('t', NULL, 'g', 0)"), "7", "publish_works_in_a_serializable_transaction")
    second.run("COMMIT")

    # The locks of one append fit the fast path.
    first.run("SELECT 1; BEGIN")
    first.run(append("t", "h" * 5000, producer="'q'", sequence=1))
    equal(observer.run(f"SELECT count(*) FROM pg_locks WHERE pid = {first.pid} AND locktype = 'relation' AND NOT fastpath"),
          "0", "an_append_stays_on_the_fast_lock_path")
    first.run("COMMIT")
finish()
