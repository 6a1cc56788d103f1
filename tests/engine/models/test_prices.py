"""Prices of models, and what calls cost by them."""

from __future__ import annotations

from pathlib import Path

import pytest

from trialog.engine.errors import ConfigError
from trialog.engine.models.prices import Price, read_prices, with_cost
from trialog.engine.projects.faults import ProjectError
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
        ("a: {input: 1, output: 1}\nsmall:\n  input: 1",
         "2: small: the key 'output' is missing; expected dollars per million tokens"),
        ("small: {input: -1, output: 1}",
         "1: small.input: expected dollars per million tokens, 0 or more, found the number -1"),
        ("small: {input: .nan, output: 1}", "1: small.input: expected .* found the text 'nan'"),
        ("small:\n  input: 1\n  output: 1\n  outputs: 2",
         "4: small.outputs: unknown key; did you mean 'output'"),
        ("small: {input: cheap, output: 1}", "1: small.input: .* found the text 'cheap'"),
        ("small: cheap", "1: small: expected a price, as in .*, found the text 'cheap'"),
        ("small:", "1: small: expected a price, as in .*, found nothing"),
        ("- small", "1: expected keys and values, found a list"),
        ("", "1: there is no price; expected one for each model, as in"),
        ("small: {", "1: no valid YAML"),
        ("a: {input: 1, output: 1}\na: {input: 2, output: 1}", "2: .*the key 'a' is given twice"),
    ],
)  # fmt: skip
def test_a_wrong_table_names_file_line_and_key(tmp_path: Path, text: str, words: str) -> None:
    """The error says where it is wrong, what was found, what is expected and the nearest key."""
    file = tmp_path / "prices.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=rf"{file}:{words}"):
        read_prices(file)


def test_every_fault_of_a_table_is_told_at_once(tmp_path: Path) -> None:
    """Two models, three faults. A file that is not there is told in plain words."""
    file = tmp_path / "prices.yaml"
    file.write_text("a: {inputs: 1, output: 1}\nb: 5\n")
    with pytest.raises(ProjectError) as caught:
        read_prices(file)
    assert [1, 1, 2] == [fault.line for fault in caught.value.faults]
    with pytest.raises(ConfigError, match=r"gone\.yaml: --prices: there is no such file"):
        read_prices(tmp_path / "gone.yaml")


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
