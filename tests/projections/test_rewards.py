"""rewards.jsonl."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.given import (
    Item,
    action,
    at,
    event_id,
    scored,
    started,
    step_rewarded,
    trial,
    trial_scored,
    view,
)
from helpers.samples import event
from trialog.events.kinds import (
    HindsightCredited,
    HumanReviewRequested,
    HumanReviewSubmitted,
    RegradeScored,
    RegradeStarted,
    TrialFinished,
    VerifierApplied,
)
from trialog.events.kinds.parts import Target
from trialog.events.open import open_log
from trialog.projections.rewards import rewards
from trialog.projections.trial import TrialFold

FIELDS = (
    "record_id target value weight source verifier version app created_at metadata granularity "
    "space"
).split()
TARGET_FIELDS = "kind event_id field start end token_start token_end".split()


def lines(*items: Item, trial: str = "t__00000001") -> list[dict[str, Any]]:
    """The file, read back by a reader that splits at newlines only."""
    return [
        json.loads(line) for line in rewards(view(*items, trial=trial)).decode().split("\n") if line
    ]


def credit(value: float, **changes: Any) -> HindsightCredited:
    """Hindsight for a step."""
    known: dict[str, Any] = {
        "verifier": "care", "version": "1.0.0", "digest": "d", "value": value, "weight": 0.5,
        "target": Target(target="step", event_id="s1"), "space": "reasoning",
    }  # fmt: skip
    return HindsightCredited(**(known | changes))


def test_every_field_is_there_in_its_order() -> None:
    """All fields in the documented order, null where there is nothing to say."""
    (line,) = lines(*trial(0.5))

    assert FIELDS == list(line)
    assert TARGET_FIELDS == list(line["target"])


def test_a_verdict_is_a_line() -> None:
    """The score of a verifier credits its own event."""
    (line,) = lines(*trial(0.5))

    assert {
        "record_id": line["record_id"],
        "target": {
            "kind": "verdict", "event_id": event_id("trial/t__00000001", 7), "field": None,
            "start": None, "end": None, "token_start": None, "token_end": None,
        },
        "value": 0.5, "weight": 1.0, "source": "verifier", "verifier": "script", "version": None,
        "app": None, "created_at": at(7), "metadata": {}, "granularity": "terminal",
        "space": "output",
    } == line  # fmt: skip


def test_a_judge_is_a_source_of_its_own() -> None:
    """A judge's score says that a judge gave it."""
    (line,) = lines(
        started(), scored(0.5, verifier="judge", verifier_kind="agent", version="1.0.0")
    )

    assert ("judge", "judge", "1.0.0") == (line["source"], line["verifier"], line["version"])


def test_a_persons_score_is_a_line() -> None:
    """A submission's weight and version are those that the review was asked with."""
    asked = HumanReviewRequested(
        verifier="person", version="2.0.0", digest="d", weight=3.0, instructions="", criteria=[]
    )
    given = HumanReviewSubmitted(verifier="person", score=0.5, criteria=[])

    (line,) = lines(started(), asked, given)

    assert ("human", "person", "2.0.0", 3.0, 0.5, "terminal", "verdict") == (
        line["source"], line["verifier"], line["version"], line["weight"], line["value"],
        line["granularity"], line["target"]["kind"],
    )  # fmt: skip
    assert event_id("trial/t__00000001", 3) == line["target"]["event_id"]


def test_a_persons_score_that_was_not_asked_for() -> None:
    """A submission without a request still has a line, of weight 1."""
    (line,) = lines(started(), HumanReviewSubmitted(verifier="person", score=0.5, criteria=[]))

    assert (None, 1.0) == (line["version"], line["weight"])


def test_a_persons_score_is_one_line() -> None:
    """A verdict that repeats a person's score adds none to the submission's."""
    given = HumanReviewSubmitted(verifier="person", score=0.5, criteria=[])

    found = lines(started(), given, scored(0.5, verifier="person", verifier_kind="human"))

    assert ["human"] == [line["source"] for line in found]


@pytest.mark.parametrize("changes", [{"source": "engine"}, {"source": "engine", "missing": True}])
def test_a_zero_of_the_engine_has_no_line(changes: dict[str, Any]) -> None:
    """No verdict is no zero: what the engine gave is not among the rewards."""
    assert 1 == len(lines(started(), scored(0.0), trial_scored(0.0)))

    assert [] == lines(started(), scored(0.0, **changes), trial_scored(0.0))


def test_a_step_reward() -> None:
    """A step reward names its step and its place, and keeps what the verifier said with it."""
    (line,) = lines(started(), ("s1", action()), step_rewarded("s1", 0.25, metadata={"why": 1}))

    assert ("step", "progress", "1.0.0", "shell", 0.25, "step", "action", {"why": 1}) == (
        line["source"], line["verifier"], line["version"], line["app"], line["value"],
        line["granularity"], line["space"], line["metadata"],
    )  # fmt: skip
    assert ("step", "s1") == (line["target"]["kind"], line["target"]["event_id"])


def test_a_span() -> None:
    """A reward may credit a span of an event's text, in characters or in tokens."""
    target = Target(
        target="event", event_id="m1", field="text", start=1, end=5, token_start=0, token_end=2
    )

    (line,) = lines(started(), credit(1.0, target=target))

    assert ["event", "m1", "text", 1, 5, 0, 2] == list(line["target"].values())
    assert ("hindsight", "step", "reasoning") == (
        line["source"], line["granularity"], line["space"],
    )  # fmt: skip


def test_hindsight_on_a_verdict_is_terminal() -> None:
    """What credits the end is of the end."""
    (line,) = lines(started(), credit(1.0, target=Target(target="verdict", event_id="v")))

    assert "terminal" == line["granularity"]


def test_order_of_the_stream() -> None:
    """Lines stand in the order in which the rewards were given."""
    found = lines(
        started(), step_rewarded("s1", 0.5), step_rewarded("s2", 0.25), scored(1.0), credit(0.125)
    )

    assert [0.5, 0.25, 1.0, 0.125] == [line["value"] for line in found]


def applied(id: str, value: float = 0.5, **changes: Any) -> list[Item]:
    """Labels of one application: two credits for one step."""
    known: dict[str, Any] = {"verifier": "care", "version": "1.0.0", "digest": "d"} | changes
    return [
        (id, VerifierApplied(verifier_kind="deterministic", score=0.0, **known)),
        credit(value, applied=id, **known),
        credit(value, applied=id, **known),
    ]


def test_labels_are_appended() -> None:
    """A label that is applied later goes to the end, and the earlier lines stay as they are."""
    before = rewards(view(*trial()))

    after = rewards(view(*trial(), *applied("a")))

    assert after.startswith(before)
    assert 3 == after.count(b"\n")


def test_the_same_label_adds_nothing() -> None:
    """Labels that are applied twice are there once, also where one target has two."""
    once = lines(*trial(), *applied("a"))

    assert once == lines(*trial(), *applied("a"), *applied("b"))
    assert 3 == len({line["record_id"] for line in once})


def test_what_the_run_gave_is_not_added_again() -> None:
    """An unchanged verifier that is applied after the run adds no line."""
    run = [started(), step_rewarded("s1", 0.5), TrialFinished(outcome="scored")]

    assert lines(*run) == lines(*run, step_rewarded("s1", 0.5, applied="a"))


@pytest.mark.parametrize(
    "changes",
    [
        {"version": "1.0.1"},
        {"verifier": "other"},
        {"target": Target(target="step", event_id="s2")},
    ],
)
def test_another_label_is_another_line(changes: dict[str, Any]) -> None:
    """A new version, verifier or target is a label of its own."""
    other = credit(0.5, **({"applied": "b"} | changes))

    assert 4 == len(lines(*trial(), *applied("a"), other))


def test_ids_are_of_the_trial() -> None:
    """The same reward in two trials has two ids; in one trial always the same."""
    here = lines(*trial())

    assert here == lines(*trial())
    there = lines(*trial(trial="t__00000002"))
    assert here[0]["record_id"] != there[0]["record_id"]


def test_a_step_reward_and_hindsight_for_it_are_two() -> None:
    """One verifier may reward a step at once and credit it again in hindsight."""
    found = lines(
        started(), step_rewarded("s1", 0.5), credit(0.5, verifier="progress", version="1.0.0")
    )

    assert 2 == len(found)


def test_a_regrade_adds_no_line() -> None:
    """A regrade's scores are in the log, not in the ledger."""
    regraded = RegradeScored(regrade_id="r", verdicts=[], passed=False, score=0.0)
    started_again = RegradeStarted(regrade_id="r", task_digest="d", verifiers={})

    assert lines(*trial()) == lines(*trial(), started_again, regraded)


def test_no_reward_is_an_empty_file() -> None:
    """Without a reward the file is there, and empty."""
    assert b"" == rewards(view(started()))


def test_odd_texts_stay_on_one_line() -> None:
    """Whatever a text holds, a line is a line, and reads back the same."""
    odd = "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e\r\n"

    (line,) = lines(started(), step_rewarded("s1", 1.0, metadata={"text": odd}))

    assert odd == line["metadata"]["text"]


async def test_line_ends_of_every_sort_in_a_log_that_is_opened_again(tmp_path: Path) -> None:
    """Each text is one event and one line, and the log goes on after the last one."""
    odd = "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e\r\\n\n"
    texts = [f"{number}{odd}{number}" for number in range(100)]
    given = [
        event(step_rewarded(f"s{n}", 1.0, metadata={"text": text})) for n, text in enumerate(texts)
    ]
    stream = "trial/t__00000001"
    async with open_log(tmp_path / "trialog.db") as log:
        await log.append(stream, 0, [event(started())])
        for version, one in enumerate(given[:99], 1):
            await log.append(stream, version, [one])

    async with open_log(tmp_path / "trialog.db") as log:
        last = await log.append(stream, 100, given[99:])
        assert (101, 101) == (last.first, last.version)
        assert 2 == (await log.append(stream, 1, given[:1])).first, "it is known from before"
        stored = await log.read(stream)

    assert list(range(1, 102)) == [one.position for one in stored]
    fold = TrialFold()
    fold.feed(stored)
    found = fold.record()
    assert found is not None
    (*written, rest) = rewards(found).split(b"\n")
    assert b"" == rest
    assert texts == [json.loads(line)["metadata"]["text"] for line in written]


def test_every_field_is_documented() -> None:
    """docs/files.md names every field."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "files.md").read_text("utf-8")

    assert [] == [field for field in FIELDS + TARGET_FIELDS if f"`{field}`" not in page]
