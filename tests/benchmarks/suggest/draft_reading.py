"""What a draft says of each heading, read with a YAML library alone: its keys, the fields that it fills, and whether a CHECK marks them."""

import re
from dataclasses import dataclass, field
from io import StringIO

from ruamel.yaml import YAML

FILL_IN, CHECK = "FILL IN", "CHECK"
_LEAF = {"col", "const", "value", "expr", "utc_offset_of"}
_NAMES = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_TEXTS = re.compile(r"'[^']*'|\"[^\"]*\"")


@dataclass
class DraftedColumn:
    """An active column of a draft: its table, name and keys, whether its line is marked, and the marks of the fields it fills by path."""

    table: str
    name: str
    keys: dict
    marked: bool = False
    labels: tuple = ()
    in_sets: bool = False
    fills: dict = field(default_factory=dict)


class Draft:
    """A draft as read: its operation (`col` if a column chooses it), its tables and columns, the group, and the column of the key."""

    def __init__(self, text):
        self.text, self._lines = text, text.splitlines()
        self._root = YAML(typ="safe").compose(StringIO(text))
        self.values = YAML(typ="safe").load(StringIO(text))
        target = self.values["target"]
        self.target = "col" if isinstance(target, dict) else target
        self.tables = (self.values.get("source") or {}).get("tables") or {"rows": {}}
        self.columns = list(self._columns())
        self._derived = dict(self._derivations())
        self._uses()

    def of(self, table, name):
        """The columns with this name: those of the table if it has one, otherwise those of any table."""
        named = [column for column in self.columns if column.name == name]
        return [column for column in named if column.table == table] or named

    def group(self):
        """The headings of the columns that group rows."""
        by = (self.values.get("group") or {}).get("by") or []
        names = [name.rpartition(".")[2] for name in ([by] if isinstance(by, str) else by)]
        return {label for name in names for column in self.of("", name)[:1] for label in column.labels}

    # ---- columns ----

    def _columns(self):
        node = _child(self._root, "columns")
        if len(self.tables) == 1:
            yield from self._table(next(iter(self.tables)), node)
            return
        for table, inner in _pairs(node):
            yield from self._table(table.value, inner)

    def _table(self, table, node):
        sets = (self.tables.get(table) or {}).get("sets") or {}
        words = [str(one) for one in (range(1, sets + 1) if isinstance(sets, int) else sets)]
        if (self.tables.get(table) or {}).get("repeated"):
            words = [""]  # the headings of the sets have no word of their own
        for name, spec in _pairs(node):
            keys = _plain(spec)
            labels = [keys.get("label"), *(keys.get("aliases") or [])]
            shown = [str(label).replace("{set}", word) for label in labels if label for word in (words or [""])]
            labels = tuple(dict.fromkeys(shown))
            yield DraftedColumn(table, name.value, keys, self._marked(name, spec), labels, in_sets=bool(sets))

    def _derivations(self):
        for name, inner in _pairs(_child(self._root, "derived")):
            plain = _plain(inner)
            if isinstance(plain, dict) and "expr" not in plain:
                for own, spec in plain.items():
                    yield (name.value, own), spec["expr"]
            else:
                yield (next(iter(self.tables)), name.value), plain["expr"]

    # ---- uses ----

    def _uses(self):
        self._walk(_child(self._root, "payload"), "", next(iter(self.tables)), marked=False)
        for name, body in _pairs(_child(self._root, "payload_of")):
            self._walk(body, "", next(iter(self.tables)), marked=self._marked(name, name))
        if isinstance(self.values["target"], dict):
            self._fill(self.values["target"]["col"], "", "target", marked=False)
        zone = (self.values.get("source") or {}).get("timezone")
        if isinstance(zone, dict):
            self._fill(zone["col"], "", "timezone", marked=False)
        for name, table in self.tables.items():
            join = (table or {}).get("join") or {}
            for here, there in (join.get("on") or {}).items():
                self._fill(str(here), name, "join", marked=False)
                self._fill(str(there), join["to"], "join", marked=False)
            kind = (table or {}).get("kind") or {}
            if kind:
                self.columns.append(DraftedColumn(name, "", {}, labels=(kind["label"],), fills={"kind": False}))
        for column in self.columns:  # a part fills the field of its whole, a code table that of its keys
            whole = [column.keys["part_of"]] if column.keys.get("part_of") else column.keys.get("lookup_with") or []
            for name in whole:
                for found in self.of(column.table, str(name).rpartition(".")[2]):
                    found.fills = column.fills | found.fills

    def _walk(self, node, path, table, *, marked):
        if node is None or node.id == "scalar":
            return
        if node.id == "sequence":
            for entry in node.value:
                self._walk(entry, path, table, marked=marked or self._marked(entry, entry))
            return
        keys = {key.value: value for key, value in node.value}
        each = keys.get("each")
        if each is not None and each.id == "scalar" and each.value.rpartition(".")[2] in self.tables:
            table = each.value
        if path and _LEAF & keys.keys() and all(value.id == "scalar" for value in keys.values()):
            for name in ("col", "expr", "utc_offset_of"):
                if name in keys:
                    self._fill(keys[name].value, table, path, marked=marked)
            return
        for key, value in node.value:
            if key.value in ("each", "when", "ordered"):
                continue
            structural = key.value in ("item", "list")
            here = path if structural else f"{path}.{key.value}".strip(".")
            self._walk(value, here, table, marked=marked or self._marked(key, value))

    def _fill(self, text, table, path, *, marked, depth=0):
        """Note that the columns in a name or an expression fill a path."""
        over = dict(re.findall(r"for\s+(\w+)\s+in\s+([\w.]+)", text))
        for found in _NAMES.findall(_TEXTS.sub(" ", text)):
            before, _, name = found.rpartition(".")
            own = over.get(before, before) if before else table
            for column in self.of(own, name):
                column.fills[path] = column.fills.get(path, True) and (marked or column.marked)
            expr = self._derived.get((own, name)) or self._derived.get((table, name))
            if expr and depth < 5:
                self._fill(expr, own, path, marked=marked, depth=depth + 1)

    def _marked(self, key, value):
        """Whether one of the lines of a key has a CHECK; of a block its first line."""
        last = value.end_mark.line if value.id == "scalar" or value.flow_style else key.start_mark.line
        return any(CHECK in line for line in self._lines[key.start_mark.line : last + 1])


def filled_in(text, fill, codes):
    """A draft as a person completes it: only what is marked FILL IN, with the person's values. Also the number of marks."""
    marks = [line for line in text.splitlines() if "null" in line.partition("   #")[0] and FILL_IN in line]
    lines = [_completed(line, fill, codes) if FILL_IN in line else line for line in text.splitlines()]
    return "\n".join(lines) + "\n", len(marks)


def _completed(line, fill, codes):
    body, _, remark = line.partition("   #")
    known = re.search(r"the meaning of the codes: (.*)", remark)

    def value(found):
        name = found[1].strip("\"'")
        meant = codes.get(name.casefold()) or fill.get(name) or (known[1].split(", ")[0] if known else "1")
        return f'{found[1]}: "{meant}"' if isinstance(meant, str) else f"{found[1]}: {meant}"

    body = re.sub(r"(\"[^\"]+\"|'[^']+'|[^\s{},:]+): null\b", value, body)
    return f"{body}   #{remark.replace(FILL_IN, 'filled in')}"


def _pairs(node):
    return node.value if node is not None and node.id == "mapping" else []


def _child(node, name):
    return next((value for key, value in _pairs(node) if key.value == name), None)


def _plain(node):
    if node.id == "mapping":
        return {key.value: _plain(value) for key, value in node.value}
    return [_plain(value) for value in node.value] if node.id == "sequence" else node.value
