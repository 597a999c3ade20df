"""How a refusal is checked: code, class, retryable flag and the exact field set. Free texts by substring only."""

import pytest

import crs2client as crs2

# The registry of error codes, as far as the tests provoke them.
CLASSES = {
    "validation": (
        "invalid_expected_version "
        "batch_decode_failed empty_messages invalid_acks invalid_aggregate_replay invalid_aggregate_version "
        "invalid_auth invalid_batch invalid_consume_syntax invalid_stream_syntax invalid_epoch invalid_event_sourcing invalid_generation "
        "invalid_idempotent invalid_is_idempotent invalid_isolation invalid_member invalid_group "
        "invalid_min_in_sync_replicas invalid_offset invalid_partition invalid_partitions invalid_producer_id "
        "invalid_replication_factor invalid_retention_bytes invalid_retention_hours invalid_schema_version "
        "invalid_seq_num invalid_if_exists invalid_expected_revision missing_expected_revision "
        "missing_min_in_sync_replicas invalid_topic_name invalid_topic_policy invalid_wait_ms missing_message "
        "missing_broker distribution_not_enabled distribution_required "
        "missing_producer_id missing_topic unknown_command missing_transactional_id "
        "invalid_transactional_id invalid_transaction_result invalid_txn_offsets transaction_not_open "
        "fetch_batch_too_large fetch_wait_too_large missing_group missing_member missing_generation "
        "missing_partition missing_offset missing_coordinator_key invalid_subscription invalid_batch_commit_entry "
        "event_sourcing_not_enabled invalid_event_id invalid_event_type invalid_expected_last_sequence "
        "invalid_from_sequence invalid_key invalid_max_bytes invalid_max_events invalid_max_records invalid_metadata "
        "invalid_producer_epoch invalid_producer_sequence invalid_to_sequence invalid_version missing_event_id "
        "missing_key missing_match_id missing_version"
    ),
    "authorization": (
        "NOT_AUTHORIZED_FOR_TOPIC authentication_failed internal_command_unauthorized "
        "internal_topic_write_forbidden internal_topic_delete_forbidden internal_topic_truncate_forbidden "
        "internal_txn_publish_forbidden transaction_metadata_forbidden NOT_AUTHORIZED_FOR_OPERATION "
        "authentication_required"
    ),
    "availability": (
        "insufficient_in_sync_replicas request_timeout request_cancelled replication_unavailable "
        "transaction_commit_failed transaction_sync_failed"
    ),
    "conflict": (
        "stream_version_conflict "
        "stream_version_reserved "
        "OFFSET_OUT_OF_RANGE topic_delete_blocked topic_truncate_blocked topic_revision_conflict "
        "producer_reinitialization_required transaction_aborted transaction_already_committed transaction_not_abortable "
        "topic_not_assigned_to_group offset_regression leader_election_rejected "
        "aggregate_identity_conflict snapshot_version_exceeds_stream version_conflict"
    ),
    "fencing": (
        "stale_producer_epoch producer_fenced GEN_MISMATCH NOT_OWNER member_not_found group_epoch_mismatch"
    ),
    "not_found": (
        "topic_not_found partition_not_found transaction_not_found group_not_found aggregate_proof_not_found "
        "aggregate_range_not_found"
    ),
    "internal": (
        "transaction_stream_failed "
        "aggregate_publish_requires_append_stream broker_error init_producer_failed transaction_begin_failed "
        "transaction_publish_failed transaction_offsets_failed command_failed create_topic_failed "
        "alter_topic_config_failed delete_topic_failed truncate_topic_failed register_group_failed coordinator_error "
        "aggregate_partition_mismatch aggregate_proof_identity_conflict aggregate_proof_proof_unavailable "
        "aggregate_proof_retention_gap aggregate_proof_sequence_gap aggregate_proof_unavailable "
        "aggregate_range_identity_conflict aggregate_range_incomplete aggregate_range_retention_gap "
        "aggregate_range_sequence_gap aggregate_replay_not_enabled append_stream_failed event_exceeds_page_budget "
        "snapshot_save_failed stream_index_failed stream_requires_pagination"
    ),
}
CLASS_OF = {code: name for name, codes in CLASSES.items() for code in codes.split()}


def same(left, right):
    """Equality of large values, out of sight of pytest's comparison, which would take minutes to print them."""
    return left == right


class Text:
    """Any text that is not empty and contains the given pieces."""

    def __init__(self, *pieces):
        self.pieces = pieces

    def __eq__(self, other):
        return isinstance(other, str) and bool(other) and all(piece in other for piece in self.pieces)

    def __repr__(self):
        return f"<text with {self.pieces}>"


def check(error, code, /, **fields):
    assert (error.code, error.fields) == (code, fields)
    assert error.class_name == CLASS_OF[code]
    assert error.retryable == (error.class_name in ("routing", "availability"))


def refused(client, command, fields, code, /, **want):
    with pytest.raises(crs2.BrokerError) as caught:
        client.call(command, **fields)
    check(caught.value, code, **want)


def batch_refused(client, batch, code, /, **want):
    with pytest.raises(crs2.BrokerError) as caught:
        client.publish_batch(batch)
    check(caught.value, code, **want)


def refused_in_order(client, command, fields, steps):
    """Each step is the code that these fields meet, and what mends that: other fields, or something to do."""
    seen = []
    for _, mend in steps:
        with pytest.raises(crs2.BrokerError) as caught:
            client.call(command, **fields)
        seen.append(caught.value.code)
        if callable(mend):
            mend()
        else:
            fields = fields | mend
    assert seen == [code for code, _ in steps]
