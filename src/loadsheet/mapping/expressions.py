"""Expressions of mapping files: parsed and typed once at load, compiled into closures, evaluated for a row or a document.

`expression_parser.py` parses and types, `calculation.py` evaluates, `type_errors.py` finds the words for what does not fit. Regular
expressions as operators, attributes of Python objects and all unlisted forms are refused at load. Knows no file and no conversion.

In a condition on the cells of a row (`Scope.of_cells`) a blank text counts as an empty text, except in `x == null` and `x ?? y`. A blank of
any other type makes a calculation blank, and `<`, `<=`, `>` and `>=` false.
"""

from collections.abc import Callable, Sequence
from functools import partial
from operator import neg
from typing import Any, Literal, NamedTuple

from loadsheet.mapping.calculation import (
    ARITHMETIC,
    ATTRIBUTES,
    CLOCKED,
    COMPARISONS,
    FUNCTIONS,
    METHODS,
    USUAL,
    Calendar,
    Function,
    ListOf,
    add_time_of_day,
    in_utc,
)
from loadsheet.mapping.expression_parser import DataType, Misfit, ast, may_be_blank, parse, type_of
from loadsheet.mapping.plans import (
    DEEPEST,
    CodeColumn,
    Evaluate,
    Expression,
    ExpressionError,
    Frame,
    Scope,
    Shape,
    Type,
    Use,
)
from loadsheet.mapping.type_errors import TypeErrors, members
from loadsheet.similar_text import closest_or_known, did_you_mean

_Build = Callable[[Any], Evaluate]
_LONGEST = 2_000  # characters; the parser recurses
_CONTROLS = frozenset(map(chr, range(32))) - {"\t", "\n", "\r"}


def compile_expression(text: str, scope: Scope) -> Expression:
    """Parse, type and compile. Raises ExpressionError with the cause, what to write, and the place in the text."""
    if len(text) > _LONGEST:
        raise ExpressionError(f"the expression has {len(text)} characters; the limit is {_LONGEST}")
    words = TypeErrors(text, scope)
    try:
        node = parse(text, scope)
    except Misfit as misfit:
        raise words.of(misfit) from None
    compiler = _Compiler(scope, words)
    evaluate, result = compiler.build(node), node.result_type
    return Expression(text, evaluate, type_of(result), may_be_blank(result), frozenset(compiler.uses))


class _Row(NamedTuple):
    """A node that evaluates to a row: its getter, its shape, and the lineage of reading it."""

    get: Evaluate
    shape: Shape
    rows: Literal["first", "all"]


class _Compiler:
    """Compiles one typed tree into closures and notes every value it reads."""

    def __init__(self, scope: Scope, words: TypeErrors) -> None:
        self.uses: set[Use] = set()
        self._scope = scope
        self._words = words
        self._fills_blanks = scope.of_cells
        self._variables: list[tuple[str, Shape | None]] = []
        self._builders: dict[type, _Build] = {
            ast.SymbolExpression: self._symbol,
            ast.GetAttributeExpression: self._attribute,
            ast.AddExpression: self._arithmetic,
            ast.SubtractExpression: self._arithmetic,
            ast.ArithmeticExpression: self._arithmetic,
            ast.ComparisonExpression: self._comparison,
            ast.ArithmeticComparisonExpression: self._comparison,
            ast.LogicExpression: self._logic,
            ast.CoalesceExpression: self._coalesce,
            ast.TernaryExpression: self._choice,
            ast.UnaryExpression: self._unary,
            ast.ContainsExpression: self._contains,
            ast.ComprehensionExpression: self._comprehension,
            ast.FunctionCallExpression: self._call,
            ast.ArrayExpression: self._array,
            ast.GetItemExpression: self._item,
            ast.GetSliceExpression: self._slice,
        }

    def build(self, node: Any) -> Evaluate:
        """The closure of a node. Raises ExpressionError for an unsupported form."""
        builder = self._builders.get(type(node))
        if builder is not None:
            return builder(node)
        literals = (ast.BooleanExpression, ast.FloatExpression, ast.NullExpression, ast.StringExpression)
        if isinstance(node, (*literals, ast.DatetimeExpression, ast.TimedeltaExpression)):
            value = node.value
            return lambda _: value
        if isinstance(node, ast.FuzzyComparisonExpression):
            hint = f"write $matches({self._words.source(node.left)}, pattern)"
            raise self._words.refused(node, "=~ and !~ are not available here", hint)
        raise self._words.refused(node, "this form of expression is not available here")

    def _with_blanks(self, node: Any) -> Evaluate:
        """The closure of a node whose blanks stay blank."""
        fills, self._fills_blanks = self._fills_blanks, False
        value = self.build(node)
        self._fills_blanks = fills
        return value

    def _filled(self, value: Evaluate, type_: Type) -> Evaluate:
        """The value; in a condition on cells, an empty text for a blank one."""
        if not self._fills_blanks or type_ is not Type.TEXT:
            return value
        return lambda frame: "" if (found := value(frame)) is None else found

    def _unless_blank(self, call: Callable[..., Any], values: Sequence[Evaluate], blank: Any = None) -> Evaluate:
        """`call` of these values; in a condition on cells, `blank` if one of them is blank."""
        if not self._scope.of_cells:
            return lambda frame: call(*[value(frame) for value in values])

        def guarded(frame: Frame) -> Any:
            found = [value(frame) for value in values]
            return blank if any(value is None for value in found) else call(*found)

        return guarded

    def _symbol(self, node: Any) -> Evaluate:
        name = node.name
        if node.scope is not None:
            if name != "now":
                raise self._unknown_function(node, name)
            return lambda frame: frame.now
        variable = self._variable(name)
        if variable is not None:
            position = variable[0]
            return lambda frame: frame.variables[position]
        slot = self._scope.here.slots.get(name)
        if slot is not None:
            self.uses.add(Use(self._scope.here.table, name, "here"))
            index = slot.index
            return self._filled(lambda frame: frame.row[index], slot.type)
        if name in self._scope.lists:
            position, shape = self._scope.lists[name]
            self.uses.add(Use(shape.table, "", "all"))
            return lambda frame: frame.lists[position]
        hint = f"name one of its columns, such as {name}.{_first(self._scope.main)}"
        raise self._words.refused(node, f'"{name}" is a row', hint)

    def _variable(self, name: str) -> tuple[int, Shape | None] | None:
        found = [place for place, (variable, _) in enumerate(self._variables) if variable == name]
        return (found[-1], self._variables[found[-1]][1]) if found else None

    def _row(self, node: Any) -> _Row | None:
        if isinstance(node, ast.SymbolExpression) and node.scope is None:
            variable = self._variable(node.name)
            if variable is not None:
                position, shape = variable
                return _Row(lambda frame: frame.variables[position], shape, "all") if shape else None
            main = self._scope.main
            if main is not None and node.name == main.table and node.name not in self._scope.here.slots:
                return _Row(lambda frame: frame.main, main, "first")
        if isinstance(node, ast.GetItemExpression) and isinstance(node.container, ast.SymbolExpression):
            rows = self._scope.lists.get(node.container.name)
            if rows is not None:
                return _Row(self._item(node), rows[1], "all")
        return None

    def _attribute(self, node: Any) -> Evaluate:
        row = self._row(node.object)
        if row is not None:
            index = row.shape.slots[node.name].index
            self.uses.add(Use(row.shape.table, node.name, row.rows))
            get = row.get
            return lambda frame: get(frame)[index]
        value = self.build(node.object)
        use, codes = self._code_columns(node.object)
        if use is not None:
            index = [code.name for code in codes].index(node.name)
            self.uses.add(use._replace(part=node.name))
            return self._filled(
                lambda frame: None if (found := value(frame)) is None else found[index], codes[index].type
            )
        function = ATTRIBUTES.get(node.name)
        if function is None:
            hint = did_you_mean(node.name, [*ATTRIBUTES, *METHODS])
            raise self._words.refused(node, f'"{node.name}" is not available here', hint)
        return lambda frame: None if (found := value(frame)) is None else function(found)

    def _code_columns(self, node: Any) -> tuple[Use | None, Sequence[CodeColumn]]:
        """The columns of the code table row that a node evaluates to, and its use; None for any other node."""
        slot, use = None, None
        if isinstance(node, ast.SymbolExpression):
            slot, use = self._scope.here.slots.get(node.name), Use(self._scope.here.table, node.name, "here")
        elif isinstance(node, ast.GetAttributeExpression) and (row := self._row(node.object)) is not None:
            slot, use = row.shape.slots.get(node.name), Use(row.shape.table, node.name, row.rows)
        return (use, slot.code_columns) if slot is not None and slot.code_columns else (None, ())

    def _arithmetic(self, node: Any) -> Evaluate:
        for operand in (node.left, node.right):
            self._refuse_mixed(operand)
        left, right, calculate = self.build(node.left), self.build(node.right), self._operator(node)
        return self._unless_blank(calculate, (left, right))

    def _operator(self, node: Any) -> Callable[[Any, Any], Any]:
        known = CLOCKED.get(node.type)
        if known is None:
            return ARITHMETIC[node.type]
        if node.type == "add" and (self._is_time_of_day(node.left) or self._is_time_of_day(node.right)):
            known = add_time_of_day
        types = {type_of(node.left.result_type), type_of(node.right.result_type)}
        return partial(known, fold=self._scope.here.fold) if types & {Type.MOMENT, Type.ANY} else ARITHMETIC[node.type]

    def _is_time_of_day(self, node: Any) -> bool:
        """Whether a duration is a time of day: a column or derived value of that type, its replacement for blanks, or its sum with a
        duration.
        """
        if isinstance(node, (ast.AddExpression, ast.SubtractExpression)):
            return self._is_time_of_day(node.left) != self._is_time_of_day(node.right)
        if isinstance(node, ast.CoalesceExpression):
            return self._is_time_of_day(node.left) or self._is_time_of_day(node.right)
        if isinstance(node, ast.TernaryExpression):
            return self._is_time_of_day(node.case_true) or self._is_time_of_day(node.case_false)
        named = isinstance(node, (ast.SymbolExpression, ast.GetAttributeExpression))
        return named and type_of(node.result_type) is Type.SPAN

    def _comparison(self, node: Any) -> Evaluate:
        types = {type_of(node.left.result_type), type_of(node.right.result_type)}
        if len(types) == 2 and Type.ANY not in types:
            raise self._words.unlike(node.left, node.right, node.type)
        is_null = isinstance(node.left, ast.NullExpression) or isinstance(node.right, ast.NullExpression)
        build = self._with_blanks if is_null else self.build
        one, other, compare = build(node.left), build(node.right), COMPARISONS[node.type]
        if node.type not in ("eq", "ne") and self._scope.of_cells:
            return self._unless_blank(
                lambda left, right: compare(in_utc(left), in_utc(right)), (one, other), blank=False
            )
        if Type.MOMENT in types:
            return lambda frame: compare(in_utc(one(frame)), in_utc(other(frame)))
        return lambda frame: compare(one(frame), other(frame))

    def _logic(self, node: Any) -> Evaluate:
        left, right = self.build(node.left), self.build(node.right)
        if node.type == "and":
            return lambda frame: bool(left(frame) and right(frame))
        return lambda frame: bool(left(frame) or right(frame))

    def _coalesce(self, node: Any) -> Evaluate:
        left, right = self._with_blanks(node.left), self.build(node.right)
        return lambda frame: right(frame) if (value := left(frame)) is None else value

    def _choice(self, node: Any) -> Evaluate:
        condition, yes, no = self.build(node.condition), self.build(node.case_true), self.build(node.case_false)
        return lambda frame: yes(frame) if condition(frame) else no(frame)

    def _unary(self, node: Any) -> Evaluate:
        value = self.build(node.right)
        if node.type == "not":
            return lambda frame: not value(frame)
        if type_of(node.right.result_type) not in (Type.NUMBER, Type.SPAN, Type.ANY):
            raise self._words.needs(node.right, Type.NUMBER, "-")
        return self._unless_blank(neg, (value,))

    def _contains(self, node: Any) -> Evaluate:
        member, container = self.build(node.member), self.build(node.container)
        listed = getattr(node.container.result_type, "value_type", DataType.UNDEFINED)
        types = {type_of(node.member.result_type), type_of(listed)}
        if len(types) == 2 and Type.ANY not in types:
            raise self._words.never_in(node.member, node.container)
        return lambda frame: member(frame) in container(frame)

    def _array(self, node: Any) -> Evaluate:
        members = [self.build(member) for member in node.value]
        return lambda frame: [member(frame) for member in members]

    def _item(self, node: Any) -> Evaluate:
        container, item = self.build(node.container), self.build(node.item)
        return lambda frame: container(frame)[int(item(frame))]

    def _slice(self, node: Any) -> Evaluate:
        for place in (node.start, node.stop):
            if type_of(place.result_type) not in (Type.NUMBER, Type.ANY):
                raise self._words.needs(place, Type.NUMBER, "a place in [ ]")
        container, start, stop = self.build(node.container), self.build(node.start), self.build(node.stop)

        def cut(frame: Frame) -> Any:
            first, last = start(frame), stop(frame)
            return container(frame)[int(first) : None if last is None else int(last)]

        return cut

    def _comprehension(self, node: Any) -> Evaluate:
        rows = self._scope.lists.get(node.iterable.name) if isinstance(node.iterable, ast.SymbolExpression) else None
        iterable, position = self.build(node.iterable), len(self._variables)
        if rows is not None:
            self.uses.discard(Use(rows[1].table, "", "all"))  # only its columns are read
        if position >= DEEPEST:
            raise ExpressionError("the expression is nested too deeply")
        self._variables.append((node.variable, rows[1] if rows else None))
        result = self.build(node.result)
        condition = self.build(node.condition) if node.condition is not None else None
        self._variables.pop()

        def listed(frame: Frame) -> list[Any]:
            values = []
            for value in iterable(frame):
                frame.variables[position] = value
                if condition is None or condition(frame):
                    values.append(result(frame))
            return values

        return listed

    def _call(self, node: Any) -> Evaluate:
        if isinstance(node.function, ast.GetAttributeExpression) and node.function.name in METHODS:
            method, value = METHODS[node.function.name], self.build(node.function.object)
            (argument,) = [self.build(part) for part in node.arguments]
            return lambda frame: method(value(frame), argument(frame))
        function = node.function
        if not isinstance(function, ast.SymbolExpression) or function.scope is None or function.name not in FUNCTIONS:
            if isinstance(function, ast.GetAttributeExpression):
                hint = did_you_mean(function.name, METHODS) or f"known: {', '.join(METHODS)}"
                raise self._words.refused(node, f".{function.name}(...) is not available here", hint)
            raise self._unknown_function(node, getattr(function, "name", self._words.source(function)))
        name, known = function.name, FUNCTIONS[function.name]
        for argument, wanted in zip(node.arguments, known.arguments, strict=False):
            self._check_argument(name, argument, wanted)
        self._check_literals(name, known, node)
        most = len(known.arguments) - known.takes_calendar
        given: dict[str, Any] = {"fold": self._scope.here.fold} if known.takes_fold else {}
        if known.takes_calendar:
            given["calendar"] = self._calendar(node, name, node.arguments[most:])
        if known.takes_zone:
            if self._scope.here.zone is None:
                hint = "set source.timezone to the name of one time zone"
                raise self._words.refused(node, f"${name} cannot tell the time zone of its day", hint)
            given["zone"] = self._scope.here.zone
        call = partial(known.call, **given) if given else known.call
        arguments = [self.build(part) for part in node.arguments[:most]]
        if known.takes_blanks and self._scope.of_cells:
            return lambda frame: call(*[argument(frame) for argument in arguments])
        return self._unless_blank(call, arguments)

    def _check_argument(self, function: str, argument: Any, wanted: Type | ListOf) -> None:
        """Checks what rule-engine lets through: a list whose members may be blank or have several types, and a choice between two types."""
        if wanted is not Type.ANY and not isinstance(wanted, ListOf):
            self._refuse_mixed(argument)
        if not isinstance(wanted, ListOf):
            return
        is_filtered = isinstance(argument, ast.ComprehensionExpression) and argument.condition is not None
        for member in members(argument):
            if wanted.member is not Type.ANY:
                self._refuse_mixed(member)
                if type_of(member.result_type) not in (wanted.member, Type.ANY):
                    raise self._words.needs_list(argument, wanted.member, f"${function}")
            is_blank = DataType.is_type(member.result_type, DataType.NULLABLE) and not is_filtered
            if is_blank and not FUNCTIONS[function].takes_blanks:
                raise self._words.blank_members(function, member)

    def _refuse_mixed(self, node: Any) -> None:
        """Refuses a choice between values of two types where one type is needed."""
        if isinstance(node, ast.TernaryExpression):
            types = {type_of(node.case_true.result_type), type_of(node.case_false.result_type)}
            if len(types) == 2 and Type.ANY not in types:
                raise self._words.mixed(node)

    def _check_literals(self, name: str, known: Function, node: Any) -> None:
        """Checks the patterns and formats that are written out."""
        if known.check is None:
            return
        texts = [part.value if isinstance(part, ast.StringExpression) else None for part in node.arguments]
        for part, text in zip(node.arguments, texts, strict=True):
            if not _CONTROLS.isdisjoint(text or ""):
                hint = f"write r{self._words.source(part)}: after r, a backslash stays a backslash"
                raise self._words.refused(part, f"${name}: the text holds a control character", hint)
        try:
            known.check(*texts)
        except ValueError as error:
            raise self._words.refused(node.arguments[1], f"${name}: {error}") from None

    def _calendar(self, node: Any, function: str, named: Sequence[Any]) -> Calendar:
        """The calendar that the last argument names; without one, the only calendar of the mapping, or the usual one."""
        calendars = self._scope.here.calendars
        if not named:
            if len(calendars) > 1:
                text = f"${function} needs the name of a calendar, because the mapping has {len(calendars)}"
                raise self._words.refused(node, text, closest_or_known("", calendars))
            return next(iter(calendars.values()), USUAL)
        (part,) = named
        if not isinstance(part, ast.StringExpression):
            raise self._words.refused(
                part, "the name of a calendar is a text in quotes", closest_or_known("", calendars)
            )
        if part.value not in calendars:
            hint = closest_or_known(part.value, calendars) if calendars else "declare it under calendars"
            raise self._words.refused(part, f'there is no calendar "{part.value}"', hint)
        return calendars[part.value]

    def _unknown_function(self, node: Any, name: str) -> ExpressionError:
        known = [f"${known}" for known in FUNCTIONS]
        return self._words.refused(node, f"${name} is not a function", closest_or_known(f"${name}", known))


def _first(shape: Shape | None) -> str:
    return next(iter(shape.slots), "column") if shape else "column"
