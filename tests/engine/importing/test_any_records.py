"""Records that are not as their systems write them: told by name, and never a crash."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.imports import EVAL_JSON, SAMPLES, files_of, records_of
from trialog.engine.importing.benchflow import BenchflowReader
from trialog.engine.importing.fields import RecordsError
from trialog.engine.importing.harbor import HarborReader
from trialog.engine.importing.inspect_ai import InspectReader
from trialog.engine.importing.plural import PluralReader
from trialog.engine.importing.records import Reader, Records
from trialog.events.drafts import draft_all
from trialog.events.values import escape

Make = Callable[[Records], Reader]

READERS: dict[str, tuple[Make, dict[str, bytes]]] = {
    "harbor": (HarborReader, files_of(SAMPLES / "harbor" / "by-hand")),
    "benchflow": (BenchflowReader, files_of(SAMPLES / "benchflow" / "two-tasks")),
    "plural": (PluralReader, files_of(SAMPLES / "plural" / "desk")),
    "inspect": (InspectReader, {"log.json": EVAL_JSON.read_bytes()}),
}
ODD = st.sampled_from(
    [None, True, 0, -1, 2**70, 1e300, "", "x", "\ud800", [], [[]], [1], ["a"], {}, {"a": {}},
     {"$blob": "a", "size": 1}, {"text": 1, "type": 2, "id": []}]
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value within a value."""
    found = [path] if path else []
    items: Any = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    for key, item in items:
        found += places(item, (*path, key))
    return found


def changed(data: bytes, where: float, odd: Any) -> bytes:
    """A JSON document, or a file of a document a line, with one value of it replaced."""
    try:
        values = [json.loads(data)]
    except ValueError:
        values = [json.loads(line) for line in data.splitlines()]
    all_places = places(values)
    *before, last = all_places[int(where * len(all_places)) % len(all_places)]
    inside = values = copy.deepcopy(values)
    for key in before:
        inside = inside[key]
    inside[last] = odd
    return "\n".join(map(json.dumps, values)).encode()


@pytest.mark.parametrize("system", READERS)
@given(which=st.floats(0, 1, exclude_max=True), where=st.floats(0, 1, exclude_max=True), odd=ODD)
def test_any_value_in_any_place(system: str, which: float, where: float, odd: Any) -> None:
    """One value of one file is another: the records are read, with events that can be stored, or
    refused with the file's name."""
    make, sample = READERS[system]
    names = [name for name in sample if name.endswith((".json", ".jsonl")) and len(sample[name])]
    name = names[int(which * len(names))]
    files = {**sample, name: changed(sample[name], where, odd)}
    try:
        reader = make(records_of(files))
        reader.job()
        keys = reader.trials()
    except RecordsError as error:
        said = [str(error)]
        keys = []
    else:
        said = []
    for key in keys:
        try:
            read = reader.trial(key, "seed")
        except RecordsError as error:
            said.append(str(error))
            continue
        events = [event for event in read.events if event.at]
        if events:
            draft_all("trial/t", events)
        json.dumps(escape(read.data))
    assert all(name in one for one in said)
