"""What senders do with the fix files of the random nights."""

from re import fullmatch

from fix_workbooks import FixBook
from night_records import PARTS, Dropped, Input


class Fixing:
    """The part of a walk in which fix files come back."""

    def return_fix_file(self):
        """A fix file of some night: as it was, corrected in part, or all of it."""
        if not self.fixes:
            return
        path = self.random.choice(self.fixes[-4:])
        chance = self.random.choice((0, 0.5, 1, 1))
        age, book, inputs = self._age(), FixBook(path), {}
        kind = path.name.partition("_")[0]
        sheets = self._sheets_of(book, kind)
        for cells in self._cells_by_key(sheets, kind).values():
            before = self._input_with(path, cells)
            rows, packages, quality = self._returned(before, cells, sheets, chance)
            inputs[before.key] = before
            if (rows, packages, quality) != (before.rows, before.packages, before.quality):
                mended = Input(kind, before.key, rows, packages, quality, age, before.root)
                mended.first = before.first or before.age
                mended.lacks_a_row = quality == "wrong" and len(mended.all_rows) < len(before.all_rows)
                if before.corrected:
                    before.corrected.corrected = mended
                inputs[before.key] = before.corrected = mended
        target = self.folder / "mended.xlsx"
        book.save(target)
        contents = {f"mended_{self.serial}.xlsx": (target if chance else path).read_bytes()}
        inputs = {key: one for key, one in inputs.items() if one.all_rows}
        self._drop(Dropped(contents, self.number, inputs), f"returned {path.parent.name}/{path.name} as")

    def _sheets_of(self, book, kind):
        """The sheets of rows and, if there are any, of packages."""
        sheets = {}
        for sheet in book.sheets():
            heads = {cell.value for cell in sheet[1]}
            sheets["rows" if heads.issuperset(self.author.headings[kind]) else "packages"] = sheet
        assert len(sheets) == 1 + self.author.has_packages(kind), sheets
        return sheets

    def _cells_by_key(self, sheets, kind):
        """The cells of each record: of its rows, and of those of its packages."""
        found = {}
        for part, sheet in sheets.items():
            heads = [cell.value for cell in sheet[1]]
            for row in sheet.iter_rows(min_row=2):
                named = dict(zip(heads, row, strict=True))
                cells = [named[head] for head in self.author.headings[kind if part == "rows" else part]]
                found.setdefault(cells[0].value, {one: [] for one in PARTS})[part].append(cells)
        return found

    def _input_with(self, path, cells):
        """The input of which a fix file has these rows."""
        wanted = [
            ["" if cell.value is None else str(cell.value).removesuffix(".0") for cell in row]
            for part in PARTS
            for row in cells[part]
        ]
        for one in reversed(self.inputs):
            rows = [list(map(str, row)) for row in one.all_rows]
            if one.kind == "events":
                rows[0][-1] = wanted[0][-1]  # their time is a date there
            if rows == wanted and fullmatch(rf"{one.root}(_copy\d+)?\..+", path.name):
                return one
        raise AssertionError(f"no input is {wanted} of {path}")

    def _returned(self, before, cells, sheets, chance):
        """What a sender makes of the rows of a record in a fix file, and its quality then. A row that is missing has to be confirmed: by
        the next fix file with these rows.
        """
        author, kind, rows = self.author, before.kind, (before.rows, before.packages)
        if before.quality == "good" or self.random.random() >= chance:
            return *rows, author.quality(kind, *rows) if before.lacks_a_row else before.quality
        has_partner = not author.has_packages(kind) or all(rows)
        if not has_partner and self.random.random() < 0.3:
            for row in cells["rows"] + cells["packages"]:
                _delete(row)
            return (), (), "good"
        part = "packages" if before.packages else "rows"
        if has_partner and len(cells[part]) > 1 and self.random.random() < 0.2:
            return self._without_last_row(before, part, cells)
        values = author.record(kind, before.key, "good", f"E{self.serial}", rows)
        for part, new in zip(PARTS, values, strict=True):
            for _ in new[len(cells[part]) :]:
                cells[part].append(self._blank_row(sheets[part], kind if part == "rows" else part))
            for own, right in zip(cells[part], new, strict=True):
                for cell, value in zip(own, right, strict=True):
                    if str(cell.value) != str(value):
                        cell.value = value
        return *values, "good"

    def _without_last_row(self, before, part, cells):
        """A sender deletes a row. Of rows that contradict each other one may go; any other has to be confirmed."""
        _delete(cells[part][-1])
        rows = {one: getattr(before, one) for one in PARTS}
        rows[part] = rows[part][:-1]
        agree = len({city for _, city, *_ in before.rows}) == 1
        return *rows.values(), "wrong" if agree else self.author.quality(before.kind, *rows.values())

    def _blank_row(self, sheet, headings):
        """The cells of a new row."""
        heads, row = [cell.value for cell in sheet[1]], sheet.max_row + 1
        return [sheet.cell(row, heads.index(head) + 1) for head in self.author.headings[headings]]


def _delete(row):
    row[0].parent.delete_rows(row[0].row)
