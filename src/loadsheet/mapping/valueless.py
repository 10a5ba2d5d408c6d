"""Texts that stand for a cell without a value: errors of workbooks in text files, and formulas."""

import re

_ERROR = re.compile(
    "#(DIV/0|DEEL/0|DZIEL/0|REF|BEZUG|RIF|VERW|ADR|VALUE|WERT|VALEUR|VALOR|VALORE|WAARDE|ARG|NUM|ZAHL|NOMBRE|GETAL|LICZBA|NÚM|N/D|NULL)!"
    "|#(NAME|NOM|NOME|NAAM|NAZWA)[?]|#¡(DIV/0|REF|VALOR|NUM|NULO)!|#¿NOMBRE[?]|#N/[ABD]|#NV|#{4,}"
)  # as a text file has the errors of a workbook, and cells of columns that were too narrow
_REFERENCE = r"\$?[A-Z]{1,3}\$?[1-9][0-9]*(?![0-9A-Z])"
_FORMULA = re.compile(
    rf"=[-+(]{{0,9}}(?:{_REFERENCE}|[A-Z][A-Z0-9.]*\(.*\)|[^=]*!{_REFERENCE}).*", re.DOTALL
)  # as a fix workbook shows one without a saved value, and as programs export it


def kind_without_value(text: str) -> str:
    """What a text stands for: an `error` of a workbook, a `formula`, or a value (empty)."""
    if _ERROR.fullmatch(text):
        return "error"
    return "formula" if _FORMULA.fullmatch(text) else ""
