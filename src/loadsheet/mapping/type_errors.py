"""What does not fit in an expression, in words: the part, its type, and what to write instead.

A message quotes the part as it is written: `"d.kg" is text; $sum needs numbers`. The hint is about the column behind the part, with the line
that declares it, or about a function that converts the value.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from loadsheet.mapping.calculation import ATTRIBUTES, FUNCTIONS, METHODS, ListOf
from loadsheet.mapping.expression_parser import DataType, Misfit, Part, ast, attributes_of, errors, type_of
from loadsheet.mapping.plans import ExpressionError, Scope, Shape, Slot, Type, reason_text
from loadsheet.similar_text import closest_or_known, did_you_mean

_WORDS = {
    Type.TEXT: "text",
    Type.NUMBER: "a number",
    Type.MOMENT: "a date",
    Type.SPAN: "a duration",
    Type.FLAG: "yes or no",
}
_PLURALS = {
    Type.TEXT: "texts",
    Type.NUMBER: "numbers",
    Type.MOMENT: "dates",
    Type.SPAN: "durations",
    Type.FLAG: "values that are yes or no",
}
_DECLARED = {
    Type.TEXT: "text",
    Type.NUMBER: "decimal",
    Type.MOMENT: "datetime",
    Type.SPAN: "time",
    Type.FLAG: "yesno",
}
"""The type of a column with such values."""

_CONVERTED = {
    (Type.TEXT, Type.NUMBER): "$to_number({})",
    (Type.NUMBER, Type.TEXT): "{}.to_str",
    (Type.NUMBER, Type.SPAN): "$days({0}) or $hours({0})",
    (Type.SPAN, Type.NUMBER): "$in_hours({})",
    (Type.MOMENT, Type.TEXT): '$format({}, "%Y-%m-%d")',
}
"""What to write to get a value of the second type from one of the first."""

_FILLERS = {Type.NUMBER: "0", Type.TEXT: '""', Type.FLAG: "false", Type.SPAN: 't"PT0S"'}
"""What may stand for a blank."""

_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "tdiv": "/", "fdiv": "//", "mod": "%", "pow": "**",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip
_ADDED = {
    "add": "two numbers, two texts, two durations, or a date and a duration",
    "sub": "two numbers, two dates, two durations, or a date and a duration",
}
_OTHER_NAMES = {"len": "count", "concat": "join"}
"""Functions by the names that other languages give them."""

_QUOTED = re.compile("""[a-z]?(["'])[^"']*\\1""")
_LONGEST = 60  # characters of a quoted part
_WHOLE = (0, None)  # the place of what rule-engine has calculated already


class TypeErrors:
    """The words for what does not fit in one expression."""

    def __init__(self, text: str, scope: Scope) -> None:
        self._text, self._scope = text, scope
        self._explained: dict[type, Callable[[Part, Exception], ExpressionError | None]] = {
            ast.SymbolExpression: self._symbol,
            ast.GetAttributeExpression: self._attribute,
            ast.AddExpression: self._sum,
            ast.SubtractExpression: self._sum,
            ast.ArithmeticExpression: self._product,
            ast.ArithmeticComparisonExpression: self._order,
            ast.LogicExpression: self._condition,
            ast.CoalesceExpression: self._coalesce,
            ast.UnaryExpression: self._negative,
            ast.ContainsExpression: self._contains,
            ast.GetItemExpression: self._item,
            ast.GetSliceExpression: self._item,
            ast.FunctionCallExpression: self._call,
            ast.ComprehensionExpression: self._comprehension,
        }

    def of(self, misfit: Misfit) -> ExpressionError:
        """What does not fit in a part that rule-engine refuses."""
        explain = self._explained.get(misfit.part.cls)
        found = explain(misfit.part, misfit.error) if explain is not None else None
        return found or self._in_other_words(misfit.part, misfit.error)

    def needs(self, node: Any, wanted: Type, by: str) -> ExpressionError:
        """`"kind" is text; $round needs a number`."""
        hint = self._remedy(node, wanted)
        return self.refused(node, f"{self.shown(node)} is {_words(node)}; {by} needs {_WORDS[wanted]}", hint)

    def needs_list(self, node: Any, member: Type, by: str) -> ExpressionError:
        """For an argument that is not the list that a function needs."""
        wanted = f"needs {_PLURALS[member]}" if member in _PLURALS else "needs a list"
        typed = (one for one in members(node) if DataType.NULLABLE.unwrap(one.result_type) != DataType.UNDEFINED)
        wrong = next((one for one in typed if type_of(one.result_type) is not member), None)
        if wrong is not None and member in _PLURALS:
            is_row = DataType.is_type(wrong.result_type, DataType.OBJECT)
            hint = f"such as {self.source(wrong)}.{_first(wrong)}" if is_row else self._remedy(wrong, member)
            return self.refused(wrong, f"{self.shown(wrong)} is {_words(wrong)}; {by} {wanted}", hint)
        hint = ""
        if _is_list(node) and (shape := self._shape_of(node.result_type.value_type)) is not None:
            column = next((name for name, slot in shape.slots.items() if slot.type is member), _first(node))
            hint = f"such as {by}([r.{column} for r in {self.source(node)}])"
        elif not _is_list(node):
            wanted = f"needs a list of {_PLURALS[member]}" if member in _PLURALS else wanted
            hint = f"such as {by}([{self.source(node)}])"
        return self.refused(node, f"{self.shown(node)} is {_words(node)}; {by} {wanted}", hint)

    def unlike(self, left: Any, right: Any, operator: str) -> ExpressionError:
        """For the comparison of two values of different types."""
        rule = "they are never equal" if operator in ("eq", "ne") else f"{_SIGNS[operator]} compares values of one type"
        return self.refused(left, f"{self._pair(left, right)}; {rule}", self._alike(left, right))

    def never_in(self, member: Any, container: Any) -> ExpressionError:
        """For a value of another type than those of a list."""
        text = f"{self._pair(member, container)}; it is never in the list"
        first = next(iter(members(container)), container)
        return self.refused(member, text, self._alike(member, first))

    def mixed(self, node: Any) -> ExpressionError:
        """For a choice between values of two types."""
        hint = self._alike(node.case_true, node.case_false)
        pair = self._pair(node.case_true, node.case_false)
        return self.refused(node, f"{pair}; here both sides of ? : need one type", hint)

    def blank_members(self, function: str, node: Any) -> ExpressionError:
        """For a list with values that may be blank."""
        hint = f"{self._filled(node)}, or leave blanks out with: if {self.source(node)} != null"
        return self.refused(node, f"{self.shown(node)} may be blank; ${function} needs a value in every row", hint)

    def refused(self, node: Any, text: str, hint: str = "") -> ExpressionError:
        """An error at the place of a part."""
        return ExpressionError(text, hint, getattr(node, "span", _WHOLE)[0])

    def source(self, node: Any) -> str:
        """A part as it is written."""
        return self._text[slice(*getattr(node, "span", _WHOLE))]

    def shown(self, node: Any) -> str:
        """A part as it is written, in quotes, shortened."""
        text = self.source(node)
        text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
        return text if _QUOTED.fullmatch(text) else f'"{text}"'

    # ---- by the kind of part ----

    def _symbol(self, part: Part, error: Exception) -> ExpressionError | None:
        if not isinstance(error, errors.SymbolResolutionError):
            return None
        names = [*self._scope.here.slots, *([self._scope.main.table] if self._scope.main else []), *self._scope.lists]
        text = f'"{error.symbol_name}" is neither a column nor a table here'
        meant = _OTHER_NAMES.get(error.symbol_name.lower(), error.symbol_name.lower())
        is_function = meant in FUNCTIONS
        return self.refused(
            part, text, f"did you mean ${meant}?" if is_function else closest_or_known(error.symbol_name, names)
        )

    def _attribute(self, part: Part, error: Exception) -> ExpressionError | None:
        value, name = part.args[1].typed, part.args[2]
        if isinstance(error, errors.ObjectAttributeError):
            known = list(error.object.attributes)
            text = f'"{name}" is not a column of {error.object.name}'
            return self.refused(part, text, closest_or_known(name, known))
        if _is_nullable(value):
            is_row = DataType.is_type(DataType.NULLABLE.unwrap(value.result_type), DataType.OBJECT)
            hint = f'write ({self.source(value)}&.{name} ?? "")' if is_row else f"{self._filled(value)}.{name}"
            return self.refused(value, f"{self.shown(value)} may be blank", hint)
        if not isinstance(error, errors.AttributeResolutionError):
            return None
        fitting = attributes_of(value, name)
        hint = self._remedy(value, fitting[0]) if fitting else did_you_mean(name, [*ATTRIBUTES, *METHODS])
        return self.refused(part, f"{self.shown(value)} is {_words(value)}, which has no .{name}", hint)

    def _sum(self, part: Part, _error: Exception) -> ExpressionError | None:
        left, right = part.args[2].typed, part.args[3].typed
        if (blank := self._first_blank(left, right)) is not None:
            return blank
        by = str(part.args[1]).lower()
        number = next((node for node in (left, right) if type_of(node.result_type) is Type.NUMBER), None)
        other = right if number is left else left
        hint = ""
        if number is not None and type_of(other.result_type) is Type.TEXT:
            remedies = [self._remedy(number, Type.TEXT)] if by == "add" else []
            hint = ", or ".join([*remedies, self._remedy(other, Type.NUMBER)])
        elif number is not None and type_of(other.result_type) in (Type.MOMENT, Type.SPAN):
            hint = self._remedy(number, Type.SPAN)
        elif (moment := self._of(Type.MOMENT, left, right)) is not None and by == "add":
            other = right if moment is left else left
            is_text = type_of(other.result_type) is Type.TEXT
            hint = self._remedy(moment, Type.TEXT) if is_text else self._remedy(other, Type.SPAN)
        return self.refused(part, f"{self._pair(left, right)}; {_SIGNS[by]} takes {_ADDED[by]}", hint)

    def _product(self, part: Part, _error: Exception) -> ExpressionError | None:
        left, right, sign = part.args[2].typed, part.args[3].typed, _SIGNS[str(part.args[1]).lower()]
        wrong = next((node for node in (left, right) if type_of(node.result_type) is not Type.NUMBER), None)
        number = right if wrong is left else left
        if wrong is None:
            return self._first_blank(left, right)
        if type_of(wrong.result_type) is Type.SPAN and type_of(number.result_type) is Type.NUMBER:
            text = f"{self.shown(wrong)} is {_words(wrong)}; {sign} needs a number"
            return self.refused(wrong, text, self._remedy(number, Type.SPAN))
        return self.needs(wrong, Type.NUMBER, sign)

    def _order(self, part: Part, _error: Exception) -> ExpressionError | None:
        left, right = part.args[2].typed, part.args[3].typed
        return self._first_blank(left, right) or self.unlike(left, right, str(part.args[1]).lower())

    def _condition(self, part: Part, _error: Exception) -> ExpressionError | None:
        operands = (part.args[2].typed, part.args[3].typed)
        row = next((node for node in operands if DataType.is_type(node.result_type, DataType.OBJECT)), None)
        text = f"; {str(part.args[1]).lower()} needs conditions"
        return self.refused(row, f"{self.shown(row)} is {_words(row)}{text}") if row is not None else None

    def _coalesce(self, part: Part, _error: Exception) -> ExpressionError | None:
        left, right = part.args[1].typed, part.args[2].typed
        text = f"{self._pair(left, right)}; ?? needs two values of one type"
        return self.refused(part, text, self._alike(left, right))

    def _negative(self, part: Part, _error: Exception) -> ExpressionError | None:
        value = part.args[2].typed
        return self._first_blank(value) or self.needs(value, Type.NUMBER, "-")

    def _contains(self, part: Part, _error: Exception) -> ExpressionError | None:
        container, member = part.args[1].typed, part.args[2].typed
        if (blank := self._first_blank(container)) is not None:
            return blank
        if type_of(container.result_type) is Type.TEXT:
            text = f"{self.shown(member)} is {_words(member)}; a text contains only texts"
            return self.refused(member, text, self._remedy(member, Type.TEXT))
        text = f"{self.shown(container)} is {_words(container)}; in looks into a text or a list"
        return self.refused(container, text, self._remedy(container, Type.TEXT))

    def _item(self, part: Part, _error: Exception) -> ExpressionError | None:
        container, places = part.args[1].typed, [place.typed for place in part.args[2:] if place is not None]
        if (blank := self._first_blank(container)) is not None:
            return blank
        if DataType.is_type(container.result_type, DataType.OBJECT):
            hint = f"name one of its columns, such as {self.source(container)}.{_first(container)}"
            return self.refused(container, f"{self.shown(container)} is {_words(container)}", hint)
        if type_of(container.result_type) is not Type.TEXT and not _is_list(container):
            text = f"{self.shown(container)} is {_words(container)}; [ ] takes a part of a text or a list"
            return self.refused(container, text, self._remedy(container, Type.TEXT))
        return next((self.needs(place, Type.NUMBER, "a place in [ ]") for place in places), None)

    def _comprehension(self, part: Part, _error: Exception) -> ExpressionError | None:
        values = part.args[3].typed
        if values is None:
            return None
        text = f"{self.shown(values)} is {_words(values)}; for ... in needs a list"
        return self.refused(values, text, f"such as {next(iter(self._scope.lists), 'rows')}")

    def _call(self, part: Part, _error: Exception) -> ExpressionError | None:
        function, arguments = part.args[1].typed, [argument.typed for argument in part.args[2]]
        name = self.source(function)
        if not DataType.is_type(function.result_type, DataType.FUNCTION):
            return self.refused(function, f"{self.shown(function)} is not a function")
        known, types = FUNCTIONS.get(name.removeprefix("$")), function.result_type.argument_types
        if not isinstance(types, tuple):
            return None
        least, most = function.result_type.minimum_arguments, len(types)
        if not least <= len(arguments) <= most:
            count = str(most) if least == most else f"{least} {'or' if most == least + 1 else 'to'} {most}"
            text = f"{name} takes {count} value{'s' if most > 1 else ''}, found {len(arguments)}"
            return self.refused(part, text)
        for place, (argument, wanted) in enumerate(zip(arguments, types, strict=False)):
            if not DataType.is_compatible(argument.result_type, wanted):
                ours = known.arguments[place] if known is not None else type_of(wanted)
                by = name if known is not None else f".{name.rpartition('.')[2]}"
                return (
                    self.needs_list(argument, ours.member, by)
                    if isinstance(ours, ListOf)
                    else self.needs(argument, ours, by)
                )
            if _is_nullable(argument):
                return self._blank(argument)
        return None

    def _in_other_words(self, part: Part, error: Exception) -> ExpressionError:
        message = getattr(error, "message", "")
        if isinstance(error, errors.ArithmeticError) or not message:  # a literal part cannot be calculated
            why = message.rpartition(": ")[2] if message else reason_text(error)
            return self.refused(part, f"cannot be calculated ({why}): {self.source(part)}")
        if "timedelta string" in message:
            message = "a duration is written such as P1D, P2W or PT2H30M; months and years have no fixed length"
        elif "datetime literal" in message:
            message = 'a date is written such as d"2026-03-01" or d"2026-03-01 08:00"'
        return self.refused(part, f"{message.replace('data type', 'type')}: {self.source(part)}")

    # ---- blanks ----

    def _first_blank(self, *nodes: Any) -> ExpressionError | None:
        return next((self._blank(node) for node in nodes if _is_nullable(node)), None)

    def _blank(self, node: Any) -> ExpressionError:
        hint, column = self._filled(node), self._column(node)
        if column is not None and column[1].declared_at:
            hint += f", or give the column {column[0]} a default in {column[1].declared_at}"
        return self.refused(node, f"{self.shown(node)} may be blank", hint)

    def _filled(self, node: Any) -> str:
        return f"write ({self.source(node)} ?? {_FILLERS.get(type_of(node.result_type), 'another value')})"

    # ---- what to write instead ----

    def _pair(self, left: Any, right: Any) -> str:
        return f"{self.shown(left)} is {_words(left)}, {self.shown(right)} is {_words(right)}"

    def _of(self, wanted: Type, *nodes: Any) -> Any:
        return next((node for node in nodes if type_of(node.result_type) is wanted), None)

    def _alike(self, left: Any, right: Any) -> str:
        """What to write so that two values have one type."""
        text = self._of(Type.TEXT, left, right)
        if text is None:
            return ""
        other = right if text is left else left
        if isinstance(other, ast.FloatExpression) and not isinstance(text, ast.StringExpression):
            quoted = self._remedy(other, Type.TEXT)
            return quoted if self._column(text) is None else f"{quoted}, or {self._remedy(text, Type.NUMBER)}"
        if isinstance(text, ast.StringExpression) and type_of(other.result_type) is Type.MOMENT:
            return f"write d{self.source(text)}, such as d'2026-03-01'"
        return self._remedy(text, type_of(other.result_type))

    def _remedy(self, node: Any, wanted: Type) -> str:
        """How to get a value of the wanted type: another type of the column behind it, or a function."""
        found, column = type_of(node.result_type), self._column(node)
        if isinstance(node, ast.FloatExpression) and wanted is Type.TEXT:
            return f"write '{self.source(node)}' for a text"
        if column is not None and column[1].type is Type.TEXT and not column[1].is_code and wanted in _DECLARED:
            where = f", in {column[1].declared_at}" if column[1].declared_at else ""
            return f"give the column {column[0]} type: {_DECLARED[wanted]}{where}"
        written = _CONVERTED.get((found, wanted))
        if written is None:
            return ""
        is_one = isinstance(node, (ast.SymbolExpression, ast.GetAttributeExpression, ast.FunctionCallExpression))
        source = self.source(node)
        return f"write {written.format(source if is_one or not written.startswith('{}') else f'({source})')}"

    def _column(self, node: Any) -> tuple[str, Slot] | None:
        """The column behind a part that is only a column, and its name."""
        if isinstance(node, ast.SymbolExpression) and node.scope is None:
            slot = self._scope.here.slots.get(node.name)
            return (node.name, slot) if slot is not None else None
        if isinstance(node, ast.GetAttributeExpression):
            shape = self._shape_of(node.object.result_type)
            slot = shape.slots.get(node.name) if shape is not None else self._looked_up(node)
            return (node.name, slot) if slot is not None else None
        return None

    def _looked_up(self, node: Any) -> Slot | None:
        """The column of another table behind a part of the row that is looked up there."""
        row = self._column(node.object)
        codes = (
            [code for code in row[1].code_columns if code.name == node.name and code.declared_at]
            if row is not None
            else []
        )
        return Slot(0, codes[0].type, declared_at=codes[0].declared_at) if codes else None

    def _shape_of(self, data_type: Any) -> Shape | None:
        """The shape of the rows of a type."""
        shapes = [self._scope.here, *([self._scope.main] if self._scope.main else [])]
        shapes += [shape for _, shape in self._scope.lists.values()]
        plain = DataType.NULLABLE.unwrap(data_type)
        if not DataType.is_type(plain, DataType.OBJECT):
            return None
        return next((shape for shape in shapes if shape.table == plain.name), None)


def members(node: Any) -> Sequence[Any]:
    """The parts that the values of a list are made of; none for a list of rows."""
    if isinstance(node, ast.ArrayExpression):
        return list(node.value)
    return [node.result] if isinstance(node, ast.ComprehensionExpression) else []


def _words(node: Any) -> str:
    """The type of a part in words."""
    plain = DataType.NULLABLE.unwrap(node.result_type)
    ours = type_of(plain)
    if ours in _WORDS:
        return _WORDS[ours]
    if plain == DataType.NULL:
        return "blank"
    if DataType.is_type(plain, DataType.OBJECT):
        return "a row of a code table" if "." in plain.name else f"a row of {plain.name}"
    if _is_list(node):
        member = plain.value_type
        rows = f"a list of rows of {member.name}" if DataType.is_type(member, DataType.OBJECT) else "a list"
        return f"a list of {_PLURALS[type_of(member)]}" if type_of(member) in _PLURALS else rows
    return "of a type that is not known"


def _is_list(node: Any) -> bool:
    return bool(DataType.is_type(DataType.NULLABLE.unwrap(node.result_type), DataType.ARRAY))


def _is_nullable(node: Any) -> bool:
    return bool(DataType.is_type(node.result_type, DataType.NULLABLE))


def _first(node: Any) -> str:
    """The first column of a row, or of the rows of a list."""
    plain = DataType.NULLABLE.unwrap(node.result_type)
    plain = plain.value_type if DataType.is_type(plain, DataType.ARRAY) else plain
    names: Iterable[str] = getattr(plain, "attributes", {})
    return next(iter(names), "column")
