"""Every probe of the vectors: bytes for a live broker and the outcomes that the protocol allows."""

import json
import pathlib
import socket

import pytest

import crs2client as crs2

PROBES = json.loads((pathlib.Path(__file__).parent.parent / "vectors" / "crs2-wire-v2.json").read_text())["probes"]


def outcome_of(broker, case):
    """close | silent | ok:open | ok:close | error:CODE:open | error:CODE:close"""
    with broker.client(handshake=False) as client:
        if case["stage"] == "request":
            client.negotiate([case.get("compression", 0)])
        client.send_raw(bytes.fromhex(case["hex"]))
        if case.get("half_close"):
            client.sock.shutdown(socket.SHUT_WR)
        client.sock.settimeout(case.get("timeout", 60.0))
        try:
            frame = client.recv()
        except crs2.Closed:
            return "close"
        except TimeoutError:
            return "silent"
        outcome = "ok" if frame.status == crs2.OK else "error:" + crs2.decode_error(frame.payload).code
        if frame.request_id != case.get("request_id", 7):
            return outcome + ":another-id"
        return outcome + (":open" if client.is_open() else ":close")


@pytest.mark.parametrize("case", PROBES, ids=[case["name"] for case in PROBES])
def test_probe(broker, case):
    outcome = outcome_of(broker, case)
    assert outcome in case["accept"]
    if outcome == "silent":
        # Silence must be an answer, not a broker that has stopped working.
        with broker.client() as client:
            assert client.is_open()


def test_probes_were_found():
    assert len(PROBES) > 150
