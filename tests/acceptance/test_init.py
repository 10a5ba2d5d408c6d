"""The first hour: `init` makes a folder in which everything works at once, and dead ends name the next command."""

import io
import sys

from command_in_process import loadsheet

from loadsheet.cli import invoke

HEADER = "Order,Deliver to,Street,City,Postcode,Country,Collect,Deliver,Item,Weight (kg),Value\n"


class Keyboard(io.StringIO):
    """A terminal at the end of its input."""

    def isatty(self):
        return True


def test_a_run_and_the_test_of_the_mapping_work_at_once(tmp_path):
    made = loadsheet(tmp_path, "init", "first")
    assert made.returncode == 0
    assert made.stdout.endswith(
        "Next:\n  cd first\n"
        "  loadsheet run                      # sends the sample\n"
        "  loadsheet mapping test             # runs the test of the mapping\n"
    )
    done = loadsheet(tmp_path / "first", "run")
    assert (done.returncode, done.stdout.startswith("✓ All 3 documents were accepted")) == (0, True), done.stdout
    for word in ("test", "lint"):
        assert loadsheet(tmp_path / "first", "mapping", word).returncode == 0


def test_existing_files_are_kept(tmp_path):
    (tmp_path / "mappings").mkdir()
    for name in ("loadsheet.toml", "mappings/orders.yaml"):
        (tmp_path / name).write_text("# mine\n", encoding="utf-8")
    made = loadsheet(tmp_path, "init")
    assert (made.returncode, made.stdout.count("kept")) == (0, 2)
    for name in ("loadsheet.toml", "mappings/orders.yaml"):
        assert (tmp_path / name).read_text(encoding="utf-8") == "# mine\n"
    again = loadsheet(tmp_path, "init")
    assert (again.returncode, "created" in again.stdout) == (0, False)


def test_an_exchange_is_written_into_the_settings_unless_it_is_no_address(tmp_path):
    for wrong in ("not a url", "https://ada:secret@exchange.example"):
        refused = loadsheet(tmp_path, "init", "new", "--exchange", wrong)
        assert (refused.returncode, "Error: exchange: " in refused.stderr) == (2, True), refused.stderr
        assert "secret" not in refused.stderr
        assert not (tmp_path / "new").exists()
    made = loadsheet(tmp_path, "init", "--exchange", 'https://exchange.example/a"b')
    assert "LOADSHEET_TOKEN" in made.stdout, "the token is the next step"
    assert 'https://exchange.example/a"b' in loadsheet(tmp_path, "config", "--json").stdout.replace('\\"', '"')


def test_the_end_of_input_instead_of_an_exchange_makes_nothing_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", Keyboard())
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.chdir(tmp_path)
    assert (invoke(["init"]), list(tmp_path.iterdir())) == (2, [])
    assert "nothing was made; name the exchange: --exchange URL" in sys.stderr.getvalue()
    assert "the state is safe" not in sys.stderr.getvalue()


def test_a_mapping_is_drafted_from_a_sheet(tmp_path):
    row = "EX-{0},M. Ansah,Park Row {0},Leeds,LS1 5HD,GB,14/12/2026 09:00,16/12/2026 08:00,Lamp,{0}.5,{0}9.90\n"
    sheet = tmp_path / "our orders.csv"
    sheet.write_text(HEADER + "".join(map(row.format, range(1, 9))), encoding="utf-8")
    made = loadsheet(tmp_path, "init", "ours", "--from", sheet.name)
    assert made.returncode == 0, made.stderr
    assert "edit mappings/our orders.yaml" in made.stdout
    for place in ("inbox/", "outbox/", "mappings/", "mappings/our orders.yaml  (a draft from our orders.csv)"):
        assert f"  created  ours/{place}\n" in made.stdout
    draft = (tmp_path / "ours" / "mappings" / "our orders.yaml").read_text(encoding="utf-8")
    assert draft.startswith("# yaml-language-server: $schema=mapping.schema.json\n")
    assert "FILL IN" in draft
    assert not (tmp_path / "ours" / "mappings" / "orders.yaml").exists()


def test_dead_ends_name_what_to_do(tmp_path):
    lost = loadsheet(tmp_path, "run")
    assert (lost.returncode, "loadsheet init" in lost.stderr) == (78, True)
    unreported = loadsheet(tmp_path, "report")
    assert (unreported.returncode, "`loadsheet run` creates it" in unreported.stderr) == (78, True)
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"
    (tmp_path / "file").write_text("", encoding="utf-8")
    refused = loadsheet(tmp_path, "init", "file/below")
    assert (refused.returncode, "cannot be written" in refused.stderr) == (75, True), refused.stderr
    refused = loadsheet(tmp_path, "demo", ".")
    assert (refused.returncode, "is not empty; name another folder" in refused.stderr) == (2, True)
