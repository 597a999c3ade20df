"""Who may log in and how: AUTH, inline authentication, users of the file and of the table, their life on running nodes."""

import json
import os
import signal
import subprocess
import time

import pytest

import crs2client as crs2
from harness import BROKER, CLI, SANITIZER_REPORT, sql, wait_until
from refusal import refused

USERS = [
    {"principal": "root", "token": "root-token", "permissions": ["*"]},
    {"principal": "alice", "token": "secret", "permissions": ["topic.read"]},
    {"principal": "Bob", "token": " spaced ", "permissions": ["TOPIC.WRITE", "group"]},
]


def write_users(path, users):
    path.write_text(json.dumps(users))
    return path


@pytest.fixture(scope="module")
def users_file(tmp_path_factory):
    return write_users(tmp_path_factory.mktemp("auth") / "users.yaml", USERS)


@pytest.fixture(scope="module")
def shared_sasl(cluster, scratch, users_file):
    import conftest

    fleet = conftest.Fleet(scratch)
    yield fleet.start(cluster.create_database(), enable_sasl=True, sasl_users=users_file)
    fleet.stop()


@pytest.fixture
def sasl(shared_sasl):
    yield shared_sasl
    shared_sasl.check()


@pytest.fixture
def stranger(sasl):
    with sasl.client() as client:
        yield client


def login(client, principal, token):
    return client.call("AUTH", principal=principal, token=token).text


def logged_in(broker, principal, token):
    client = broker.client()
    login(client, principal, token)
    return client


def may_log_in(broker, principal, token):
    with broker.client() as client:
        try:
            login(client, principal, token)
            return True
        except crs2.BrokerError as error:
            assert error.code == "authentication_failed", error
            return False


# ---- AUTH -----------------------------------------------------------------------------------------


def test_a_right_token_is_accepted(stranger):
    assert login(stranger, "alice", "secret") == "OK principal=alice authenticated=true"
    assert stranger.call("LIST").text == "OK count=0 topics="


def test_the_principal_is_trimmed_and_the_token_is_not(stranger):
    assert login(stranger, "  alice ", "secret") == "OK principal=alice authenticated=true"
    assert login(stranger, "Bob", " spaced ").startswith("OK principal=Bob ")
    refused(stranger, "AUTH", {"principal": "Bob", "token": "spaced"}, "authentication_failed", mechanism="PLAIN")


@pytest.mark.parametrize("fields", [{}, {"principal": "alice"}, {"token": "secret"}, {"principal": "  ", "token": "x"},
                                    {"principal": "alice", "token": ""}], ids=str)
def test_a_missing_part_is_invalid(stranger, fields):
    refused(stranger, "AUTH", fields, "invalid_auth", command="AUTH")


@pytest.mark.parametrize("fields", [
    {"principal": "alice", "token": "nope"}, {"principal": "alice", "token": "secret "},
    {"principal": "alice", "token": "Secret"}, {"principal": "ALICE", "token": "secret"},
    {"principal": "nobody", "token": "secret"}, {"principal": "bob", "token": " spaced "},
    {"principal": "alice", "token": "secret\0"}, {"principal": "alice\0", "token": "secret"},
    {"principal": "alice", "token": "x" * 100_000}, {"principal": "x" * 100_000, "token": "secret"}],
    ids=lambda f: repr(f)[:60])
def test_anything_else_fails(stranger, fields):
    refused(stranger, "AUTH", fields, "authentication_failed", mechanism="PLAIN")
    assert stranger.is_open()


def test_a_failed_attempt_changes_nothing(stranger):
    login(stranger, "alice", "secret")
    for fields in ({"principal": "Bob", "token": "nope"}, {"principal": "alice", "token": "nope"}):
        refused(stranger, "AUTH", fields, "authentication_failed", mechanism="PLAIN")
    assert stranger.call("LIST").text.startswith("OK count=")


def test_a_later_login_replaces_the_first(stranger):
    login(stranger, "alice", "secret")
    login(stranger, "Bob", " spaced ")
    refused(stranger, "LIST", {}, "NOT_AUTHORIZED_FOR_OPERATION", command="LIST", permission="topic.read")


def test_with_sasl_off_no_principal_is_valid(client):
    refused(client, "AUTH", {"principal": "alice", "token": "secret"}, "authentication_failed", mechanism="PLAIN")
    refused(client, "LIST", {"principal": "alice", "auth_token": "secret"}, "authentication_failed", mechanism="PLAIN")
    refused(client, "LIST", {"principal": "alice"}, "invalid_auth", reason="principal_and_auth_token_required")


# ---- inline ---------------------------------------------------------------------------------------


def test_a_request_may_bring_its_login(stranger):
    assert stranger.call("LIST", principal="alice", auth_token="secret").text.startswith("OK count=")
    assert stranger.call("LIST").text.startswith("OK count="), "as by AUTH, for the requests that follow"


@pytest.mark.parametrize("fields", [{"principal": "alice"}, {"auth_token": "secret"},
                                    {"principal": "alice", "auth_token": ""}], ids=str)
@pytest.mark.parametrize("command", ["LIST", "CREATE", "PUBLISH"])
def test_half_a_login_is_invalid(stranger, command, fields):
    refused(stranger, command, fields, "invalid_auth", reason="principal_and_auth_token_required")


def test_a_wrong_inline_login_fails_before_everything_else(stranger):
    for command in ("CREATE", "PUBLISH", "CONSUME"):
        refused(stranger, command, {"principal": "alice", "auth_token": "nope"}, "authentication_failed",
                mechanism="PLAIN")
    login(stranger, "alice", "secret")
    refused(stranger, "LIST", {"principal": "alice", "auth_token": "nope"}, "authentication_failed", mechanism="PLAIN")
    assert stranger.call("LIST").text.startswith("OK count="), "the identity of before stays"


def test_commands_without_permissions_ignore_inline_logins(stranger):
    assert stranger.call("EXIT", principal="alice", auth_token="nope").text == "OK"


def test_a_batch_acts_as_the_connection_does(sasl, stranger, new_name):
    name = new_name()
    with logged_in(sasl, "root", "root-token") as root:
        root.call("CREATE", topic=name, partitions=1)
    batch = crs2.Batch(name, 0, [crs2.Record(b"x")])
    with pytest.raises(crs2.BrokerError) as caught:
        stranger.publish_batch(batch)
    assert (caught.value.code, caught.value.fields) == ("authentication_required", {"command": "PUBLISH"})
    login(stranger, "alice", "secret")
    with pytest.raises(crs2.BrokerError) as caught:
        stranger.publish_batch(batch)
    assert caught.value.fields == {"command": "PUBLISH", "permission": "topic.write"}
    login(stranger, "Bob", " spaced ")
    assert stranger.publish_batch(batch)["last_offset"] == 0


# ---- permissions ----------------------------------------------------------------------------------


def test_without_a_login_only_what_needs_none_is_answered(stranger):
    refused(stranger, "LIST", {}, "authentication_required", command="LIST")
    refused(stranger, "CONSUME", {}, "authentication_required", command="CONSUME")
    assert stranger.is_open()


def test_the_first_missing_permission_is_named(stranger):
    login(stranger, "alice", "secret")
    refused(stranger, "CREATE", {"topic": "t"}, "NOT_AUTHORIZED_FOR_OPERATION", command="CREATE", permission="admin")
    refused(stranger, "CONSUME", {}, "NOT_AUTHORIZED_FOR_OPERATION", command="CONSUME", permission="group")
    login(stranger, "Bob", " spaced ")
    refused(stranger, "CONSUME", {}, "NOT_AUTHORIZED_FOR_OPERATION", command="CONSUME", permission="topic.read")


def test_the_policy_of_the_topic_comes_after_permissions(sasl, stranger, new_name):
    name = new_name()
    with logged_in(sasl, "root", "root-token") as root:
        root.call("CREATE", topic=name, auth_policy="acl", read_acl="alice", write_acl="root")
        root.publish(name, "x")
    login(stranger, "alice", "secret")
    assert stranger.call("LIST_OFFSETS", topic=name).text.startswith("OK ")
    login(stranger, "Bob", " spaced ")
    refused(stranger, "PUBLISH", {"topic": name}, "NOT_AUTHORIZED_FOR_TOPIC", operation="write", topic=name)


# ---- users of the table ---------------------------------------------------------------------------


@pytest.fixture
def manage():
    """manage(dsn, "add", ...): pgcursus user ..."""

    def run(dsn, *arguments, data=b"", **environment):
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PGCURSUS_")}
        done = subprocess.run([CLI, "user", *map(str, arguments)], input=data, capture_output=True, timeout=180,
                              env=kept | {"PGCURSUS_DATABASE": dsn} | environment)
        errors = done.stderr.decode(errors="replace")
        assert not SANITIZER_REPORT.search(errors), errors[:4000]
        return done.returncode, done.stdout.decode(), errors

    return run


@pytest.fixture
def empty_sasl(start_broker, database):
    """Two nodes with authentication and no user at all."""
    return [start_broker(database, enable_sasl=True) for _ in range(2)]


def test_a_broker_without_users_starts_and_says_so(empty_sasl):
    assert any("nobody can log in" in e.get("message", "") for e in empty_sasl[0].events())
    assert not may_log_in(empty_sasl[0], "alice", "x")


def test_the_life_of_a_user(empty_sasl, database, manage):
    first, second = empty_sasl
    status, out, _ = manage(database, "add", "carol", "--permissions", "topic.read,group")
    token = out.rstrip("\n")
    assert status == 0 and len(token) >= 40
    for node in empty_sasl:
        wait_until(lambda: may_log_in(node, "carol", token), what="the new user")
        assert not may_log_in(node, "carol", token[:-1])
        assert may_log_in(node, "carol", token), "again, which is the short way"
    assert manage(database, "list")[1].split("\t")[:2] == ["carol", "group,topic.read"]

    with logged_in(first, "carol", token) as client:
        refused(client, "CREATE", {"topic": "t"}, "NOT_AUTHORIZED_FOR_OPERATION", command="CREATE", permission="admin")
        assert manage(database, "add", "carol", "--permissions", "admin", "--keep-token")[0] == 0
        wait_until(lambda: "permission=admin" not in outcome(client, "CREATE"), what="the new permission")
        assert may_log_in(first, "carol", token)

        status, out, _ = manage(database, "add", "carol", "--permissions", "admin", "--replace")
        new = out.rstrip("\n")
        assert status == 0 and new != token
        for node in empty_sasl:
            wait_until(lambda: may_log_in(node, "carol", new), what="the new token")
            assert not may_log_in(node, "carol", token)
        assert client.is_open() and "authentication" not in outcome(client, "CREATE"), "who is in stays in"

        assert manage(database, "remove", "carol")[0] == 0
        wait_until(lambda: outcome(client, "CREATE").startswith("authentication_failed"), what="the removal")
        refused(client, "CREATE", {}, "authentication_failed", principal="carol")
    for node in empty_sasl:
        wait_until(lambda: not may_log_in(node, "carol", new), what="the removal")
    status, _, errors = manage(database, "remove", "carol")
    assert status == 1 and "no user carol" in errors


def outcome(client, command):
    try:
        client.call(command)
        return "ok"
    except crs2.BrokerError as error:
        return " ".join([error.code, *(f"{k}={v}" for k, v in error.fields.items())])


def test_tokens_come_from_files_and_standard_input(empty_sasl, database, manage, tmp_path):
    node = empty_sasl[0]
    file = tmp_path / "token"
    file.write_text("a token of one line\nand no more\n")
    assert manage(database, "add", "filed", "--permissions", "*", "--token-file", file)[:2] == (0, "")
    assert manage(database, "add", "piped", "--permissions", "*", "--token-file", "-", data=b"short\n")[:2] == (0, "")
    wait_until(lambda: may_log_in(node, "piped", "short"))
    assert may_log_in(node, "filed", "a token of one line")
    # The token of the administrator's own shell must not become somebody else's.
    status, out, _ = manage(database, "add", "made", "--permissions", "*", PGCURSUS_TOKEN="mine")
    wait_until(lambda: may_log_in(node, "made", out.rstrip("\n")))
    assert not may_log_in(node, "made", "mine")


@pytest.mark.parametrize("arguments, reason", [
    (["two words", "--permissions", "*"], "one word"), (["a,b", "--permissions", "*"], "one word"),
    (["*", "--permissions", "*"], "one word"), (["x" * 250, "--permissions", "*"], "one word"),
    (["dave", "--permissions", "read"], "permissions are"), (["dave", "--permissions", ""], "permissions are"),
    (["dave", "--permissions", "," * 5000], "permissions are"), (["dave", "--permissions", 'a"},{"b'], "permissions are"),
    (["dave", "--permissions", "*", "--keep-token"], "no user dave"),
], ids=lambda a: " ".join(a)[:40] if isinstance(a, list) else None)
def test_users_that_make_no_sense_are_refused(shared, broker, manage, arguments, reason):
    status, out, errors = manage(shared.dsn, "add", *arguments)
    assert status == 1 and out == "" and reason in errors


def test_a_user_is_not_replaced_by_accident(shared, broker, manage):
    assert manage(shared.dsn, "add", "erin", "--permissions", "*")[0] == 0
    status, out, errors = manage(shared.dsn, "add", "erin", "--permissions", "*")
    assert status == 1 and out == "" and "already" in errors
    assert manage(shared.dsn, "remove", "erin")[0] == 0


def test_a_database_that_cannot_be_reached_is_status_2(manage):
    status, _, errors = manage("host=127.0.0.1 port=1", "list")
    assert status == 2 and "database" in errors


def test_a_user_of_the_file_hides_one_of_the_table(start_broker, database, manage, users_file):
    broker = start_broker(database, enable_sasl=True, sasl_users=users_file)
    assert manage(database, "add", "alice", "--permissions", "*", "--token-file", "-", data=b"other\n")[0] == 0
    assert manage(database, "add", "zoe", "--permissions", "*", "--token-file", "-", data=b"zoe\n")[0] == 0
    wait_until(lambda: may_log_in(broker, "zoe", "zoe"))
    assert may_log_in(broker, "alice", "secret") and not may_log_in(broker, "alice", "other")
    with logged_in(broker, "alice", "secret") as client:
        refused(client, "CREATE", {}, "NOT_AUTHORIZED_FOR_OPERATION", command="CREATE", permission="admin")


def test_users_of_the_file_are_read_again_at_sighup(start_broker, database, tmp_path):
    file = write_users(tmp_path / "users.yaml", USERS)
    broker = start_broker(database, enable_sasl=True, sasl_users=file)
    with logged_in(broker, "alice", "secret") as client:
        write_users(file, [USERS[0] | {"token": "newer"}])
        broker.process.send_signal(signal.SIGHUP)
        wait_until(lambda: may_log_in(broker, "root", "newer"), what="the new token")
        assert not may_log_in(broker, "root", "root-token")
        refused(client, "LIST", {}, "authentication_failed", principal="alice")
        file.write_text("[{principal: root}]")
        broker.process.send_signal(signal.SIGHUP)
        wait_until(lambda: any("the old one stays" in e.get("message", "") for e in broker.events()))
        assert may_log_in(broker, "root", "newer")


def test_the_table_is_read_when_its_announcement_was_missed(start_broker, database, manage):
    broker = start_broker(database, enable_sasl=True)
    sql(database, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
                  " AND application_name LIKE 'pgcursus %' AND datname = current_database()")
    assert manage(database, "add", "late", "--permissions", "*", "--token-file", "-", data=b"late\n")[0] == 0
    wait_until(lambda: may_log_in(broker, "late", "late"))


# ---- what must not be seen ------------------------------------------------------------------------


def test_tokens_are_nowhere_to_be_read(start_broker, database, users_file, manage):
    broker = start_broker(database, enable_sasl=True, sasl_users=users_file, log_level="debug")
    secret = "a-token-nobody-may-see"
    assert manage(database, "add", "sam", "--permissions", "*", "--token-file", "-", data=secret.encode())[0] == 0
    wait_until(lambda: may_log_in(broker, "sam", secret))
    assert not may_log_in(broker, "sam", "wrong-" + secret)
    with broker.client() as client:
        client.call("LIST", principal="root", auth_token="root-token")
    log = broker.log_text()
    assert secret not in log and "root-token" not in log
    assert secret not in str(sql(database, "SELECT * FROM pgcursus.users"))
    shown = subprocess.run([BROKER, "check-config", "--enable-sasl", "--sasl-users", users_file], capture_output=True,
                           text=True, timeout=180)
    assert shown.returncode == 0 and "alice" in shown.stdout and "root-token" not in shown.stdout


def seconds_of_refusals(broker, principals, turns=20, most=400):
    """The quickest refusal of each, taken in turns until they are alike: what else the machine does only adds to it."""
    quickest = dict.fromkeys(principals, 60.0)
    with broker.client() as client:
        for turn in range(most):
            for principal in principals:
                start = time.monotonic()
                with pytest.raises(crs2.BrokerError):
                    login(client, principal, "wrong")
                quickest[principal] = min(quickest[principal], time.monotonic() - start)
            if turn >= turns and max(quickest.values()) < 2 * min(quickest.values()):
                break
    return quickest.values()


def test_a_refusal_takes_as_long_for_a_principal_that_does_not_exist(start_broker, database, users_file, manage):
    broker = start_broker(database, enable_sasl=True, sasl_users=users_file)
    assert manage(database, "add", "tim", "--permissions", "*")[0] == 0
    wait_until(lambda: any(e.get("users") == "1" for e in broker.events()))
    times = seconds_of_refusals(broker, ("tim", "alice", "nobody"))
    assert max(times) < 2 * min(times), times
    assert min(times) > 0.001, "a refusal costs a hash"


def test_logins_that_fail_do_not_hold_up_the_others(start_broker, database, users_file):
    """Whoever comes when thousands of guesses are waiting is served before most of them are refused."""
    broker = start_broker(database, enable_sasl=True, sasl_users=users_file)
    guessers = [broker.client() for _ in range(20)]
    for client in guessers:
        for _ in range(200):
            client.send("AUTH", {"principal": "alice", "token": "guess"})
    with logged_in(broker, "root", "root-token") as client:
        assert client.call("LIST").text.startswith("OK")
    assert broker.metric("pgcursus_requests_total") < len(guessers) * 200 / 2
    for client in guessers:
        client.close()


def test_users_that_cannot_be_stop_the_start(start_broker, database, tmp_path):
    for users, reason in (([{"principal": " ", "token": "t", "permissions": ["*"]}], "blank principal"),
                          ([USERS[0] | {"permissions": []}], "no permissions"), ([USERS[0], USERS[0]], "twice")):
        broker = start_broker(database, wait=False, enable_sasl=True,
                              sasl_users=write_users(tmp_path / "users.yaml", users))
        assert broker.process.wait(120) != 0 and reason in broker.log_text()
        assert "root-token" not in broker.log_text()
        broker.process.returncode = 0  # as it should be
