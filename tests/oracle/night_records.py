"""What senders say in the random nights: records, the rows in which they stand, and the mappings that read those."""

from dataclasses import dataclass, field

from workspace import SMALL

KEYS = ("A-1", "A-2", "A-3")
CITIES, ITEMS = ("Bonn", "Ulm", "Kiel"), ("Bolts", "Glue", "Nuts")
TOO_LONG = "a text with more than the forty characters that this exchange takes"
TEXT_MAX = 40
WEIGHTS = {"orders": (1, 2, 3), "others": (11, 12, 13)}  # those of a sender tell whose record it is
ORDER, PACKAGE = ("Order", "City", "Weight"), ("Order", "Item")
HEADINGS = {
    "orders": ORDER,
    "others": ORDER,
    "updates": ORDER[:2],
    "deletes": ORDER[:1],
    "events": ("Order", "Code", "At"),
}
PARTS = ("rows", "packages")
BOX = "{package_type: {value: Box}, item_name: {col: item}}"


@dataclass(eq=False)
class Input:
    """What a file says of a record. `age` says when it came; `quality`: good, wrong (it cannot be read) or refused (by the exchange)."""

    kind: str
    key: str
    rows: tuple
    packages: tuple  # its rows in the file of packages, if they have one of their own
    quality: str
    age: tuple
    root: str
    corrected: "Input | None" = None
    released: tuple = (0, 0)  # when a person last said that it is to be sent
    first: tuple = ()  # the age of the row that a fix file corrected
    lacks_a_row: bool = False  # one that its fix file had

    @property
    def cells(self):
        """Those of its first row, or of its only one."""
        return self.rows[0] if self.rows else (self.key, "", "")

    @property
    def all_rows(self):
        return self.rows + self.packages

    @property
    def items(self):
        """The items of its packages, one in each row; the mapping of orders in one row names one itself."""
        rows = self.packages or self.rows
        return tuple(row[-1] if len(row) != len(ORDER) else "Schrauben" for row in rows)

    def __repr__(self):
        rows = "; ".join(" ".join(map(str, row))[:24] for row in self.all_rows)
        return f"{self.kind} {rows} ({self.quality}, night {self.age[0]}.{self.age[1]})"


@dataclass
class Dropped:
    """A file as it was dropped, or files that are read together, with their inputs by key. The name is that of the first."""

    contents: dict
    night: int
    inputs: dict = field(default_factory=dict)

    @property
    def name(self):
        return next(iter(self.contents))


class Author:
    """Writes records as senders do. `layout` is that of the orders: in one row each, in lines, or joined with packages in a file of their own."""

    def __init__(self, random, layout):
        self.random, self.layout = random, layout
        self.headings = dict(HEADINGS)
        if layout == "lines":
            self.headings["orders"] = (*ORDER, "Item")
        if layout == "joined":
            self.headings["packages"] = PACKAGE

    def has_packages(self, kind):
        """Whether the packages of these records are in a file of their own."""
        return kind == "orders" and self.layout == "joined"

    def record(self, kind, key, quality, mark, like=((), ())):
        """Rows of a record, and its rows in the file of packages; as many as those of `like`, if there are any. `mark` is in no other file."""
        if kind == "orders" and self.layout == "lines":
            return self._lines(key, quality, len(like[0])), ()
        if not self.has_packages(kind):
            return (self._cells(kind, key, quality, mark),), ()
        cells = self._cells(kind, key, "good" if quality == "wrong" else quality, mark)
        items = [(key, self.random.choice(ITEMS)) for _ in range(len(like[1]) or self.random.choice((1, 2, 3)))]
        return self._spoilt(cells, items) if quality == "wrong" else ((cells,), tuple(items))

    def _spoilt(self, cells, items):
        what = self.random.choice(("weight", "item", "no packages", "no order"))
        if what == "weight":
            cells = (*cells[:-1], "x")
        if what == "item":
            items[self.random.randrange(len(items))] = (cells[0], "")
        return () if what == "no order" else (cells,), () if what == "no packages" else tuple(items)

    def _cells(self, kind, key, quality, mark):
        if kind == "deletes":
            return (key,)
        if kind == "events":
            code = {"good": mark, "wrong": "", "refused": f"{mark} {TOO_LONG}"}[quality]
            return key, code, "2026-03-01 10:00"
        city = TOO_LONG if quality == "refused" else self.random.choice(CITIES)
        if kind == "updates":
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

    def quality(self, kind, rows, packages):
        """The quality of an order that stands in more than one row."""
        cities = {city for _, city, *_ in rows}
        if len(cities) != 1 or any("" in row or "x" in row for row in rows + packages):
            return "wrong"
        if self.has_packages(kind) and not packages:
            return "wrong"
        return "refused" if TOO_LONG in cities else "good"

    def file(self, headings, rows, mark):
        """The bytes of a file of rows; no other file has them."""
        lines = [self.headings[headings], *rows]
        return ("".join(",".join(map(str, row)) + "\n" for row in lines) + "\n" * mark).encode()


def mappings(layout, changed, stop_at):
    """The mappings of orders of both senders: what becomes of changed orders, and from which share of errors on nothing of a file is sent."""
    orders = (SMALL / "orders.yaml").read_text(encoding="utf-8")
    if changed == "upsert":
        orders = orders.replace("order.create", "order.upsert")
    else:
        orders = orders.replace("target:", f"changed: {changed}\ntarget:")
    orders += f"errors: {{stop_at: {stop_at}}}\n" if stop_at else ""
    others = orders.replace("orders", "others").replace("ACME", "OTHER")
    make = {"rows": lambda text: text, "lines": _in_lines, "joined": _joined}[layout]
    return {"orders": make(orders), "others": others}


def _in_lines(orders):
    """The mapping of orders for files with a row for each package."""
    columns = "columns:\n  item: {label: Item, type: text, required: true}"
    return (
        _with_packages(orders, "rows").replace("columns:", columns).replace("payload:", "group: {by: order}\npayload:")
    )


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
