"""The failure modes of mapping, M1 to M31, and for each the tests that cover it, or what is not covered and why.

M1 A bad mapping file: unknown keys, wrong types, keys twice, what older YAML would change
    test_a_wrong_mapping_is_refused_at_its_line, test_a_misspelt_key_is_refused_at_its_line,
    test_a_value_of_another_type_is_refused_at_its_line, test_a_wrong_layout_is_refused_at_its_line,
    test_m1_what_older_yaml_would_change_stays_as_it_is_written, test_m1_aliases_cannot_blow_a_file_up
M2 Code in a mapping file
    test_m2_an_expression_reaches_nothing_but_its_columns, test_what_does_not_fit_is_refused_before_any_row_is_read
    The lint refuses eval, exec and unsafe YAML loaders (ruff S).
M3 A pattern that runs away
    test_m3_no_allowed_pattern_runs_away
M4 A mapping edited while a run uses it
    test_m4_a_mapping_edited_while_it_is_used_changes_nothing, test_a_changed_code_table_changes_the_hash
M5 Headings missing, renamed, too many, in another case, with hard spaces
    test_labels_are_compared_without_case_accents_space_and_punctuation_around, test_aliases_stand_in_for_the_label,
    test_the_closest_row_and_the_missing_labels_are_named, test_optional_columns_may_be_missing_and_further_ones_are_fine
M6 Two headings that are one
    test_a_mapped_column_that_stands_twice_is_refused_with_both_places,
    test_label_and_alias_side_by_side_are_refused_but_not_if_the_alias_is_a_column_of_its_own
M7 No mapping, or two, for a file
    test_m7_no_mapping_or_two_mappings_are_refused_and_never_the_first_match
M8 Rows of one order that are not adjacent
    test_m8_rows_of_one_order_need_not_stand_together, test_m8_shuffled_rows_give_the_same_payloads_in_every_layout
M9 Rows of one order that disagree
    test_m9_rows_of_one_order_that_disagree_refuse_that_order_alone
M10 An identifier twice: in a file, across files, across mappings
    test_m10_an_identifier_twice_refuses_all_its_rows_where_rows_are_not_grouped,
    test_the_same_content_is_recognised_within_a_drop_and_across_drops
    Across files and mappings the ledger judges it by its lane. Not: a setting for first or merge; rows that belong together are
    grouped, and which of two would be first is for the sender to say.
M11 Identifiers that look alike
    test_m11_identifiers_are_texts_with_their_zeros,
    test_records_with_two_key_fields_are_told_apart_by_both
    Lost zeros are pointed out by the sentinel (R223). Not: a warning for 123 beside 00123; both are identifiers that occur.
M12 A required field that is blank
    test_m12_each_required_field_that_is_blank_is_refused, test_an_order_requires_33_fields_on_create_and_three_on_update
M13 Numbers where texts are due, and texts where numbers are
    test_m13_every_field_can_be_filled_from_a_column, test_a_number_is_taken_in_both_forms_unless_only_that_of_the_samples_is
M14 Numbers as a locale writes them
    test_m14_numbers_are_read_as_the_declared_locale_writes_them, test_m14_an_ambiguous_number_is_refused_with_both_readings,
    test_m14_no_text_is_read_otherwise_than_the_strict_parser_reads_it
M15 Units
    test_m15_quantities_are_converted_by_the_table_or_refused, test_m15_units_are_known_by_what_shippers_write,
    test_m15_quantities_are_exact
M16 Day and month in either order
    test_m16_dates_are_read_by_declared_formats_only, test_m16_formats_that_read_one_text_as_two_dates_are_refused,
    test_four_thousand_dates_in_another_style_are_one_cause_with_the_format_to_set
M17 Times that the clocks skip or repeat
    test_m17_times_that_the_clocks_skip_are_refused, test_m17_times_that_happen_twice_are_refused_unless_one_is_meant,
    test_m17_every_change_of_the_clocks_is_seen, test_m17_adding_time_across_a_change_of_the_clocks_loses_no_hour,
    test_m17_a_date_and_a_time_of_day_are_that_time_on_the_clock_of_that_day,
    test_m17_days_of_the_calendar_keep_the_time_of_day_and_hours_do_not,
    test_m17_source_fold_holds_for_calculated_times_as_for_written_ones
    Not: a setting that moves a time in the gap. It is not a time, and which one was meant only its sender knows.
M18 Time zone and offset that disagree
    test_m18_the_offset_is_that_of_the_zone_at_that_date, test_m18_each_row_may_have_its_own_zone,
    test_a_quote_says_when_in_utc_and_how_far_off_in_minutes
    An offset is computed from the zone; where a sheet states one as well, a check compares them.
M19 The shapes of dates and times in payloads
    test_every_datetime_is_spelled_in_the_shape_of_its_field, test_an_aware_datetime_is_brought_to_utc_where_the_shape_says_utc
M20 A window that ends before it starts
    test_m20_a_window_that_ends_before_it_starts_is_refused_or_warned_of
M21 Words in another case, and synonyms
    test_m21_codes_are_known_or_refused_with_a_proposal,
    test_a_value_outside_the_named_ones_is_a_warning_while_the_list_is_open
M22 Too long, control characters, letters of four bytes
    test_lengths_are_checked_and_never_cut_in_silence, test_no_text_breaks_a_converter
M23 Blank, null and an empty text
    test_m23_blank_is_left_out_and_an_empty_text_is_sent_where_the_mapping_writes_it, test_a_blank_row_sends_no_optional_field
M24 An array that may be empty
    test_m24_an_array_is_sent_empty_where_the_mapping_writes_it
M25 Two spellings of a field of the interface
    test_m25_the_history_description_is_spelled_as_assumed
M26 Deep and huge records
    test_m26_an_order_may_have_ten_thousand_packages
M27 One bad record among many
    test_m27_one_bad_row_refuses_its_order_and_no_other
M28 A code that the table lacks
    test_m28_a_code_that_the_table_lacks_follows_the_rule, test_m28_the_row_that_names_most_of_its_keys_counts,
    test_a_lookup_with_two_meanings_for_one_code_is_refused
M29 The same input, other bytes
    test_m29_the_same_input_gives_the_same_bytes, test_equal_content_has_an_equal_hash_however_its_numbers_are_written
M30 Text that looks like a formula
    test_m30_formula_like_text_is_data, test_no_reader_sees_a_formula
M31 Errors in a whole file
    test_nothing_of_a_drop_with_too_many_errors_is_sent_until_a_person_says_so,
    test_check_folds_problems_by_cause_and_says_that_a_run_would_hold_the_rest
"""

import re
from pathlib import Path

from sheets import ASSUMED, documents, load_text

from loadsheet.mapping import load

COVERED = {found[1]: found[2] for found in re.finditer(r"^(M\d+) (.+?)(?=^M\d|\Z)", __doc__, re.MULTILINE | re.DOTALL)}
DELETES = """\
mapping: deletes
version: 1
target: order.delete
source: {files: "*.csv"}
columns: {order: {label: Order, required: true}}
payload: {order_id: {expr: 'order + "-A"'}}
"""


def test_every_failure_mode_of_mapping_stands_in_the_table_once():
    assert re.findall(r"^(M\d+) ", __doc__, re.MULTILINE) == [f"M{number}" for number in range(1, 32)]


def test_every_mode_of_mapping_names_tests_that_exist():
    texts = (path.read_text(encoding="utf-8") for path in Path(__file__).parents[1].rglob("test_*.py"))
    there = {name for text in texts for name in re.findall(r"^\s*def (test_\w+)", text, re.MULTILINE)}
    named = {mode: set(re.findall(r"\btest_\w+", text)) for mode, text in COVERED.items()}
    assert {mode: missing for mode, names in named.items() if (missing := names - there)} == {}
    assert [mode for mode, names in named.items() if not names] == []


def test_m4_a_mapping_edited_while_it_is_used_changes_nothing(tmp_path):
    mapping = load_text(tmp_path, DELETES)
    mapping.path.write_text(DELETES.replace("-A", "-B"), encoding="utf-8")
    (document,) = documents(mapping, [["7"]])
    assert document.key == "7-A"
    edited = load(mapping.path, ASSUMED)
    assert edited.hash != mapping.hash
    (document,) = documents(edited, [["7"]])
    assert document.key == "7-B"
