"""Which labels stand."""

from __future__ import annotations

import pytest

from helpers.given import Item, recorded, started, step_rewarded
from helpers.training import credit, labelled, played, ran
from trialog.engine.errors import ConfigError
from trialog.engine.labels.asof import AsOf, as_it_stood, parse_as_of
from trialog.engine.labels.ledger import Ledger, ledger_of

H1, H2 = AsOf("h", "1"), AsOf("h", "2")


def ledger(items: list[Item], moment: AsOf | None = None, *, every: bool = False) -> Ledger:
    """The ledger of a trial's events."""
    found = ledger_of(recorded("trial/t__00000001", items), moment, every_version=every)
    assert found is not None
    return found


def credits_of(found: Ledger) -> list[tuple[str, str | None, str, float]]:
    """Who credited what in hindsight."""
    return [
        (line.verifier, line.version, line.target.event_id, line.value)
        for line in found.lines
        if line.source == "hindsight"
    ]


@pytest.mark.parametrize("text", ["h", "h@", "@1", "", "@"])
def test_what_names_no_version_is_refused(text: str) -> None:
    """--as-of takes NAME@VERSION, and the error says so."""
    with pytest.raises(ConfigError, match="NAME@VERSION"):
        parse_as_of(text)


def test_a_version_is_named() -> None:
    """The version stands after the last @."""
    assert AsOf("h", "1.0.0") == parse_as_of("h@1.0.0")
    assert "h@1.0.0" == str(AsOf("h", "1.0.0"))


BEFORE = ran(*played())
FIRST = labelled("1", {"s2": 0.5, "s4": 0.5})
SECOND = labelled("2", {"s2": 1.0})


def test_the_newest_version_stands() -> None:
    """A revised label replaces the earlier one in what stands, and both are in the ledger."""
    found = ledger([*BEFORE, *FIRST, *SECOND])

    assert [("h", "2", "s2", 1.0)] == credits_of(found)
    assert {"progress": "1.0.0", "h": "2"} == found.versions
    assert 3 == len(credits_of(ledger([*BEFORE, *FIRST, *SECOND], every=True)))


def test_both_versions_can_be_had_again() -> None:
    """As of h@1 the labels are those of h@1 and as of h@2 those of h@2, on the same log."""
    whole = [*BEFORE, *FIRST, *SECOND]

    assert [("h", "1", "s2", 0.5), ("h", "1", "s4", 0.5)] == credits_of(ledger(whole, H1))
    assert [("h", "2", "s2", 1.0)] == credits_of(ledger(whole, H2))


def test_a_moment_is_fixed() -> None:
    """What stood when a version was the newest is the same whatever is applied later."""
    then = ledger([*BEFORE, *FIRST])
    other = labelled("1", {"s1": 9.0}, verifier="other")
    again = labelled("2.0.0", {"s1": 9.0}, verifier="progress")

    later = ledger([*BEFORE, *FIRST, *SECOND, *other, *again], H1)

    assert then.lines == later.lines
    assert then.versions == later.versions
    assert then.applied == later.applied


def test_a_version_of_the_run() -> None:
    """As of the version that ran, no later label is there, and its rewards are."""
    whole = [*BEFORE, *FIRST, *SECOND]

    found = ledger(whole, AsOf("progress", "1.0.0"))

    assert [] == credits_of(found)
    assert 3 == sum(line.source == "step" for line in found.lines)


def test_a_version_that_never_labelled_the_trial() -> None:
    """As of a version that others were labelled by, this trial has none of that verifier's."""
    found = ledger([*BEFORE, *SECOND], H1)

    assert [] == credits_of(found)
    assert ledger(BEFORE).lines == found.lines


def test_a_trial_that_goes_on() -> None:
    """A trial without an end stands as it is."""
    events = recorded("trial/t__00000001", [started(), step_rewarded("s1", 1.0)])

    assert events == as_it_stood(events, H1)
    assert [] == as_it_stood([], H1)


def test_a_version_that_gave_nothing_stands() -> None:
    """A new version that credits nothing takes the credits of the earlier one away."""
    found = ledger([*BEFORE, *FIRST, *labelled("2", {})])

    assert [] == credits_of(found)


def test_credits_of_the_run_itself() -> None:
    """Hindsight of the run stands until another version of its verifier is applied."""
    run = [*ran(*played())[:-1], credit("s1", 0.5), ran()[-1]]

    assert [("h", "1", "s1", 0.5)] == credits_of(ledger(run))
    assert [("h", "2", "s2", 1.0)] == credits_of(ledger([*run, *SECOND]))


def test_who_applied_what() -> None:
    """The ledger says which versions were applied, in order, with their scores."""
    found = ledger([*BEFORE, *FIRST, *SECOND])

    assert [("h", "1"), ("h", "2")] == [(one.verifier, one.version) for one in found.applied]


def test_no_trial() -> None:
    """Without an event there is no ledger."""
    assert ledger_of([]) is None
