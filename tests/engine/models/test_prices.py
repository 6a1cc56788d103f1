"""Prices of models, and what calls cost by them."""

from __future__ import annotations

from pathlib import Path

import pytest

from trialog.engine.errors import ConfigError
from trialog.engine.models.prices import Price, read_prices, with_cost
from trialog.events.kinds.parts import Usage


def test_a_table_is_read(tmp_path: Path) -> None:
    """A price has input, output and maybe cached."""
    file = tmp_path / "prices.yaml"
    file.write_text("small: {input: 0.25, output: 2}\nlarge: {input: 3, cached: 0.3, output: 15}\n")
    assert {
        "small": Price(input=0.25, output=2.0),
        "large": Price(input=3.0, output=15.0, cached=0.3),
    } == read_prices(file)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("small: {input: 1}", "small: .*missing required field output"),
        ("small: {input: -1, output: 1}", "small: input must be 0 or more, found -1"),
        ("small: {input: .nan, output: 1}", "small: input must be 0 or more"),
        ("small: {input: 1, output: 1, per: token}", "small: .*unknown field per"),
        ("small: cheap", "small: expected object, got str"),
        ("- small", "expected a price for each model"),
        ("small: {", "not valid YAML"),
    ],
)
def test_a_wrong_table_names_file_and_model(tmp_path: Path, text: str, words: str) -> None:
    """The error says where it is wrong and what is expected."""
    file = tmp_path / "prices.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=rf"{file}: {words}"):
        read_prices(file)


def test_the_endpoints_own_figure_wins() -> None:
    """Cost is the provider's, else by the table, else null."""
    price = Price(input=1.0, output=10.0, cached=0.1)
    told = Usage(input_tokens=1, output_tokens=1, cost_usd=0.5)
    counted = Usage(input_tokens=1000, cached_tokens=400, output_tokens=100)
    assert told == with_cost(told, price)
    assert 0.00164 == with_cost(counted, price).cost_usd
    assert None is with_cost(counted, None).cost_usd
    assert None is with_cost(Usage(input_tokens=1), price).cost_usd


def test_without_a_price_for_cached_tokens_they_cost_as_others() -> None:
    """`cached` may be left out."""
    usage = Usage(input_tokens=1000, cached_tokens=1000, output_tokens=0)
    assert 0.002 == with_cost(usage, Price(input=2.0, output=1.0)).cost_usd
