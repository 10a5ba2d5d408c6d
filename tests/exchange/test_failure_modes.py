"""The failure modes of an exchange, X1 to X26, and for each the tests that cover it, or what is not covered and why.

X1 Missing, wrong, malformed, doubled token, or one in the query
    test_an_unauthorised_call_is_answered_401_to_the_letter, test_the_token_stands_in_its_header_alone_maybe_between_spaces,
    test_the_token_is_looked_at_before_the_body_is_read, test_a_token_that_is_not_usable_opens_nothing
X2 A party sees another's records
    test_what_belongs_to_others_is_answered_as_if_it_were_not_there, test_a_page_of_a_party_is_its_own_first_page,
    test_a_party_creates_only_what_names_it_and_sees_only_that, test_a_party_sees_its_own_records_and_calls_only
X3 A party changes or deletes another's record
    test_no_setting_lets_others_change_a_record, test_of_a_batch_only_the_own_records_are_known,
    test_the_parties_of_a_record_are_changed_by_operators_only, test_quote_by_says_which_carrier_may_quote_with_its_own_token
X4 A body too large, without length or without end
    test_body_bytes_max_is_kept_while_reading, test_a_body_without_end_is_refused_and_cut_off
    Not: 413. The interface names no such status, so it is a 400 in the operation's shape.
X5 Slow headers, slow bodies, idle and many connections
    test_headers_and_bodies_have_a_time_and_every_operation_is_refused_in_its_own_shape,
    test_an_idle_connection_is_closed_after_its_time, test_one_connection_too_many_is_told_to_come_again,
    test_slow_sockets_do_not_starve_a_good_client, test_good_clients_are_served_among_slow_ones_and_memory_stays_flat
X6 JSON without measure or that is none: depth, huge numbers, names twice, NaN, not UTF-8
    test_a_body_that_is_no_strict_json_is_refused_in_the_shape_of_every_operation,
    test_no_bytes_as_a_body_bring_a_server_error, test_nesting_has_the_depth_that_the_register_says,
    test_ten_thousand_cases_are_answered_as_the_document_says
X7 SQL injection
    test_every_valid_record_is_accepted_and_what_is_wrong_in_one_is_refused_and_named,
    test_every_valid_record_comes_back_equal_from_its_listing,
    test_identifiers_that_postgresql_could_not_index_work_all_the_same
    The lint refuses SQL made by formatting (ruff S608); every statement is SQLAlchemy Core with parameters.
X8 Markup that is stored and shown later
    test_markup_in_any_text_field_stays_text, test_every_page_forbids_scripts_frames_and_other_hosts
X9 Header injection, forged log lines
    test_broken_http_is_answered_400_and_closed_without_a_word_in_the_log, test_odd_identifiers_can_be_opened
    Nothing that a client sent is logged, and no header of an answer carries it.
X10 The token in logs, errors, representations
    test_no_token_is_kept_or_logged_whatever_happens,
    test_the_latest_calls_are_shown_without_bodies_and_tokens, test_a_database_that_cannot_be_used_is_said_at_once
X11 Tokens at rest
    test_no_token_is_kept_or_logged_whatever_happens
X12 Concurrent creates of one identifier
    test_concurrent_creates_at_several_processes_have_one_winner, test_two_stores_on_one_database_share_numbers_and_records
X13 Lost updates
    test_calls_in_one_group_see_each_other_in_order, test_of_two_updates_the_register_says_what_stays,
    test_every_sequence_of_calls_leaves_what_the_model_says,
    test_updates_of_different_fields_all_survive_and_of_one_field_one_whole_value_stays,
    test_an_update_that_begins_after_another_was_answered_wins, test_an_array_is_one_field_and_is_never_mixed,
    test_an_update_beside_a_status_that_changes_the_order_loses_neither,
    test_what_stays_is_what_the_truth_log_says_came_last
    Not: a row version for the client. The interface shows none, so of two updates of one field the later one stays; the
    register and the manual say so (test_of_two_updates_the_register_says_what_stays).
X14 A busy SQLite file
    test_a_file_that_stays_locked_is_503_and_nothing_is_kept, test_many_calls_at_a_locked_file_fail_together_and_soon
X15 kill -9 within a transaction
    test_after_each_of_many_kills_all_that_was_answered_is_there,
    test_a_killed_process_loses_nothing_answered_and_holds_up_the_others_no_longer,
    test_a_crash_of_the_database_under_load_loses_nothing_that_was_answered,
    test_a_killed_exchange_has_a_line_for_every_effect_that_was_answered
    Not: loss of power. A killed process shows nothing of it; both databases are told to wait for the disk at each commit.
X16 Odd page sizes in query or body
    test_the_page_size_is_read_from_query_or_body_and_cut, test_a_page_size_that_is_no_count_is_refused,
    test_page_size_default_and_max
X17 Unknown path, unknown method
    test_an_unknown_path_is_answered_405_after_the_token, test_another_method_is_answered_405_and_told_the_right_one,
    test_unknown_path
X18 Request smuggling
    test_broken_http_is_answered_400_and_closed_without_a_word_in_the_log, test_requests_as_bytes,
    test_pipelined_requests_are_all_answered
X19 Behaviour that the interface leaves open
    test_this_file_covers_every_setting_that_affects_the_exchange,
    test_every_open_point_of_the_specification_has_an_entry_in_the_register,
    test_a_personality_wins_over_the_settings_and_leaves_the_others
X20 Time
    test_every_valid_record_comes_back_equal_from_its_listing, test_a_token_that_expires_is_refused_at_that_moment,
    test_every_operation_leaves_its_line
    Not: conversion. Times of records are local to their own time zone field and come back as they came.
X21 PostgreSQL is away
    test_while_the_database_is_away_calls_are_503_and_afterwards_all_is_there,
    test_a_server_that_does_not_answer_is_given_up,
    test_calls_are_503_in_the_interfaces_shape_and_service_resumes_by_itself,
    test_a_server_that_falls_silent_within_a_transaction_frees_its_locks_for_others
X22 Migration with data in the tables
    test_the_first_schema_is_upgraded_with_all_that_is_in_it, test_an_upgrade_that_fails_leaves_the_database_as_it_was,
    test_several_that_open_an_old_database_at_once_upgrade_it_once,
    test_a_kill_at_any_step_of_an_upgrade_leaves_the_old_database_or_the_new_one,
    test_a_kill_at_any_step_of_making_a_new_database_leaves_none_or_all_of_it
X23 Default address and default token
    test_by_default_only_this_machine_is_listened_to,
    test_an_address_that_others_reach_is_refused_without_tls,
    test_with_a_certificate_every_address_is_served_with_tls_alone,
    test_with_tls_in_front_another_address_is_served_and_does_not_say_that_tls_stays,
    test_without_a_token_and_with_none_in_its_database_the_command_refuses_to_serve,
    test_a_made_token_is_printed_once_and_opens_the_exchange
    Not: a token made at the start. Without one the exchange refuses to serve and names the command that prints one, this once.
X24 Too many calls, guessed tokens
    test_more_calls_than_allowed_are_answered_429_with_the_wait, test_a_failed_login_takes_its_time_whatever_was_wrong,
    test_many_failing_logins_at_once_are_turned_away_and_a_right_one_is_not,
    test_the_first_cost_nothing_the_next_more_and_more_and_then_there_is_a_429,
    test_a_flood_is_slowed_and_good_tokens_of_its_address_are_served_at_once,
    test_addresses_without_number_take_bounded_memory,
    test_slow_readers_of_large_pages_hold_up_nobody_and_are_bounded
    Not: a lock-out. A good token is served whatever its address has tried. Counts are each server process's own.
X25 Error bodies that show code or SQL
    test_a_file_that_stays_locked_is_503_and_nothing_is_kept,
    test_while_the_database_is_away_calls_are_503_and_afterwards_all_is_there,
    test_one_call_that_the_database_refuses_does_not_fail_its_group
    The text of a 503 is fixed; its cause goes to the log without parameters.
X26 Forged requests at a page with a session
    test_a_form_from_elsewhere_is_not_ours, test_the_cookies_are_for_this_page_alone
"""

import re
from pathlib import Path

from click import Context

from loadsheet.cli.exchange import serve

MODES = [f"X{number}" for number in range(1, 27)]
COVERED = {
    found[1]: re.findall(r"\btest_\w+", found[2])
    for found in re.finditer(r"^(X\d+) (.+?)(?=^X\d|\Z)", __doc__, re.MULTILINE | re.DOTALL)
}


def test_every_failure_mode_stands_in_the_table_once():
    assert re.findall(r"^(X\d+) ", __doc__, re.MULTILINE) == MODES == list(COVERED)


def test_every_mode_names_tests_and_each_of_them_exists():
    there = names_of_tests()
    assert {mode: missing for mode, named in COVERED.items() if (missing := set(named) - there) or not named} == {}


def test_by_default_only_this_machine_is_listened_to():
    host = next(option for option in serve.params if option.name == "host")
    assert host.get_default(Context(serve)) == "127.0.0.1"


def names_of_tests():
    texts = (path.read_text(encoding="utf-8") for path in Path(__file__).parents[1].rglob("test_*.py"))
    return {name for text in texts for name in re.findall(r"^(?:async )?def (test_\w+)", text, re.MULTILINE)}
