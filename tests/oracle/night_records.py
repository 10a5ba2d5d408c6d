"""What senders say in the random nights: records, the rows in which they stand, and the mappings that read those."""

import re
from dataclasses import dataclass, field
from io import BytesIO

from openpyxl import Workbook
from workspace import SMALL

CITIES, ITEMS = ("Bonn", "Ulm", "Kiel"), ("Bolts", "Glue", "Nuts")
TOO_LONG = "a text with more than the forty characters that this exchange takes"
TEXT_MAX = 40
WEIGHTS = {
    "orders": (1, 2, 3),
    "tenders": (1, 2, 3),
    "others": (11, 12, 13),
}  # those of a sender tell whose record it is
ORDER, PACKAGE = ("Order", "City", "Weight"), ("Order", "Item")
TENDER, QUOTE = ("Tender", "City", "Weight"), ("Tender", "Carrier", "Rate", "Currency")
HEADINGS = {
    "orders": ORDER,
    "updates": ORDER[:2],
    "deletes": ORDER[:1],
    "events": ("Order", "Code", "At"),
    "tenders": TENDER,
    "changes": TENDER[:2],
    "withdrawals": TENDER[:1],
    "quotes": QUOTE,
    "decisions": (*QUOTE, "Decision"),
}
OF_CARRIERS = ("quotes", "decisions")
PARTS = ("rows", "more")
SHEETS = ("Jan", "Feb")
QUALITIES = ("good", "good", "good", "wrong", "refused")
BOX = "{package_type: {value: Box}, item_name: {col: item}}"


@dataclass(frozen=True)
class Subject:
    """Orders or tenders: the kinds of files that create, update and delete them, those that belong to them, and the mapping of each."""

    keys: tuple
    creates: tuple
    updates: str
    deletes: str
    children: tuple
    mappings: dict
    operations: tuple

    @property
    def kinds(self):
        """All kinds, the more frequent ones more than once."""
        return (*self.creates, *self.creates, self.creates[0], self.updates, self.updates, self.deletes, *self.children)


ORDERS = Subject(
    ("A-1", "A-2", "A-3"),
    ("orders", "others"),
    "updates",
    "deletes",
    ("events",),
    {"updates": "order-updates", "deletes": "order-deletes", "events": "events"},
    ("order.create", "order.update", "order.delete", "order.status"),
)
TENDERS = Subject(
    ("T-1", "T-2"),
    ("tenders", "others"),
    "changes",
    "withdrawals",
    OF_CARRIERS,
    {"changes": "tender-updates", "withdrawals": "tender-deletes", "quotes": "quotes", "decisions": "confirmations"},
    ("tender.create", "tender.update", "tender.delete", "tender.quote", "tender.confirm"),
)


@dataclass(eq=False)
class Input:
    """What a file says of a record. `rows` are those in the file of its kind, or on the first sheet, `more` those in the file of packages, or on
    the second sheet. `age` says when it came; `quality`: good, wrong (it cannot be read) or refused (by the exchange).
    """

    kind: str
    key: str
    rows: tuple
    more: tuple
    quality: str
    age: tuple
    root: str
    corrected: "Input | None" = None
    released: tuple = (0, 0)  # when a person last said that it is to be sent
    first: tuple = ()  # the age of the row that a fix file corrected
    lacks_a_row: bool = False  # one that its fix file had

    @property
    def record(self):
        """The number of its order or tender."""
        return self.key.partition("/")[0]

    @property
    def cells(self):
        """Those of its first row: of an order without a row of its own, its number alone."""
        first = (self.rows or self.more)[0]
        return first if self.rows or len(first) > len(PACKAGE) else (self.key, "", "")

    @property
    def all_rows(self):
        return self.rows + self.more

    @property
    def goods(self):
        """The weight of an order and the items of its packages, one in each row; the mapping of orders in one row names one itself."""
        rows = self.more or self.rows
        items = tuple(row[-1] if len(row) != len(ORDER) else "Schrauben" for row in rows)
        return [*self.cells[2:3], items] if self.kind in WEIGHTS else []

    def __repr__(self):
        rows = "; ".join(" ".join(map(str, row))[:24] for row in self.all_rows)
        return f"{self.kind} {rows} ({self.quality}, night {self.age[0]}.{self.age[1]})"


@dataclass
class Dropped:
    """A file as it was dropped, or files that are read together, with their inputs by key. The name is that of the first. `doubt`: why a person
    may have to decide (see `Author.some_doubt`).
    """

    contents: dict
    night: int
    inputs: dict = field(default_factory=dict)
    doubt: str = ""

    @property
    def name(self):
        return next(iter(self.contents))


class Author:
    """Writes records as senders do. `layout`: tenders, or orders in one row each, in lines, joined with packages in a file of their own, or in lines on
    two sheets.
    """

    def __init__(self, random, layout):
        self.random, self.layout = random, layout
        self.subject = TENDERS if layout == "tenders" else ORDERS
        self.headings = HEADINGS | {"others": TENDER if layout == "tenders" else ORDER}
        if layout in ("lines", "sheets"):
            self.headings["orders"] = (*ORDER, "Item")
        if layout == "joined":
            self.headings["packages"] = PACKAGE

    def some_keys(self, kind):
        """Those of the records in a new file."""
        keys = self.subject.keys
        if kind in OF_CARRIERS:
            keys = [f"{key}/{carrier}" for key in keys for carrier in ("C1", "C2")]
        return self.random.sample(keys, self.random.choice((1, 1, 2, len(keys))))

    def some_quality(self, kind):
        return "good" if kind == self.subject.deletes else self.random.choice(QUALITIES)

    def some_doubt(self, kind, inputs):
        """What may be wrong with a file with these inputs: a text that ends within a line, or a workbook with a sheet without headings, or
        with a new one that lacks a column.
        """
        filled = [part for part in PARTS if any(getattr(one, part) for one in inputs.values())]
        if self.random.random() < 0.9:
            return ""
        if kind != "orders" or self.layout != "sheets":
            return f"cut {self.random.choice(filled)}"
        return self.random.choice(["new sheet", *(f"lost {part}" for part in filled if len(filled) > 1)])

    def parts(self, kind):
        """Those in which rows of one record may stand."""
        return PARTS if kind == "orders" and self.layout in ("joined", "sheets") else PARTS[:1]

    def headings_of(self, kind, part):
        return self.headings["packages" if part == "more" and self.layout == "joined" else kind]

    def record(self, kind, key, quality, mark, like=((), ())):
        """The parts of a record, as those of `like`, if it has any rows. `mark` is in no other file."""
        if kind != "orders" or self.layout == "rows":
            return (self._cells(kind, key, quality, mark),), ()
        if self.layout == "joined":
            return self._joined_record(key, quality, len(like[1]))
        rows = self._lines(key, quality, len(like[0] + like[1]))
        if self.layout != "sheets" or like[0]:
            return rows, ()
        return ((), rows) if like[1] or self.random.random() < 0.5 else (rows, ())

    def _joined_record(self, key, quality, count):
        cells = self._cells("orders", key, "good" if quality == "wrong" else quality, "")
        items = [(key, self.random.choice(ITEMS)) for _ in range(count or self.random.choice((1, 2, 3)))]
        what = self.random.choice(("weight", "item", "no packages", "no order")) if quality == "wrong" else ""
        if what == "weight":
            cells = (*cells[:-1], "x")
        if what == "item":
            items[self.random.randrange(len(items))] = (key, "")
        return () if what == "no order" else (cells,), () if what == "no packages" else tuple(items)

    def _cells(self, kind, key, quality, mark):
        if kind in ("deletes", "withdrawals"):
            return (key,)
        if kind in OF_CARRIERS:
            rate = "x" if quality == "wrong" else self.random.choice((100, 200, 300))
            currency = TOO_LONG if quality == "refused" else "EUR"
            cells = (*key.split("/"), rate, currency, self.random.choice(("accept", "reject")))
            return cells[: len(HEADINGS[kind])]
        if kind == "events":
            code = {"good": mark, "wrong": "", "refused": f"{mark} {TOO_LONG}"}[quality]
            return key, code, "2026-03-01 10:00"
        city = TOO_LONG if quality == "refused" else self.random.choice(CITIES)
        if kind not in WEIGHTS:
            return key, "" if quality == "wrong" else city
        return key, city, "x" if quality == "wrong" else self.random.choice(WEIGHTS[kind])

    def _lines(self, key, quality, count):
        city = TOO_LONG if quality == "refused" else self.random.choice(CITIES)
        good = [key, city, self.random.choice(WEIGHTS["orders"])]
        rows = [[*good, self.random.choice(ITEMS)] for _ in range(count or self.random.choice((1, 2, 3)))]
        if quality == "wrong":
            column, value = self.random.choice(((2, "x"), (3, ""), (1, "Wien")))
            row = self.random.choice(rows)
            row[column] = value if len(rows) > 1 or column > 1 else ""
        return tuple(map(tuple, rows))

    def quality(self, rows, more):
        """The quality of an order that stands in more than one row."""
        is_joined = self.layout == "joined"
        cities = {city for _, city, *_ in (rows if is_joined else rows + more)}
        has_all = bool(rows and more) == is_joined  # those of an order stand on one sheet
        if len(cities) != 1 or not has_all or any("" in row or "x" in row for row in rows + more):
            return "wrong"
        return "refused" if TOO_LONG in cities else "good"

    def contents(self, kind, parts, mark, doubt=""):
        """The bytes of the files with these rows, by name; no other files have them."""
        if kind == "orders" and self.layout == "sheets":
            return {f"{kind}_{mark}.xlsx": _workbook(self.headings[kind], parts, mark, doubt)}
        found = {}
        for part, rows in parts.items():
            heads, *lines = (",".join(map(str, row)) + "\n" for row in (self.headings_of(kind, part), *rows))
            text = heads + "\n" * mark + "".join(lines)
            if doubt == f"cut {part}":
                text = text.removesuffix("\n")
            found[f"{kind if part == 'rows' else 'packages'}_{mark}.csv"] = text.encode()
        return found


def _workbook(headings, parts, mark, doubt):
    book, content = Workbook(), BytesIO()
    book.remove(book.active)
    book.properties.title = str(mark)
    for title, (part, rows) in zip(SHEETS, parts.items(), strict=True):
        sheet = book.create_sheet(title)
        for row in rows if doubt == f"lost {part}" else (headings, *rows):
            sheet.append(row)
    if doubt == "new sheet":
        sheet = book.create_sheet("Mar")
        for row in (headings[:-1], ("A-1", "Bonn", 1)):
            sheet.append(row)
    book.save(content)
    return content.getvalue()


def key_of(kind, row):
    """The key of the record in whose row these cells stand first."""
    return "/".join(row[:2]) if kind in OF_CARRIERS else row[0]


def mappings(layout, changed, stop_at, goods_value):
    """The mappings of a walk: what becomes of changed records, from which share of errors on nothing of a file is sent, and what goods are worth."""
    subject, make = (
        TENDERS if layout == "tenders" else ORDERS,
        {"lines": _in_lines, "joined": _joined, "sheets": _on_sheets},
    )
    texts = {}
    for kind in subject.creates:
        text = _small(subject.creates[0]).replace("create", "upsert" if changed == "upsert" else "create")
        text = text.replace("goods_value: {value: 10}", f"goods_value: {{value: {goods_value}}}")
        text = text.replace("payload:", "payload:\n  createdon: {expr: $now}")
        text += f"errors: {{stop_at: {stop_at}}}\n" if stop_at else ""
        if changed != "upsert":
            text = text.replace("target:", f"changed: {changed}\ntarget:")
        if subject is TENDERS:
            text = _weighed(text)
        if kind == "others":
            text = text.replace(subject.creates[0], "others").replace("ACME", "OTHER")
        elif layout in make:
            text = make[layout](text)
        texts[kind] = text
    for kind, name in subject.mappings.items():
        text = _small(name)
        if kind in OF_CARRIERS:
            text = text.replace("columns:", "columns:\n  currency: {label: Currency, type: text}")
            text = text.replace("currency: {value: EUR}", "currency: {col: currency}")
        texts[name] = re.sub(r'files: \["\w+', f'files: ["{kind}', text)
    return texts


def _small(name):
    return (SMALL / f"{name}.yaml").read_text(encoding="utf-8")


def _weighed(tenders):
    """The mapping of tenders with a column of weights, by which these are told apart."""
    tenders = tenders.replace("constants:", "  weight: {label: Weight, type: decimal, required: true}\nconstants:")
    return tenders.replace("item_name: {", "weight: {col: weight}\n        item_name: {")


def _in_lines(orders):
    """The mapping of orders for files with a row for each package."""
    columns = "columns:\n  item: {label: Item, type: text, required: true}"
    return (
        _with_packages(orders, "rows").replace("columns:", columns).replace("payload:", "group: {by: order}\npayload:")
    )


def _on_sheets(orders):
    """The same for workbooks with several sheets."""
    orders = _in_lines(orders).replace("orders*.csv", "orders*.xlsx")
    return orders.replace("rows: {}", 'rows: {sheet: "*"}')


def _joined(orders):
    """The mapping of orders for files that come with a file of their packages."""
    companions = 'files: ["orders_{set}.csv"]\n  companions: {packages: "packages_{set}.csv"}'
    orders = orders.replace('files: ["orders*.csv"]', companions)
    join = "    rows: {}\n    packages: {file: packages, join: {to: rows, on: {order: order}}}"
    orders = _with_packages(orders, "packages").replace("    rows: {}", join)
    before, _, columns = orders.partition("columns:\n")
    columns, _, after = columns.partition("constants:")
    columns = "  rows:\n" + "".join(f"  {line}\n" for line in columns.splitlines())
    columns += "  packages:\n" + "".join(
        f"    {name}: {{label: {name.capitalize()}, type: text, required: true}}\n" for name in ("order", "item")
    )
    for name in ("order", "city", "weight"):
        after = after.replace(f"{{col: {name}}}", f"{{col: rows.{name}}}")
    return f"{before}columns:\n{columns}constants:{after}"


def _with_packages(orders, table):
    list_of_one = orders[orders.index("  packages:") : orders.index("Schrauben}") + len("Schrauben}")]
    return orders.replace(list_of_one, f"  packages: {{each: {table}, item: {BOX}}}")
