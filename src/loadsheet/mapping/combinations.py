"""Settings of one column that contradict each other, refused when the mapping is loaded.

Owns: which settings of a column have no meaning together, given the order of its steps (`texts`). Knows no row and no cell.
"""

from collections.abc import Iterator

from loadsheet.mapping.conversion_errors import SettingError
from loadsheet.mapping.lookups import Lookup, folded
from loadsheet.mapping.schema import Column
from loadsheet.mapping.suggestions import some
from loadsheet.mapping.texts import before_codes


def contradictions(spec: Column, lookup: Lookup | None) -> Iterator[SettingError]:
    """Each setting that means nothing beside another one of this column, with what to do about it."""
    if spec.type == "text":
        yield from _of_codes(spec)
        yield from _of_a_split(spec, lookup)
        yield from _of_lengths(spec)
    words = spec.one_of or () if spec.type == "text" else [*spec.yes, *spec.no]
    if blank := [word for word in words if word in spec.blank]:
        key = "one_of" if spec.type == "text" else "yes" if blank[0] in spec.yes else "no"
        yield SettingError(key, f'"{blank[0]}" cannot be read: it is among the texts that count as blank', "see blank:")


def _of_codes(spec: Column) -> Iterator[SettingError]:
    if spec.one_of is not None and spec.lookup is not None:
        yield SettingError("one_of", "one_of and lookup both say what a code means", "keep one of them")
    if spec.ignore_case and spec.one_of is None:
        hint = f"write it at lookups: {spec.lookup}" if spec.lookup else "it compares the cell with the codes of one_of"
        yield SettingError("ignore_case", "ignore_case needs one_of", hint)
    try:
        dead = [] if spec.one_of is None or spec.lookup is not None else _unreachable(spec)
    except SettingError:
        return  # said where the column is compiled
    if dead:
        steps = [key for key in ("case", "pad_left", "min_length", "max_length", "pattern") if getattr(spec, key)]
        yield SettingError("one_of", f"no cell can be {some(dead)} after {' and '.join(steps)}", "change the codes")


def _unreachable(spec: Column) -> list[str]:
    """The codes of `one_of` that no cell can ever hold: what the steps before leave of the code itself is another text."""
    ways = [before_codes(spec, padded=padded) for padded in (False, True)]
    if spec.pad_left is None or spec.pad_left.when is None:
        ways = ways[1:]
    texts = {code: {way(code) for way in ways} for code in spec.one_of or ()}
    same = {code: folded(code, ignore_case=spec.ignore_case) for code in texts}
    return [
        code
        for code, found in texts.items()
        if not any(folded(text, ignore_case=spec.ignore_case) == same[code] for text in found if text is not None)
    ]


def _of_a_split(spec: Column, lookup: Lookup | None) -> Iterator[SettingError]:
    if spec.split is None:
        return
    if lookup is not None and lookup.many:
        yield SettingError(
            "split", f"lookup {spec.lookup} gives several values; a split takes one text apart", "name one value"
        )
    if spec.lookup_with:
        yield SettingError(
            "split", "split does not go with lookup_with: the parts are needed before the row is complete"
        )
    if spec.pad_left is not None and spec.pad_left.when is not None:
        yield SettingError("split", "split does not go with a condition of pad_left", "pad the part instead")
    if spec.part_of is not None:
        yield SettingError("split", "a part of a split cannot be split again", f"name all parts at {spec.part_of}")


def _of_lengths(spec: Column) -> Iterator[SettingError]:
    if spec.on_too_long != "error" and spec.max_length is None:
        yield SettingError("on_too_long", "on_too_long needs max_length")
    if spec.pad_left is not None and spec.max_length is not None and spec.pad_left.to > spec.max_length:
        said = f"pad_left makes {spec.pad_left.to} characters, max_length: {spec.max_length} allows fewer"
        yield SettingError("max_length", said, "no value fits")
