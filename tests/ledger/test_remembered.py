"""Small values that one run leaves for the next."""

from ledgers import ledger_in


def test_a_value_is_there_for_the_next_run_and_a_new_one_takes_its_place(tmp_path):
    with ledger_in(tmp_path) as ledger:
        assert ledger.stored_values.value("a") == ""
        ledger.stored_values.keep("a", "1")
        ledger.stored_values.keep("b", "2")
        ledger.stored_values.keep("a", "3")
    with ledger_in(tmp_path) as ledger:
        assert [ledger.stored_values.value(name) for name in "abc"] == ["3", "2", ""]


def test_no_name_touches_what_the_ledger_keeps_for_itself(tmp_path):
    with ledger_in(tmp_path) as ledger:
        ledger.stored_values.keep("schema_version", "999")
    with ledger_in(tmp_path) as ledger:
        assert ledger.stored_values.value("schema_version") == "999"
        assert ledger.check() == []
