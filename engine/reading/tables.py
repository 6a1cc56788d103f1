"""Trials as tables for analysis: a row a trial, a step, a reward or a verdict.

Columns are the fields of the structs. Numbers, truth values and texts are columns of their own
type, times are moments in UTC, and what has a shape of its own (arguments, scores, criteria …) is
its JSON as text. What was not given is missing.
"""

# Neither pandas nor pyarrow brings types of its own.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    TypeAlias,
    get_args,
    get_origin,
    get_type_hints,
)
from typing import Union as _Union

import msgspec

from ...events.clock import parse_time
from ...projections.document import compact
from ..errors import ConfigError
from .structs import Reward, Step, Trial, Verdict

if TYPE_CHECKING:
    import pandas
    import pyarrow

TableName: TypeAlias = Literal["trials", "steps", "rewards", "verdicts"]
Kind: TypeAlias = Literal["text", "integer", "number", "truth", "time", "json"]
Row: TypeAlias = list[Any]

_STRUCTS: dict[TableName, type[msgspec.Struct]] = {
    "trials": Trial, "steps": Step, "rewards": Reward, "verdicts": Verdict,
}  # fmt: skip
TABLES: tuple[TableName, ...] = tuple(_STRUCTS)
_KINDS: dict[Any, Kind] = {str: "text", int: "integer", float: "number", bool: "truth"}


class Column(NamedTuple):
    """A column: its name, and what its values are."""

    name: str
    kind: Kind


@cache
def columns(table: TableName) -> tuple[Column, ...]:
    """A table's columns, in order."""
    hints = get_type_hints(_STRUCTS[table])
    return tuple(
        Column(name, _kind(name, hint))
        for name, hint in hints.items()
        if name not in _STRUCTS  # a table of its own
    )


def _kind(name: str, hint: Any) -> Kind:
    if name.endswith("_at"):
        return "time"
    if get_origin(hint) in (UnionType, _Union):
        (hint,) = (one for one in get_args(hint) if one is not NoneType)
    if get_origin(hint) is Literal:
        return "text"
    return _KINDS.get(hint, "json")


def rows_of(table: TableName, trial: Trial) -> list[Row]:
    """What a trial adds to a table: its values, in the order of the columns.

    Times are microseconds since 1970.
    """
    structs: Sequence[msgspec.Struct] = [trial] if table == "trials" else getattr(trial, table)
    known = columns(table)
    return [[_value(getattr(one, name), kind) for name, kind in known] for one in structs]


def _value(value: Any, kind: Kind) -> Any:
    if value is None:
        return None
    match kind:
        case "json":
            return compact(value).decode()
        case "time":
            return parse_time(value)
        case _:
            return value


def arrow() -> Any:
    """The pyarrow package. Raises ConfigError where it is not installed."""
    try:
        import pyarrow
    except ImportError:
        raise ConfigError(
            "tables are made with the `pyarrow` package, which is not installed; "
            "pip install 'pyarrow>=17'"
        ) from None
    return pyarrow


def arrow_table(table: TableName, rows: Iterable[Row]) -> pyarrow.Table:
    """Rows as a table of pyarrow's. Raises ConfigError where it is not installed."""
    pa = arrow()
    types: dict[Kind, Any] = {
        "text": pa.string(), "integer": pa.int64(), "number": pa.float64(), "truth": pa.bool_(),
        "time": pa.timestamp("us", tz="UTC"), "json": pa.string(),
    }  # fmt: skip
    schema = pa.schema([(name, types[kind]) for name, kind in columns(table)])
    values = _by_column(table, rows)
    return pa.Table.from_arrays(
        [pa.array(found, type=field.type) for found, field in zip(values, schema, strict=True)],
        schema=schema,
    )


def frame(table: TableName, rows: Iterable[Row]) -> pandas.DataFrame:
    """Rows as a data frame of pandas'. Raises ConfigError where it is not installed."""
    try:
        import pandas as pd
    except ImportError:
        raise ConfigError(
            "data frames are made with the `pandas` package, which is not installed; pip install "
            "pandas, or take `table()`, which needs only pyarrow"
        ) from None
    library: Any = pd
    types: dict[Kind, str] = {
        "text": "string", "integer": "Int64", "number": "Float64", "truth": "boolean",
        "json": "string",
    }  # fmt: skip
    series: dict[str, Any] = {}
    for (name, kind), values in zip(columns(table), _by_column(table, rows), strict=True):
        if kind == "time":
            whole = library.Series(values, dtype="Int64")
            series[name] = library.to_datetime(whole, unit="us", utc=True)
        else:
            series[name] = library.Series(values, dtype=types[kind])
    made: pandas.DataFrame = library.DataFrame(series)
    return made


def _by_column(table: TableName, rows: Iterable[Row]) -> list[list[Any]]:
    found: list[list[Any]] = [[] for _ in columns(table)]
    for row in rows:
        for values, value in zip(found, row, strict=True):
            values.append(value)
    return found
