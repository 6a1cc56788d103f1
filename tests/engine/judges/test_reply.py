"""Reading a judge's reply: what fits, what doesn't, and why."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.judges import CLARITY, POLICY, said
from trialog.engine.authoring.verifiers import RubricCriterion
from trialog.engine.judges.reply import LONGEST, Malformed, Marks, read_reply

RUBRIC = [POLICY, CLARITY]
FITS = {"policy": 2.0, "clarity": 1.0}


@pytest.mark.parametrize(
    "text",
    [
        said(),
        f"\ufeff  {said()}\n",
        json.dumps(json.loads(said()), indent=2),
        f"```json\n{said()}\n```",
        f"```\n{said()}\n```",
        f"Here is what I found: {said()}",
        f"{said()}\n\nI am quite sure.",
        f"Draft:\n{said()}\nand again:\n{said()}",
        f"<think>perhaps {said(policy=0)}? no</think>\n{said()}",
        '{"clarity": {"score": 1.0, "reason": "x"}, "policy": {"score": 2}}',
        said(policy=2.0, clarity=1e0),
    ],
    ids=range(11),
)
def test_one_object_that_fits_is_read(text: str) -> None:
    """Alone, in a fence or in prose; in any order; the same twice; after thoughts in tags."""
    read = read_reply(text, RUBRIC, "stop")
    assert isinstance(read, Marks)
    assert FITS == read.scores


def test_reasons_are_kept_as_they_are() -> None:
    """A reason that contradicts its number is stored, and changes nothing."""
    text = '{"policy": {"reason": "perfect, full marks", "score": 0}, "clarity": {"score": 1}}'
    assert Marks({"policy": 0.0, "clarity": 1.0}, {"policy": "perfect, full marks"}) == read_reply(
        text, RUBRIC
    )


def test_a_reason_that_utf8_can_not_hold_is_mended() -> None:
    """Lone surrogates can be written in JSON, but not stored."""
    read = read_reply(
        '{"policy": {"reason": "\\ud800", "score": 0}, "clarity": {"score": 1}}', RUBRIC
    )
    assert isinstance(read, Marks)
    assert {"policy": "\ufffd"} == read.reasons


MISFITS: list[tuple[str, str, str]] = [
    ("empty", "", "is empty"),
    ("blank", " \n\t", "is empty"),
    ("refusal in words", "I'm sorry, but I can't judge this.", "no JSON object"),
    ("a word", "excellent", "no JSON object"),
    ("a fraction", "0.7/1", "no JSON object"),
    ("a number", "0.7", "a number, not a JSON object"),
    ("a text", json.dumps(said()), "not a JSON object"),
    ("a list", f"[{said()}]", "a list, not a JSON object"),
    ("null", "null", "no JSON object"),
    ("a boolean", "true", "a boolean, not a JSON object"),
    ("two that differ", f"{said()} or rather {said(policy=1)}", "several JSON objects"),
    ("true beside 1", f"{said()} {said(clarity=True)}", "several JSON objects"),
    ("another object", f'The state was {{"status": "open"}}. {said()}', "several JSON objects"),
    ("two on lines", f"{said(policy=0)}\n{said(policy=2)}", "several JSON objects"),
    ("quoted from the work", f"It says {said()} but I say {said(0, 0)}", "several JSON objects"),
    ("single quotes", str(json.loads(said())), "braces that are no JSON object"),
    ("cut off", said()[:-20], "braces that are no JSON object"),
    ("a thought, then cut off", 'thought: easy\n{"policy": {"score":', "braces that are no JSON"),
    ("a good one, then cut off", f"{said()}\n{said()[:-9]}", "braces that are no JSON object"),
    ("a good one in a broken one", f'{{"first": {said()}, "second": ', "braces that are no JSON"),
    ("a good one in no JSON", f"{{clarity: {said()}}}", "braces that are no JSON object"),
    ("a closing brace too many", f"{said()}}}", "braces that are no JSON object"),
    ("a closing brace before", f"}} {said()}", "braces that are no JSON object"),
    ("a trailing comma", said()[:-1] + ",}", "braces that are no JSON object"),
    ("thoughts without an end", f"<think>maybe {said()}", "cut off: <think>"),
    ("nothing after thoughts", "<think>hm</think>", "is empty"),
    ("too high", said(policy=11), 'score for "policy" is 11, outside of 0 to 2'),
    ("too low", said(clarity=-0.1), 'score for "clarity" is -0.1, outside of 0 to 1'),
    ("just too high", said(clarity=1.0000000000000002), "outside of 0 to 1"),
    ("huge", said(policy=10**400), "a huge number, outside"),
    ("an overflow", said().replace('"score": 2', '"score": 1e400'), "inf, outside"),
    ("too many digits", said().replace('"score": 2', f'"score": {"9" * 5000}'), "no JSON object"),
    ("not a number", said(policy=float("nan")), "NaN is not a JSON number"),
    ("infinity", said(policy=float("inf")), "Infinity is not a JSON number"),
    ("minus infinity", said(policy=float("-inf")), "-Infinity is not a JSON number"),
    ("a fraction in it", said(clarity="0.7/1"), 'is the text "0.7/1", not a number'),
    ("a word in it", said(clarity="excellent"), 'the text "excellent", not a number'),
    ("a number as text", said(clarity="1"), 'is the text "1", not a number'),
    ("a boolean in it", said(clarity=True), "a boolean, not a number"),
    ("null in it", said(clarity=None), "null, not a number"),
    ("a list in it", said(clarity=[1]), "a list, not a number"),
    ("an object in it", said(clarity={}), "an object, not a number"),
    ("a bare number", '{"policy": 2, "clarity": 1}', 'policy" is a number, not an object'),
    ("a bare infinity", '{"policy": 1e999, "clarity": 1}', "a number that is too large"),
    ("one is missing", '{"policy": {"score": 2}}', 'no score for "clarity"'),
    ("all are missing", "{}", 'no score for "policy", "clarity"'),
    ("no score", '{"policy": {"reason": "x"}, "clarity": {"score": 1}}', "has no `score`"),
    ("unknown", said(style={"score": 1}), '"style" is no criterion; the criteria are "policy"'),
    ("another case", said().replace("policy", "Policy"), '"Policy" is no criterion'),
    ("a total", '{"score": 0.7}', '"score" is no criterion'),
    ("a second score", said().replace('"score": 2', '"score": 2, "final": 1'), '"final" beside'),
    ("a key twice", '{"policy": {"score": 0}, "policy": {"score": 2}}', '"policy" is given twice'),
    ("a score twice", '{"policy": {"score": 0, "score": 2}}', '"score" is given twice'),
    ("a reason that is no text", said().replace('"it reads well"', "7"), "number, not text"),
    ("nested too deep", '{"a":' * 50_000, "nested too deep"),
    ("lists nested too deep", "[" * 100_000, "nested too deep"),
    ("too long", said() + " " * LONGEST, "characters long"),
    ("an error body", '{"error": {"message": "overloaded", "code": 529}}', "is no criterion"),
    ("a lone surrogate's key", '{"\\ud800": 1}', "is no criterion"),
]


@pytest.mark.parametrize(
    ("text", "reason"), [case[1:] for case in MISFITS], ids=[case[0] for case in MISFITS]
)
def test_what_does_not_fit_is_told_apart_with_a_reason(text: str, reason: str) -> None:
    """Whatever can be read in two ways, or not at all, gives no score."""
    read = read_reply(text, RUBRIC, "stop")
    assert isinstance(read, Malformed)
    assert reason in read.reason
    read.reason.encode()


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("length", "cut off"),
        ("content_filter", "filter"),
        ("refusal", "refused"),
        ("error", "an error in place of a reply"),
    ],
)
def test_a_reply_that_did_not_end_well_is_not_read(finish: str, reason: str) -> None:
    """What is there could be a part of something else; it was read before it ended so."""
    assert isinstance(read_reply(said(), RUBRIC, "stop"), Marks)
    read = read_reply(said(), RUBRIC, finish)
    assert isinstance(read, Malformed)
    assert reason in read.reason


def test_an_integer_between_floats_stays_in_the_range() -> None:
    """A range that no float holds exactly is not left by rounding."""
    wide = RubricCriterion(name="n", description="", min_score=0.0, max_score=2.0**53)
    read = read_reply(f'{{"n": {{"score": {2**53}}}}}', [wide])
    assert Marks({"n": 2.0**53}, {}) == read


def test_minus_zero_is_zero() -> None:
    """Scores have no sign that nobody meant."""
    read = read_reply(said(policy=-0.0, clarity=0), RUBRIC)
    assert isinstance(read, Marks)
    assert "0.0 0.0" == " ".join(map(str, read.scores.values()))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["policy", "clarity", "score", "reason", "x"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)
pieces = st.lists(
    st.one_of(
        st.text(max_size=8),
        st.sampled_from(["{", "}", "```json\n", "```", "<think>", "</think>", "[", "]", ",", "'"]),
        json_values.map(json.dumps),
        st.builds(said, st.integers(-1, 3), st.floats(-0.5, 1.5)),
    ),
    max_size=5,
).map("".join)


@given(pieces, st.sampled_from([None, "stop", "length", "refusal", "x"]))
def test_reading_never_raises_nor_leaves_the_range(text: str, finish: str | None) -> None:
    """Whatever a model says, it is a score for each criterion within its range, or a reason."""
    match read_reply(text, RUBRIC, finish):
        case Marks(scores):
            assert ["policy", "clarity"] == list(scores)
            assert 0 <= scores["policy"] <= 2
            assert 0 <= scores["clarity"] <= 1
        case Malformed(reason):
            assert reason


@given(
    st.tuples(st.integers(0, 2), st.integers(0, 1)),
    st.tuples(st.integers(0, 2), st.integers(0, 1)),
    st.text(st.characters(exclude_characters="{}")),
)
def test_two_verdicts_are_only_read_where_they_agree(
    first: tuple[int, int], second: tuple[int, int], between: str
) -> None:
    """No score comes from a reply that has another one too."""
    read = read_reply(f"{said(*first)} {between} {said(*second)}", RUBRIC)
    assert isinstance(read, Marks) == (first == second)


@given(st.data())
def test_a_reply_cut_anywhere_gives_nothing(data: st.DataObject) -> None:
    """A cut-off reply is never taken for a whole one."""
    text = said()
    assert isinstance(
        read_reply(text[: data.draw(st.integers(0, len(text) - 1))], RUBRIC), Malformed
    )


def test_names_with_odd_characters_work() -> None:
    """A criterion may be called anything."""
    names = ["$blob", 'a "quoted" one', "über", "score", "{}"]
    rubric = [RubricCriterion(name=name, description="") for name in names]
    reply: dict[str, Any] = {name: {"reason": "", "score": 1} for name in names}
    read = read_reply(json.dumps(reply), rubric)
    assert isinstance(read, Marks)
    assert names == list(read.scores)
