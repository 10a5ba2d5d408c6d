"""An inbox that does not exist is an error, not an empty night."""

from command_in_process import loadsheet
from exchange_process import exchange
from orders import MAPPINGS


def test_a_given_inbox_that_does_not_exist_is_a_wrong_setting(tmp_path):
    for words in (["run"], ["run", "--dry-run"], ["watch"]):
        done = loadsheet(tmp_path, *words, "--inbox", "inbx", "--mappings", MAPPINGS)
        assert done.returncode == 78
        assert (
            "the inbox inbx does not exist. Create the folder, or correct the setting `inbox` (--inbox)" in done.stderr
        )
        assert not (tmp_path / "inbx").exists()
        assert not (tmp_path / ".loadsheet").exists()


def test_the_built_in_inbox_of_a_new_folder_is_made_and_a_link_in_it_needs_somebody(tmp_path):
    with exchange(tmp_path / "exchange.db") as served:
        words = ("run", "--mappings", MAPPINGS, "--exchange", served.url)
        done = loadsheet(tmp_path, *words)
        assert done.returncode == 0, done.stderr
        (tmp_path / "inbox" / "orders.csv").symlink_to(tmp_path / "elsewhere.csv")
        done = loadsheet(tmp_path, *words)
    assert done.returncode == 1, done.stderr
    assert "1 file is stuck in the inbox" in done.stdout
