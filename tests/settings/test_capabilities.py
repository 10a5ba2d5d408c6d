"""What a probe found becomes the default, and nothing more; rules that would double or lose records are refused without such evidence."""

import re
from datetime import UTC, datetime

import pytest

from loadsheet.contract import Assumptions, FlagForm
from loadsheet.exchange_profile import Answer, Capabilities, assumptions_for, write_capabilities
from loadsheet.problems import SettingsError
from loadsheet.settings import Settings

URL = "https://sandbox.example/exchange"


def written(folder, url=URL, **values):
    file = folder / "capabilities.yaml"
    answers = tuple(
        Answer("a question", name, value, "this", '200 "ok"', "found", "seen") for name, value in values.items()
    )
    moment = datetime(2026, 3, 1, 8, tzinfo=UTC)
    write_capabilities(file, Capabilities(url, moment, "0.1.0", answers))
    return file


def test_what_was_found_takes_the_place_of_the_defaults(folder):
    file = written(
        folder, create_existing="replace", status_index_base=1, tender_listing_query="", flag_form="true/false"
    )
    found = Settings.load(exchange=URL, capabilities=file).assumptions
    expected = {"create_existing": "replace", "status_index_base": 1, "tender_listing_query": ""}
    assert found == Assumptions(**expected, flag_form=FlagForm.TRUE_FALSE)


def test_without_the_setting_the_file_is_not_read(folder):
    written(folder, create_existing="replace")
    assert Settings.load(exchange=URL).assumptions == Assumptions()


def test_settings_file_environment_and_command_line_win_in_this_order(folder, monkeypatch):
    file = written(folder, create_existing="accept", update_unknown="accept", quote_unknown="accept", page_size_max=7)
    config = folder / "loadsheet.toml"
    lines = [f'exchange = "{URL}/"', f'capabilities = "{file}"', "[assumptions]"]
    lines += ['create_existing = "replace"', 'update_unknown = "replace"']
    config.write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setenv("LOADSHEET_ASSUMPTIONS__CREATE_EXISTING", "reject")
    expected = {"create_existing": "reject", "update_unknown": "replace", "quote_unknown": "accept", "page_size_max": 7}
    assert Settings.load().assumptions == Assumptions(**expected)
    given = Settings.load(assumptions=Assumptions(create_existing="accept")).assumptions
    assert given.create_existing == "accept"


def test_the_environment_can_name_the_file_and_an_empty_name_is_none(folder, monkeypatch):
    file = written(folder, create_existing="replace")
    monkeypatch.setenv("LOADSHEET_CAPABILITIES", str(file))
    assert Settings.load(exchange=URL).assumptions.create_existing == "replace"
    switched_off = Settings.load(exchange=URL, capabilities="")
    assert (switched_off.capabilities, switched_off.assumptions) == (None, Assumptions())


@pytest.mark.parametrize("exchange", ["embedded", "https://live.example/exchange"])
def test_what_was_found_at_another_exchange_is_refused(folder, exchange):
    file = written(folder, create_existing="replace")
    with pytest.raises(SettingsError, match=f"describes the exchange {re.escape(URL)}") as refused:
        Settings.load(exchange=exchange, capabilities=file)
    assert refused.value.exit_code == 78
    assert exchange in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("assumptions: {create_existin: reject}", "assumptions.create_existin: unknown name; did you mean assumptions.create_existing"),
        ("asumptions: {}", "asumptions: unknown name; did you mean assumptions"),
        ("answers: [{questio: x}]", r"answers\[0\].questio: unknown name; did you mean answers\[0\].question"),
        ("assumptions: {create_existing: maybe}", "assumptions.create_existing: Input should be 'reject', 'replace' or 'accept'"),
        ("assumptions: [1]", "assumptions must be a table of names and values"),
        ("answers: {}\nanswers: []", "is not YAML"),
        ("answers: 7", "answers must be a list"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_file_is_named(folder, text, said):
    file = folder / "capabilities.yaml"
    file.write_text(f"exchange: {URL}\n{text}\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=said):
        assumptions_for(URL, file)


def test_a_file_that_is_not_there_or_no_text_is_refused(folder):
    with pytest.raises(SettingsError, match="cannot be read"):
        Settings.load(exchange=URL, capabilities=folder / "none.yaml")
    (folder / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match="is not YAML"):
        assumptions_for(URL, folder / "bytes.yaml")
    (folder / "list.yaml").write_text("- 1", encoding="utf-8")
    with pytest.raises(SettingsError, match="the file must be a table of names"):
        assumptions_for(URL, folder / "list.yaml")


def test_texts_of_an_exchange_cannot_break_the_file(folder):
    nasty = 'a "quote": #, \n- x\t\u2028 \\ {}'
    answer = Answer(nasty, "accept_sets_tender_status", nasty, nasty, nasty, "found", "seen")
    file = folder / "capabilities.yaml"
    write_capabilities(file, Capabilities(URL, datetime(2026, 3, 1, tzinfo=UTC), "0", (answer,)))
    assert assumptions_for(URL, file) == {"accept_sets_tender_status": nasty}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"quiesce_s": 30}, "verification.quiesce_s (30) is shorter than dispatch.call_timeout_s (60)"),
        ({"status_quiesce_s": 10}, "verification.status_quiesce_s (10) is shorter than dispatch.call_timeout_s (60)"),
        ({"call_timeout_s": 1000}, "verification.quiesce_s (900) is shorter than dispatch.call_timeout_s (1000)"),
        ({"create_after_absent": "resend"}, "loadsheet exchange probe"),
        ({"create_after_absent": "resend", "assumptions": {"create_existing": "accept"}}, "trust_quiesce"),
        (
            {"create_after_absent": "resend", "assumptions": {"quote_existing": "replace"}},
            "assumptions.create_existing",
        ),
        ({"quote_on_unknown": "resend_once"}, "assumptions.quote_existing = replace"),
        ({"quote_on_unknown": "resend_once", "assumptions": {"quote_existing": "reject"}}, "quote_on_unknown"),
        ({"parents": "never"}, "parents"),
    ],
)
def test_what_would_double_or_lose_is_refused_with_what_to_do(given, said):
    with pytest.raises(SettingsError) as refused:
        Settings.load(**given)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "given",
    [
        {"quiesce_s": 60},
        {"create_after_absent": "resend", "trust_quiesce": True},
        {"create_after_absent": "resend", "assumptions": {"create_existing": "reject"}},
        {"create_after_absent": "resend", "assumptions": {"create_existing": "replace"}},
        {"quote_on_unknown": "resend_once", "assumptions": {"quote_existing": "replace"}},
    ],
)
def test_what_is_backed_by_a_probe_or_a_word_is_taken(given):
    loaded = Settings.load(**given)
    assert all(getattr(loaded.verification, name) == value for name, value in given.items() if name != "assumptions")


def test_a_probe_is_a_word_and_our_default_is_none(tmp_path):
    found = tmp_path / "capabilities.yaml"
    text = 'exchange: "https://x.example"\nprobed_at: "2026-03-04T02:15:00Z"\nloadsheet: "0.1.0"\n'
    found.write_text(text + 'assumptions:\n  create_existing: "reject"\n', encoding="utf-8")
    given = {"create_after_absent": "resend", "exchange": "https://x.example"}
    assert Settings.load(capabilities=found, **given).verification.create_after_absent == "resend"
    found.write_text(text + "assumptions: {}\n", encoding="utf-8")
    with pytest.raises(SettingsError):
        Settings.load(capabilities=found, **given)
