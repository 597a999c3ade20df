-- The life of a transaction: sessions, states, markers, counts, visibility, deadlines.
BEGIN;
\ir ../helpers.sql
\ir ../transaction_helpers.sql
SELECT no_plan();
SELECT count(*) FROM pg_temp.create_topic('t', 2) \g /dev/null
SELECT count(*) FROM pg_temp.create_topic('u', 1) \g /dev/null

-- Sessions.
SELECT is(pg_temp.init('tx-1'), 'txn-045ef594d81d2f21 0', 'the_first_session_has_epoch_0_and_an_id_by_hash');
SELECT is(pg_temp.init('tx-1'), 'txn-045ef594d81d2f21 1', 'the_next_session_has_the_same_id_and_a_higher_epoch');
SELECT is(pg_temp.refusal($$SELECT init_producer_id('another', 1, 200)$$) ->> 'code', 'init_producer_failed',
          'ids_are_limited');
SELECT is(pg_temp.init('tx-2'), 'txn-' || left(encode(sha256('tx-2'), 'hex'), 16) || ' 0',
          'sessions_are_of_one_id');
SELECT is(pg_temp.status('tx-1'), 'aborted 0 0 0', 'a_session_that_has_not_begun_shows_aborted');
SELECT is(pg_temp.refusal($$SELECT transaction_status('never', 200)$$),
          '{"code": "transaction_not_found", "reason": "transactional id never is not initialised"}',
          'an_unknown_id_is_not_found');

-- Begin.
SELECT is(pg_temp.refusal(pg_temp.begin_of('never', 0)) ->> 'code', 'transaction_begin_failed',
          'begin_needs_a_session');
SELECT is(pg_temp.refusal(pg_temp.begin_of('tx-1', 0)),
          '{"code": "producer_fenced", "current_epoch": "1", "requested_epoch": "0", "transactional_id": "tx-1"}',
          'begin_with_a_lower_epoch_is_fenced');
SELECT is(pg_temp.refusal(pg_temp.begin_of('tx-1', 2)) ->> 'code', 'transaction_begin_failed',
          'begin_with_a_higher_epoch_fails');
SELECT is(pg_temp.refusal(pg_temp.begin_of('tx-1', 1, 'txn-0')) ->> 'code', 'producer_fenced',
          'begin_of_another_producer_is_fenced');
SELECT is(pg_temp.refusal(pg_temp.begin_of('tx-1', 1)), NULL, 'begin_opens');
SELECT is(pg_temp.refusal(pg_temp.begin_of('tx-1', 1)),
          '{"code": "producer_reinitialization_required", "epoch": "1", "transactional_id": "tx-1"}',
          'one_epoch_carries_one_transaction');
SELECT is(pg_temp.status('tx-1'), 'open 0 0 0', 'it_is_open');

-- Records: appended at once, invisible to read_committed, deduplicated by request.
SELECT is(pg_temp.add('tx-1', 1, 't', 0, 1, 'a'), 'appended 0-0', 'a_record_is_appended_at_once');
SELECT is(pg_temp.add('tx-1', 1, 't', 0, 1, 'a'), 'duplicate of 0', 'the_same_request_appends_nothing');
SELECT is(pg_temp.add('tx-1', 1, 't', 0, 1, 'b'), 'other content', 'the_same_number_with_other_content_conflicts');
SELECT is(pg_temp.add('tx-1', 1, 't', 0, 1, 'a', _key => 'k'), 'other content', 'the_key_is_content');
SELECT is(pg_temp.add('tx-1', 1, 't', 0, 1, 'b', _requested => -1), 'appended 1-1',
          'a_number_is_of_a_requested_partition');
SELECT is(pg_temp.add('tx-1', 1, 't', 1, 1, 'b', _requested => -1), 'duplicate of 1',
          'what_was_left_to_the_broker_stays_where_it_went');
SELECT is(pg_temp.add('tx-1', 1, 't', 0, 7, 'c'), 'appended 2-2', 'client_numbers_may_have_gaps');
SELECT is(pg_temp.add('tx-1', 1, 't', 1, 1, 'd'), 'appended 0-0', 'another_partition_counts_for_itself');
SELECT is((SELECT string_agg(format('%s:%s', r.sequence, r.transaction_state), ' ' ORDER BY r."offset")
             FROM records r WHERE r.topic = 't' AND r.partition = 0), '1:open 2:open 3:open',
          'stored_sequences_count_in_the_partition');
SELECT is(pg_temp.outcome(pg_temp.append('t', '{plain}')), 'appended 3-3', 'plain_records_follow');
SELECT is(pg_temp.stable('t', 0), '0 of 4', 'the_stable_end_is_the_first_open_record');
SELECT is((SELECT count(*) FROM read('t', 0)), 0::bigint, 'read_committed_stops_there');
SELECT is(pg_temp.status('tx-1'), 'open 4 2 0', 'records_and_participants_are_counted_once');

-- Fences and states.
SELECT is(pg_temp.add('never', 0, 't', 0, 1, 'x'), 'not found', 'publish_needs_a_session');
SELECT is(pg_temp.add('tx-1', 0, 't', 0, 1, 'x'), 'fenced, current 1', 'a_lower_epoch_is_fenced');
SELECT is(pg_temp.add('tx-1', 2, 't', 0, 1, 'x'), 'fenced, current 1', 'a_higher_epoch_is_fenced');
SELECT is(pg_temp.add('tx-2', 0, 't', 0, 1, 'x'), 'not open 0', 'publish_needs_a_begun_transaction');
SELECT is(pg_temp.add('tx-1', 1, 't', 0, 1, 'a', _log_id => 999), 'stale', 'a_stale_log_is_found');

-- Commit.
SELECT is(pg_temp.finish('tx-1', 1, true), 'committed 4 0', 'commit_reports_records_and_offsets');
SELECT is(pg_temp.contents('t'), '0:a 1:b 2:c 3:plain 4:__cursus_txn_control_marker__',
          'a_marker_follows_the_records');
SELECT is((SELECT (b.kind, b.producer_id, b.producer_epoch, b.first_sequence, b.record_count)::text
             FROM record_batches b JOIN topic_definitions d USING (log_id)
            WHERE d.name = 't' AND b.partition = 1 AND b.base_offset = 1),
          '(1,txn-marker:tx-1:1:commit,1,1,1)', 'every_touched_partition_gets_one');
SELECT is(pg_temp.stable('t', 0), '5 of 5', 'the_partition_is_stable_again');
SELECT is((SELECT string_agg(convert_from(payload, 'UTF8'), ' ' ORDER BY "offset") FROM read('t', 0)),
          'a b c plain', 'read_committed_shows_the_records_but_no_marker');
SELECT is(pg_temp.finish('tx-1', 1, true), 'committed 4 0', 'commit_again_says_the_same');
SELECT is(pg_temp.finish('tx-1', 1, false), 'transaction_already_committed {"transactional_id": "tx-1"}',
          'abort_after_commit_is_refused');
SELECT is((SELECT count(*) FROM records WHERE is_control), 2::bigint, 'a_retry_writes_no_second_marker');
SELECT is(pg_temp.status('tx-1'), 'committed 4 2 0', 'the_counts_stay');
SELECT is(pg_temp.add('tx-1', 1, 't', 0, 9, 'x'), 'not open 3', 'nothing_is_added_after_the_end');
SELECT is(pg_temp.refusal(pg_temp.begin_of('tx-1', 1)) ->> 'code', 'producer_reinitialization_required',
          'a_finished_session_cannot_begin_again');

-- Abort; ends without a transaction.
SELECT is(pg_temp.finish('tx-2', 0, true), 'transaction_aborted {"transactional_id": "tx-2"}',
          'commit_of_what_was_not_begun_is_refused');
SELECT is(pg_temp.finish('tx-2', 0, false), 'aborted 0 0', 'abort_of_what_was_not_begun_is_fine');
SELECT is(pg_temp.refusal(pg_temp.begin_of('tx-2', 0)), NULL, 'and_it_may_still_begin');
SELECT is(pg_temp.add('tx-2', 0, 't', 0, 1, 'lost'), 'appended 5-5', 'a_record_to_be_aborted');
SELECT is(pg_temp.finish('tx-2', 0, false), 'aborted 1 0', 'abort_reports_counts_too');
SELECT is(pg_temp.finish('tx-2', 0, false), 'aborted 1 0', 'abort_again_says_the_same');
SELECT is(pg_temp.finish('tx-2', 0, true), 'transaction_aborted {"transactional_id": "tx-2"}',
          'commit_after_abort_is_refused');
SELECT is((SELECT string_agg(convert_from(payload, 'UTF8'), ' ' ORDER BY "offset") FROM read('t', 0, 3)),
          'plain', 'aborted_records_are_never_shown');
SELECT is((SELECT kind FROM record_batches WHERE producer_id = 'txn-marker:tx-2:0:abort'), 2::smallint,
          'the_marker_says_abort');
SELECT is(pg_temp.refusal($$SELECT pg_temp.finish('tx-2', 1, true)$$) ->> 'code', 'producer_fenced',
          'end_with_another_epoch_is_fenced');
SELECT is(pg_temp.refusal($$SELECT pg_temp.finish('never', 0, true)$$) ->> 'code', 'transaction_not_found',
          'end_of_an_unknown_id_is_not_found');

-- A new session aborts what the last one left open.
SELECT is(pg_temp.init('tx-2'), 'txn-' || left(encode(sha256('tx-2'), 'hex'), 16) || ' 1', 'a_new_session');
SELECT is(pg_temp.refusal(pg_temp.begin_of('tx-2', 1)), NULL, 'begins');
SELECT is(pg_temp.add('tx-2', 1, 'u', 0, 1, 'left'), 'appended 0-0', 'and_leaves_a_record');
SELECT is(pg_temp.stable('u', 0), '0 of 1', 'which_holds_readers');
SELECT is(pg_temp.init('tx-2'), 'txn-' || left(encode(sha256('tx-2'), 'hex'), 16) || ' 2', 'the_next_session');
SELECT is(pg_temp.stable('u', 0), '2 of 2', 'aborts_it_first');
SELECT is(pg_temp.add('tx-2', 1, 'u', 0, 2, 'late'), 'fenced, current 2', 'and_fences_the_old_one');

-- Deadlines.
SELECT is(pg_temp.refusal(pg_temp.begin_of('tx-2', 2, _timeout => 0)), NULL, 'a_transaction_without_time');
SELECT is(pg_temp.add('tx-2', 2, 'u', 0, 1, 'x'), 'overdue', 'is_overdue_for_a_publish');
SELECT is(pg_temp.status('tx-2'), 'aborted 0 0 0', 'and_aborted_by_whatever_touches_it');
SELECT is(pg_temp.finish('tx-2', 2, true), 'transaction_aborted {"transactional_id": "tx-2"}',
          'so_that_commit_is_refused');
SELECT is(pg_temp.init('tx-2') LIKE '% 3', true, 'another_session');
SELECT is(pg_temp.refusal(pg_temp.begin_of('tx-2', 3, _timeout => 0)), NULL, 'without_time');
SELECT is(pg_temp.finish('tx-2', 3, true), 'transaction_aborted {"transactional_id": "tx-2"}',
          'an_overdue_transaction_is_not_committed');
SELECT is(pg_temp.init('tx-2') LIKE '% 4', true, 'one_more_session');
SELECT is(pg_temp.refusal(pg_temp.begin_of('tx-2', 4)), NULL, 'with_a_record');
SELECT is(pg_temp.add('tx-2', 4, 'u', 0, 1, 'x'), 'appended 2-2', 'that_is_left');
SELECT is((SELECT (a.done, a.more)::text FROM abort_overdue_transactions(200) a), '(0,f)',
          'housekeeping_leaves_what_has_time');
UPDATE transaction_states SET deadline = clock_timestamp() WHERE transactional_id = 'tx-2' AND state = 'open';
SELECT is((SELECT (a.done, a.more)::text FROM abort_overdue_transactions(200) a), '(1,t)',
          'housekeeping_aborts_what_is_overdue');
SELECT is(pg_temp.stable('u', 0), '4 of 4', 'and_readers_go_on');

-- What commit checks.
SELECT is(pg_temp.init('tx-3') LIKE '% 0', true, 'a_third_producer');
SELECT is(pg_temp.refusal(pg_temp.begin_of('tx-3', 0)), NULL, 'begins_again');
SELECT is(pg_temp.add('tx-3', 0, 'u', 0, 1, 'x'), 'appended 4-4', 'with_one_record');
SELECT count(*) FROM pg_temp.create_topic('u', _auth_policy => 'acl', _write_acl => '{alice}') \g /dev/null
SELECT is(pg_temp.refusal($$SELECT pg_temp.finish('tx-3', 0, true)$$),
          '{"code": "transaction_commit_failed", "state": "open", "reason": "NOT_AUTHORIZED_FOR_TOPIC operation=write topic=u"}',
          'commit_needs_write_access');
SELECT is(pg_temp.status('tx-3'), 'open 1 1 0', 'and_stays_open_without');
SELECT is(pg_temp.finish('tx-3', 0, true, 'alice'), 'committed 1 0', 'with_it_it_commits');

-- Limits.
SELECT is(pg_temp.init('tx-4') LIKE '% 0', true, 'a_fourth_producer');
SELECT is(pg_temp.refusal(pg_temp.begin_of('tx-4', 0)), NULL, 'begins_too');
SELECT is(pg_temp.add('tx-4', 0, 't', 0, 1, 'x'), 'appended 7-7', 'a_first_record');
UPDATE transaction_requests SET sequence = 9999, byte_total = 100
 WHERE transaction_id = (SELECT transaction_id FROM transaction_states WHERE transactional_id = 'tx-4');
SELECT is(pg_temp.add('tx-4', 0, 't', 0, 2, 'x'), 'appended 8-8', 'the_10000th_record_is_accepted');
SELECT is(pg_temp.add('tx-4', 0, 't', 0, 3, 'x'), 'capacity 10000', 'one_more_is_not');
SELECT is(pg_temp.add('tx-4', 0, 't', 1, 1, 'x'), 'capacity 10000', 'in_no_partition');
UPDATE transaction_requests SET sequence = sequence - 9000, byte_total = 67108864
 WHERE transaction_id = (SELECT transaction_id FROM transaction_states WHERE transactional_id = 'tx-4');
SELECT is(pg_temp.add('tx-4', 0, 't', 0, 3, 'x'), 'capacity 67108864', 'bytes_are_limited_too');

-- The view.
SELECT is((SELECT (x.state, x.is_final, x.messages, x.touched, x.holds_back)::text
             FROM transactions x WHERE x.transactional_id = 'tx-4'),
          '(open,f,2,{t/0},2)', 'the_view_shows_what_a_transaction_holds_back');
SELECT is((SELECT string_agg(x.state, ' ' ORDER BY x.producer_epoch) FROM transactions x
            WHERE x.transactional_id = 'tx-1'), 'committed', 'and_finished_ones');
SELECT * FROM finish();
ROLLBACK;
