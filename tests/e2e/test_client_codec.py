"""The test client against the golden vectors: what it reads and writes must be right before it judges anybody."""

import dataclasses
import json
import os
import pathlib

import pytest

import crs2client as crs2
import crs2compress
from crs2compress import CodecError

VECTORS = json.loads((pathlib.Path(__file__).parent.parent / "vectors" / "crs2-wire-v2.json").read_text())


def named(key, **keep):
    cases = [c for c in VECTORS[key] if all(c.get(k) == v for k, v in keep.items())]
    assert cases
    return pytest.mark.parametrize("case", cases, ids=[c["name"] for c in cases])


def raw(case, key="hex"):
    return bytes.fromhex(case[key])


def record_of(entry):
    values = {}
    for name, value in entry.items():
        if name.endswith("_hex"):
            values[name[:-4]] = bytes.fromhex(value)
        elif isinstance(value, str) and name != "topic":
            values[name] = value.encode()
        else:
            values[name] = value
    return crs2.Record(**values)


@named("crc32c")
def test_crc32c(case):
    assert crs2compress.crc32c_slow(raw(case)) == int(case["crc32c"], 16)


def test_the_fast_crc32c_equals_the_slow_one():
    data = os.urandom(100_003)
    assert crs2compress.crc32c(data) == crs2compress.crc32c_slow(data)


@named("compression")
def test_compressed_forms_are_decoded(case):
    plain = raw(case, "decoded_hex")
    algorithm = VECTORS["constants"]["compression_ids"][case["algorithm"]]
    assert crs2compress.decompress(algorithm, raw(case, "encoded_hex"), len(plain)) == plain


@pytest.mark.parametrize("size", [0, 1, 59, 60, 61, 65536, 65537, 200_000])
@pytest.mark.parametrize("algorithm", [0, 1, 2, 3])
def test_own_compression_round_trip(algorithm, size):
    plain = os.urandom(size)
    assert crs2compress.decompress(algorithm, crs2compress.compress(algorithm, plain), size) == plain
    if algorithm == crs2compress.SNAPPY:
        assert crs2compress.snappy_decode(crs2compress.xerial_encode(plain), size) == plain


@named("frames")
def test_frames_are_decoded_and_encoded_again(case):
    want = case["frame"]
    frame = crs2.decode_frame(raw(case), case["compression"])
    assert (frame.kind, frame.flags, frame.command, frame.status, frame.request_id) == tuple(
        want[k] for k in ("kind", "flags", "command", "status", "request_id")
    )
    assert frame.payload.hex() == want["payload_hex"]
    again = crs2.encode_frame(
        frame.kind, frame.command, frame.status, frame.request_id, frame.payload, case["compression"]
    )
    if case["compression"] == 0:
        assert again == raw(case)
    else:
        assert crs2.decode_frame(again, case["compression"]) == frame


@named("negotiation")
def test_handshake_payload(case):
    request = case["request"]
    assert crs2.negotiation_payload(request["compressions"], request["minimum"], request["maximum"]) == raw(case)


@named("commands")
def test_request_payload(case):
    fields = [
        (f["name"], bytes.fromhex(f["value_hex"]) if "value_hex" in f else f["value"])
        if isinstance(f, dict)
        else tuple(f)
        for f in case["fields"]
    ]
    assert crs2.encode_request(fields, case["positionals"]) == raw(case)


@named("batches")
def test_batches_are_decoded_and_canonical_ones_encoded_again(case):
    want = case["batch"]
    batch = crs2.decode_batch(raw(case))
    assert (batch.topic, batch.partition, batch.acks, batch.idempotent) == (
        want["topic"], want["partition"], want["acks"], want["idempotent"],
    )
    assert (batch.batch_start, batch.batch_end) == (want["batch_start"], want["batch_end"])
    assert batch.records == [record_of(entry) for entry in want["records"]]
    if case["canonical"]:
        bare = [dataclasses.replace(r, presence=0) for r in batch.records]
        assert crs2.encode_batch(dataclasses.replace(batch, records=bare)) == raw(case)


@named("errors")
def test_errors_are_decoded(case):
    want, got = case["error"], crs2.decode_error(raw(case))
    assert (got.code, got.class_name, got.retryable, got.message, got.fields) == tuple(
        want[k] for k in ("code", "class", "retryable", "message", "fields")
    )


@named("invalid", layer="frame")
def test_invalid_frames_are_refused(case):
    with pytest.raises(CodecError):
        crs2.decode_frame(raw(case), case.get("compression", 0))


@named("invalid", layer="batch")
def test_invalid_batches_are_refused(case):
    with pytest.raises((CodecError, UnicodeDecodeError)):
        crs2.decode_batch(raw(case))


@named("invalid", layer="error")
def test_invalid_errors_are_refused(case):
    with pytest.raises((CodecError, UnicodeDecodeError)):
        crs2.decode_error(raw(case))


def test_command_numbers():
    ids = VECTORS["constants"]["command_ids"] | VECTORS["constants"]["newer_command_ids"]
    assert crs2.COMMANDS == ids
    assert crs2.SHIFTED_COMMANDS["NEGOTIATE"] == 47
    assert crs2.SHIFTED_COMMANDS["AGGREGATE_EVENT_RANGE_READ"] == 54
