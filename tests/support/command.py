"""What a command of the tests finds in its environment."""

import os

TOKEN = "token-of-the-tests"


def environment(**more: str) -> dict[str, str]:
    """The environment of a command: this process's without any setting of loadsheet, then what is given. A run prints as on a terminal."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LOADSHEET_")}
    return {**clean, "LOADSHEET_TOKEN": TOKEN, "LOADSHEET_ALLOW_ROOT": "true", "LOADSHEET_QUIET": "false", **more}
