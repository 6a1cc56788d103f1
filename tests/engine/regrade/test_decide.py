"""What a regrade appends to a trial."""

from __future__ import annotations

from helpers.given import recorded, scored, started, trial_scored
from trialog.engine.regrade.decide import answer, new_id
from trialog.engine.regrade.stored import StoredTrial, read_stored
from trialog.events.kinds import (
    RegradeFailed,
    RegradeScored,
    TrialFinished,
    VerifierFailed,
    WarningRaised,
)


def failed(name: str, *, infrastructure: bool) -> VerifierFailed:
    """A verifier that assessed nothing."""
    return VerifierFailed(
        verifier=name, verifier_kind="deterministic", digest="d", weight=1.0, error=f"{name} fell",
        category="verifier_failed", infrastructure=infrastructure, duration=0.0,
    )  # fmt: skip


def ran(score: float, source: str = "verifier") -> StoredTrial:
    """A trial that the run gave a score."""
    given = trial_scored(score, reward_source=source)
    items = [started(), scored(score), given, TrialFinished(outcome="scored")]
    return read_stored("t", recorded("trial/t", items))


def test_verdicts_are_put_together_as_a_run_does() -> None:
    """One score is itself; several are weighed, and each is kept beside the total."""
    alone = answer("r", [scored(0.5)])
    assert isinstance(alone, RegradeScored)
    assert (alone.score, alone.passed, alone.rewards) == (0.5, False, {"reward": 0.5})
    both = answer(
        "r",
        [
            scored(1.0, verifier="a", verifier_kind="deterministic", weight=3.0),
            scored(0.0, verifier="b", verifier_kind="human"),
        ],
        kept={"b"},
    )
    assert isinstance(both, RegradeScored)
    assert (both.score, [v.kept for v in both.verdicts]) == (0.75, [False, True])


def test_a_verifier_that_fails_fails_the_regrade() -> None:
    """No score is made up; the verifier's own fault is told before the machine's."""
    found = answer(
        "r",
        [scored(1.0), failed("machine", infrastructure=True), failed("own", infrastructure=False)],
    )
    assert isinstance(found, RegradeFailed)
    assert (found.error, found.infrastructure) == ("own fell", False)
    assert [v.score for v in found.verdicts] == [1.0, None, None]
    only = answer("r", [failed("machine", infrastructure=True)])
    assert isinstance(only, RegradeFailed)
    assert only.infrastructure


def test_warnings_keep_their_words() -> None:
    """Codes and messages go together."""
    warned = WarningRaised(code="reward_missing", message="Verifier scored 0: …")
    found = answer("r", [scored(0.0, source="engine")], [warned])
    assert isinstance(found, RegradeScored)
    assert (found.warnings, found.messages) == (["reward_missing"], ["Verifier scored 0: …"])
    assert (found.reward_source, found.reward_valid) == ("engine", False)


def test_a_difference_with_the_same_files_is_a_flaky_verifier() -> None:
    """It is said with both scores; the same score, and a 0 that was the engine's, are none."""
    found = answer("r", [scored(0.25)], as_of_run=ran(1.0))
    assert isinstance(found, RegradeScored)
    assert found.warnings == ["verifier_flaky"]
    assert found.messages == ["with the same files it gave 1 in the run and 0.25 now"]
    for before, now in ((ran(1.0), 1.0), (ran(0.0, "engine"), 1.0)):
        same = answer("r", [scored(now)], as_of_run=before)
        assert isinstance(same, RegradeScored)
        assert same.warnings == []


def test_ids_are_times() -> None:
    """An id says when it was planned; two of one moment differ."""
    at = "2026-11-04T17:58:47.866168Z"
    assert new_id(at, ()) == "20261104T175847Z-866168"
    assert new_id(at, {"20261104T175847Z-866168"}) == "20261104T175847Z-866169"
