"""What a probe found becomes the default, and nothing more; rules that would double or lose records are refused without such evidence."""

import re
from datetime import UTC, datetime

import pytest

from loadsheet.contract import Assumptions, FlagForm
from loadsheet.errors import SettingsError
from loadsheet.exchange_profile import Capabilities, ProbedAnswer, assumptions_for, write_capabilities
from loadsheet.settings import Settings

URL = "https://sandbox.example/exchange"


def written(folder, url=URL, **values):
    file = folder / "capabilities.yaml"
    answers = tuple(
        ProbedAnswer("a question", name, value, "this", '200 "ok"', "found", "seen") for name, value in values.items()
    )
    moment = datetime(2026, 3, 1, 8, tzinfo=UTC)
    write_capabilities(file, Capabilities(url, moment, "0.1.0", answers))
    return file


def test_what_was_found_takes_the_place_of_the_defaults_if_the_setting_names_the_file(folder, monkeypatch):
    expected = {"create_existing": "replace", "status_index_base": 1, "tender_listing_query": ""}
    file = written(folder, **expected, flag_form="true/false")
    found = Assumptions(**expected, flag_form=FlagForm.TRUE_FALSE)
    assert Settings.load(exchange=URL, capabilities=file).assumptions == found
    assert Settings.load(exchange=URL).assumptions == Assumptions()
    monkeypatch.setenv("LOADSHEET_CAPABILITIES", str(file))
    assert Settings.load(exchange=URL).assumptions == found
    switched_off = Settings.load(exchange=URL, capabilities="")
    assert (switched_off.capabilities, switched_off.assumptions) == (None, Assumptions())


def test_settings_file_environment_and_command_line_win_in_this_order(folder, write, monkeypatch):
    file = written(folder, create_existing="accept", update_unknown="accept", quote_unknown="accept", page_size_max=7)
    write(f'exchange = "{URL}/"', f'capabilities = "{file}"', "[assumptions]",
          'create_existing = "replace"', 'update_unknown = "replace"')  # fmt: skip
    monkeypatch.setenv("LOADSHEET_ASSUMPTIONS__CREATE_EXISTING", "reject")
    expected = {"create_existing": "reject", "update_unknown": "replace", "quote_unknown": "accept", "page_size_max": 7}
    assert Settings.load().assumptions == Assumptions(**expected)
    given = Settings.load(assumptions=Assumptions(create_existing="accept")).assumptions
    assert given.create_existing == "accept"


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
        ("answers: [{questio: x}]", "answers[0].questio: unknown name; did you mean answers[0].question"),
        ("assumptions: {create_existing: maybe}", "assumptions.create_existing: Input should be 'reject', 'replace' or 'accept'"),
        ("assumptions: [1]", "assumptions must be a table of names and values"),
        ("answers: {}\nanswers: []", "is not YAML"),
        ("answers: 7", "answers must be a list"),
        ("- 1", "the file must be a table of names"),
        (b"\xff\xfe\x00", "is not YAML"),
        (None, "cannot be read"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_file_is_named(folder, text, said):
    file = folder / "capabilities.yaml"
    if text is not None:
        whole = text if isinstance(text, bytes) or text[0] == "-" else f"exchange: {URL}\n{text}\n"
        file.write_bytes(whole if isinstance(whole, bytes) else whole.encode())
    with pytest.raises(SettingsError) as refused:
        assumptions_for(URL, file)
    assert said in str(refused.value)


def test_texts_of_an_exchange_cannot_break_the_file(folder):
    nasty = 'a "quote": #, \n- x\t\u2028 \\ {}'
    answer = ProbedAnswer(nasty, "accept_sets_tender_status", nasty, nasty, nasty, "found", "seen")
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
