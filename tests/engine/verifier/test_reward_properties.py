"""The reward table against a slow second reading of it."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from trialog.engine.sandbox.protocol import Exit
from trialog.engine.tasks.model import VerifierSettings
from trialog.engine.verifier.files import FileRead, RewardFiles
from trialog.engine.verifier.reward import RewardVerdict, judge_reward

PLAIN = ["0", "1", "0.5", "1.0", "-0", "0.25", "2", "-1", "1e5", "1e-400"]
IN_TEXT_ONLY = ["+1", ".5", "1."]
NO_NUMBERS = ["", "pass", "nan", "1 2", "0x1", "1_0", "True", "१", "1,5"]
OVERFLOW = "1e400"


class Case(NamedTuple):
    """What a verifier wrote, as parts that a slow reading understands."""

    text: str | None
    pairs: list[tuple[str, str]] | None
    """Keys and the JSON text of their values."""
    broken: bool
    aggregate: str | None
    low: float
    high: float


cases = st.builds(
    Case,
    text=st.none() | st.sampled_from([*PLAIN, *IN_TEXT_ONLY, *NO_NUMBERS, OVERFLOW]),
    pairs=st.none()
    | st.lists(
        st.tuples(
            st.sampled_from(["reward", "a", "b"]),
            st.sampled_from([*PLAIN, OVERFLOW, "NaN", "true", '"1"', "[1]", "null"]),
        ),
        max_size=4,
    ),
    broken=st.sampled_from([False, False, False, True]),
    aggregate=st.sampled_from([None, "mean", "min", "a"]),
    low=st.sampled_from([0.0, -1.0]),
    high=st.sampled_from([1.0, 2.0]),
)


def slow(case: Case) -> tuple[Fraction | None, dict[str, Fraction]]:
    """Reward and scores by the table's rows, or None where the engine gives 0."""

    def number(text: str) -> Fraction | None:
        """A finite number's exact value."""
        return None if text == OVERFLOW else Fraction(float(text))

    bad_json = case.broken
    pairs = case.pairs or []
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys) or any(value == "NaN" for _, value in pairs):
        bad_json = True
    has_json = case.pairs is not None
    entries = dict(pairs) if has_json and not bad_json else {}
    numeric = {k: v for k, v in entries.items() if v in PLAIN or v == OVERFLOW}

    for value in numeric.values():
        exact = number(value)
        if exact is None or not case.low <= exact <= case.high:
            return None, {}
    if case.text is not None:
        if case.text in NO_NUMBERS or case.text == OVERFLOW:
            return None, {}
        reward = number(case.text)
    elif not has_json or bad_json:
        return None, {}
    elif "reward" in entries:
        reward = number(entries["reward"]) if "reward" in numeric else None
    elif case.aggregate is None:
        return None, {}
    else:
        values = [Fraction(float(v)) for v in numeric.values()]
        match case.aggregate:
            case "mean" if values:
                reward = Fraction(float(sum(values) / len(values)))
            case "min" if values:
                reward = min(values)
            case key if key in numeric:
                reward = number(numeric[key])
            case _:
                reward = None
    if reward is None or not case.low <= reward <= case.high:
        return None, {}
    scores = {k: Fraction(float(v)) for k, v in numeric.items() if k != "reward"}
    if "reward" in entries and "reward" not in numeric:
        scores = {}
    return reward, scores


def written(case: Case) -> RewardFiles:
    """The files of a case."""
    text = None
    if case.text is not None:
        text = FileRead(name="reward.txt", data=case.text.encode())
    document = None
    if case.pairs is not None:
        body = ", ".join(f"{json.dumps(key)}: {value}" for key, value in case.pairs)
        end = "" if case.broken else "}"
        document = FileRead(name="reward.json", data=f"{{{body}{end}".encode())
    return RewardFiles(text=text, json=document)


def judged(case: Case, **more: Any) -> RewardVerdict:
    """The verdict over a case."""
    return judge_reward(
        written(case),
        Exit(ended_by="exit", code=0, duration=1.0),
        VerifierSettings(reward_low=case.low, reward_high=case.high, aggregate=case.aggregate),
        **more,
    )


@settings(max_examples=1500)
@given(cases)
def test_table(case: Case) -> None:
    """Both readings give the same reward, scores and source."""
    reward, scores = slow(case)
    verdict = judged(case)
    if reward is None:
        assert (verdict.source, verdict.score, verdict.scores) == ("engine", 0.0, {})
        assert verdict.warnings
        assert any(w.message.startswith("Verifier scored 0: ") for w in verdict.warnings)
    else:
        assert verdict.source == "verifier"
        assert Fraction(verdict.score) == reward
        assert {k: Fraction(v) for k, v in verdict.scores.items()} == scores
        assert not any("scored 0" in w.message for w in verdict.warnings)


@settings(max_examples=500)
@given(cases)
def test_switch_changes_only_what_is_missing(case: Case) -> None:
    """--missing-reward error leaves score, source and warnings alone, and valid verdicts whole."""
    as_zero, as_error = judged(case), judged(case, missing_reward="error")
    assert not as_zero.missing
    assert (as_zero.score, as_zero.source) == (as_error.score, as_error.source)
    assert as_zero.warnings == as_error.warnings
    if as_error.source == "verifier":
        assert as_error == as_zero


@settings(max_examples=500)
@given(st.none() | st.binary(max_size=30), st.none() | st.binary(max_size=60))
def test_any_bytes_give_a_verdict(text: bytes | None, document: bytes | None) -> None:
    """Whatever was written: a verdict within the range that strict JSON can hold."""
    files = RewardFiles(
        text=None if text is None else FileRead(name="reward.txt", data=text),
        json=None if document is None else FileRead(name="reward.json", data=document),
    )
    done = Exit(ended_by="exit", code=0, duration=1.0)
    verdict = judge_reward(files, done, VerifierSettings())
    assert 0.0 <= verdict.score <= 1.0
    assert all(0.0 <= score <= 1.0 for score in verdict.scores.values())
    for message in (w.message for w in verdict.warnings):
        assert message.encode()
        assert "\n" not in message
        assert len(message) < 2000
