"""Settings of the protocol for unknown outcomes that make no sense together are refused before anything is read or sent."""

import pytest

from loadsheet.problems import SettingsError
from loadsheet.settings import Settings


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
