"""What models cost: a table of the user's, in dollars per million tokens."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from ...events.kinds.parts import Usage
from ..errors import ConfigError
from ..tasks.reader import as_number, as_table

if TYPE_CHECKING:
    from ..projects.reader import Fields

EXAMPLE = "gpt-5-mini: {input: 0.25, output: 2}"
EXPECTED = "dollars per million tokens, 0 or more"


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model's, in dollars per million tokens."""

    input: float
    output: float
    cached: float | None = None
    """For tokens of the input that the endpoint had cached; null: as any others."""


def read_prices(path: Path) -> dict[str, Price]:
    """The table of a YAML file, by the models' names; blocks.

    Raises ConfigError with every fault, each at its line.
    """
    from ..projects.faults import ProjectError
    from ..projects.reader import Faults, read_fields

    if not path.exists():
        raise ConfigError("there is no such file", file=path, key="--prices")
    faults = Faults()
    file = path.resolve()
    table = read_fields(file, file.parent, faults)
    models = [] if table is None else table.names()
    if table is not None and not models:
        table.fault(f"there is no price; expected one for each model, as in `{EXAMPLE}`")
    found = {} if table is None else {model: _price(table, model) for model in models}
    if faults.found:
        raise ProjectError(str(path), faults.found)
    return {model: price for model, price in found.items() if price is not None}


def _price(table: Fields, model: str) -> Price | None:
    if table.take(model, f"a price, as in `{EXAMPLE}`", as_table) is None:
        if not table.has(model):
            table.fault(f"expected a price, as in `{EXAMPLE}`, found nothing", model)
        return None
    row = table.below(model)
    given = {name: row.take(name, EXPECTED, _figure) for name in ("input", "output", "cached")}
    for name in ("input", "output"):
        if not row.has(name):
            row.fault(f"the key {name!r} is missing; expected {EXPECTED}")
    row.finish()
    asked, made = given["input"], given["output"]
    if asked is None or made is None:
        return None
    return Price(input=asked, output=made, cached=given["cached"])


def _figure(value: Any) -> float | None:
    number = as_number(value)
    return None if number is None or number < 0 else number


def wrong(price: Price) -> str | None:
    """What can't be in a price; null for a proper one."""
    figures: dict[str, Any] = msgspec.structs.asdict(price)
    for name, value in figures.items():
        if value is not None and not (0 <= value < math.inf):
            return f"{name} must be 0 or more, found {value:g}"
    return None


def with_cost(usage: Usage, price: Price | None) -> Usage:
    """The usage with its cost: the endpoint's own figure, else by the price, else null."""
    tokens, made = usage.input_tokens, usage.output_tokens
    if usage.cost_usd is not None or price is None or tokens is None or made is None:
        return usage
    cached = min(usage.cached_tokens or 0, tokens)
    of_cached = price.input if price.cached is None else price.cached
    dollars = math.fsum(((tokens - cached) * price.input, cached * of_cached, made * price.output))
    return replace(usage, cost_usd=round(dollars / 1e6, 9))
