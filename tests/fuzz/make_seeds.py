#!/usr/bin/env python3
"""Write a seed corpus for every fuzz target from the golden vectors.

usage: make_seeds.py CORPUS_DIRECTORY [VECTORS]

Makes CORPUS_DIRECTORY/<target>/<vector name>, valid and invalid inputs alike: an invalid one is usually
a step away from a branch that no random mutation would find.
"""
import json
import pathlib
import sys

COMPRESSIONS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3}
FIX_CHECKSUM = 8  # fuzz_frame.c: the target makes the checksum right
ROUND_TRIP = 4    # fuzz_compress.c: the input is plain, not compressed


def frame_seeds(vectors):
    frames = vectors["frames"] + [item for item in vectors["invalid"] if item["layer"] == "frame"]
    for item in frames:
        data, compression = bytes.fromhex(item["hex"]), item["compression"]
        yield item["name"], bytes([compression]) + data
        yield item["name"] + "-fixed", bytes([compression | FIX_CHECKSUM]) + data


def compress_seeds(vectors):
    for item in vectors["compression"]:
        encoded, plain = bytes.fromhex(item["encoded_hex"]), bytes.fromhex(item["decoded_hex"])
        head = bytes([COMPRESSIONS[item["algorithm"]]])
        yield item["name"], head + len(plain).to_bytes(4, "big") + encoded
        yield item["name"] + "-plain", bytes([head[0] | ROUND_TRIP]) + bytes(4) + plain
    for item in vectors["frames"] + vectors["invalid"]:
        data = bytes.fromhex(item["hex"])
        if item.get("compression") and len(data) > 32:
            yield item["name"], bytes([item["compression"]]) + data[24:28] + data[32:]


def invalid_of(vectors, *layers):
    return [item for item in vectors["invalid"] if item["layer"] in layers]


def payload_seeds(items):
    for item in items:
        yield item["name"], bytes.fromhex(item["hex"])


def request_seeds(vectors):
    yield from payload_seeds(vectors["commands"] + invalid_of(vectors, "command"))
    for item in vectors["commands"]:
        if "text" in item:
            yield item["name"] + "-text", item["text"].encode("utf-8")


def batch_seeds(vectors):
    yield from payload_seeds(vectors["batches"] + invalid_of(vectors, "batch", "record"))
    yield from payload_seeds([vectors["public_fixture_record_v2"]])


def error_seeds(vectors):
    return payload_seeds(vectors["errors"] + invalid_of(vectors, "error"))


def negotiate_seeds(vectors):
    yield from payload_seeds(vectors["negotiation"])
    yield from payload_seeds(invalid_of(vectors, "negotiation_request", "negotiation_response"))
    yield "response", bytes.fromhex("000203")


TARGETS = {
    "fuzz_frame": frame_seeds,
    "fuzz_compress": compress_seeds,
    "fuzz_request": request_seeds,
    "fuzz_batch": batch_seeds,
    "fuzz_error": error_seeds,
    "fuzz_negotiate": negotiate_seeds,
}


def main(arguments):
    if len(arguments) not in (1, 2):
        sys.exit(__doc__)
    default = pathlib.Path(__file__).resolve().parent.parent / "vectors" / "crs2-wire-v2.json"
    source = pathlib.Path(arguments[1]) if len(arguments) == 2 else default
    vectors = json.loads(source.read_text(encoding="utf-8"))
    for target, seeds in TARGETS.items():
        directory = pathlib.Path(arguments[0]) / target
        directory.mkdir(parents=True, exist_ok=True)
        count = 0
        for name, data in seeds(vectors):
            (directory / name).write_bytes(data)
            count += 1
        if count == 0:
            sys.exit(f"no seeds for {target}")
        print(f"{target}: {count} seeds")


if __name__ == "__main__":
    main(sys.argv[1:])
