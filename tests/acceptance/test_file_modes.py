"""What loadsheet writes can be read by its owner alone, whatever the umask; a setting lets a group in."""

import os

import pytest
from command_in_process import loadsheet
from orders import MAPPINGS, write_orders

from loadsheet.contract import Assumptions
from loadsheet.exchange import serve_embedded

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")


def modes(folder):
    """Every file and folder below, and how open each is."""
    return {
        str(path.relative_to(folder)): path.stat().st_mode & 0o777
        for path in folder.rglob("*")
        if not path.is_symlink()
    }


def run(folder, **more):
    write_orders(folder / "inbox", 3)
    (folder / "inbox" / "strange.csv").write_text("a;b\n1;2\n", encoding="utf-8")
    done = loadsheet(folder, "run", "--settle", "0", "--mappings", MAPPINGS, **more)
    assert done.returncode in (0, 1), done
    return done


def test_reports_state_and_logs_are_closed_to_others_whatever_the_umask(tmp_path):
    os.umask(0)
    done = run(tmp_path, LOADSHEET_ALLOW_ROOT="false")
    assert done.stderr.count("running as root") == (1 if os.geteuid() == 0 else 0)
    for name in ("outbox", ".loadsheet"):
        found = modes(tmp_path / name)
        assert len(found) > 5
        assert {path: oct(mode) for path, mode in found.items() if mode & 0o077} == {}
        assert (tmp_path / name).stat().st_mode & 0o077 == 0
    assert any("set-aside" in path for path in modes(tmp_path / "outbox"))


def test_a_group_may_read_the_outbox_and_nothing_else(tmp_path):
    done = run(tmp_path, LOADSHEET_OUTBOX_GROUP=str(os.getgid()))
    assert "running as root" not in done.stderr
    found = modes(tmp_path / "outbox")
    assert {mode for path, mode in found.items() if (tmp_path / "outbox" / path).is_file()} == {0o660}
    assert (tmp_path / "outbox").stat().st_mode & 0o777 == 0o770
    assert not any(mode & 0o077 for mode in modes(tmp_path / ".loadsheet").values())


def test_a_group_that_does_not_exist_is_a_wrong_setting(tmp_path):
    done = loadsheet(tmp_path, "run", LOADSHEET_OUTBOX_GROUP="nobody-at-all")
    assert (done.returncode, "there is no group nobody-at-all" in done.stderr) == (78, True)


def test_the_exchanges_database_is_closed_to_others_also_one_that_was_open(tmp_path):
    database = tmp_path / "exchange.db"
    for _ in range(2):
        os.umask(0)
        with serve_embedded(f"sqlite:///{database}", "token", Assumptions()):
            assert modes(tmp_path) == dict.fromkeys(["exchange.db", "exchange.db-shm", "exchange.db-wal"], 0o600)
        database.chmod(0o644)
