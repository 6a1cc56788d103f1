"""A line an event."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from helpers.given import action, at, output, recorded, scored, started, trial, unknown
from helpers.kinds import example
from trialog.events.kinds import (
    AgentMessage,
    Event,
    JudgeSampled,
    SandboxRemoved,
    TrialFinished,
    TrialInterrupted,
    WarningRaised,
)
from trialog.events.values import blob_ref
from trialog.projections.timeline import WIDTH, describe, shown, timeline_line


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("full", [False, True], ids=["bare", "full"])
def test_every_kind_has_a_line(kind: Any, full: bool) -> None:
    """Each kind is told in plain words on one line, with and without its optional fields."""
    (event,) = recorded("trial/t", [example(kind, full=full)])

    line = timeline_line(event)

    assert line.startswith(f"    1  {at(1)}  {kind.__name__}")
    assert describe(example(kind, full=full))
    assert line.isprintable()
    assert "None" not in line


def test_a_line() -> None:
    """Version, time, kind, and what happened."""
    event = recorded("trial/t", trial(0.5, steps=1))[6]

    assert (
        f"    7  {at(7)}  VerifierScored        script gave 0.5, exit code 0 after 0.8 s"
        == timeline_line(event)
    )


def test_what_a_cut_off_phase_had_printed() -> None:
    """An interruption says how much had been printed, where that is known."""
    cut = TrialInterrupted(reason="SIGINT", stage="agent", output=output(b"half done"))
    assert describe(cut) == "interrupted at stage agent: SIGINT, 9 bytes printed"
    bare = TrialInterrupted(reason="SIGINT", stage="agent")
    assert describe(bare) == "interrupted at stage agent: SIGINT"


def test_a_message_that_is_only_a_thought() -> None:
    """What an agent thought without a word said is shown, as a thought."""
    thought = AgentMessage(role="assistant", text="", reasoning="The test is wrong.")
    assert describe(thought) == "assistant: (thought) The test is wrong."
    said = AgentMessage(role="assistant", text="Done.", reasoning="The test is wrong.")
    assert describe(said) == "assistant: Done."
    assert describe(AgentMessage(role="assistant", text="")) == "assistant: "


@pytest.mark.parametrize(("ignorable", "word"), [(True, "may be"), (False, "may not be")])
def test_an_unknown_kind_is_shown(ignorable: bool, word: str) -> None:
    """A kind of a later release is shown as unknown, with its data."""
    event = unknown(recorded("trial/t", [started()])[0], ignorable=ignorable)

    line = timeline_line(event)

    assert f"FutureThing           unknown to this release (schema 1, {word} passed over)" in line
    assert '"x":1' in line


def test_data_that_is_broken_is_shown() -> None:
    """A known kind whose data is wrong says what is wrong."""
    event = msgspec.structs.replace(
        recorded("trial/t", [started()])[0], data='{"kind":"TrialStarted"}'
    )

    assert "can't be read: data is no TrialStarted" in timeline_line(event)


def test_a_line_moves_no_cursor() -> None:
    """Line ends and control characters are escaped, wherever they come from."""
    warning = WarningRaised(code="a\nb", message="\x1b[2J\u2028x")

    (event,) = recorded("trial/t", [warning])

    line = timeline_line(event)
    assert line.isprintable()
    assert "a\\nb: \\x1b[2J\\u2028x" in line


def test_long_values_are_cut() -> None:
    """A long text is cut with a mark; a blob is named with its size."""
    assert WIDTH == len(shown("x" * 1000))
    assert shown("x" * 1000).endswith("…")
    assert f"[1 bytes in {blob_ref(b'x').blob}]" == shown(blob_ref(b"x"))
    assert '{"a":1}' == shown({"a": 1})


def test_words_that_depend_on_values() -> None:
    """What an event says decides how it is told."""
    assert 'shell.run {"command":"true"} → ok' == describe(action())
    assert "shell.run ! no" == describe(action(arguments=None, error="no"))
    assert "shell.run" == describe(action(arguments=None, observation=None))
    assert "given by the engine" in describe(scored(0.0, source="engine"))
    assert "finished: cancelled" == describe(TrialFinished(outcome="cancelled"))
    lost = example(JudgeSampled, full=True)
    assert "try 1 got no reply (cost_limit): some error" in describe(lost)
    misfit = msgspec.structs.replace(lost, failure=None, valid=False, reply="no")
    assert "try 1 (does not fit): no" in describe(misfit)
    assert "sandbox s kept" == describe(SandboxRemoved(sandbox_id="s", kept=True))
