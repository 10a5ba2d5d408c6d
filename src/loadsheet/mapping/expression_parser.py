"""The syntax and the types of expressions. Every part of an expression knows its place in the text.

Owns: rule-engine (no other module imports it), which parses and types. Its nodes have the attribute `span` here: the first character of
the part and the one after its last. A part whose types do not fit raises `Misfit`; `type_errors.py` finds the words.

`expression_tables.json` holds the parser's tables, which take a third of a second to generate. ply (part of rule-engine) looks for them
in a module beside the parser. If their signature does not match the grammar, it generates new ones.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC
from functools import cache
from importlib import resources
from types import ModuleType
from typing import Any

import msgspec

from loadsheet.mapping.calculation import FUNCTIONS, Function, ListOf, duration
from loadsheet.mapping.plans import ExpressionError, Scope, Shape, Slot, Type

__all__ = ["DataType", "Misfit", "Part", "ast", "attributes_of", "errors", "may_be_blank", "parse", "type_of"]

TABLES = "expression_tables.json"
_PLY_MODULE = "rule_engine.parser.parsetab"
"""Where ply looks for the tables of rule-engine's parser."""

_PLY_VERSION = "3.10"  # of ply's table format


class _Signature(str):
    """The grammar that the stored tables belong to, without spaces. ply reads it from docstrings, which Python 3.13 indents less."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and str.__eq__(self, "".join(other.split()))


def _install_tables() -> None:
    """Put the stored tables where ply looks for them, unless some are there."""
    if _PLY_MODULE in sys.modules:
        return
    stored = msgspec.json.decode((resources.files(__package__) / TABLES).read_bytes())
    module = ModuleType(_PLY_MODULE)
    vars(module).update(  # ply's names
        _tabversion=_PLY_VERSION,
        _lr_method=stored["method"],
        _lr_signature=_Signature(stored["signature"]),
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

# Replaces rule-engine's function, which reads P1D as 24 hours instead of a calendar day.
ast.TimedeltaExpression.from_string = lambda context, text: ast.TimedeltaExpression(
    context, duration(text, parse_timedelta(text))
)


# ---- the place of every part ----


class Misfit(Exception):
    """A part of an expression that rule-engine refuses, and its error."""

    def __init__(self, part: "Part", error: Exception) -> None:
        super().__init__(part, error)
        self.part, self.error = part, error


class Part:
    """A part of a parsed expression before it is typed: rule-engine's class for it, the arguments of the class, and its place. `typed` is the
    typed node, once there is one.
    """

    def __init__(self, made: Any, span: tuple[int, int]) -> None:
        """`made` is the part as rule-engine's parser makes it."""
        self.cls: type = made.cls
        self.args = tuple(self._placed(argument, span) for argument in made.args)
        self.kwargs: Mapping[str, Any] = made.kwargs
        self.typed: Any = None
        self.span = span
        self._method: str = made.method

    @staticmethod
    def _placed(argument: Any, span: tuple[int, int]) -> Any:
        """`x not in y` is two parts in one."""
        return Part(argument, span) if _is_unplaced(argument) else argument

    def build(self) -> Any:
        """The typed node. Raises Misfit for the innermost part whose types do not fit."""
        try:
            self.typed = getattr(self.cls, self._method)(*self.args, **self.kwargs)
        except (errors.EngineError, ArithmeticError, TypeError, ValueError) as error:
            raise Misfit(self, error) from None
        if not hasattr(self.typed, "span"):
            self.typed.span = self.span
        return self.typed


def _is_unplaced(value: Any) -> bool:
    return hasattr(value, "cls") and not isinstance(value, Part)


class _Tokens:
    """The tokens of a text, which also know where they end."""

    def __init__(self, lexer: Any) -> None:
        self._lexer = lexer

    def input(self, text: str) -> None:
        """Start with a text."""
        self._lexer.input(text)

    def token(self) -> Any:
        """The next token; None at the end."""
        token = self._lexer.token()
        if token is not None:
            token.endlexpos = self._lexer.lexpos
        return token


def _with_place(production: Callable[[Any], None]) -> Callable[[Any], None]:
    """A production of the parser whose result is a `Part`."""

    def produce(symbols: Any) -> None:
        production(symbols)
        made = symbols.slice[0]
        if _is_unplaced(made.value):
            made.value = Part(made.value, (getattr(made, "lexpos", 0), getattr(made, "endlexpos", 0)))

    return produce


_PARSER = Rule.parser
_TOKENS = _Tokens(vars(_PARSER)["_lexer"])
for _production in vars(_PARSER)["_parser"].productions:
    if _production.callable is not None:
        _production.callable = _with_place(_production.callable)


def _syntax_hint(text: str, place: int) -> str:
    """What to write instead, where the text or the character at which reading stopped tells."""
    if _EXCEL_IF.match(text):
        return "write CONDITION ? VALUE : OTHER"
    if place == len(text):
        missing = [closed for open_, closed in ("()", "[]") if text.count(open_) > text.count(closed)]
        return f"a bracket is not closed: {missing[0]}" if missing else ""
    return {"=": "write == to compare", ";": "write a comma between values"}.get(text[place], "")


_EXCEL_IF = re.compile(r"\s*if\s*\(", re.IGNORECASE)


def parse(text: str, scope: Scope) -> Any:
    """The typed expression. Raises ExpressionError for wrong syntax and Misfit for types that do not fit."""
    try:
        return _PARSER.parse(text, _context(scope), lexer=_TOKENS, tracking=True).expression
    except errors.RuleSyntaxError as error:
        token = error.token
        at = f'at "{token.value}"' if token is not None else "at its end"
        place = len(text) if token is None else token.lexpos
        raise ExpressionError(f"syntax error {at}: {text}", _syntax_hint(text, place), place) from None
    except errors.EngineError as error:  # an invalid text in quotes
        raise ExpressionError(f"{error.message}: {text}") from None
    except RecursionError:
        raise ExpressionError("the expression is nested too deeply") from None


# ---- our types as rule-engine's ----

_DATA_TYPES = {
    Type.TEXT: DataType.STRING,
    Type.NUMBER: DataType.FLOAT,
    Type.MOMENT: DataType.DATETIME,
    Type.SPAN: DataType.TIMEDELTA,
    Type.FLAG: DataType.BOOLEAN,
}


def _context(scope: Scope) -> Context:
    names = dict(_slot_types(scope.here, scope))
    if scope.main is not None:
        names[scope.main.table] = _object_type(scope.main, scope)
    for name, (_, shape) in scope.lists.items():
        names[name] = DataType.ARRAY(_object_type(shape, scope))
    context = Context(type_resolver=names, default_timezone="utc", mapping_attribute_lookup=False)
    context.builtins = _builtins()
    return context


@cache
def _builtins() -> Builtins:
    """What every expression may call."""
    return Builtins(
        {"now": None, **{name: function.call for name, function in FUNCTIONS.items()}},
        timezone=UTC,
        value_types={"now": DataType.DATETIME, **{name: _function(name, known) for name, known in FUNCTIONS.items()}},
    )


def _function(name: str, known: Function) -> Any:
    least = len(known.arguments) if known.least is None else known.least
    arguments = tuple(_value_type(argument) for argument in known.arguments)
    return DataType.FUNCTION(
        name, return_type=_value_type(known.result), argument_types=arguments, minimum_arguments=least
    )


def _value_type(wanted: Type | ListOf) -> Any:
    if isinstance(wanted, ListOf):
        return DataType.ARRAY if wanted.member is Type.ANY else DataType.ARRAY(_DATA_TYPES[wanted.member])
    return _DATA_TYPES[wanted]


def _object_type(shape: Shape, scope: Scope) -> Any:
    return DataType.OBJECT(shape.table, dict(_slot_types(shape, scope)))


def _slot_types(shape: Shape, scope: Scope) -> Iterator[tuple[str, Any]]:
    for name, slot in shape.slots.items():
        yield name, _data_type(slot, f"{shape.table}.{name}", blanks=not scope.of_cells)


def _data_type(slot: Slot, name: str, *, blanks: bool) -> Any:
    if slot.type is Type.CODE_ROW:
        columns = {
            code.name: _nullable(_DATA_TYPES[code.type], blank=code.nullable and blanks) for code in slot.code_columns
        }
        return _nullable(DataType.OBJECT(name, columns), blank=slot.nullable and blanks)
    return _nullable(_DATA_TYPES.get(slot.type, DataType.UNDEFINED), blank=slot.nullable and blanks)


def _nullable(data_type: Any, *, blank: bool) -> Any:
    return DataType.NULLABLE(data_type) if blank and data_type != DataType.UNDEFINED else data_type


def may_be_blank(data_type: Any) -> bool:
    """Whether a value of one of rule-engine's types may be blank."""
    return data_type in (DataType.NULL, DataType.UNDEFINED) or DataType.is_type(data_type, DataType.NULLABLE)


def type_of(data_type: Any) -> Type:
    """Our type for one of rule-engine's; ANY for what we have none for, such as lists."""
    plain = DataType.NULLABLE.unwrap(data_type)
    return next((ours for ours, theirs in _DATA_TYPES.items() if theirs == plain), Type.ANY)


def attributes_of(node: Any, name: str) -> list[Type]:
    """The types whose values have an attribute, such as `year`, by the rules of the expression of a node."""
    found = []
    for ours, theirs in _DATA_TYPES.items():
        try:
            node.context.resolve_attribute_type(theirs, name)
        except errors.AttributeResolutionError:
            continue
        found.append(ours)
    return found
