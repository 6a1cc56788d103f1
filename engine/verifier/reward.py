"""Judging a reward: what was written, and how the script ended, become one verdict.

A pure function of the files' bytes, the exit and the task's settings. A reward counts whatever the
exit code was. Wherever no usable one was written the engine gives 0 and says so; it never guesses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from ..sandbox.protocol import Exit
from ..tasks.model import VerifierSettings
from .document import Document, Fault, json_text, read_document
from .files import REWARD_JSON, REWARD_TEXT, FileRead, RewardFiles
from .number import is_finite, parse_number, shown

REWARD_PLACE = f"/logs/verifier/{REWARD_TEXT}"
"""Where a test script writes its reward, as warnings name it."""

NAMED = 10
"""Keys that warnings name one by one; of more only the number is given."""

_BLANKS = " \t\r\n\f\v"
_BOM = b"\xef\xbb\xbf"


class RewardWarning(NamedTuple):
    """Something about a reward that its reader should know."""

    code: str
    message: str


class RewardVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a script verifier's reward comes to."""

    score: float
    scores: dict[str, float] = {}
    """The other numbers; empty where the engine gave the score."""
    source: Literal["verifier", "engine"]
    """`engine`: nothing usable came, and the score of 0 is the engine's."""
    missing: bool = False
    """A missing reward counts as an error; the 0 stands for it."""
    details: dict[str, Any] = {}
    """Entries of reward.json that are no numbers: kept, not scored."""
    warnings: list[RewardWarning] = []

    @property
    def valid(self) -> bool:
        """Whether the score is the verifier's own."""
        return self.source == "verifier"

    @property
    def rewards(self) -> dict[str, float] | None:
        """`reward` first, then the other scores; null where a missing reward is an error."""
        return None if self.missing else {"reward": self.score} | self.scores


class _Value(NamedTuple):
    """A number that stands for a reward or a score, and where it comes from."""

    number: float
    literal: str
    key: str
    file: str

    @property
    def place(self) -> str:
        return f"{shown(self.key)} in {self.file}"


class _Bad(NamedTuple):
    """Why there is no usable reward."""

    code: str
    reason: str


_Read: TypeAlias = _Value | _Bad | None


def judge_reward(
    files: RewardFiles,
    exit: Exit,
    settings: VerifierSettings,
    *,
    missing_reward: Literal["zero", "error"] = "zero",
    timeout: float | None = None,
) -> RewardVerdict:
    """The verdict over what a test script left and how it ended.

    `timeout` is the deadline in seconds that was in force, where it isn't the settings' own.
    """
    judge = _Judge(settings)
    if exit.ended_by != "exit":
        seconds = settings.timeout_sec if timeout is None else timeout
        return judge.zero(
            _Bad("verifier_timeout", f"verifier timed out after {seconds:.1f}s"), missing_reward
        )
    text = _read_text(files.text)
    document = _read_json(files.json)
    reward = _reward_of(text, document, judge, exit)
    if isinstance(document, Document):
        judge.keep_details(document)
        judge.check_range(_values(document), first=text if isinstance(text, _Value) else None)
        _note_conflict(text, document, judge)
    else:
        judge.check_range([], first=text if isinstance(text, _Value) else None)
    if isinstance(reward, _Bad):
        return judge.zero(reward, missing_reward)
    if judge.out_of_range:
        return judge.zero(None, "zero")
    return judge.scored(reward, _scores(document))


class _Judge:
    """Collects what is said on the way to a verdict."""

    def __init__(self, settings: VerifierSettings) -> None:
        self._low = settings.reward_low
        self._high = settings.reward_high
        self.aggregate = settings.aggregate
        self.warnings: list[RewardWarning] = []
        self._details: dict[str, Any] = {}
        self._range_warnings: list[RewardWarning] = []

    @property
    def out_of_range(self) -> bool:
        return bool(self._range_warnings)

    def warn(self, code: str, message: str) -> None:
        self.warnings.append(RewardWarning(code, message))

    def keep_details(self, document: Document) -> None:
        """Keep the entries beside the reward that are no numbers."""
        self._details = {k: v for k, v in document.others.items() if k != "reward"}
        if self._details:
            names = ", ".join(shown(key) for key in list(self._details)[:NAMED])
            more = len(self._details) - NAMED
            rest = f" and {more} more" if more > 0 else ""
            self.warn(
                "reward_details",
                f"not scored, because they are no numbers: {names}{rest} in {REWARD_JSON}",
            )

    def check_range(self, values: list[_Value], *, first: _Value | None) -> None:
        """Note every number that the task's range does not hold."""
        wrong = [v for v in ([first] if first else []) + values if not self._holds(v.number)]
        for value in wrong[:NAMED]:
            if is_finite(value.number):
                self._range_warnings.append(
                    RewardWarning(
                        "reward_out_of_range",
                        f"Verifier scored 0: {value.place} is {shown(value.literal)}, outside the "
                        f"range {self._low} to {self._high}",
                    )
                )
            else:
                self._range_warnings.append(
                    RewardWarning(
                        "reward_not_a_number",
                        f"Verifier scored 0: {value.place} is {shown(value.literal)}, which is "
                        f"not finite; the range is {self._low} to {self._high}",
                    )
                )
        if len(wrong) > NAMED:
            self._range_warnings.append(
                RewardWarning(
                    "reward_out_of_range",
                    f"Verifier scored 0: {len(wrong) - NAMED} more numbers in {REWARD_JSON} are "
                    f"outside the range {self._low} to {self._high}",
                )
            )

    def _holds(self, number: float) -> bool:
        return self._low <= number <= self._high

    def zero(self, bad: _Bad | None, missing_reward: Literal["zero", "error"]) -> RewardVerdict:
        """The engine's 0; `bad` says why there is no usable reward, if that is the reason."""
        warnings = [*self._range_warnings, *self.warnings]
        if bad is not None:
            message = f"Verifier scored 0: {bad.reason}"
            # An overflow is said once, as what is wrong with the reward.
            warnings = [w for w in warnings if not w.message.startswith(message)]
            warnings.insert(0, RewardWarning(bad.code, message))
        return RewardVerdict(
            score=0.0,
            source="engine",
            missing=bad is not None and missing_reward == "error",
            details=self._details,
            warnings=warnings,
        )

    def scored(self, reward: _Value, scores: dict[str, float]) -> RewardVerdict:
        """The verifier's own reward."""
        return RewardVerdict(
            score=reward.number,
            scores=scores,
            source="verifier",
            details=self._details,
            warnings=self.warnings,
        )


def _read_text(file: FileRead | None) -> _Read:
    if file is None:
        return None
    if file.data is None:
        return _Bad("reward_unusable", f"{file.name} {file.reason}")
    try:
        text = file.data.removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError:
        return _Bad(
            "reward_not_a_number",
            f"reward in {file.name} is {shown(repr(file.data[:40]))}, which is not a number",
        )
    literal = text.strip(_BLANKS)
    number = parse_number(literal)
    if number is None:
        return _Bad(
            "reward_not_a_number",
            f"reward in {file.name} is '{shown(literal)}', which is not a number",
        )
    value = _Value(number, literal, "reward", file.name)
    return value if is_finite(number) else _not_finite(value)


def _not_finite(value: _Value) -> _Bad:
    return _Bad(
        "reward_not_a_number", f"{value.place} is {shown(value.literal)}, which is not finite"
    )


def _read_json(file: FileRead | None) -> Document | _Bad | None:
    if file is None:
        return None
    if file.data is None:
        return _Bad("reward_unusable", f"{file.name} {file.reason}")
    document = read_document(file.data, file.name)
    if isinstance(document, Fault):
        return _Bad("reward_not_a_number", document.reason)
    return document


def _values(document: Document) -> list[_Value]:
    return [_Value(n.value, n.literal, key, REWARD_JSON) for key, n in document.numbers.items()]


def _scores(document: Document | _Bad | None) -> dict[str, float]:
    if not isinstance(document, Document) or "reward" in document.others:
        return {}
    return {key: n.value for key, n in document.numbers.items() if key != "reward"}


def _reward_of(
    text: _Read, document: Document | _Bad | None, judge: _Judge, exit: Exit
) -> _Value | _Bad:
    """The reward that decides, or why there is none."""
    json_reward = _json_reward(document)
    if text is not None:
        lost = document if isinstance(document, _Bad) else json_reward
        if isinstance(lost, _Bad):
            judge.warn(
                "reward_scores_lost",
                f"the scores in {REWARD_JSON} are not used: {lost.reason}; {REWARD_TEXT} decides",
            )
        return text
    if document is None:
        return _Bad(
            "reward_missing",
            f"verifier exited with rc={exit.code}; no reward file found at {REWARD_PLACE}",
        )
    if isinstance(document, _Bad):
        return document
    if json_reward is not None:
        return json_reward
    return _aggregated(document, judge)


def _json_reward(document: Document | _Bad | None) -> _Read:
    if not isinstance(document, Document):
        return None
    if number := document.numbers.get("reward"):
        value = _Value(number.value, number.literal, "reward", REWARD_JSON)
        return value if is_finite(value.number) else _not_finite(value)
    if "reward" in document.others:
        written = shown(json_text(document.others["reward"]))
        return _Bad(
            "reward_not_a_number", f"reward in {REWARD_JSON} is {written}, which is not a number"
        )
    return None


def _aggregated(document: Document, judge: _Judge) -> _Value | _Bad:
    """The reward of a file without one, where the task says how it comes from the numbers."""
    how = judge.aggregate
    numbers = {key: n.value for key, n in document.numbers.items()}
    if how is None:
        return _Bad(
            "reward_missing",
            f"{REWARD_JSON} has no reward ({_keys(document)}), and there is no {REWARD_TEXT}",
        )
    if how not in ("mean", "min"):
        numbers = {how: numbers[how]} if how in numbers else {}
    if not numbers:
        wanted = "numbers" if how in ("mean", "min") else f"number '{shown(how)}'"
        return _Bad(
            "reward_missing",
            f"{REWARD_JSON} has neither a reward nor the {wanted} that verifier.aggregate "
            f"({shown(how)}) is made of",
        )
    value = _combine(how, numbers)
    judge.warn(
        "reward_aggregated",
        f"{REWARD_JSON} has no reward; verifier.aggregate ({shown(how)}) gives {value} "
        f"from {len(numbers)} of its numbers",
    )
    return _Value(value, repr(value), "reward", REWARD_JSON)


def _combine(how: str, numbers: Mapping[str, float]) -> float:
    values = list(numbers.values())
    if how == "min" or len(values) == 1:
        return min(values)
    if not all(map(math.isfinite, values)):
        return math.inf
    try:
        mean = math.fsum(values) / len(values)
    except OverflowError:
        mean = math.fsum(value / len(values) for value in values)
    # Rounding may carry a mean outside of what it is the mean of.
    return min(max(mean, min(values)), max(values))


def _keys(document: Document) -> str:
    keys = [*document.numbers, *document.others]
    if not keys:
        return "it is empty"
    more = f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
    return f"its keys are {', '.join(shown(k) for k in keys[:NAMED])}{more}"


def _note_conflict(text: _Read, document: Document, judge: _Judge) -> None:
    other = _json_reward(document)
    if isinstance(text, _Value) and isinstance(other, _Value) and text.number != other.number:
        judge.warn(
            "reward_conflict",
            f"{REWARD_TEXT} says {shown(text.literal)} and {REWARD_JSON} says "
            f"{shown(other.literal)}; {REWARD_TEXT} decides",
        )
