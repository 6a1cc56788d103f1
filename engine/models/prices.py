"""What models cost: a table of the user's, in dollars per million tokens."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from ...events.kinds.parts import Usage
from ..errors import ConfigError


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model's, in dollars per million tokens."""

    input: float
    output: float
    cached: float | None = None
    """For tokens of the input that the endpoint had cached; null: as any others."""


def read_prices(path: Path) -> dict[str, Price]:
    """The table of a YAML file, by the models' names; blocks. Raises ConfigError."""
    import yaml

    try:
        table: object = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"can't be read: {error.strerror}", file=path) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"not valid YAML: {error}", file=path) from None
    if not isinstance(table, dict):
        raise ConfigError(
            "expected a price for each model, as in `gpt-5-mini: {input: 0.25, output: 2}`",
            file=path,
        )
    rows = cast("dict[object, object]", table)
    return {str(model): _price(model, given, path) for model, given in rows.items()}


def _price(model: object, given: object, path: Path) -> Price:
    try:
        price = msgspec.convert(given, Price)
    except msgspec.ValidationError as error:
        message = str(error).replace("`", "")
        raise ConfigError(
            f"{message[:1].lower()}{message[1:]}; expected input, output and maybe cached, "
            "in dollars per million tokens",
            file=path,
            key=str(model),
        ) from None
    if problem := wrong(price):
        raise ConfigError(problem, file=path, key=str(model))
    return price


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
