"""Which files a trial has."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.given import Item, action, output, scored, started, trial, verifier_started, view
from trialog.events.errors import BlobMissing
from trialog.events.kinds import (
    AgentMessage,
    ArtifactsSaved,
    EnvironmentReset,
    HumanReviewRequested,
    ModelCalled,
    VerifierFailed,
)
from trialog.events.kinds.parts import AppState, RequestDifference, StateChange, Usage
from trialog.events.kinds.trial import Artifact
from trialog.events.values import blob_ref
from trialog.projections.files import Copy, is_plain, needed_blobs, trial_files

TEXT = blob_ref(b"a long text")


def artifact(path: str, data: bytes = b"x") -> Artifact:
    """A file that was kept."""
    return Artifact(path=path, blob=blob_ref(data), sha256="ab", size=len(data))


def test_an_unfinished_trial_has_no_result() -> None:
    """Before its end a trial has every file but result.json, and they are not due."""
    found = trial_files(view(started(), action()), {})

    assert ["steps.jsonl", "rewards.jsonl", "trajectory.json"] == list(found.documents)
    assert not found.due


def test_the_result_is_written_last() -> None:
    """Where result.json is, everything else is."""
    found = trial_files(view(*trial()), {})

    assert "result.json" == list(found.documents)[-1]
    assert found.due


def test_a_waiting_trials_files_are_due() -> None:
    """A person who is asked to score a trial finds its files."""
    asked = HumanReviewRequested(
        verifier="person", digest="d", weight=1.0, instructions="", criteria=[]
    )

    found = trial_files(view(started(), asked), {})

    assert found.due
    assert "result.json" not in found.documents


@pytest.mark.parametrize("failed", [False, True])
def test_console_output_is_a_file(failed: bool) -> None:
    """What the test script printed is a file of its own, also when the script failed."""
    lost = VerifierFailed(
        verifier="script", verifier_kind="script", digest="d", weight=1.0, error="e",
        category="sandbox_lost", infrastructure=True, duration=0.5, output=output(b"\xff"),
    )  # fmt: skip

    found = trial_files(view(started(), lost if failed else scored(output=output(b"\xff"))), {})

    assert [Copy("verifier/test-stdout.txt", blob_ref(b"\xff"))] == found.copies


@pytest.mark.parametrize(
    "item", [scored(), verifier_started(), scored(verifier_kind="deterministic", output=output())]
)
def test_no_console_output_is_no_file(item: Item) -> None:
    """A script that did not run, and a check that is no script, leave no such file."""
    assert [] == trial_files(view(started(), item), {}).copies


@pytest.mark.parametrize("judge", [False, True])
def test_requests_that_differ_are_files(judge: bool) -> None:
    """Of a replay the two requests that differ first: an agent's or a judge's; of a call that the
    record does not have, only the new one."""
    first, later = [
        RequestDifference(
            trial="t__1", call=call, path="a", request_now=blob_ref(b"now"),
            request_recorded=blob_ref(b"then") if call == 1 else None,
        )
        for call in (1, 2)
    ]  # fmt: skip

    def found(*differences: RequestDifference) -> list[Copy]:
        items: list[Item] = [
            judge_failed(difference) if judge else called(difference) for difference in differences
        ]
        return trial_files(view(started(), *items), {}).copies

    recorded = Copy("replay/recorded.json", blob_ref(b"then"))
    now = Copy("replay/request.json", blob_ref(b"now"))
    assert [now, recorded] == found(first, later)
    assert [now] == found(later)


def called(difference: RequestDifference) -> ModelCalled:
    """A call that is not as recorded."""
    return ModelCalled(
        model="m", request={}, usage=Usage(), started_at="", latency=0.0, retries=0,
        difference=difference,
    )  # fmt: skip


def judge_failed(difference: RequestDifference) -> VerifierFailed:
    """A judge that is asked something else than was recorded."""
    return VerifierFailed(
        verifier="judge", verifier_kind="agent", digest="d", weight=1.0, error="e",
        category="replay_differs", infrastructure=False, duration=0.0, difference=difference,
    )  # fmt: skip


def test_artifacts_are_files() -> None:
    """Each artifact is a file below artifacts/."""
    saved = ArtifactsSaved(artifacts=[artifact("a.txt"), artifact("b/c.txt", b"y")], duration=0.0)

    assert [
        Copy("artifacts/a.txt", blob_ref(b"x")), Copy("artifacts/b/c.txt", blob_ref(b"y")),
    ] == trial_files(view(started(), saved), {}).copies  # fmt: skip


@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", "a/../../x", "a//b", "", ".", "a/.", "a/", "a\0b", ".."]
)
def test_a_hostile_path_is_refused(path: str) -> None:
    """A path that would leave the folder is named and not written; the others are."""
    saved = ArtifactsSaved(artifacts=[artifact(path), artifact("good")], duration=0.0)

    found = trial_files(view(started(), saved), {})

    assert ["artifacts/good"] == [copy.path for copy in found.copies]
    assert [f"artifacts/{path}"] == [problem.path for problem in found.problems]
    assert "leave the folder" in str(found.problems[0])


@pytest.mark.parametrize("path", ["a", "a/b", "..a", "a..", ".hidden", "a b", "ä\u2028", "-rf"])
def test_odd_paths_are_fine(path: str) -> None:
    """What stays in the folder is a name like any other."""
    assert is_plain(path)


def test_a_missing_blob_is_named() -> None:
    """A document that needs a lost blob is a problem that names it; the others are made."""
    found = view(started(), AgentMessage(role="user", text=TEXT))
    lost = BlobMissing(TEXT.blob, "the store")

    files = trial_files(found, {}, {TEXT.blob: lost})

    assert ["trajectory.json"] == [problem.path for problem in files.problems]
    assert TEXT.blob in str(files.problems[0])
    assert ["steps.jsonl", "rewards.jsonl"] == list(files.documents)


def test_only_documents_that_need_it_miss_a_blob() -> None:
    """A lost blob of one document stops no other that needs another."""
    state = AppState(state=TEXT, control="owned")
    change = StateChange(patch=[{"op": "add", "path": "/a", "value": 1}])
    found = view(
        started(), EnvironmentReset(apps={"a": state}), action(app="a", states={"a": change})
    )

    assert [TEXT] == needed_blobs(found)
    files = trial_files(found, {}, {TEXT.blob: BlobMissing(TEXT.blob, "the store")})
    assert ["steps.jsonl"] == [problem.path for problem in files.problems]
    assert "trajectory.json" in files.documents


def test_a_broken_document_stops_no_other() -> None:
    """A patch that does not fit is a problem of steps.jsonl alone."""
    change = StateChange(patch=[{"op": "remove", "path": "/a"}])

    files = trial_files(view(*trial()[:3], action(states={"shell": change}), *trial()[3:]), {})

    assert ["steps.jsonl"] == [problem.path for problem in files.problems]
    assert "result.json" in files.documents


def test_each_blob_is_asked_for_once() -> None:
    """A text that is said twice is read once."""
    say: Any = AgentMessage(role="user", text=TEXT)

    assert [TEXT] == needed_blobs(view(started(), say, say))
