"""What CONSUME and STREAM share: the checks of their fields."""

BATCH = {"maximum": "8192"}


def refusals(command):
    """name -> (changes of a good request, code, fields) of the checks that both make."""
    own, syntax = {"command": command}, f"invalid_{command.lower()}_syntax"
    return {
        "topic_missing": ({"topic": None}, syntax, {}),
        "topic_empty": ({"topic": ""}, syntax, {}),
        "partition_missing": ({"partition": None}, syntax, {}),
        "partition_empty": ({"partition": ""}, syntax, {}),
        "member_with_blank": ({"member": "a b"}, "invalid_member", own),
        "member_too_long": ({"member": "x" * 250}, "invalid_member", own),
        "group_with_control": ({"group": "a\x01"}, "invalid_group", own),
        "isolation_unknown": ({"isolation": "dirty"}, "invalid_isolation", {"isolation": "dirty"}),
        "partition_word": ({"partition": "x"}, "invalid_partition", own),
        "generation_word": ({"generation": "x"}, "invalid_generation", own),
        "offset_negative": ({"offset": "-1"}, "invalid_offset", own),
        "offset_plus": ({"offset": "+1"}, "invalid_offset", own),
        "offset_too_large": ({"offset": 1 << 64}, "invalid_offset", own),
        "batch_zero": ({"batch": "0"}, "invalid_batch", BATCH),
        "batch_negative": ({"batch": "-5"}, "invalid_batch", BATCH),
        "batch_word": ({"batch": "x"}, "invalid_batch", BATCH),
        "batch_too_large": ({"batch": "8193"}, "fetch_batch_too_large", {"requested": "8193", **BATCH}),
        "topic_unknown": ({"topic": "no-such-topic"}, "topic_not_found", {"topic": "no-such-topic"}),
        "topic_internal": ({"topic": "__consumer_offsets"}, "topic_not_found", {"topic": "__consumer_offsets"}),
        "partition_negative": ({"partition": "-1"}, "partition_not_found", {"partition": "-1"}),
        "partition_at_the_count": ({"partition": "1"}, "partition_not_found", {"partition": "1"}),
        "partition_33_bits": ({"partition": 1 << 32}, "partition_not_found", {"partition": str(1 << 32)}),
    }


# Everything wrong, and what mends it, one after another: for refused_in_order().
ALL_WRONG = dict(topic="no-such-topic", partition="x", offset="x", isolation="x", generation="x", batch="9000x")
STEPS_TO_BATCH = [
    ("invalid_isolation", {"isolation": "read_committed"}),
    ("invalid_partition", {"partition": "9"}),
    ("invalid_generation", {"generation": "1"}),
    ("invalid_offset", {"offset": "0"}),
    ("invalid_batch", {"batch": "9000"}),
    ("fetch_batch_too_large", {"batch": "1"}),
]


def steps_from_topic(denied):
    """`denied` is a topic that may not be read."""
    return [
        ("topic_not_found", {"topic": denied}),
        ("partition_not_found", {"partition": "0"}),
        ("NOT_AUTHORIZED_FOR_TOPIC", {}),
    ]
