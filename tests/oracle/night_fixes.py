"""What senders do with the fix files of the random nights."""

from re import fullmatch

from fix_workbooks import FixBook
from night_records import PARTS, SHEETS, Dropped, Input, key_of


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
        if chance and self.author.layout == "sheets" and len(sheets) > 1 and self.random.random() < 0.2:
            self._leave_out_a_sheet(book, sheets, kind)
        for cells in self._cells_by_key(sheets, kind).values():
            before = self._input_with(path, cells)
            after = self._returned(before, cells, sheets, chance)
            inputs[before.key] = before
            if after != (before.rows, before.more, before.quality):
                mended = Input(kind, before.key, *after, age, before.root)
                mended.first = before.first or before.age
                mended.lacks_a_row = mended.quality == "wrong" and len(mended.all_rows) < len(before.all_rows)
                if before.corrected:
                    before.corrected.corrected = mended
                inputs[before.key] = before.corrected = mended
        target = self.folder / "mended.xlsx"
        book.save(target)
        contents = {f"mended_{self.serial}.xlsx": (target if chance else path).read_bytes()}
        inputs = {key: one for key, one in inputs.items() if one.all_rows}
        self._drop(Dropped(contents, self.number, inputs), f"returned {path.parent.name}/{path.name} as")

    def _sheets_of(self, book, kind):
        """The sheets of a fix workbook, by the part of the records that they hold."""
        if self.author.layout == "sheets" and kind == "orders":
            return {
                part: sheet
                for part, title in zip(PARTS, SHEETS, strict=True)
                for sheet in book.sheets()
                if sheet.title == title
            }
        parts = self.author.parts(kind)
        by_heads = {self.author.headings_of(kind, part): part for part in parts}
        sheets = {}
        for sheet in book.sheets():
            heads = [cell.value for cell in sheet[1]]
            sheets[by_heads[tuple(head for head in heads[1:-1])]] = sheet
        assert len(sheets) == len(parts), "each sheet has to come back"
        return {part: sheets[part] for part in parts}

    def _leave_out_a_sheet(self, book, sheets, kind):
        """The sender deletes a sheet, unless one of its records has rows on the other one as well."""
        if all(any(cells.values()) != all(cells.values()) for cells in self._cells_by_key(sheets, kind).values()):
            part = self.random.choice(list(sheets))
            book.book.remove(sheets.pop(part))
            self.log.append(f"  left out the sheet {part}")

    def _cells_by_key(self, sheets, kind):
        """The cells of the rows of each record, by part."""
        found = {}
        for part, sheet in sheets.items():
            heads = [cell.value for cell in sheet[1]]
            for row in sheet.iter_rows(min_row=2):
                named = dict(zip(heads, row, strict=True))
                cells = [named[head] for head in self.author.headings_of(kind, part)]
                parts = found.setdefault(key_of(kind, [cell.value for cell in cells]), {one: [] for one in PARTS})
                parts[part].append(cells)
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
            if rows == wanted and fullmatch(rf"{one.root}(_copy\d+)?(-\d+)?\..+", path.name):
                return one
        raise AssertionError(f"no input is {wanted} of {path}")

    def _returned(self, before, cells, sheets, chance):
        """What a sender makes of the rows of a record in a fix file, and its quality then. A row that is missing has to be confirmed: by
        the next fix file with these rows.
        """
        author, rows = self.author, (before.rows, before.more)
        if before.quality == "good" or self.random.random() >= chance:
            return *rows, author.quality(*rows) if before.lacks_a_row else before.quality
        is_joined = len(author.parts(before.kind)) > 1 and author.layout == "joined"
        if is_joined and not all(rows) and self.random.random() < 0.3:
            for row in cells["rows"] + cells["more"]:
                _delete(row)
            return (), (), "good"
        part = "more" if before.more else "rows"
        if all(rows) == is_joined and len(cells[part]) > 1 and self.random.random() < 0.2:
            return self._without_last_row(before, part, cells)
        values = author.record(before.kind, before.key, "good", f"E{self.serial}", rows)
        for part, new in zip(PARTS, values, strict=True):
            for _ in new[len(cells[part]) :]:
                cells[part].append(self._blank_row(sheets[part], author.headings_of(before.kind, part)))
            _write(cells[part], new)
        return *values, "good"

    def _without_last_row(self, before, part, cells):
        """A sender deletes a row. Of rows that contradict each other one may go; any other has to be confirmed."""
        _delete(cells[part][-1])
        rows = {one: getattr(before, one) for one in PARTS}
        cities = {row[1] for row in rows["rows" if self.author.layout == "joined" else part]}
        rows[part] = rows[part][:-1]
        return *rows.values(), "wrong" if len(cities) == 1 else self.author.quality(*rows.values())

    def _blank_row(self, sheet, headings):
        """The cells of a new row."""
        heads, row = [cell.value for cell in sheet[1]], sheet.max_row + 1
        return [sheet.cell(row, heads.index(head) + 1) for head in headings]


def _write(rows, values):
    """Put values into the cells of rows, and delete the rows that are left over."""
    for own, right in zip(rows, values, strict=False):
        for cell, value in zip(own, right, strict=True):
            if str(cell.value) != str(value):
                cell.value = value
    for row in rows[len(values) :]:
        _delete(row)


def _delete(row):
    row[0].parent.delete_rows(row[0].row)
