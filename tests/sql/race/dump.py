#!/usr/bin/env python3
"""A dump of a database that is being written to restores to a consistent one, with every record intact."""

import os
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from sessions import URI, Session, append, create_topic, database, equal, finish, ok, psql

TARGET = "restored"
DIGEST = ("SELECT count(*), md5(string_agg(topic || partition || \"offset\" || encode(payload, 'hex'), ',' ORDER BY"
          " topic, partition, \"offset\")) FROM pgcursus.records")

psql(create_topic("t", "_partitions => 2"))
psql("SELECT pgcursus.publish('t', NULL, convert_to(repeat(md5(n::text), 200), 'UTF8'), n % 2)"
     " FROM generate_series(1, 300) n")

stop = threading.Event()
written = 0


def write():
    global written
    with Session() as session:
        while not stop.is_set():
            session.run(append("t", f"live{written}"))
            written += 1


writer = threading.Thread(target=write)
writer.start()
try:
    with tempfile.TemporaryDirectory() as folder:
        dump = os.path.join(folder, "dump")
        done = subprocess.run(["pg_dump", "-Fc", "-f", dump, URI], capture_output=True, text=True, timeout=60)
        ok(done.returncode == 0, "a_live_database_is_dumped", done.stderr)
        psql(f"CREATE DATABASE {TARGET}")
        done = subprocess.run(["pg_restore", "--exit-on-error", "-d", database(TARGET), dump], capture_output=True,
                              text=True, timeout=60)
        ok(done.returncode == 0, "the_dump_is_restored", done.stderr)
finally:
    stop.set()
    writer.join()

copied = database(TARGET)
count, digest = psql(DIGEST, copied).split("|")
ok(int(count) >= 300, "the_records_are_there", count)
ends = dict(line.split("|") for line in psql(
    "SELECT partition, end_offset FROM pgcursus.partitions WHERE topic = 't'", copied).splitlines())
equal(psql("SELECT count(*), md5(string_agg(topic || partition || \"offset\" || encode(payload, 'hex'), ',' ORDER BY"
           " topic, partition, \"offset\")) FROM pgcursus.records"
           f" WHERE \"offset\" < CASE partition WHEN 0 THEN {ends['0']} ELSE {ends['1']} END"), f"{count}|{digest}",
      "the_copy_equals_the_original_up_to_its_end")
equal(psql("SELECT count(*) FROM (SELECT \"offset\" - lag(\"offset\") OVER (PARTITION BY partition ORDER BY \"offset\")"
           " AS step FROM pgcursus.records) s WHERE step <> 1", copied), "0", "no_offset_is_missing_in_the_copy")
equal(psql(append("t", "after"), copied), f"0|{ends['0']}", "the_copy_goes_on_from_there")
psql(create_topic("later"), copied)
equal(psql("SELECT count(DISTINCT log_id) = count(*) FROM pgcursus.topics", copied), "t",
      "new_topics_of_the_copy_get_new_logs")
finish()
