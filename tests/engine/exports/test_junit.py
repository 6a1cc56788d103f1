"""Test reports, read by a reader that others use."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from junitparser import Error, Failure, JUnitXml, Properties, Skipped, TestCase, TestSuite

from helpers.given import (
    Item,
    agent_finished,
    scored,
    slot,
    started,
    trial,
    trial_scored,
    verifier_started,
    view,
)
from helpers.training import broken, ran
from trialog.engine.exports.junit import Case, TestReport, case_of, held, report
from trialog.events.kinds import (
    AgentFailed,
    AgentStarted,
    TrialErrored,
    TrialFinished,
    TrialScheduled,
)

UNHELD = "\x00\x08\x1b\x1f\x7f\x85\ud800\udfff\ufffe\uffff"


def read(data: bytes) -> JUnitXml:
    """The report as junitparser has it."""
    return JUnitXml.fromstring(data)


def only(data: bytes) -> TestCase:
    """The one case of a report."""
    (suite,) = read(data)
    assert isinstance(suite, TestSuite)
    (case,) = suite
    assert isinstance(case, TestCase)
    return case


def errored() -> list[Item]:
    """A trial that left nothing to grade."""
    return [
        started(),
        AgentFailed(error="no \x1b[31msuch program", category="agent_start_failed", duration=0.5),
        TrialErrored(error="no \x1b[31msuch program", category="agent_start_failed"),
        TrialFinished(outcome="errored"),
    ]


@pytest.mark.parametrize(
    ("items", "kind", "type_"),
    [
        (errored(), Error, "agent_start_failed"),
        (broken(), Error, "verifier_error"),
        (trial(0.25), Failure, "failed"),
        ([started()], Skipped, None),
        ([started(), TrialFinished(outcome="cancelled")], Skipped, None),
    ],
    ids=["errored", "unscored", "failed", "running", "cancelled"],
)
def test_the_fate_of_a_trial(items: list[Item], kind: type, type_: str | None) -> None:
    """What an agent did not do is a failure, what could not be done an error, what has no end of
    its own is skipped."""
    (told,) = only(report("j", [case_of(view(*items))])).result

    assert kind is type(told)
    assert type_ == told.type
    assert told.message


def test_a_passed_trial() -> None:
    """It has no fault; its time is that of its phases, its rewards are properties."""
    case = only(report("j", [case_of(view(*trial(1.0)))]))

    assert [] == case.result
    assert ("t", "oracle attempt 1") == (case.classname, case.name)
    assert case.time > 0
    (found,) = case.iterchildren(Properties)
    properties = {one.name: one.value for one in found}
    assert ("t__00000001", "1.0", "scored") == tuple(
        properties[name] for name in ("trial", "rewards.reward", "outcome")
    )


def test_what_the_agent_and_its_verifiers_said() -> None:
    """A failure's text has why the agent ended early, and each verifier with its words."""
    items = [
        started(), AgentStarted(name="a"),
        agent_finished(ended_by="agent_timeout", error="too slow", error_category="agent_timeout"),
        verifier_started(), scored(0.25, evidence=["3 of 12"], feedback="more"),
        trial_scored(0.25), TrialFinished(outcome="scored"),
    ]  # fmt: skip

    (told,) = only(report("j", [case_of(view(*items))])).result

    assert "agent: agent_timeout: too slow\nscript: 0.25\n  3 of 12\n  more" == told.text


def test_a_trial_that_is_left_out_is_an_error() -> None:
    """A report does not pass because a trial can't be read."""
    made = TestReport("j")
    one = TrialScheduled(trial="t__00000001", slot=slot(), execution=1)
    made.left_out(one, "blob sha256:0 is missing")
    made.left_out(one, None)

    (suite,) = read(made.end())
    assert (2, 1, 1) == (suite.tests, suite.errors, suite.skipped)


def test_counts_are_those_of_the_cases() -> None:
    """A suite a task; each says how many cases of each kind it has, and the report their sum, of
    those that are skipped by the suites alone, as schemas have it."""
    views = [
        view(*ran()),
        view(*broken()),
        view(*ran(slot=slot(task="u"))),
        view(started(slot=slot(task="u", attempt=2))),
    ]
    made = report("j", [case_of(one) for one in views])

    found = read(made)
    assert ["t", "u"] == [suite.name for suite in found]
    assert (4, 0, 1) == (found.tests, found.failures, found.errors)
    before = [(s.tests, s.failures, s.errors, s.skipped) for s in found]
    found.update_statistics()  # counted anew
    assert before == [(s.tests, s.failures, s.errors, s.skipped) for s in found]
    assert (4, 0, 1, 1) == (found.tests, found.failures, found.errors, found.skipped)


def test_what_xml_can_not_hold_is_spelled_out() -> None:
    """Control characters, lone surrogates and non-characters are shown by their codes."""
    with pytest.raises(ElementTree.ParseError):
        ElementTree.fromstring("<a>\x1b</a>")

    assert r"\x00\x08\x1b\x1f" + "\x7f\x85" + r"\ud800\udfff\ufffe\uffff" == held(UNHELD)
    (told,) = only(report("j", [case_of(view(*errored()))])).result
    assert r"no \x1b[31msuch program" == told.message


@given(st.text(alphabet=st.characters() | st.sampled_from(UNHELD + "\r\n\t\"'<>&]"), max_size=20))
def test_any_text_is_read_as_it_was_written(text: str) -> None:
    """Whatever a name, a message or a verifier's words hold, a reader gets what was written."""
    case = Case(
        task=text, name=text, seconds=0.5, started_at=None, fate="failure", type=text,
        message=text, details=text, properties=[("p", text)],
    )  # fmt: skip

    found = ElementTree.fromstring(report(text, [case]))

    shown = held(text)
    (suite,) = found
    (told,) = suite.iter("failure")
    (kept,) = suite.iter("property")
    assert {shown} == {
        found.attrib["name"], suite.attrib["name"], told.attrib["message"], kept.attrib["value"],
        told.text or "",
    }  # fmt: skip
