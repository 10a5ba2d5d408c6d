"""Expressions of mapping files: parsed and typed once at load, compiled into closures, evaluated for a row or a document.

Owns: rule-engine (no other module imports it), which parses and types. `calculation.py` evaluates. Regular expressions, attributes of
Python objects and all unlisted forms are refused at load. Knows no file and no conversion.

`expression_tables.json` holds the parser's tables, which take a third of a second to generate. ply (part of rule-engine) looks for them
in a module beside the parser. If their signature does not match the grammar, it generates new ones.
"""

import sys
from collections.abc import Callable
from datetime import UTC
from functools import partial
from importlib import resources
from types import ModuleType
from typing import Any, Literal, NamedTuple

import msgspec

from loadsheet.mapping.calculation import (
    ARITHMETIC,
    ATTRIBUTES,
    CLOCKED,
    COMPARISONS,
    FUNCTIONS,
    METHODS,
    Function,
    ListOf,
    add_time_of_day,
    duration,
    in_utc,
)
from loadsheet.mapping.plans import (
    DEEPEST,
    Evaluate,
    Expression,
    ExpressionError,
    Frame,
    Scope,
    Shape,
    Slot,
    Type,
    Use,
    reason,
)
from loadsheet.mapping.words import closest_or_known, did_you_mean

TABLES = "expression_tables.json"
_PLY_MODULE = "rule_engine.parser.parsetab"
"""Where ply looks for the tables of rule-engine's parser."""

_PLY_VERSION = "3.10"  # of ply's table format


def _install_tables() -> None:
    """Put the stored tables where ply looks for them, unless some are there."""
    if _PLY_MODULE in sys.modules:
        return
    stored = msgspec.json.decode((resources.files(__package__) / TABLES).read_bytes())
    module = ModuleType(_PLY_MODULE)
    vars(module).update(  # ply's names
        _tabversion=_PLY_VERSION,
        _lr_method=stored["method"],
        _lr_signature=stored["signature"],
        _lr_action=_by_state(stored["action"]),
        _lr_goto=_by_state(stored["goto"]),
        _lr_productions=stored["productions"],
    )
    sys.modules[_PLY_MODULE] = module


def _by_state(stored: dict[str, tuple[list[int], list[int]]]) -> dict[int, dict[str, int]]:
    """The action of each symbol in each state. The file is ordered by symbol, which is much shorter."""
    found: dict[int, dict[str, int]] = {}
    for symbol, (states, steps) in stored.items():
        for state, step in zip(states, steps, strict=True):
            found.setdefault(state, {})[symbol] = step
    return found


_install_tables()  # before the import of rule-engine, which creates its parser

from rule_engine import Context, DataType, Rule, ast, errors  # type: ignore[import-untyped]  # noqa: E402 (it ships no types)
from rule_engine.builtins import Builtins  # type: ignore[import-untyped]  # noqa: E402 (it ships no types)
from rule_engine.parser.utilities import parse_timedelta  # type: ignore[import-untyped]  # noqa: E402 (it ships no types)

_Build = Callable[[Any], Evaluate]
_LONGEST = 2_000  # characters; the parser recurses


# Replaces rule-engine's function, which reads P1D as 24 hours instead of a calendar day.
ast.TimedeltaExpression.from_string = lambda context, text: ast.TimedeltaExpression(
    context, duration(text, parse_timedelta(text))
)


def compile_expression(text: str, scope: Scope) -> Expression:
    """Parse, type and compile. Raises ExpressionError with the cause and the closest valid name."""
    if len(text) > _LONGEST:
        raise ExpressionError(f"the expression has {len(text)} characters; the limit is {_LONGEST}")
    try:
        statement = Rule(text, _context(scope)).statement.expression
    except errors.SymbolResolutionError as error:
        raise ExpressionError(
            f'"{error.symbol_name}" is neither a column nor a table here',
            closest_or_known(error.symbol_name, _names(scope)),
        ) from None
    except errors.ObjectAttributeError as error:
        known = list(getattr(error.object, "attributes", {}))
        raise ExpressionError(
            f'"{error.attribute_name}" is not a column of {getattr(error.object, "name", "it")}',
            closest_or_known(error.attribute_name, known),
        ) from None
    except errors.AttributeResolutionError as error:
        raise ExpressionError(f'"{error.attribute_name}" is not available on this value') from None
    except errors.RuleSyntaxError as error:
        at = f'at "{error.token.value}"' if error.token is not None else "at its end"
        raise ExpressionError(f"syntax error {at}: {text}") from None
    except errors.EngineError as error:
        raise ExpressionError(f"{_in_our_words(error.message)}: {text}") from None
    except RecursionError:
        raise ExpressionError("the expression is nested too deeply") from None
    except (ArithmeticError, TypeError, ValueError) as error:  # a literal part cannot be calculated
        raise ExpressionError(f"cannot be calculated ({reason(error)}): {text}") from None
    compiler = _Compiler(scope)
    evaluate = compiler.build(statement)
    return Expression(
        text, evaluate, _type_of(statement.result_type), _may_be_blank(statement.result_type), frozenset(compiler.uses)
    )


def _in_our_words(message: str) -> str:
    if "nullable" in message:
        return "a column may be blank here: write (column ?? value)"
    if "timedelta string" in message:
        return "a duration is written such as P1D, P2W or PT2H30M; months and years have no fixed length"
    return message.replace("data type mismatch", "type mismatch")


# ---- typing: our shapes as rule-engine's types ----

_DATA_TYPES = {
    Type.TEXT: DataType.STRING,
    Type.NUMBER: DataType.FLOAT,
    Type.MOMENT: DataType.DATETIME,
    Type.SPAN: DataType.TIMEDELTA,
    Type.FLAG: DataType.BOOLEAN,
}


def _names(scope: Scope) -> list[str]:
    return [*scope.here.slots, *([scope.main.table] if scope.main else []), *scope.lists]


def _context(scope: Scope) -> Context:
    names: dict[str, Any] = {name: _data_type(slot, scope.here.table, name) for name, slot in scope.here.slots.items()}
    if scope.main is not None:
        names[scope.main.table] = _object_type(scope.main)
    for name, (_, shape) in scope.lists.items():
        names[name] = DataType.ARRAY(_object_type(shape))
    context = Context(type_resolver=names, default_timezone="utc", mapping_attribute_lookup=False)
    context.builtins = Builtins(
        {"now": None, **{name: function.call for name, function in FUNCTIONS.items()}},
        timezone=UTC,
        value_types={"now": DataType.DATETIME, **{name: _function(name, known) for name, known in FUNCTIONS.items()}},
    )
    return context


def _function(name: str, known: Function) -> Any:
    least = len(known.arguments) if known.least is None else known.least
    arguments = tuple(_argument(argument) for argument in known.arguments)
    return DataType.FUNCTION(
        name, return_type=_DATA_TYPES[known.result], argument_types=arguments, minimum_arguments=least
    )


def _argument(wanted: Type | ListOf) -> Any:
    if isinstance(wanted, ListOf):
        return DataType.ARRAY if wanted.member is Type.ANY else DataType.ARRAY(_DATA_TYPES[wanted.member])
    return _DATA_TYPES[wanted]


def _object_type(shape: Shape) -> Any:
    attributes = {name: _data_type(slot, shape.table, name) for name, slot in shape.slots.items()}
    return DataType.OBJECT(shape.table, attributes)


def _data_type(slot: Slot, table: str, name: str) -> Any:
    if slot.type is Type.CODES:
        columns = {code.name: _nullable(_DATA_TYPES[code.type], blank=code.blank) for code in slot.codes}
        return _nullable(DataType.OBJECT(f"{table}.{name}", columns), blank=slot.blank)
    return _nullable(_DATA_TYPES.get(slot.type, DataType.UNDEFINED), blank=slot.blank)


def _nullable(data_type: Any, *, blank: bool) -> Any:
    return DataType.NULLABLE(data_type) if blank and data_type != DataType.UNDEFINED else data_type


def _may_be_blank(data_type: Any) -> bool:
    return data_type in (DataType.NULL, DataType.UNDEFINED) or DataType.is_type(data_type, DataType.NULLABLE)


def _type_of(data_type: Any) -> Type:
    plain = DataType.NULLABLE.unwrap(data_type)
    return next((ours for ours, theirs in _DATA_TYPES.items() if theirs == plain), Type.ANY)


class _Row(NamedTuple):
    """A node that evaluates to a row: its getter, its shape, and the lineage of reading it."""

    get: Evaluate
    shape: Shape
    rows: Literal["first", "all"]


class _Compiler:
    """Compiles one typed tree into closures and notes every value it reads."""

    def __init__(self, scope: Scope) -> None:
        self.uses: set[Use] = set()
        self._scope = scope
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
            raise ExpressionError("=~ and !~ are not available here", "use pattern: in columns")
        raise ExpressionError("this form of expression is not available here")

    def _symbol(self, node: Any) -> Evaluate:
        name = node.name
        if node.scope is not None:
            if name != "now":
                raise _unknown_function(name)
            return lambda frame: frame.now
        variable = self._variable(name)
        if variable is not None:
            position = variable[0]
            return lambda frame: frame.variables[position]
        slot = self._scope.here.slots.get(name)
        if slot is not None:
            self.uses.add(Use(self._scope.here.table, name, "here"))
            index = slot.index
            return lambda frame: frame.row[index]
        if name in self._scope.lists:
            position, shape = self._scope.lists[name]
            self.uses.add(Use(shape.table, "", "all"))
            return lambda frame: frame.lists[position]
        raise ExpressionError(f'"{name}" is a row; name one of its columns, such as {name}.{_first(self._scope.main)}')

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
        codes = self._codes(node.object)
        if codes:
            index = codes.index(node.name)
            return lambda frame: None if (found := value(frame)) is None else found[index]
        function = ATTRIBUTES.get(node.name)
        if function is None:
            raise ExpressionError(
                f'"{node.name}" is not available here', did_you_mean(node.name, [*ATTRIBUTES, *METHODS])
            )
        return lambda frame: None if (found := value(frame)) is None else function(found)

    def _codes(self, node: Any) -> list[str]:
        """The columns of the code table row that a node evaluates to; empty for any other node."""
        slot = None
        if isinstance(node, ast.SymbolExpression):
            slot = self._scope.here.slots.get(node.name)
        elif isinstance(node, ast.GetAttributeExpression):
            row = self._row(node.object)
            slot = row.shape.slots.get(node.name) if row else None
        return [code.name for code in slot.codes] if slot else []

    def _arithmetic(self, node: Any) -> Evaluate:
        left, right, calculate = self.build(node.left), self.build(node.right), self._operator(node)
        if node.type == "mul":
            return lambda frame: left(frame) * right(frame)
        return lambda frame: calculate(left(frame), right(frame))

    def _operator(self, node: Any) -> Callable[[Any, Any], Any]:
        known = CLOCKED.get(node.type)
        if known is None:
            return ARITHMETIC[node.type]
        if node.type == "add" and (self._is_time_of_day(node.left) or self._is_time_of_day(node.right)):
            known = add_time_of_day
        types = {_type_of(node.left.result_type), _type_of(node.right.result_type)}
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
        return named and _type_of(node.result_type) is Type.SPAN

    def _comparison(self, node: Any) -> Evaluate:
        types = {_type_of(node.left.result_type), _type_of(node.right.result_type)}
        if len(types) == 2 and Type.ANY not in types:
            left, right = sorted(kind.value for kind in types)
            raise ExpressionError(f"{left} never equals {right}")
        one, other, compare = self.build(node.left), self.build(node.right), COMPARISONS[node.type]
        if Type.MOMENT in types:
            return lambda frame: compare(in_utc(one(frame)), in_utc(other(frame)))
        return lambda frame: compare(one(frame), other(frame))

    def _logic(self, node: Any) -> Evaluate:
        left, right = self.build(node.left), self.build(node.right)
        if node.type == "and":
            return lambda frame: bool(left(frame) and right(frame))
        return lambda frame: bool(left(frame) or right(frame))

    def _coalesce(self, node: Any) -> Evaluate:
        left, right = self.build(node.left), self.build(node.right)
        return lambda frame: right(frame) if (value := left(frame)) is None else value

    def _choice(self, node: Any) -> Evaluate:
        condition, yes, no = self.build(node.condition), self.build(node.case_true), self.build(node.case_false)
        return lambda frame: yes(frame) if condition(frame) else no(frame)

    def _unary(self, node: Any) -> Evaluate:
        value = self.build(node.right)
        return (lambda frame: not value(frame)) if node.type == "not" else (lambda frame: -value(frame))

    def _contains(self, node: Any) -> Evaluate:
        member, container = self.build(node.member), self.build(node.container)
        return lambda frame: member(frame) in container(frame)

    def _array(self, node: Any) -> Evaluate:
        members = [self.build(member) for member in node.value]
        return lambda frame: [member(frame) for member in members]

    def _item(self, node: Any) -> Evaluate:
        container, item = self.build(node.container), self.build(node.item)
        return lambda frame: container(frame)[int(item(frame))]

    def _slice(self, node: Any) -> Evaluate:
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
            raise _unknown_function(getattr(function, "name", "it"))
        known = FUNCTIONS[function.name]
        call = known.call
        if not known.takes_blanks:
            _refuse_blanks(function.name, node.arguments[0])
        arguments = [self.build(part) for part in node.arguments]
        if known.takes_fold:
            call = partial(call, fold=self._scope.here.fold)
        if len(arguments) == 1:
            (only,) = arguments
            return lambda frame: call(only(frame))
        return lambda frame: call(*[argument(frame) for argument in arguments])


def _refuse_blanks(function: str, argument: Any) -> None:
    # rule-engine types a list by its members but lets blank ones through
    members = argument.value if isinstance(argument, ast.ArrayExpression) else []
    if isinstance(argument, ast.ComprehensionExpression) and argument.condition is None:
        members = [argument.result]
    if any(DataType.is_type(member.result_type, DataType.NULLABLE) for member in members):
        raise ExpressionError(
            f"${function} of a column that may be blank",
            "write (column ?? value), or leave blanks out with: if x != null",
        )


def _unknown_function(name: str) -> ExpressionError:
    known = [f"${known}" for known in FUNCTIONS]
    return ExpressionError(f"${name} is not a function", closest_or_known(f"${name}", known))


def _first(shape: Shape | None) -> str:
    return next(iter(shape.slots), "column") if shape else "column"
