"""A personality: one file of answers to what the interface leaves open, so that the exchange behaves as another one does.

Owns: the form of the file (the names of the register of assumptions, at the top or under `assumptions:`, so that the
`capabilities.yaml` of a probe is a personality too). Knows no request.
"""

from pathlib import Path

from pydantic import ValidationError

from loadsheet.contract import Assumptions
from loadsheet.exchange.scripts import read_script, unknown_name
from loadsheet.problems import SettingsError

_UNDER = "assumptions"


def read_personality(path: Path, settings: Assumptions) -> Assumptions:
    """The assumptions of a file; what it does not name stays as in `settings`.

    Raises SettingsError for a name that is not in the register (with the closest that is) and for a value that is no choice.
    """
    script = read_script(path)
    given = script.get(_UNDER, {}) if _UNDER in script else script
    if not isinstance(given, dict):
        raise SettingsError(f"{path}: {_UNDER}: expected names with their values")
    for name in given:
        if name not in Assumptions.model_fields:
            raise unknown_name(path, str(name), Assumptions.model_fields)
    try:
        return Assumptions(**{**settings.model_dump(), **given})
    except ValidationError as error:
        wrong = [f"{path}: {detail['loc'][0]}: {detail['msg']}, got {detail['input']!r}" for detail in error.errors()]
        raise SettingsError("\n".join(wrong)) from None


def deviations(assumptions: Assumptions) -> list[str]:
    """What differs from the defaults of the register, a line each: `create_existing: replace (default: reject)`."""
    usual = Assumptions()
    return [
        f"{name}: {_said(getattr(assumptions, name))} (default: {_said(getattr(usual, name))})"
        for name in Assumptions.model_fields
        if getattr(assumptions, name) != getattr(usual, name)
    ]


def _said(value: object) -> str:
    return str(value) or "(empty)"
