"""The classes of files that every release is tried on, and the traps that readers fall into in silence: each has its tests.

Owns no behaviour: two tables from what can be met to the names of the tests that prove it, and the check that those exist.
"""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]

CLASSES = {
    "1 a quote that is never closed": [
        "test_a_quote_that_is_never_closed_refuses_the_file_and_names_the_row_it_opens_in"
    ],
    "2 legacy code pages": [
        "test_a_declared_encoding_gives_the_exact_text",
        "test_declared_encodings_are_tried_in_order_over_the_whole_file",
        "test_a_bad_byte_is_named_by_offset_and_line",
        "test_an_xls_of_excel_5_is_read_in_its_code_page",
    ],
    "3 UTF-16 and a mark that contradicts": [
        "test_every_mark_is_known_in_both_byte_orders",
        "test_a_mark_that_contradicts_the_bytes_is_refused",
    ],
    "4 line ends, preface, comments": [
        "test_every_line_end_gives_the_same_rows",
        "test_titles_units_and_blank_rows_may_stand_above_the_header",
        "test_comments_are_ignored_wherever_they_stand_and_whatever_they_hold",
    ],
    "5 titles and units above the header": [
        "test_titles_units_and_blank_rows_may_stand_above_the_header",
        "test_the_closest_row_and_the_missing_labels_are_named",
        "test_a_given_header_row_may_lie_deep",
        "test_labels_spread_over_two_rows_are_read_as_one",
        "test_merged_header_cells_of_a_workbook_reach_as_far_as_they_are_merged",
        "test_five_rows_of_labels_are_read_where_the_mapping_says_so",
        "test_a_units_row_is_seen_and_counted",
        "test_a_footer_ends_the_table_and_each_of_its_rows_is_counted",
        "test_a_table_that_stops_at_a_blank_row_stops_there_in_every_format",
        "test_every_row_of_a_file_with_notes_all_around_is_in_a_document_or_ignored_with_its_rule",
    ],
    "6 line breaks and doubles in the header": [
        "test_accents_line_breaks_and_wide_spaces_do_not_matter",
        "test_a_mapped_column_that_stands_twice_is_refused_with_both_places",
        "test_an_unmapped_column_may_stand_twice_or_have_no_label",
        "test_a_lower_label_that_stands_under_two_groups_is_refused_with_both_places",
        "test_a_label_that_is_nearly_there_is_pointed_at",
    ],
    "7 short and long rows": [
        "test_short_and_long_rows_are_reported_and_the_others_go_on",
        "test_gaps_rows_and_addresses_are_the_same_in_every_format",
    ],
    "8 leading zeros": [
        "test_what_a_number_format_says_more_is_shown_beside_the_value",
        "test_every_format_gives_the_same_cells",
        "test_damage_is_pointed_out_with_example_and_rows",
        "test_padding_restores_lost_zeros",
    ],
    "9 numbers as people write them": [
        "test_m14_numbers_are_read_as_the_declared_locale_writes_them",
        "test_m15_quantities_are_converted_by_the_table_or_refused",
        "test_what_is_no_finite_number_is_an_error",
    ],
    "10 mixed date styles": [
        "test_mixed_date_styles_are_listed_with_their_rows",
        "test_m16_dates_are_read_by_declared_formats_only",
        "test_an_offset_in_the_text_is_converted_and_not_dropped",
    ],
    "11 both date systems": ["test_every_format_gives_the_same_cells", "test_the_date_system_of_1904_is_honoured"],
    "12 null tokens": ["test_null_tokens_are_blank_only_where_the_mapping_says_so"],
    "13 hidden sheets, rows and columns": [
        "test_what_is_hidden_or_merged_is_read_and_told_in_every_format",
        "test_what_is_hidden_is_ignored_and_counted_where_the_mapping_says_so",
        "test_hidden_sheets_are_left_out_and_counted_unless_they_are_named",
    ],
    "14 merged cells": ["test_what_is_hidden_or_merged_is_read_and_told_in_every_format"],
    "15 total rows": [
        "test_rows_left_out_by_rule_are_ignored_with_the_rule",
        "test_totals_are_ignored_between_groups_by_whole_words",
        "test_a_header_that_stands_in_the_data_again_is_ignored",
    ],
    "16 rows of one order that disagree": ["test_m9_rows_of_one_order_that_disagree_refuse_that_order_alone"],
    "17 duplicate ids": ["test_m10_an_identifier_twice_refuses_all_its_rows_where_rows_are_not_grouped"],
    "18 bombs and entities": [
        "test_an_archive_that_unpacks_to_too_much_is_refused_with_the_limit",
        "test_a_range_that_is_only_declared_costs_nothing",
        "test_more_filled_rows_than_a_sheet_has_are_refused",
    ],
    "19 cut off or empty": [
        "test_an_empty_file_says_so",
        "test_a_workbook_cut_at_any_byte_is_refused",
        "test_a_file_cut_off_anywhere_is_refused_or_read_as_it_was",
        "test_an_empty_sheet_or_no_sheet_is_refused_in_every_format",
    ],
    "20 password": ["test_what_is_not_read_is_named_with_what_to_do"],
    "21 the name lies": [
        "test_what_is_not_read_is_named_with_what_to_do",
        "test_the_name_does_not_matter_for_what_is_read",
        "test_the_one_table_in_an_archive_is_read",
    ],
    "22 columns in pairs": ["test_a_payload_path_finds_its_cell", "test_every_row_of_every_layout_is_counted_once"],
    "24 milestone columns": ["test_each_event_of_a_row_finds_its_own_milestone"],
    "23 text in a number": ["test_m15_quantities_are_converted_by_the_table_or_refused"],
    "25 companions": ["test_tables_are_joined_on_their_keys"],
    "26 forms": [
        "test_where_no_sheet_has_the_header_the_closest_row_of_all_is_named",
        "test_a_form_has_no_header_row_and_the_sheets_looked_at_are_named",
    ],
}
TRAPS = {
    "a strict workbook": ["test_a_strict_workbook_gives_the_same_rows"],
    "error cells": ["test_every_format_gives_the_same_cells", "test_error_cells_travel_as_errors"],
    "whole numbers": ["test_a_number_keeps_its_digits"],
    "a formula without value": [
        "test_a_formula_without_a_saved_value_is_told_from_an_empty_cell",
        "test_an_ods_formula_without_value_and_a_flag_kept_as_a_formula",
    ],
    "a huge declared range": [
        "test_a_range_that_is_only_declared_costs_nothing",
        "test_repeated_rows_and_cells_of_an_ods_are_read_as_often_as_they_stand",
    ],
    "hostile bytes": ["test_any_bytes_give_tables_or_a_refusal", "test_damaged_bytes_give_tables_or_one_refusal"],
    "missing parts": ["test_a_missing_part_is_named", "test_a_workbook_without_texts_and_styles_is_read"],
    "escapes": ["test_texts_stay_as_they_stand"],
    "chart and macro sheets": ["test_chart_and_macro_sheets_are_no_tables"],
    "backslash paths": ["test_backslashes_case_and_absolute_targets_in_part_names_do_not_matter"],
    "control characters": ["test_a_control_character_is_named_by_row_and_column"],
    "the delimiter": ["test_the_delimiter_is_the_one_under_which_the_header_is_found"],
    "a stale calculation": ["test_manual_calculation_macros_and_links_are_told"],
}


def test_each_class_of_files_and_each_trap_has_its_tests():
    texts = (path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    known = {name for text in texts for name in re.findall(r"^def (test_\w+)", text, re.MULTILINE)}
    missing = {what: set(tests) - known for what, tests in (CLASSES | TRAPS).items()}
    assert {what: tests for what, tests in missing.items() if tests} == {}
    assert sorted(int(name.split()[0]) for name in CLASSES) == list(range(1, 27))
