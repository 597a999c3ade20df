#!/usr/bin/env python3
"""acks=all with a real synchronous standby: the replica count follows it as it comes and goes."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from sessions import DAEMON, ROOT, create_topic, equal, finish, ok, psql

TOOL = str(ROOT / "tools" / "private-postgres")
APPEND = ("SELECT status, current_value, expected_value FROM pgcursus.append((SELECT log_id FROM"
          " pgcursus.topic_definition('{topic}')), NULL, 0, 1, 1, false, true, {minimum}, false, NULL, NULL, NULL, NULL,"
          " '{{a}}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)")


def tool(*arguments):
    return subprocess.run([TOOL, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def append(topic, minimum=1):
    return psql(APPEND.format(topic=topic, minimum=minimum), uri)


def settled(ask, expected):
    """The answer once it is the expected one, or the last of half a minute."""
    deadline = time.monotonic() + 30
    while (answer := ask()) != expected and time.monotonic() < deadline:
        time.sleep(0.1)
    return answer


def ask_for(names):
    """Sets synchronous_standby_names. New sessions have it then; the state of the standby follows."""
    psql(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'", uri)
    psql("SELECT pg_reload_conf()", uri)
    assert settled(lambda: psql("SHOW synchronous_standby_names", uri), names) == names


def held_back(names, expected):
    """What append() says of acks=all when the group has looked at the standbys before."""
    ask_for(names)
    group = "SET synchronous_commit = local; BEGIN; SELECT pgcursus.note_standbys(); " + APPEND + "; ROLLBACK"
    return settled(lambda: psql(group.format(topic="t", minimum=1), uri).strip(), expected)


def compacted(names):
    """The records that a pass of compaction removes."""
    ask_for(names)
    removed, more = 0, "t"
    while more == "t":
        step = psql("SET synchronous_commit = local;"
                    " SELECT records, more FROM pgcursus.compact_logs(0.1, 5, 604800000)", uri)
        removed, more = removed + int(step.split("|")[0]), step.split("|")[1]
    return removed


def becomes(expected, what):
    return equal(settled(lambda: append("t", 2), expected), expected, what)


if not DAEMON:
    print("1..0 # SKIP there is no pgcursusd")
    sys.exit(0)
folder = pathlib.Path(tempfile.mkdtemp(prefix="pgcursus-replicas-"))
primary, standby = folder / "primary", folder / "standby"
try:
    uri = tool("start", str(primary), "--conf", "fsync=off")
    subprocess.run([DAEMON, "migrate", "--database", uri], check=True, stderr=subprocess.DEVNULL)
    psql(create_topic("t"), uri)
    psql(create_topic("single", "_replication_factor => 1"), uri)
    psql(create_topic("keyed", "_cleanup_policy => 'compact'"), uri)
    for payload in ("old", "new", "end"):
        psql(f"SELECT pgcursus.publish('keyed', 'k', '{payload}', 0)", uri)
    equal(append("t", 2), "4|1|2", "without_a_standby_the_primary_is_alone")

    tool("standby", str(standby), str(primary), "--name", "standby")
    streaming = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
    equal(settled(lambda: psql(streaming, uri), "1"), "1", "a_standby_streams")
    equal(append("t", 2), "4|1|2", "an_asynchronous_standby_does_not_count")

    ask_for("FIRST 1 (standby)")
    becomes("0||", "a_synchronous_standby_counts")
    ask_for("ANY 1 (standby)")
    becomes("0||", "so_does_one_of_a_quorum")
    equal(append("t", 3), "4|2|3", "it_is_two_replicas_then")
    equal(append("single", 2), "4|1|2", "never_more_than_the_replication_factor")

    names = ["standby", "first 1 (standby)", "ANY 1 (standby, other)", "1 (other, standby)"]
    equal([held_back(name, "0||") for name in names], ["0||"] * 4, "nothing_is_held_back_while_enough_standbys_stream")
    too_many = ["2 (standby, other)", "ANY 2(standby, other)", "other"]
    equal([held_back(name, "9||") for name in too_many], ["9||"] * 3,
          "acks_all_is_held_back_while_too_few_standbys_stream")
    ask_for("standby")

    tool("stop", str(standby))
    becomes("4|1|2", "a_standby_that_is_gone_does_not_count")
    equal([held_back(name, "9||") for name in names], ["9||"] * 4, "acks_all_is_held_back_while_the_standby_is_gone")
    equal(compacted("standby"), 0, "nothing_is_compacted_while_a_standby_is_missing")
    equal(held_back("", "0||"), "0||", "nothing_is_held_back_when_none_is_asked_for")
    equal(compacted(""), 1, "and_it_is_compacted_when_none_is_asked_for")
finally:
    for directory in (standby, primary):
        subprocess.run([TOOL, "stop", str(directory), "--mode", "immediate"], check=False)
    shutil.rmtree(folder, ignore_errors=True)
finish()
