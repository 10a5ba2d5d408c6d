"""What files say is shown and does nothing: no sign of theirs reaches a terminal that moves its cursor or turns its text around."""

import unicodedata

NASTY = "Or\x1b[31mder,Rea\u202eson,\x9b2J\u00ad\nA,b,c\n"


def test_no_command_repeats_what_a_terminal_obeys_and_letters_of_any_language_stay(workspace):
    workspace.use_shipped("order-deletes")
    name = workspace.drop("order_deletes_1.csv", NASTY).relative_to(workspace.folder)
    for words in (("check", name), ("mapping", "preview", name), ("run",), ("show", "A\x1b[31m")):
        done = workspace.command(*words)
        said = done.stdout + done.stderr
        assert "Traceback" not in said
        assert said.strip()
        assert {sign for sign in said if unicodedata.category(sign) in ("Cc", "Cf")} <= {"\n", "\t"}, words
    letters = "Größe\u00a0中文 Ørsted\u202f№"
    assert letters in workspace.command("show", letters).stderr
