"""The failure modes of ledger and dispatch, L1 to L25 and D1 to D44, and for each the tests that cover it, or what is not and why.

L1 kill -9 at every point
    test_a_killed_night_is_finished_by_the_next, test_killed_before_every_effect,
    test_a_kill_in_the_middle_loses_nothing_and_doubles_nothing
L2 A second kill while it recovers
    test_killed_again_while_it_recovers
L3 Loss of power, writes in another order and torn
    test_a_power_loss_keeps_every_call_that_had_left, test_a_power_loss_at_every_write,
    test_every_pragma_is_what_was_asked_for_also_after_a_reopen
L4 A sync that fails
    test_a_failing_disk_loses_nothing, test_failing_at_every_write
L5 The disk is full
    test_a_run_does_not_begin_without_space_for_its_outcomes, test_wherever_a_disk_becomes_full_what_was_recorded_stays_true,
    test_a_failing_disk_loses_nothing, test_failing_at_every_write
L6 An outcome cannot be written after a 200
    test_outcomes_are_recorded_on_a_full_disk_and_nothing_more_is_sent_until_there_is_space,
    test_outcomes_that_fit_nowhere_are_said_and_unknown_the_next_time
    Not: trying on. A failed sync is not tried again (L4); the run ends and the next one resolves it.
L7 Two processes, one ledger
    test_a_second_process_is_told_who_holds_it_and_gets_it_when_the_holder_is_killed,
    test_two_runs_at_once_send_every_document_once, test_a_process_does_not_open_its_own_ledger_twice
L8 A process is frozen for hours and goes on
    test_calls_over_tls_share_a_connection_and_end_in_time, test_a_call_is_over_when_its_time_is_over,
    test_a_call_whose_intent_is_old_does_not_leave, test_a_call_that_grew_old_while_it_connected_does_not_leave,
    test_a_process_that_stood_still_sends_nothing_on_its_old_lease
    The lock is the operating system's and has no time; the age of its intent and the deadline of a call are looked at right before
    its first byte.
L9 PostgreSQL: connections that drop, failover
    Not: the shared ledger is not built; a URL of one is refused (test_a_url_that_cannot_be_used_is_refused).
L10 A locked database, long readers, a log that grows
    test_a_long_reader_neither_stops_the_end_of_a_run_nor_loses_anything, test_the_log_is_folded_in_when_a_run_ends
L11 Damaged pages, a truncated file, a log that is gone
    test_a_truncated_one_is_refused,
    test_a_ledger_that_does_not_know_the_last_run_is_refused_and_the_right_one_is_not,
    test_damage_is_found_when_the_last_run_did_not_end, test_damage_is_found_on_the_next_day_and_by_check_on_the_same,
    test_a_file_that_is_no_database_is_left_alone
L12 An old backup in its place
    test_a_ledger_that_does_not_know_the_last_run_is_refused_and_the_right_one_is_not,
    test_what_an_older_ledger_would_send_is_unknown_once_it_is_accepted
L13 The ledger is deleted, the archive still there
    test_a_ledger_that_is_gone_is_not_replaced_by_an_empty_one
    Not: rebuilding it from the archive. Backups are the way back; the originals in the archive can be dropped again.
L14 An upgrade killed in the middle
    test_killed_at_any_statement_the_upgrade_goes_on_when_it_is_opened_again,
    test_an_upgrade_whose_backup_cannot_be_written_changes_nothing
L15 A newer schema
    test_a_ledger_of_a_newer_program_is_left_alone
L16 An upgrade with work in flight
    test_everything_is_there_after_the_upgrade_and_work_in_flight_goes_on
L17 A network file system
    test_a_network_file_system_is_known_by_the_mount_that_holds_the_path
L18 The wall clock is put back
    test_a_wall_clock_put_back_lengthens_a_pause, test_a_wall_clock_put_forward_shortens_no_pause
    Order is that of integer ids, never of times.
L19 Hashes or ids that clash
    test_a_create_is_there_only_as_it_was_sent, test_another_spelling_of_a_yes_is_the_same_record
    Not: a forced clash of SHA-256. Ids are the database's primary keys.
L20 The same operation planned twice
    test_copies_that_waited_together_are_sent_once, test_a_killed_night_is_finished_by_the_next,
    test_the_same_content_is_recognised_within_a_drop_and_across_drops
L21 Changes by hand, two people at one entry
    test_check_finds_what_somebody_changed_by_hand, test_one_entry_settled_twice_at_once_settles_nothing,
    test_decisions_are_chained_and_doctor_notices_a_changed_one
L22 Ten million operations
    test_ten_thousand_orders_need_hardly_more_memory_than_two_thousand
    Measured by `make bench`. Not: deleting old entries; the memory of what was sent is what keeps a re-drop harmless.
L23 Rights of files
    test_only_its_owner_may_read_it_also_where_others_could_before
L24 Out of memory while committing
    test_what_no_memory_was_left_for_is_not_half_recorded (SQLite's own limit, lowered until a commit fails)
L25 The chain of decisions is broken
    test_decisions_are_chained_and_doctor_notices_a_changed_one
    The chain has no key, so none can be lost.
D1 No name, no connection
    test_nobody_there_leaves_everything_ready, test_a_name_that_does_not_exist_leaves_everything_ready,
    test_failed_calls_in_a_row_end_the_sending
D2 TLS that cannot be trusted
    test_a_certificate_nobody_vouches_for_is_not_accepted, test_a_certificate_of_another_host_is_not_accepted,
    test_tls_to_a_plain_port_sends_nothing
D3 Reset or closed without an answer
    test_one_bad_call_touches_no_other_and_is_never_repeated, test_every_class_of_misbehaviour_at_every_place
D4 Reset while the body is written
    test_every_class_of_misbehaviour_at_every_place, test_a_request_that_nobody_takes_in_is_over_when_its_time_is_over
D5 A connection that was closed just then
    test_a_connection_that_idled_is_not_used_again, test_a_connection_that_the_exchange_closed_is_noticed
D6 The time is over after the effect
    test_a_call_is_over_when_its_time_is_over, test_a_lost_answer_ends_as_the_protocol_says
D7 The time is over before the effect
    test_a_create_that_is_applied_late_is_there_once_even_where_it_was_sent_again, test_no_history_loses_or_doubles
D8 An answer in drips
    test_a_call_is_over_when_its_time_is_over, test_every_class_of_misbehaviour_at_every_place
D9 An answer cut short
    test_one_bad_call_touches_no_other_and_is_never_repeated, test_after_any_failure_the_next_call_gets_through
D10 Giant and packed answers
    test_answers_are_read_up_to_a_size_only, test_a_packed_answer_is_unpacked_and_a_broken_one_is_no_answer
D11 500, 502, 504
    test_every_status_has_a_meaning_and_most_are_unknown, test_every_class_of_misbehaviour_at_every_place
D12 503
    test_every_status_has_a_meaning_and_most_are_unknown
    Not: a setting that takes a 503 for not applied. Unknown is always safe, and costs a look.
D13 429 and what Retry-After may say
    test_a_retry_after_is_obeyed_up_to_a_cap, test_a_pause_that_the_exchange_asks_for_is_kept
D14 429 without end
    test_an_hour_of_429_ends_paused, test_a_busy_exchange_without_end_pauses_the_run_and_marks_nothing
D15 401 at any moment
    test_an_expired_token_loses_and_doubles_nothing, test_a_token_that_ends_in_the_middle_marks_nothing_refused,
    test_a_token_that_stays_refused_is_asked_for_once
D16 401 for one operation
    test_a_refused_token_and_what_halts_end_it_at_once
    Not: going on with other operations. A 401 ends the run; what was not sent is still ready.
D17 403 and others that would meet every call
    test_what_would_hit_every_call_ends_the_sending_at_once, test_a_refused_token_and_what_halts_end_it_at_once
D18 No listing is served
    test_where_no_listing_is_served_nothing_is_proved_and_the_rest_goes_on, test_a_listing_that_cannot_be_had_changes_nothing
D19 408, 409, 425
    test_every_status_has_a_meaning_and_most_are_unknown
D20 Redirects
    test_no_redirect_is_followed_and_the_token_goes_nowhere_else
D21 A documented refusal of a first attempt
    test_a_documented_refusal_is_refused_with_its_fields, test_a_fault_is_placed_on_the_cell_it_comes_from
D22 A refusal after an unknown attempt
    test_a_refusal_after_an_unknown_attempt_is_unknown, test_a_named_record_that_was_unknown_before_stays_unknown
D23 A refusal in no documented shape
    test_a_refusal_in_no_documented_shape_is_refused_and_kept_in_part
D24 A success whose status is false
    test_a_success_in_another_shape_is_unknown, test_a_success_that_says_no_is_refused_once_it_is_proved_absent
D25 A status that is not a boolean
    test_a_success_in_another_shape_is_unknown
D26 Another record is named
    test_an_answer_that_names_another_record_is_unknown
D27 A page of a portal
    test_a_web_page_in_the_place_of_an_answer_is_unknown_and_ends_the_sending
D28 201, 202, 204, 206
    test_every_status_has_a_meaning_and_most_are_unknown
D29 A number or a text as the receipt
    test_a_documented_success_is_accepted
D30 None or several entries in orders_data
    test_a_success_in_another_shape_is_unknown
D31 A refusal that names data[<index>]
    test_a_named_record_is_refused_and_the_others_are_applied_once, test_an_index_that_names_nobody_splits_the_batch,
    test_every_event_is_applied_once_or_named_whatever_the_exchange_does
D32 Answers that no strict reader takes
    test_a_success_in_another_shape_is_unknown
D33 An answer that belongs to another request
    test_every_class_of_misbehaviour_at_every_place, test_after_any_failure_the_next_call_gets_through
D34 100, 103, chunk extensions, trailers
    test_every_class_of_misbehaviour_at_every_place
    The parser is httptools, which has tests of its own for them.
D35 Something between repeats a call
    test_absence_counts_only_in_a_whole_listing_of_the_right_kind_with_a_witness
    Two records of one key are told by every look (Presence.TWICE) and by the reconciliation. Not: preventing it; no client can.
D36 A storm when the exchange comes back
    test_an_exchange_that_comes_and_goes_is_not_flooded, test_after_nobody_was_there_it_starts_with_one_call,
    test_as_many_calls_leave_in_a_second_as_may, test_with_many_unknown_outcomes_nothing_more_is_created_and_the_rest_goes_on
D37 One key that hangs
    test_a_slow_call_holds_up_nobody_else, test_nothing_on_a_lane_is_sent_behind_an_unknown_outcome
D38 A signal to end
    test_a_signal_lets_calls_under_way_finish, test_a_watch_that_is_killed_or_stopped_while_it_works_goes_on_where_it_was
D39 Proxies and .netrc of the environment
    test_the_environment_changes_nothing
D40 Base URLs with credentials, queries, plain HTTP
    test_a_base_url_that_cannot_be_used_is_refused, test_http_to_another_machine_needs_a_setting
D41 A configuration that leads elsewhere
    test_a_base_url_that_cannot_be_used_is_refused
    Not: a list of allowed hosts. The settings name one origin, and the token is sent to no other.
D42 A clock that differs on a Retry-After date
    test_a_retry_after_date_without_a_date_of_the_answer_is_taken_against_our_clock, test_a_retry_after_is_obeyed_up_to_a_cap
D43 Order of the operations of one key
    test_calls_that_may_leave_together_share_no_lane_and_overtake_nothing, test_no_history_loses_or_doubles, test_many_nights
D44 A change of what was refused or is unknown
    test_what_still_waits_at_the_end_is_held_and_says_why, test_work_behind_an_unknown_outcome_is_held_at_the_end_and_goes_in_its_order,
    test_a_create_behind_a_delete_that_is_refused_is_judged_anew
"""

import re
from pathlib import Path

MODES = [*(f"L{number}" for number in range(1, 26)), *(f"D{number}" for number in range(1, 45))]
COVERED = {
    found[1]: found[2] for found in re.finditer(r"^([LD]\d+) (.+?)(?=^[LD]\d|\Z)", __doc__, re.MULTILINE | re.DOTALL)
}


def test_every_failure_mode_of_ledger_and_dispatch_stands_in_the_table_once():
    assert list(COVERED) == MODES
    assert re.findall(r"^([LD]\d+) ", __doc__, re.MULTILINE) == MODES


def test_every_mode_of_ledger_and_dispatch_names_tests_that_exist_or_says_why_not():
    there = names_of_tests()
    named = {mode: set(re.findall(r"\btest_\w+", text)) for mode, text in COVERED.items()}
    assert {mode: missing for mode, names in named.items() if (missing := names - there)} == {}
    assert [mode for mode, names in named.items() if not names and "Not:" not in COVERED[mode]] == []


def names_of_tests():
    files = Path(__file__).parents[1].rglob("test_*.py")
    return {
        name for file in files for name in re.findall(r"^def (\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
