"""docs/hooks.md: its tables have what hooks are given, no more and no less."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest

from trialog import Episode, HindsightTrial, Step, VerifierOutput
from trialog.projections.episode import EpisodeData, RewardData, StepData, TaskData

PAGE = Path(__file__).resolve().parents[3] / "docs" / "hooks.md"
TASK = TaskData(name="t")
EPISODE = EpisodeData(trial="t", task=TASK)
STEP = Step(TASK, StepData(event_id="e", turn=1, app="a", action="b", arguments={}), {}, {})


def table(heading: str) -> dict[str, str]:
    """The first column's names in the table below a heading, and the second column of each."""
    _, _, below = PAGE.read_text("utf-8").partition(f"### {heading}\n")
    below = re.split(r"^##", below, maxsplit=1, flags=re.M)[0]
    rows = re.findall(r"^\| (`[^|]+) \| ([^|]+) \|", below, re.M)
    return {
        re.sub(r"\(.*", "", name): kind
        for names, kind in rows
        for name in re.findall(r"`([^`]+)`", names)
    }


def given(thing: Any, *private: str) -> set[str]:
    """What an author can read of an object, but for a dict's own methods."""
    names = set(dir(thing)) - set(dir(dict)) - set(private)
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("`Step`", given(STEP) | STEP.keys()),
        ("`Episode`", given(Episode(EPISODE), "looked_at_live")),
        ("`HindsightTrial`", given(HindsightTrial(EPISODE, 1.0))),
        ("`trial.credit`", {*inspect.signature(HindsightTrial.credit).parameters} - {"self"}),
        ("`VerifierOutput`", {*VerifierOutput.__struct_fields__}),
        (
            "Task and rewards",
            {f"task.{name}" for name in TaskData.__struct_fields__}
            | {f"reward.{name}" for name in RewardData.__struct_fields__},
        ),
    ],
)
def test_the_tables_have_every_name(heading: str, names: set[str]) -> None:
    """Each table lists the public names of its class."""
    assert names
    assert set(table(heading)) == names


@pytest.mark.parametrize(
    ("heading", "kind"), [("`Step`", Step), ("`VerifierOutput`", VerifierOutput)]
)
def test_the_tables_have_plain_types(heading: str, kind: type) -> None:
    """A plain annotated type is the one in the table."""
    told = table(heading)
    plain = {n: k for n, k in get_type_hints(kind).items() if k in (str, int, float)}
    assert plain
    assert {name: told[name] for name in plain} == {n: f"`{k.__name__}`" for n, k in plain.items()}


def test_recorded_steps_are_steps() -> None:
    """A step of a trajectory or of steps() is read by attributes as by keys, and is plain JSON."""
    data = StepData(
        event_id="e", turn=1, app="a", action="b", arguments={"x": 1}, states={"a": {"n": 2}}
    )
    episode = EpisodeData(trial="t", task=TASK, steps=[data])
    for (step,) in (Episode(episode).trajectory, HindsightTrial(episode, None).steps("b")):
        assert isinstance(step, Step)
        assert {name: getattr(step, name) for name in step} == dict(step)
        assert (step["current_state"], step.apps["a"].state, step.task) == ({"n": 2},) * 2 + (TASK,)
        assert msgspec.json.decode(msgspec.json.encode(step)) == dict(step)
        with pytest.raises(AttributeError, match="a step has no 'reward'; it has event_id, turn"):
            _ = step.reward
