"""The command line client as a member of a consumer group, and its tables of groups and offsets."""

import os
import signal
import subprocess

import pytest

from harness import CLI, SLOWNESS, wait_until

ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("PGCURSUS_")}


def run(broker, *arguments, data=b""):
    done = subprocess.run([CLI, "-b", broker.listen, *map(str, arguments)], input=data, capture_output=True, timeout=180,
                          env=ENVIRONMENT)
    return done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace")


class Member:
    """A `consume -g` that runs on."""

    def __init__(self, broker, folder, group, topic, *options):
        self.path, self.errors_path = folder / f"out-{id(self)}", folder / f"errors-{id(self)}"
        with open(self.path, "wb") as out, open(self.errors_path, "wb") as errors:
            self.process = subprocess.Popen([CLI, "-b", broker.listen, "consume", topic, "-g", group,
                                             *map(str, options)], stdout=out, stderr=errors, env=ENVIRONMENT)

    def lines(self):
        return self.path.read_text().splitlines()

    def errors(self):
        return self.errors_path.read_text()

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(20 * SLOWNESS), self.errors()


@pytest.fixture
def member(broker, tmp_path):
    members = []

    def start(*arguments):
        members.append(Member(broker, tmp_path, *arguments))
        return members[-1]

    yield start
    for each in members:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait(120)


def members_of(client, group):
    return client.call("GROUP_STATUS", group=group).json["members"] if group in client.call("LIST_GROUPS").text else []


def test_consuming_as_a_member_commits_what_was_printed(broker, client, topic, new_name):
    group = new_name()
    run(broker, "produce", topic, data=b"".join(b"%d\n" % n for n in range(10)))
    status, out, errors = run(broker, "consume", topic, "-g", group, "-n", 4)
    assert (status, out) == (0, "0\n1\n2\n3\n"), errors
    assert "joined" in errors
    assert client.call("FETCH_OFFSET", topic=topic, partition=0, group=group).ok_fields["offset"] == "4"
    assert client.call("GROUP_STATUS", group=group).json["member_count"] == 0, "it leaves at the end"
    assert run(broker, "-q", "consume", topic, "-g", group, "-e")[:2] == (0, "4\n5\n6\n7\n8\n9\n")
    assert run(broker, "consume", topic, "-g", group, "-e")[:2] == (0, "")
    assert run(broker, "consume", topic, "-g", new_name(), "-o", "latest", "-e")[:2] == (0, "")
    assert run(broker, "consume", topic, "-g", group, "-p", 0)[0] == 2
    assert run(broker, "consume", "no-such-topic", "-g", group)[0] == 1


def test_members_share_follow_each_other_and_leave(broker, client, make_topic, member, new_name):
    topic, group = make_topic(partitions=4), new_name()
    first = member(group, topic)
    wait_until(lambda: len(members_of(client, group)) == 1, within=10 * SLOWNESS, what="the first member")
    for number in range(8):
        client.publish(topic, b"a%d" % number, number % 4)
    wait_until(lambda: len(first.lines()) == 8, within=15 * SLOWNESS, what="the first records")
    second = member(group, topic)
    wait_until(lambda: len(members_of(client, group)) == 2, within=10 * SLOWNESS, what="the second member")
    # The first learns of the second by its next heartbeat; until then it may print what it may not commit.
    wait_until(lambda: first.errors().count("rebalanced") == 1, within=10 * SLOWNESS, what="news of the second member")
    for number in range(8):
        client.publish(topic, b"b%d" % number, number % 4)
    wait_until(lambda: len(first.lines()) + len(second.lines()) >= 16, within=15 * SLOWNESS, what="all records")
    assert sorted(first.lines() + second.lines()) == sorted(
        [f"a{n}" for n in range(8)] + [f"b{n}" for n in range(8)]), "each once"
    assert len(second.lines()) == 4
    assert second.stop()[0] == 0
    wait_until(lambda: len(members_of(client, group)) == 1, within=10 * SLOWNESS, what="the departure")
    wait_until(lambda: first.errors().count("rebalanced") == 2, within=10 * SLOWNESS, what="news of the departure")
    for number in range(4):
        client.publish(topic, b"c%d" % number, number)
    wait_until(lambda: len(first.lines()) == 8 + 4 + 4, within=15 * SLOWNESS, what="the records of all partitions")
    status, errors = first.stop(signal.SIGINT)
    assert status == 0 and "rebalanced" in errors
    offsets = [client.call("FETCH_OFFSET", topic=topic, partition=p, group=group).ok_fields["offset"] for p in range(4)]
    assert offsets == ["5"] * 4


def test_tables_of_groups_and_offsets(broker, client, make_topic, new_name):
    a, b, group = make_topic(partitions=2), make_topic(), new_name()
    client.call("REGISTER_GROUP", group=group, topics=f"{a},{b}")
    joined = client.call("JOIN_GROUP", group=group, member="m").ok_fields
    for number in range(5):
        client.publish(a, b"x")
    client.call("COMMIT_OFFSET", topic=a, partition=0, offset=2, group=group, member=joined["member"], generation=1)
    assert group in run(broker, "group", "list")[1].splitlines()
    status, out, _ = run(broker, "group", "offsets", group)
    rows = [line.split() for line in out.splitlines()]
    assert status == 0
    assert rows == [["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER"], [a, "0", "2", "5", "3", joined["member"]],
                    [a, "1", "-", "0", "0", joined["member"]], [b, "0", "-", "0", "0", joined["member"]]]
    assert len(run(broker, "group", "offsets", group, b)[1].splitlines()) == 2
    status, out, _ = run(broker, "group", "describe", group)
    assert status == 0 and f"{a}:0,{a}:1,{b}:0" in out and joined["member"] in out and "Stable" in out
    assert run(broker, "group", "describe", group, "--json")[1].startswith('{"status":"OK"')
    assert run(broker, "group", "describe", "nope")[0] == 1
