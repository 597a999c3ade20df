"""TLS on the client listener: who gets in, what is logged about who does not, new certificates under way."""

import http.client
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import time
import warnings

import pytest

import crs2client as crs2
import test_wire_probes as probes
from certificates import Authority
from harness import CLI, COST, SANITIZER_REPORT, SLOWNESS, Load, dsn_with, sql, wait_until


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def authority(folder):
    return Authority(folder)


@pytest.fixture(scope="module")
def stranger(folder):
    """A CA that nobody trusts."""
    return Authority(folder, "stranger")


@pytest.fixture(scope="module")
def server_files(authority):
    return authority.issue("localhost")


@pytest.fixture(scope="module")
def client_files(authority):
    return authority.issue("alice", alternative="DNS:alice")


def context_for(authority, files=None, **changes):
    context = ssl.create_default_context(cafile=authority.certificate)
    if files:
        context.load_cert_chain(*files)
    for name, value in changes.items():
        setattr(context, name, value)
    return context


class Secure:
    """A broker as seen through TLS: what the tests of plain sockets expect of one."""

    def __init__(self, broker, context):
        self.broker, self.context, self.listen = broker, context, broker.listen

    def client(self, *arguments, **more):
        return self.broker.client(*arguments, tls=self.context, **more)


@pytest.fixture(scope="module")
def shared_tls(cluster, scratch, authority, server_files):
    """One TLS broker for the tests that need no settings of their own."""
    import conftest

    fleet = conftest.Fleet(scratch)
    broker = fleet.start(cluster.create_database(), handshake_timeout_ms=2000, use_tls=True,
                         tls_cert_path=server_files[0], tls_key_path=server_files[1])
    yield broker
    fleet.stop()


@pytest.fixture
def tls_broker(shared_tls):
    yield shared_tls
    shared_tls.check()


@pytest.fixture
def secure(tls_broker, authority):
    return Secure(tls_broker, context_for(authority))


def metric(broker, name):
    connection = http.client.HTTPConnection(broker.http, timeout=60)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float(found.group(1)) if found else 0.0


def failures_of(broker, peer, message="TLS handshake failed"):
    return [event for event in broker.events() if event.get("message") == message and event.get("peer") == peer]


def logged_reason(broker, sock_name, message="TLS handshake failed"):
    peer = "%s:%d" % sock_name[:2]
    wait_until(lambda: failures_of(broker, peer, message), what=f"a line about {peer}")
    (event,) = failures_of(broker, peer, message)
    return event["reason"]


# ---- ordinary use ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_records_travel_both_ways(tls_broker, authority, new_name, version):
    version = getattr(ssl.TLSVersion, version)
    context = context_for(authority, minimum_version=version, maximum_version=version)
    name, large = new_name(), os.urandom(3 << 20)
    with tls_broker.client(tls=context) as client:
        client.call("CREATE", topic=name, partitions=1)
        assert client.publish(name, "small")["last_offset"] == 0
        assert client.publish(name, large)["last_offset"] == 1
        records = client.consume_all(name)
        assert [r.payload == want for r, want in zip(records, (b"small", large))] == [True, True]


def test_pipelined_requests_in_one_record_are_all_answered(secure):
    with secure.client() as client:
        frames = b"".join(crs2.encode_frame(3, 13, 0, n, crs2.encode_request()) for n in range(1, 200))
        client.send_raw(frames)
        assert [client.recv().request_id for _ in range(1, 200)] == list(range(1, 200))


def test_requests_cut_into_records_of_a_byte_are_understood(secure):
    with secure.client() as client:
        for byte in crs2.encode_frame(3, 13, 0, 7, crs2.encode_request()):
            client.send_raw(bytes([byte]))
        assert client.answer(7, "HELP")


def test_a_close_is_announced(secure):
    with secure.client() as client:
        client.call("EXIT")
        assert client.sock.recv(1) == b""  # close_notify, else Python raises SSLEOFError
        assert client.sock.unwrap()


def test_an_rsa_certificate_serves_too(start_broker, database, authority):
    certificate, key = authority.issue("localhost", "rsa", into="rsa")
    broker = start_broker(database, use_tls=True, tls_cert_path=certificate, tls_key_path=key)
    with broker.client(tls=context_for(authority)) as client:
        assert client.is_open()


def test_every_probe_has_the_outcome_that_it_has_without_tls(secure):
    wrong = []
    for case in probes.PROBES:
        if case.get("half_close") or "silent" in case["accept"]:
            continue
        outcome = probes.outcome_of(secure, case)
        if outcome not in case["accept"]:
            wrong.append((case["name"], outcome, case["accept"]))
    assert wrong == []


def test_idle_connections_cost_no_processor_time(tls_broker, secure):
    clients = [secure.client() for _ in range(20)]
    before = tls_broker.cpu_seconds()
    time.sleep(0.5)
    assert tls_broker.cpu_seconds() - before < 0.2 * COST
    for client in clients:
        client.close()


# ---- bad handshakes -------------------------------------------------------------------------------


def hello_of(context):
    """The bytes of a client hello."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def raw_socket(broker):
    host, _, port = broker.listen.rpartition(":")
    return socket.create_connection((host, int(port)), 60)


def ends(sock, within=5.0):
    """Waits for the end of the connection; an alert may come first."""
    sock.settimeout(within * SLOWNESS)
    try:
        while sock.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.fixture
def bystander(secure):
    """A connection that must live through everything its neighbours do."""
    with secure.client() as client:
        yield client
        assert client.is_open()


def test_a_truncated_hello_is_logged_with_its_peer(bystander, tls_broker, authority):
    with raw_socket(tls_broker) as sock:
        name = sock.getsockname()
        sock.sendall(hello_of(context_for(authority))[:60])
        sock.shutdown(socket.SHUT_WR)
        assert ends(sock)
    assert "in the handshake" in logged_reason(tls_broker, name)


def test_a_handshake_that_stalls_is_cut_off(bystander, tls_broker, authority):
    start = time.monotonic()
    with raw_socket(tls_broker) as sock:
        peer = "%s:%d" % sock.getsockname()[:2]
        sock.sendall(hello_of(context_for(authority))[:60])
        assert ends(sock)
        assert time.monotonic() - start > 1.9
    assert [e["reason"] for e in failures_of(tls_broker, peer, "closing a connection")] == [
        "the handshake took too long"]


def test_what_is_no_tls_is_logged_with_its_peer(bystander, tls_broker):
    with raw_socket(tls_broker) as sock:
        name = sock.getsockname()
        sock.sendall(crs2.encode_frame(1, 46, 0, 0, crs2.negotiation_payload()))
        assert ends(sock)
    assert "does the client use TLS at all?" in logged_reason(tls_broker, name)


def test_a_client_of_an_old_version_is_refused(bystander, tls_broker):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with raw_socket(tls_broker) as sock:
        name = sock.getsockname()
        with pytest.raises((ssl.SSLError, ConnectionError)):
            context.wrap_socket(sock, server_hostname="localhost")
    assert "TLS 1.2 or newer" in logged_reason(tls_broker, name)


def test_a_client_that_distrusts_the_broker_is_logged(bystander, tls_broker, stranger):
    with raw_socket(tls_broker) as sock:
        name = sock.getsockname()
        with pytest.raises(ssl.SSLCertVerificationError):
            context_for(stranger).wrap_socket(sock, server_hostname="localhost")
    assert "unknown ca" in logged_reason(tls_broker, name)


def test_a_health_check_that_connects_and_goes_is_not_logged(tls_broker):
    with raw_socket(tls_broker) as sock:
        peer = "%s:%d" % sock.getsockname()[:2]
    wait_until(lambda: metric(tls_broker, "pgcursus_connections") == 0)
    assert failures_of(tls_broker, peer) == []


class InMemory:
    """A TLS client whose records pass through our hands."""

    def __init__(self, broker, context):
        self.sock = raw_socket(broker)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.sock.sendall(self.outgoing.read())
                self.incoming.write(self.sock.recv(65536))
        self.sock.sendall(self.outgoing.read())

    def record_of(self, data):
        self.tls.write(data)
        return self.outgoing.read()


def test_a_close_inside_a_record_is_logged_with_its_peer(bystander, tls_broker, authority):
    client = InMemory(tls_broker, context_for(authority))
    name = client.sock.getsockname()
    record = client.record_of(crs2.encode_frame(1, 46, 0, 0, crs2.negotiation_payload()))
    client.sock.sendall(record[: len(record) // 2])
    client.sock.shutdown(socket.SHUT_WR)
    assert ends(client.sock)
    client.sock.close()
    assert "inside a record" in logged_reason(tls_broker, name, "TLS connection broken")


def test_a_record_that_was_tampered_with_ends_its_connection(bystander, tls_broker, authority):
    client = InMemory(tls_broker, context_for(authority))
    name = client.sock.getsockname()
    record = bytearray(client.record_of(crs2.encode_frame(1, 46, 0, 0, crs2.negotiation_payload())))
    record[-1] ^= 1
    client.sock.sendall(record)
    assert ends(client.sock)
    client.sock.close()
    assert "bad record mac" in logged_reason(tls_broker, name, "TLS connection broken")


def test_a_renegotiation_ends_its_connection(bystander, tls_broker):
    command = ["openssl", "s_client", "-connect", tls_broker.listen, "-tls1_2", "-quiet", "-no_ign_eof"]
    done = subprocess.run(command, input=b"R\n", capture_output=True, timeout=180)
    assert b"no renegotiation" in done.stderr
    wait_until(lambda: any(e.get("message") == "TLS connection broken" and "renegotiation" in e["reason"]
                           and e["peer"].startswith("127.0.0.1:") for e in tls_broker.events()))


# ---- client certificates --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def strict_broker(cluster, scratch, authority, server_files):
    import conftest

    fleet = conftest.Fleet(scratch)
    broker = fleet.start(cluster.create_database(), use_tls=True, tls_cert_path=server_files[0],
                         tls_key_path=server_files[1], tls_ca_path=authority.certificate, require_client_cert=True)
    yield broker
    fleet.stop()


def test_a_client_with_a_certificate_gets_in(strict_broker, authority, client_files):
    with strict_broker.client(tls=context_for(authority, client_files)) as client:
        assert client.is_open()


@pytest.mark.parametrize("case, reason", [
    ("none", "peer did not return a certificate"), ("expired", "client certificate of bob: certificate has expired"),
    ("stranger's", "client certificate of bob: unable to get local issuer certificate")])
def test_other_clients_stay_outside(strict_broker, authority, stranger, case, reason):
    files = None
    if case == "expired":
        files = authority.issue("bob", days=-1, alternative="DNS:bob", into="expired")
    elif case == "stranger's":
        files = stranger.issue("bob", alternative="DNS:bob")
    with raw_socket(strict_broker) as sock:
        name = sock.getsockname()
        with pytest.raises((ssl.SSLError, ConnectionError)):
            # TLS 1.3 tells a client only after its own handshake is over.
            wrapped = context_for(authority, files).wrap_socket(sock, server_hostname="localhost")
            assert wrapped.recv(1) == b"never"
    assert reason in logged_reason(strict_broker, name)
    assert metric(strict_broker, 'pgcursus_tls_handshakes_total{outcome="failed"}') > 0


def test_client_certificates_may_be_left_to_the_client(start_broker, database, authority, server_files, client_files,
                                                       stranger):
    broker = start_broker(database, use_tls=True, tls_cert_path=server_files[0], tls_key_path=server_files[1],
                          tls_ca_path=authority.certificate)
    for files in (None, client_files):
        with broker.client(tls=context_for(authority, files)) as client:
            assert client.is_open()
    with pytest.raises((ssl.SSLError, ConnectionError, crs2.Closed)):
        broker.client(tls=context_for(authority, stranger.issue("bob", alternative="DNS:bob")))


# ---- new certificates while running ---------------------------------------------------------------


def serial_of(broker, authority):
    with broker.client(tls=context_for(authority)) as client:
        return client.sock.getpeercert()["serialNumber"]


def install(files, place):
    """As an operator should: written beside and renamed."""
    for source, target in zip(files, place):
        beside = target.with_suffix(".new")
        shutil.copy(source, beside)
        beside.rename(target)


def test_a_certificate_is_replaced_under_load_without_losing_a_connection(start_broker, database, authority, tmp_path,
                                                                           new_name):
    first, second = authority.issue("localhost", into="first"), authority.issue("localhost", into="second")
    place = (tmp_path / "server.pem", tmp_path / "server.key")
    install(first, place)
    broker = start_broker(database, use_tls=True, tls_cert_path=place[0], tls_key_path=place[1])
    secure, topic = Secure(broker, context_for(authority)), new_name()
    with secure.client() as client:
        client.call("CREATE", topic=topic, partitions=2)
        old = client.sock.getpeercert()["serialNumber"]
        with Load([secure], topic, 2) as load:
            load.wait_for_acks(50)
            for files in (second, first, second):
                install(files, place)
                serial = serial_of(broker, authority)
                broker.process.send_signal(signal.SIGHUP)
                wait_until(lambda: serial_of(broker, authority) != serial, what="the new certificate")
                load.wait_for_acks(20)
        assert serial_of(broker, authority) != old
        assert client.is_open(), "a connection made under the old certificate goes on"
        load.verify(secure)
    assert load.refusals == []


def test_a_bad_new_certificate_leaves_the_old_one_in_force(start_broker, database, authority, tmp_path):
    first, other = authority.issue("localhost", into="kept"), authority.issue("localhost", into="mismatch")
    place = (tmp_path / "server.pem", tmp_path / "server.key")
    install(first, place)
    broker = start_broker(database, use_tls=True, tls_cert_path=place[0], tls_key_path=place[1])
    serial = serial_of(broker, authority)
    place[1].write_text(other[1].read_text())
    broker.process.send_signal(signal.SIGHUP)

    def complaints():
        return [e for e in broker.events() if "the old ones stay in force" in e.get("message", "")]

    wait_until(complaints, what="a complaint")
    assert "does not belong to the certificate" in complaints()[0]["reason"]
    assert serial_of(broker, authority) == serial
    place[0].write_text("no certificate\n")
    broker.process.send_signal(signal.SIGHUP)
    wait_until(lambda: len(complaints()) == 2, what="a second complaint")
    assert "no PEM certificate" in complaints()[1]["reason"]
    assert serial_of(broker, authority) == serial


# ---- starting -------------------------------------------------------------------------------------


def test_files_that_cannot_be_used_stop_the_start(start_broker, database, authority, server_files, tmp_path):
    wrong = authority.issue("localhost", into="another")
    rubbish = tmp_path / "rubbish.pem"
    rubbish.write_text("no PEM at all\n")
    locked = tmp_path / "locked.key"
    subprocess.run(["openssl", "pkey", "-in", server_files[1], "-aes128", "-passout", "pass:secret", "-out", locked],
                   check=True)
    good = dict(use_tls=True, tls_cert_path=server_files[0], tls_key_path=server_files[1])
    for changes, reason in (
        ({"tls_key_path": wrong[1]}, "does not belong to the certificate"),
        ({"tls_cert_path": rubbish}, "no PEM certificate in it"),
        ({"tls_key_path": locked}, "has a passphrase"),
        ({"tls_ca_path": rubbish}, "client CA"),
        ({"tls_cert_path": tmp_path / "missing"}, "No such file"),
        ({"require_client_cert": True}, "tls_ca_path"),
        ({"use_tls": False, "require_client_cert": True}, "require_client_cert needs use_tls"),
    ):
        broker = start_broker(database, wait=False, **good | changes)
        assert broker.process.wait(20 * SLOWNESS) != 0
        assert reason in broker.log_text(), changes
        assert "secret" not in broker.log_text()
        broker.process.returncode = 0  # as it should be


def test_tokens_in_clear_beyond_this_machine_are_warned_of(start_broker, database, authority, server_files, tmp_path):
    users = tmp_path / "users.yaml"
    users.write_text("[{principal: a, token: t, permissions: ['*']}]")
    loud = "TRAVEL IN CLEAR"
    sasl = dict(enable_sasl=True, sasl_users=users)
    assert loud in start_broker(database, listen="0.0.0.0:0", **sasl).log_text()
    assert loud not in start_broker(database, **sasl).log_text()
    assert loud not in start_broker(database, listen="0.0.0.0:0").log_text()
    tls = dict(use_tls=True, tls_cert_path=server_files[0], tls_key_path=server_files[1])
    assert loud not in start_broker(database, listen="0.0.0.0:0", **sasl, **tls).log_text()


# ---- slots ----------------------------------------------------------------------------------------


def test_no_slot_is_lost_to_clients_that_die_in_a_handshake(start_broker, database, authority, server_files):
    broker = start_broker(database, max_client_connections=40, use_tls=True, tls_cert_path=server_files[0],
                          tls_key_path=server_files[1])
    context = context_for(authority)
    hello = hello_of(context)
    negotiation = crs2.encode_frame(1, 46, 0, 0, crs2.negotiation_payload())
    for turn in range(4):
        socks = []
        for number in range(40):
            if number % 2:
                sock = raw_socket(broker)
                sock.sendall(hello[: (number * 13) % (len(hello) + 1)])
            else:
                client = broker.client(tls=context, handshake=False)
                client.send_raw(negotiation[: number % len(negotiation)])
                sock = client.sock
            if (number // 2) % 2:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            socks.append(sock)
        for sock in socks:
            sock.close()
    wait_until(lambda: metric(broker, "pgcursus_connections") == 0, 10 * SLOWNESS, what="no connection left")
    with broker.client(tls=context) as client:
        assert client.is_open()
    descriptors = wait_until(lambda: metric(broker, "pgcursus_connections") == 0 and broker.descriptors())
    assert descriptors < 40


# ---- the client library and the command line ------------------------------------------------------


@pytest.fixture
def cli():
    def run(*arguments, data=b"", **environment):
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PGCURSUS_")}
        done = subprocess.run([CLI, *map(str, arguments)], input=data, capture_output=True, timeout=180,
                              env=kept | {k: str(v) for k, v in environment.items()})
        errors = done.stderr.decode(errors="replace")
        assert not SANITIZER_REPORT.search(errors), errors[:4000]
        return done.returncode, done.stdout, errors

    return run


def test_the_command_line_speaks_tls(cli, tls_broker, authority, new_name):
    name, lines = new_name(), b"".join(b"%d %s\n" % (n, b"x" * 1000) for n in range(500))
    options = ["-b", tls_broker.listen, "--tls-ca", authority.certificate]
    assert cli(*options, "topic", "create", name, "-p", 1)[0] == 0
    assert cli(*options, "produce", name, "--batch", 100, data=lines)[0] == 0
    status, out, _ = cli(*options, "consume", name, "-e")
    assert status == 0 and (out == lines) is True
    assert cli("-b", tls_broker.listen, "ping", PGCURSUS_TLS_CA=authority.certificate)[0] == 0
    assert cli(*options, "bench", "publish", "--seconds", 1, "--connections", 2, "-q")[0] == 0


def test_the_command_line_verifies_whom_it_speaks_to(cli, tls_broker, authority, stranger):
    broker = ["-b", tls_broker.listen]
    for options, reason in (
        (["--tls"], "unable to get local issuer"), (["--tls-ca", stranger.certificate], "certificate is not accepted"),
        (["--tls-ca", authority.certificate, "--tls-server-name", "elsewhere"], "hostname mismatch"),
        (["--tls-ca", "/nowhere.pem"], "CA file /nowhere.pem"), ([], "closed the connection"),
    ):
        status, _, errors = cli(*broker, *options, "ping")
        assert status == 2 and reason in errors, (options, errors)
    assert cli(*broker, "--tls-ca", authority.certificate, "--tls-server-name", "localhost", "ping")[0] == 0
    assert cli(*broker, "--tls-insecure", "ping")[0] == 0


def test_the_command_line_shows_its_certificate(cli, strict_broker, authority, client_files):
    options = ["-b", strict_broker.listen, "--tls-ca", authority.certificate]
    certificate = ["--tls-cert", client_files[0], "--tls-key", client_files[1]]
    assert cli(*options, *certificate, "ping")[0] == 0
    status, _, errors = cli(*options, "ping")
    assert status == 2 and "certificate required" in errors
    status, _, errors = cli(*options, *certificate[:2], "ping")
    assert status == 2 and "belong together" in errors


def test_a_token_on_the_command_line_is_not_left_there(tls_broker):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        process = subprocess.Popen([CLI, "-b", "127.0.0.1:%d" % silent.getsockname()[1], "--user", "a", "--token",
                                    "very-secret", "ping"], stderr=subprocess.DEVNULL)
        silent.accept()[0].close()
        try:
            words = pathlib.Path(f"/proc/{process.pid}/cmdline").read_bytes()
            assert b"very-secret" not in words
        finally:
            process.kill()
            process.wait()


# ---- PostgreSQL over TLS --------------------------------------------------------------------------


def test_the_database_is_reached_over_verified_tls(make_cluster, start_broker, authority, stranger, folder):
    certificate, key = authority.issue("localhost", into="postgres")
    cluster = make_cluster()
    data = cluster.directory / "data"
    for source, name in ((certificate, "tls.pem"), (key, "tls.key")):
        shutil.copy(source, data / name)
        os.chmod(data / name, 0o600)
        shutil.chown(data / name, data.stat().st_uid, data.stat().st_gid)
    with open(data / "postgresql.conf", "a") as settings:
        settings.write("\nssl = on\nssl_cert_file = 'tls.pem'\nssl_key_file = 'tls.key'\n")
    cluster.stop()
    cluster.start()
    plain = cluster.create_database()
    broker = start_broker(dsn_with(plain, sslmode="verify-full", sslrootcert=authority.certificate))
    with broker.client() as client:
        client.call("CREATE", topic="t", partitions=1)
        assert client.publish("t", "x")["last_offset"] == 0
    assert sql(plain, "SELECT bool_and(s.ssl) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid)"
                      " WHERE a.application_name LIKE 'pgcursus %'") == [["t"]]
    refused = start_broker(dsn_with(plain, sslmode="verify-full", sslrootcert=stranger.certificate), wait=False)
    assert refused.process.wait(120) != 0
    assert "certificate verify failed" in refused.log_text()
    refused.process.returncode = 0  # as it should be
