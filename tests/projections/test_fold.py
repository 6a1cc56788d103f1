"""The fold of one trial: pure, in any number of pieces, and frozen at its end."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.given import (
    Item,
    action,
    agent_finished,
    at,
    output,
    recorded,
    sandbox,
    scored,
    started,
    step_rewarded,
    trial,
    trial_scored,
    verifier_started,
    view,
)
from helpers.given import unknown as made_unknown
from helpers.kinds import example
from trialog.events.envelope import RecordedEvent
from trialog.events.errors import LogCorrupt, UnknownEvent
from trialog.events.kinds import (
    AgentMessage,
    AgentStarted,
    ArtifactsSaved,
    EnvironmentReset,
    HumanReviewRequested,
    JobEvent,
    ModelCalled,
    ReviewEvent,
    StepRewardFailed,
    TamperFound,
    TrialEvent,
    TrialFinished,
    TrialInterrupted,
    TrialUnscored,
    VerifierApplied,
    WarningRaised,
    WorkspaceHardened,
    WorkspaceSaved,
)
from trialog.events.kinds.parts import AppState, Continues, StateChange, Usage
from trialog.events.kinds.trial import Artifact
from trialog.events.values import blob_ref
from trialog.projections.files import Files, trial_files
from trialog.projections.trial import TrialFold, TrialView

COUNTER = {"counter": AppState(state={"n": 0}, control="owned")}


def rich() -> list[Item]:
    """A trial with something of everything, and labels after its end."""
    label: dict[str, Any] = {"verifier": "progress", "version": "2.0.0", "digest": "d"}
    return [
        started(),
        sandbox(),
        WarningRaised(code="w", message="m"),
        AgentStarted(name="oracle", version="1"),
        EnvironmentReset(apps=COUNTER, observation="go"),
        ModelCalled(model="m", request={}, usage=Usage(input_tokens=1, cost_usd=0.1),
                    started_at=at(6), latency=0.1, retries=0),
        AgentMessage(role="assistant", text="well"),
        ("s1", action(app="counter", states={
            "counter": StateChange(patch=[{"op": "replace", "path": "/n", "value": 1}])})),
        step_rewarded("s1", 0.1),
        ("s2", action(app="counter", tool_call="c", states={
            "counter": StateChange(full=[{"n": 2}])})),
        step_rewarded("s2", 0.2),
        StepRewardFailed(verifier="care", version="1.0.0", digest="d", step="s2", error="e"),
        agent_finished(answer=["2"]),
        ArtifactsSaved(duration=0.1, artifacts=[
            Artifact(path="a.txt", blob=blob_ref(b"a"), sha256="x", size=1)]),
        WorkspaceSaved(archive=blob_ref(b"w"), size=1, files=1, duration=0.2),
        WorkspaceHardened(duration=0.1),
        TamperFound(path="/x", what="planted"),
        verifier_started(),
        scored(0.5, output=output()),
        trial_scored(0.5),
        TrialFinished(outcome="scored"),
        ("apply", VerifierApplied(verifier_kind="deterministic", **label)),
        step_rewarded("s1", 0.3, version="2.0.0", applied="apply"),
    ]  # fmt: skip


EVENTS = recorded("trial/t__00000001", rich())
FINISH = next(n for n, event in enumerate(EVENTS) if event.kind == "TrialFinished")


def files(*parts: list[RecordedEvent]) -> Files:
    """The files after these events, taken in piece by piece."""
    fold = TrialFold()
    for part in parts:
        fold.feed(part)
    found = fold.record()
    assert found is not None
    return trial_files(found, {})


@pytest.mark.parametrize("split", range(len(EVENTS) + 1))
def test_a_fold_in_two_halves_is_the_whole(split: int) -> None:
    """Wherever the stream is cut, folding the halves one after the other gives the same bytes."""
    assert files(EVENTS) == files(EVENTS[:split], EVENTS[split:])


def test_looking_at_a_fold_does_not_change_it() -> None:
    """A view that was taken on the way changes neither itself nor what comes."""
    fold = TrialFold()
    views: list[tuple[TrialView, Files]] = []
    for event in EVENTS:
        fold.feed([event])
        found = fold.record()
        assert found is not None
        views.append((found, trial_files(found, {})))

    assert files(EVENTS) == views[-1][1]
    assert [trial_files(found, {}) for found, _ in views] == [known for _, known in views]


def test_replaying_twice_gives_the_same_bytes() -> None:
    """The same events, the same bytes."""
    assert files(EVENTS) == files(recorded("trial/t__00000001", rich()))


def test_no_position_is_in_any_file() -> None:
    """A log that was copied numbers anew, and projects to the same bytes."""
    copied = recorded("trial/t__00000001", rich(), position=1_000)

    assert EVENTS[0].position != copied[0].position
    assert files(EVENTS) == files(copied)


@pytest.mark.parametrize("end", range(1, len(EVENTS) + 1))
def test_only_the_ledger_grows_after_the_end(end: int) -> None:
    """result.json comes with the end and is frozen, as all but the ledger, which only grows."""
    at_end, now = files(EVENTS[: FINISH + 1]).documents, files(EVENTS[:end]).documents

    assert (end > FINISH) is ("result.json" in now)
    if end > FINISH:
        assert now["rewards.jsonl"].startswith(at_end["rewards.jsonl"])
        assert {**at_end, "rewards.jsonl": b""} == {**now, "rewards.jsonl": b""}
    else:
        assert at_end["rewards.jsonl"].startswith(now["rewards.jsonl"])


def test_there_is_nothing_before_the_start() -> None:
    """A stream that has not started has no view."""
    assert TrialFold().record() is None


@pytest.mark.parametrize("kind", get_args(TrialEvent), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("full", [False, True])
def test_every_kind_of_a_trial_can_be_folded(kind: Any, full: bool) -> None:
    """Each kind is taken in, before the end and after it, and what it gives can be rendered."""
    item = example(kind, full=full)
    if hasattr(item, "states"):
        item = msgspec.structs.replace(item, states={"a": StateChange(full=[1])})

    for items in ([started(), item], [*trial(), item]):
        found = view(*items)
        assert found.blocked is None
        blobs = {ref.blob: b"{}" for ref in (blob_ref(name.encode()) for name in NAMES)}
        assert trial_files(found, blobs).documents


NAMES = ("text", "reasoning", "error", "answer", "observation", "arguments")


@pytest.mark.parametrize("kind", get_args(JobEvent | ReviewEvent), ids=lambda kind: kind.__name__)
def test_a_kind_of_another_stream(kind: Any) -> None:
    """A job's or a review's event in a trial's stream is a fault of the log."""
    found = view(started(), example(kind, full=False))

    assert isinstance(found.blocked, LogCorrupt)
    assert "position 2" in str(found.blocked)
    assert "does not belong in a trial's stream" in str(found.blocked)


def replaced(index: int, *, ignorable: bool) -> list[RecordedEvent]:
    """The events with a kind of a later release in one place."""
    events = list(EVENTS)
    events[index] = made_unknown(events[index], ignorable=ignorable)
    return events


def test_an_ignorable_kind_is_passed_over() -> None:
    """A kind that is not known and may be passed over is as if it were not there."""
    without = EVENTS[:2] + EVENTS[3:]

    assert files(without) == files(replaced(2, ignorable=True))


def test_an_unknown_kind_stops_every_document() -> None:
    """Before the end, every document stops with position and kind; none is made half."""
    found = files(replaced(2, ignorable=False))

    assert {} == found.documents
    assert [] == found.copies
    assert ["steps.jsonl", "rewards.jsonl", "trajectory.json", "result.json"] == [
        problem.path for problem in found.problems
    ]
    for problem in found.problems:
        assert isinstance(problem.error, UnknownEvent)
        assert "position 3" in str(problem)
        assert "'FutureThing'" in str(problem)


def test_an_unknown_kind_after_the_end_stops_what_grows() -> None:
    """After the end, only the ledger stops: the other documents are frozen already."""
    found = files(replaced(FINISH + 1, ignorable=False))

    assert ["rewards.jsonl"] == [problem.path for problem in found.problems]
    assert {"steps.jsonl", "trajectory.json", "result.json"} == found.documents.keys()
    assert files(EVENTS).documents["result.json"] == found.documents["result.json"]


def test_nothing_is_folded_past_an_unknown_kind() -> None:
    """What comes after the place where the fold stopped is not looked at."""
    fold = TrialFold()
    for event in replaced(2, ignorable=False):
        fold.feed([event])
    found = fold.record()

    assert found is not None
    assert fold.blocked is found.blocked
    assert 0 == found.steps


def test_data_that_is_no_event() -> None:
    """Data that does not fit its kind stops the documents as an unknown kind does."""
    broken = msgspec.structs.replace(EVENTS[2], data='{"kind":"WarningRaised"}')

    found = files([*EVENTS[:2], broken, *EVENTS[3:]])

    assert {} == found.documents
    assert "data is no WarningRaised" in str(found.problems[0])


def test_fields_of_a_later_release_are_passed_over() -> None:
    """A field that is not known changes nothing."""
    more = msgspec.structs.replace(
        EVENTS[2], data='{"kind":"WarningRaised","code":"w","message":"m","new":1}'
    )

    assert files(EVENTS) == files([*EVENTS[:2], more, *EVENTS[3:]])


def test_a_small_fold_keeps_what_a_summary_needs() -> None:
    """Without the history a fold still knows the verdict, and holds no step."""
    small, whole = TrialFold(keep=False), TrialFold()
    small.feed(EVENTS)
    whole.feed(EVENTS)

    a, b = small.record(), whole.record()
    assert a is not None
    assert b is not None
    assert (a.conclusion, a.finish, a.usages, a.steps, a.warnings) == (
        b.conclusion, b.finish, b.usages, b.steps, b.warnings,
    )  # fmt: skip
    assert ((), ()) == (a.history, a.ledger)


def test_going_on_from_an_earlier_execution() -> None:
    """An execution that goes on from saved work has the earlier one's steps and its own verdict."""
    whole = [
        started(), sandbox(), AgentStarted(name="oracle"), ("s1", action()), agent_finished(),
        WorkspaceSaved(archive=blob_ref(b"w"), size=1, files=1, duration=0.2),
    ]  # fmt: skip
    verdict: list[Item] = [
        verifier_started(), scored(), trial_scored(), TrialFinished(outcome="scored"),
    ]  # fmt: skip
    earlier = recorded("trial/t__00000001", whole)
    place = Continues(stream="trial/t__00000001", version=6, hash=earlier[-1].hash.hex())
    again = started(trial="t__00000002", execution=2, continues=place)
    own = recorded("trial/t__00000002", [again, sandbox(purpose="verifier"), *verdict], position=50)

    found = files(earlier, own).documents
    straight = files(recorded("trial/t__00000001", whole + verdict)).documents

    assert straight["steps.jsonl"] == found["steps.jsonl"]
    result, plain = (msgspec.json.decode(f["result.json"]) for f in (found, straight))
    excepted = {
        "trial_name",
        "execution",
        "continues",
        "log",
        "timing",
        "started_at",
        "finished_at",
    }
    assert {k: v for k, v in plain.items() if k not in excepted} == {
        k: v for k, v in result.items() if k not in excepted
    }
    assert (2, "t__00000001") == (result["execution"], result["continues"]["stream"][6:])


def test_what_an_earlier_execution_concluded_does_not_hold() -> None:
    """An execution that goes on from a finished one is not finished by that."""
    first: list[Item] = [
        started(),
        TrialUnscored(error="lost", category="sandbox_lost", infrastructure=True),
        TrialFinished(outcome="unscored"),
    ]
    fold = TrialFold()
    fold.feed(recorded("trial/t__00000001", first))

    fold.feed(recorded("trial/t__00000002", [started(trial="t__00000002")]))

    found = fold.record()
    assert found is not None
    assert (None, None) == (found.finish, found.conclusion)


def test_a_trial_that_was_taken_up_again_has_the_same_files() -> None:
    """An interrupted trial's files equal an uninterrupted one's but for times and durations."""
    first: list[Item] = [
        started(), sandbox(), WarningRaised(code="w", message="m"), AgentStarted(name="oracle"),
        ("s1", action()), agent_finished(),
        WorkspaceSaved(archive=blob_ref(b"w"), size=1, files=1, duration=0.2),
        WorkspaceHardened(duration=0.1), verifier_started(),
    ]  # fmt: skip
    rest: list[Item] = [("v1", scored()), trial_scored(), TrialFinished(outcome="scored")]
    cut: list[Item] = [
        TrialInterrupted(reason="killed", stage="verifying"), sandbox(purpose="verifier"),
        WarningRaised(code="w", message="m"), WorkspaceHardened(duration=0.1), verifier_started(),
    ]  # fmt: skip

    straight = files(recorded("trial/t__00000001", first + rest)).documents
    resumed = files(recorded("trial/t__00000001", first + cut + rest)).documents

    for path in ("steps.jsonl", "trajectory.json"):
        assert straight[path] == resumed[path]
    a, b = (msgspec.json.decode(f["result.json"]) for f in (straight, resumed))
    assert [key for key in a if a[key] != b[key]] == ["finished_at", "timing", "log"]


def test_waiting_for_a_person() -> None:
    """A trial waits from the request to the submission, and not after its end."""
    asked = HumanReviewRequested(
        verifier="person", digest="d", weight=1.0, instructions="", criteria=[]
    )

    assert view(started(), asked).awaiting_review
    assert not view(started()).awaiting_review
    assert not view(started(), asked, TrialFinished(outcome="cancelled")).awaiting_review


@given(st.lists(st.sampled_from(range(1, len(EVENTS))), max_size=30), st.data())
def test_any_stream_folds_the_same_in_any_pieces(order: list[int], data: st.DataObject) -> None:
    """Even events in an order that no engine makes fold to the same bytes in every cut."""
    items = rich()
    stream = recorded(
        "trial/t__00000001",
        [started(), EnvironmentReset(apps=COUNTER), *(_payload(items[n]) for n in order)],
    )
    cut = data.draw(st.integers(0, len(stream)))

    assert files(stream) == files(stream[:cut], stream[cut:])


def _payload(item: Item) -> Any:
    return item[1] if isinstance(item, tuple) else item
