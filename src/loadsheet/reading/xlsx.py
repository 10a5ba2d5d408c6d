"""Open XML workbooks (.xlsx, .xlsm, strict ones too): their worksheets, shared texts, styles and date system."""

from loadsheet.reading.encoding import refused
from loadsheet.reading.number_formats import read_formats
from loadsheet.reading.package import SEND_AGAIN, Package, check_markup, open_package
from loadsheet.reading.sheet import Dictionary, read_texts, read_traits, stream_rows
from loadsheet.reading.sources import Source
from loadsheet.reading.workbook_values import Book, Rows, Sheet, Traits

_YES = ("1", "true", "on")


def open_xlsx(source: Source, name: str, inflated_bytes_max: int) -> Book:
    """The workbook of a file; its shared texts are read now, its sheets when they are asked for. Raises FileRefused."""
    with open_package(source, name, inflated_bytes_max) as package:
        check_markup(package)
        main = next((part for kind, part in package.relations("").values() if kind == "officeDocument"), "")
        main = main or "xl/workbook.xml"
        relations = package.relations(main)
        sheets, told = _read_main(package, main, relations)
        if not sheets:
            raise refused(name, "it is a workbook without a worksheet", SEND_AGAIN)
        dictionary = _read_dictionary(package, dict(relations.values()), from_1904="date system" in told)

    def rows(part: str) -> Rows:
        with open_package(source, name, inflated_bytes_max) as anew:
            yield from stream_rows(anew, part, dictionary)

    def prove(part: str) -> Traits:
        with open_package(source, name, inflated_bytes_max) as anew:
            return read_traits(anew, part)

    return Book(name, "workbook", tuple(sheets), told, rows, prove)


def _read_main(
    package: Package, main: str, relations: dict[str, tuple[str, str]]
) -> tuple[list[Sheet], dict[str, str]]:
    """The worksheets, and what is told of the workbook. Chart, dialog and macro sheets are no worksheets."""
    sheets: list[Sheet] = []
    told: dict[str, str] = {}
    for tag, attributes in package.elements(main):
        if tag == "workbookPr" and attributes.get("date1904", "0") in _YES:
            told["date system"] = "1904"
        elif tag == "sheet":
            kind, part = relations.get(attributes.get("id", ""), ("", ""))
            if kind == "worksheet":
                hidden = attributes.get("state", "visible") != "visible"
                sheets.append(Sheet(attributes.get("name", ""), part, hidden))
        elif tag == "calcPr" and attributes.get("calcMode") == "manual":
            told["calculation"] = "by hand: saved results of formulas may be out of date"
        elif tag == "externalReference":
            told["links to other files"] = "not followed"
    if any(kind == "vbaProject" for kind, _ in relations.values()):
        told["macros"] = "not run"
    return sheets, told


def _read_dictionary(package: Package, parts: dict[str, str], *, from_1904: bool) -> Dictionary:
    texts = tuple(read_texts(package, parts["sharedStrings"])) if "sharedStrings" in parts else ()
    formats = read_formats(package.elements(parts["styles"])) if "styles" in parts else []
    return Dictionary(texts, tuple(formats), from_1904)
