#!/usr/bin/env python3
"""An append races with a switch of the topic's log: what waits for the switch is told that its log is stale."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from sessions import Session, append, create_topic, equal, finish, ok, psql, wait_until_blocked

psql(create_topic("t", "_partitions => 1"))
log = int(psql("SELECT log_id FROM pgcursus.topic_definition('t')"))
new_log = log + 1000
switch = (f"SELECT pg_advisory_xact_lock({log}::bigint << 16);"
          f"INSERT INTO partition_states (log_id, partition) VALUES ({new_log}, 0);"
          f"UPDATE topic_definitions SET log_id = {new_log}, revision = revision + 1 WHERE log_id = {log}")

with Session() as appender, Session() as switcher, Session() as observer:
    switcher.run("BEGIN")
    switcher.run(switch)
    appender.send(append("t", "a", log=log))
    ok(wait_until_blocked(observer, appender), "an_append_waits_for_the_switch")
    switcher.run("COMMIT")
    equal(appender.answer(), "2|", "and_is_stale_then")
    equal(appender.run(append("t", "b", log=new_log)), "0|0", "the_new_log_starts_at_0")
    equal(observer.run("SELECT count(*) FROM records WHERE topic = 't'"), "1", "nothing_went_to_the_old_log")

    switcher.run("BEGIN")
    appender.run("BEGIN")
    equal(appender.run(append("t", "c", log=new_log)), "0|1", "an_append_that_was_first_succeeds")
    switcher.send(switch.replace(str(new_log), "9999").replace(f"{log}::", f"{new_log}::")
                  .replace(f"log_id = {log}", f"log_id = {new_log}"))
    ok(wait_until_blocked(observer, switcher), "the_switch_waits_for_it")
    appender.run("COMMIT")
    switcher.answer()
    switcher.run("COMMIT")
    equal(observer.run("SELECT count(*) FROM records WHERE topic = 't'"), "0", "the_topic_is_empty_after_the_switch")
finish()
