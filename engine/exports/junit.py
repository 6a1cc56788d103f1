"""Test reports: JUnit's XML, as continuous integration reads it. Pure.

A suite is a task, a case is a slot of it. Failures are what an agent did not do; errors are what
agent, sandbox or verifier could not do; what has no end, or none of its own, is skipped. Cases are
named after what ran, so that reports of several jobs can be laid side by side; the trial's name,
which no other job has, is among the properties. XML has no way to hold most control characters:
they are written as in ``\\x1b``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal
from xml.sax.saxutils import escape, quoteattr

import msgspec

from ...events.kinds import TrialErrored, TrialScheduled, TrialUnscored
from ...events.kinds.parts import Slot
from ...events.values import unescape
from ...projections.document import compact, total
from ...projections.grading import VerifierResult
from ...projections.result import Result, result
from ...projections.trial import TrialView
from ..labels.masks import mask_of, short
from .form import Form, TrialRead

_UNHELD = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 can't hold, not even as a reference."""

Fate = Literal["passed", "failure", "error", "skipped"]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One trial, as far as the report shows it."""

    task: str
    name: str
    seconds: float | None
    started_at: str | None
    fate: Fate
    type: str = ""
    """The category of an error, or why there is no verdict."""
    message: str = ""
    details: str = ""
    properties: list[tuple[str, str]]


class TestReport(Form):
    """Gathers a case for each trial; the report is written at the end, since it begins with its
    counts. A long text is shown by its size."""

    __test__ = False  # it is no test of pytest's

    def __init__(self, job: str) -> None:
        self._job = job
        self._cases: list[Case] = []

    def trial(self, read: TrialRead) -> bytes:
        """Nothing yet."""
        self._cases.append(case_of(read.ledger.view, read.regrades))
        return b""

    def left_out(self, scheduled: TrialScheduled, why: str | None) -> bytes:
        """Nothing yet."""
        self._cases.append(
            Case(
                task=scheduled.slot.task,
                name=case_name(scheduled.slot),
                seconds=None,
                started_at=None,
                fate="skipped" if why is None else "error",
                type="not_begun" if why is None else "unreadable",
                message=why or "the trial has not begun",
                properties=[("trial", scheduled.trial)],
            )
        )
        return b""

    def end(self) -> bytes:
        """The report."""
        return report(self._job, self._cases)


def case_of(view: TrialView, regrades: Sequence[str] = ()) -> Case:
    """A trial's case; the verdict is the run's own."""
    found = result(view)
    fate, type_, message, details = _fate(view, found, regrades)
    slot = view.started.slot
    return Case(
        task=slot.task,
        name=case_name(slot),
        seconds=found.timing.total if found else None,
        started_at=view.started_at,
        fate=fate,
        type=type_,
        message=message,
        details=details,
        properties=_properties(view, found),
    )


def case_name(slot: Slot) -> str:
    """What ran: ``chat m-1 {"n":2} attempt 1``; it tells the cases of one task apart."""
    words = [slot.agent, slot.model or ""]
    words.append(compact(unescape(slot.parameters)).decode() if slot.parameters else "")
    return " ".join(word for word in (*words, f"attempt {slot.attempt}") if word)


def _fate(
    view: TrialView, found: Result | None, regrades: Sequence[str]
) -> tuple[Fate, str, str, str]:
    mask = mask_of(view, regrades)
    if found is None or found.outcome == "cancelled":
        assert mask is not None
        return "skipped", mask.reason, mask.detail, ""
    lines = [line for one in found.verifiers for line in _verifier_lines(one)]
    if found.error is not None and not isinstance(view.conclusion, TrialErrored):
        lines.insert(0, f"agent: {found.error_category}: {short(found.error)}")
    details = "\n".join(lines)
    match view.conclusion:
        case TrialErrored(error=error, category=category):
            return "error", category, short(error), details
        case TrialUnscored(error=error, category=category):
            return "error", category, short(error), details
        case _ if found.passed:
            return "passed", "", "", ""
        case _:
            score = "" if found.score is None else f"score {found.score:g}"
            why = mask.detail if mask else ""
            return "failure", "failed", ": ".join(filter(None, (score, why))), details


def _verifier_lines(given: VerifierResult) -> Iterable[str]:
    """What a verifier said, for a person."""
    score = "no score" if given.score is None else f"{given.score:g}"
    yield f"{given.name}: {score}"
    if given.error is not None:
        yield f"  {given.error_category}: {short(given.error)}"
    for one in given.criteria:
        mark = "no score" if one.score is None else f"{one.score:g} of {one.max_score:g}"
        said = "" if one.feedback is None else f": {short(one.feedback)}"
        yield f"  {one.name}: {mark}{said}"
    for text in (*given.evidence, *([] if given.feedback is None else [given.feedback])):
        yield f"  {short(text)}"


def _properties(view: TrialView, found: Result | None) -> list[tuple[str, str]]:
    started = view.started
    known: list[tuple[str, object]] = [
        ("trial", started.trial),
        ("execution", started.execution),
        ("agent", started.slot.agent),
        ("model", started.slot.model),
        ("seed", started.seed),
    ]
    if found is not None:
        known += [("outcome", found.outcome), ("score", found.score)]
        known += [(f"rewards.{name}", value) for name, value in (found.rewards or {}).items()]
        known += [(f"scores.{name}", value) for name, value in found.scores.items()]
        if found.reward_source is not None:
            known.append(("reward_source", found.reward_source))
        known += [
            (f"reward_totals.{verifier}.{name}", value)
            for verifier, totals in found.reward_totals.items()
            for name, value in (("step", totals.step), ("hindsight", totals.hindsight))
        ]
        known += [("warning", warning.code) for warning in found.warnings]
    return [(name, str(value)) for name, value in known if value is not None]


def report(job: str, cases: Sequence[Case]) -> bytes:
    """The report's bytes: tasks in the order in which they first came, cases in theirs."""
    suites: dict[str, list[Case]] = {}
    for case in cases:
        suites.setdefault(case.task, []).append(case)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', _tag("testsuites", job, cases)]
    for task, members in suites.items():
        times = [case.started_at for case in members if case.started_at is not None]
        # Readers take a time of day without a fraction or a zone; it is UTC.
        when = [("timestamp", min(times)[:19])] if times else []
        skipped = str(sum(case.fate == "skipped" for case in members))
        lines.append("  " + _tag("testsuite", task, members, [("skipped", skipped), *when]))
        lines += [line for case in members for line in _case_lines(case)]
        lines.append("  </testsuite>")
    return "\n".join([*lines, "</testsuites>", ""]).encode()


def _tag(
    name: str, called: str, cases: Sequence[Case], more: Sequence[tuple[str, str]] = ()
) -> str:
    def count(fate: Fate) -> str:
        return str(sum(case.fate == fate for case in cases))

    spent = [case.seconds for case in cases if case.seconds is not None]
    return _opened(
        name,
        ("name", called),
        ("tests", str(len(cases))),
        ("failures", count("failure")),
        ("errors", count("error")),
        ("time", _seconds(total(spent))),
        *more,
    )


def _case_lines(case: Case) -> Iterable[str]:
    yield "    " + _opened(
        "testcase",
        ("classname", case.task),
        ("name", case.name),
        ("time", _seconds(case.seconds)),
    )
    yield "      <properties>"
    for name, value in case.properties:
        yield "        " + _opened("property", ("name", name), ("value", value), end="/>")
    yield "      </properties>"
    if case.fate == "skipped":
        told = ": ".join(filter(None, (case.type, case.message)))
        yield "      " + _opened("skipped", ("message", told), end="/>")
    elif case.fate != "passed":
        tag = _opened(case.fate, ("message", case.message), ("type", case.type))
        yield f"      {tag}{_text(case.details)}</{case.fate}>"
    yield "    </testcase>"


def _opened(name: str, *attributes: tuple[str, str], end: str = ">") -> str:
    shown = "".join(f" {key}={quoteattr(held(value))}" for key, value in attributes)
    return f"<{name}{shown}{end}"


def _text(text: str) -> str:
    return escape(held(text), {"\r": "&#13;"})  # a bare one would be read as a line feed


def held(text: str) -> str:
    """A text without what XML can't hold: each such character as its code, as in ``\\x1b``."""
    return _UNHELD.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _seconds(value: float | None) -> str:
    return f"{value or 0.0:.3f}"  # no more digits than schemas allow
