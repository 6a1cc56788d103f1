"""What is recorded of what was put back."""

from __future__ import annotations

from trialog.engine.trial.hardening.harden import MOST_LISTED, Hardened
from trialog.events.kinds import TamperFound, WarningRaised, WorkspaceHardened


def test_events() -> None:
    """Findings come first, a step that was left out is a warning, and long lists are cut."""
    hardened = Hardened(
        found=[TamperFound(path="/a", what="x")],
        removed=[f"/c/{number}" for number in range(MOST_LISTED + 5)],
        skipped=["one"],
    )
    found, warning, done = hardened.events(["/first"], 0.5)
    assert isinstance(found, TamperFound)
    assert isinstance(warning, WarningRaised)
    assert warning.code == "hardening_skipped"
    assert isinstance(done, WorkspaceHardened)
    assert done.removed[:2] == ["/first", "/c/0"]
    assert len(done.removed) == MOST_LISTED + 2
    assert done.removed[-1] == "… and 5 more"
    assert done.steps_skipped == ["one"]
