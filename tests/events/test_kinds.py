"""The kinds are the format: what is pinned here is only ever added to."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import get_args

import msgspec
import pytest

from helpers.samples import sample
from trialog.events import kinds
from trialog.events.codec import KINDS, decode, encode
from trialog.events.drafts import chained, draft_all, empty_tail
from trialog.events.envelope import NewEvent, RecordedEvent
from trialog.events.payload import Part, Payload

JOB = """
    JobStarted TrialScheduled TrialAbandoned JobResumed JobInterrupted JobCancelled JobFinished
    RegradePlanned RegradeSkipped RegradeFinished BlobsPruned EngineFault
""".split()
TRIAL = """
    TrialStarted SandboxStarted SandboxFailed AgentStarted EnvironmentReset ActionTaken
    StepRewarded StepRewardFailed ModelCalled AgentMessage AppQueried EpisodeEnded AgentFinished
    AgentFailed ProcessesKilled ArtifactsSaved WorkspaceSaved WorkspaceHardened VerifierStarted
    JudgeSampled VerifierScored VerifierFailed HumanReviewRequested HumanReviewSubmitted
    TrialScored TrialUnscored TrialErrored HindsightCredited HindsightFailed TrialFinished
    WarningRaised TamperFound SandboxLost SandboxRemoved TrialInterrupted LeaseTaken LeaseLost
    RegradeStarted RegradeScored RegradeFailed VerifierApplied
""".split()
REVIEW = "ReviewStarted ReviewCompleted ReviewFailed ReviewFinished".split()


def recorded(payload: kinds.Event) -> RecordedEvent:
    """The payload as it would lie in a log."""
    new = NewEvent(id="1", at="2026-01-01T00:00:00.000000Z", payload=payload)
    (event,) = chained("job/a", empty_tail("job/a"), draft_all("job/a", [new]), 1)
    return event


def test_the_kinds_are_these_57() -> None:
    """No kind is ever renamed or removed."""
    assert 57 == len(JOB + TRIAL + REVIEW) == len(KINDS)
    assert {*JOB, *TRIAL, *REVIEW} == set(KINDS)
    for names, union in (
        (JOB, kinds.JobEvent),
        (TRIAL, kinds.TrialEvent),
        (REVIEW, kinds.ReviewEvent),
    ):
        assert set(names) == {kind.__name__ for kind in get_args(union)}


def test_every_kind_can_be_imported_from_the_package() -> None:
    """And everything that is a payload is a kind."""
    for name, kind in KINDS.items():
        assert kind is getattr(kinds, name)
    assert {Payload, *KINDS.values()} == {Payload, *_subclasses(Payload)}


def test_schemas_and_what_may_be_passed_over() -> None:
    """All kinds are at their first schema; only what no file depends on may be passed over."""
    assert {1} == {kind.schema for kind in KINDS.values()}
    assert {"SandboxRemoved", "LeaseTaken", "LeaseLost"} == {
        name for name, kind in KINDS.items() if kind.ignorable
    }


@pytest.mark.parametrize("kind", [*KINDS.values(), *Part.__subclasses__()])
def test_a_default_is_null_empty_or_false(kind: type[msgspec.Struct]) -> None:
    """An absent field has one meaning for ever."""
    for field in msgspec.structs.fields(kind):
        if field.default is not msgspec.NODEFAULT:
            assert field.default in (None, False), field.name
        elif field.default_factory is not msgspec.NODEFAULT:
            assert field.default_factory in (list, dict), field.name


@pytest.mark.parametrize("kind", KINDS.values())
def test_every_kind_says_what_happened(kind: type[Payload]) -> None:
    """A kind has a docstring of its own."""
    assert inspect.getdoc(kind)
    assert inspect.getdoc(kind) != inspect.getdoc(Payload)


@pytest.mark.parametrize("full", [False, True], ids=["bare", "full"])
@pytest.mark.parametrize("kind", KINDS.values())
def test_every_kind_comes_back(kind: type[Payload], full: bool) -> None:
    """Its JSON begins with its kind; defaults are not written; decoding gives the same payload."""
    payload = sample(kind, full=full)

    text = encode(payload)

    assert text.startswith(f'{{"kind":"{kind.__name__}"')
    if not full:
        required = [f.encode_name for f in msgspec.structs.fields(kind) if f.required]
        assert ["kind", *required] == list(msgspec.json.decode(text))
    assert payload == decode(recorded(payload))


def _subclasses(base: type) -> set[type]:
    """Those of the package: other tests make some of their own."""
    found = {c for d in base.__subclasses__() for c in (d, *_subclasses(d))}
    return {c for c in found if c.__module__.startswith("trialog.")}


def test_the_kinds_are_cheap_to_import() -> None:
    """Whoever starts the program without opening a log does not pay for one."""
    script = "import sys, trialog.events.kinds, trialog.events.open; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "trialog.events.kinds" in modules
    assert not {"aiosqlite", "sqlite3", "trialog.events.sqlite"} & set(modules)
