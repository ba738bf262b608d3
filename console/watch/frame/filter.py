"""The one filter of all lists: `adapter:refund fb:- prefix:break turns>3 !error "two words"`.

All terms must hold. `field:value` means "has it in it" for text and equality for numbers; `=`, `!=`, `<`, `<=`, `>`
and `>=` compare; `a|b` takes either value; `!` before a term turns it round; a bare word is looked for in every text.
`field:n/d` finds what was not observed; nothing else does, except a term that is turned round.
"""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from collector.errors import UserError

if TYPE_CHECKING:
    import polars as pl

FieldKind = Literal["text", "number", "flag"]
Operator = Literal[":", "=", "!=", "<", "<=", ">", ">="]
NOT_OBSERVED = ("n/d", "none", "–")
_FLAGS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
_TIMES = {"k": 1e3, "m": 1e6}
_TERM = re.compile(r"(?P<not>!?)(?:(?P<field>[A-Za-z_@][\w@/.-]*)(?P<op>!=|<=|>=|[:=<>]))?(?P<rest>\S*)")
_QUOTED = re.compile(r'"[^"]*"(?:\|(?:"[^"]*"|[^\s|"]+))*|[^\s"]*')


class Field(NamedTuple):
    """Something that a list can be filtered by."""

    column: str
    """Name in the rows."""
    kind: FieldKind = "text"
    words: Mapping[str, str] = {}
    """Short forms to the values in the rows: `-` for "negative", say."""


Fields = Mapping[str, Field]
"""What is typed before the colon to what it means."""


class FilterError(UserError):
    """A filter that cannot be used, and where in it."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__(message)
        self.column = column
        """0-based, in the text that was typed."""


class Term(NamedTuple):
    """One condition."""

    fields: tuple[Field, ...]
    """Any of them may meet it; one, unless it is a bare word."""
    operator: Operator
    values: tuple[str | float | bool | None, ...]
    """Any of them will do; None stands for "not observed"."""
    negated: bool


class Filter(NamedTuple):
    """Conditions that must all hold."""

    terms: tuple[Term, ...] = ()

    def matches(self, row: Mapping[str, object]) -> bool:
        """Whether a row meets all of it."""
        return all(_holds(term, row) != term.negated for term in self.terms)

    def expression(self) -> "pl.Expr":
        """The same for the rows of a frame."""
        import polars as pl

        whole = pl.lit(True)
        for term in self.terms:
            found = pl.lit(False)
            for field in term.fields:
                for value in term.values:
                    found = found | _expression(pl.col(field.column), term.operator, value)
            whole = whole & (~found if term.negated else found)
        return whole


def read_filter(text: str, fields: Fields) -> Filter:
    """The filter that was typed; FilterError says where it is wrong."""
    terms: list[Term] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        term, at = _term(text, at, fields)
        terms.append(term)
    return Filter(tuple(terms))


def _term(text: str, at: int, fields: Fields) -> tuple[Term, int]:
    """The term that begins here, and where it ends."""
    found = _TERM.match(text, at)
    assert found is not None
    begin = found.start("rest")
    if text.count('"', begin) % 2 and '"' in found["rest"]:
        raise FilterError('a " without its partner, expected a second one', text.index('"', begin))
    quoted = _QUOTED.match(text, begin)
    assert quoted is not None
    rest, end = quoted[0], quoted.end()
    if not rest:
        what = f"a value after {found['field']}{found['op']}" if found["op"] else "a word after !"
        raise FilterError(f"nothing here, expected {what}", begin)
    if end < len(text) and not text[end].isspace():
        raise FilterError('a " inside a word, expected it around the whole value', end)
    negated = bool(found["not"])
    if found["op"] is None:
        texts = tuple(field for field in fields.values() if field.kind == "text")
        return Term(texts, ":", (rest.strip('"').lower(),), negated), end
    name = found["field"].lower()
    if name not in fields:
        raise FilterError(f"no field {name!r}, expected one of {', '.join(sorted(fields))}", found.start("field"))
    field, operator = fields[name], found["op"]
    if field.kind != "number" and operator in ("<", "<=", ">", ">="):
        raise FilterError(f"{name} is no number, expected {name}:value", found.start("op"))
    values = tuple(_value(part, field, name, begin) for part in _parts(rest))
    return Term((field,), operator, values, negated), end  # pyright: ignore[reportArgumentType]


def _parts(rest: str) -> list[str]:
    return re.findall(r'"[^"]*"|[^|]+', rest)


def _value(part: str, field: Field, name: str, at: int) -> str | float | bool | None:
    """What a value means to a field."""
    quoted = part.startswith('"')
    word = part.strip('"') if quoted else part
    if not quoted and word.lower() in NOT_OBSERVED and word not in field.words:
        return None
    if field.kind == "number":
        scale = _TIMES.get(word[-1:].lower(), 1.0)
        try:
            return float(word[:-1] if scale != 1.0 else word) * scale
        except ValueError:
            raise FilterError(f"{word!r} is no number, expected one for {name}, such as {name}>3", at) from None
    if field.kind == "flag":
        if word.lower() not in _FLAGS:
            raise FilterError(f"{word!r} is neither yes nor no, expected {name}:yes or {name}:no", at)
        return _FLAGS[word.lower()]
    return field.words.get(word, word).lower()


def _holds(term: Term, row: Mapping[str, object]) -> bool:
    return any(_agrees(row.get(field.column), term.operator, value) for field in term.fields for value in term.values)


def _agrees(seen: object, operator: Operator, value: str | float | bool | None) -> bool:
    """Whether what a row has agrees with one value."""
    if value is None:
        return (seen is None) != (operator == "!=")
    if seen is None:
        return False
    if isinstance(value, bool):
        return (seen is value) != (operator == "!=")
    if isinstance(value, str):
        text = str(seen).lower()
        return value in text if operator == ":" else (text == value) != (operator == "!=")
    return isinstance(seen, int | float) and _COMPARES[operator](float(seen), value)


_COMPARES: Mapping[str, Callable[[float, float], bool]] = {
    ":": lambda seen, value: seen == value,
    "=": lambda seen, value: seen == value,
    "!=": lambda seen, value: seen != value,
    "<": lambda seen, value: seen < value,
    "<=": lambda seen, value: seen <= value,
    ">": lambda seen, value: seen > value,
    ">=": lambda seen, value: seen >= value,
}


def _expression(column: "pl.Expr", operator: Operator, value: str | float | bool | None) -> "pl.Expr":
    """`_agrees` for a column."""
    import polars as pl

    if value is None:
        return column.is_not_null() if operator == "!=" else column.is_null()
    if isinstance(value, str):
        text = column.cast(pl.String).str.to_lowercase()
        found = text.str.contains(value, literal=True) if operator == ":" else text == value
        return (~found if operator == "!=" else found).fill_null(False)
    if isinstance(value, bool):
        return ((column != value) if operator == "!=" else (column == value)).fill_null(False)
    number = column.cast(pl.Float64)
    # polars calls NaN equal to itself and greater than all; to us it agrees with no number, as in Python.
    compared = {
        ":": number == value, "=": number == value, "!=": number != value, "<": number < value,
        "<=": number <= value, ">": number > value, ">=": number >= value,
    }[operator]  # fmt: skip
    return (compared & (number.is_not_nan() | pl.lit(operator == "!="))).fill_null(False)
