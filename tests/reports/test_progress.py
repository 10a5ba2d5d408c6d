"""A progress bar appears on a terminal only."""

import sys

from loadsheet.cli.output import progress


def test_a_progress_bar_appears_on_a_terminal_only(capsys, monkeypatch):
    with progress("Sending") as advance:
        assert advance is None
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress("Sending") as advance:
        advance(1, 2)
    out, err = capsys.readouterr()
    assert out == ""
    assert "Sending" in err
