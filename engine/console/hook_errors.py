"""Verifiers' own hooks that failed: how often, and the first error, with its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..trial.state import HookFailure
from .text import escaped, plural

__all__ = ("HookErrors",)


class HookErrors:
    """The failures of many trials, one entry a verifier and hook."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], tuple[int, int, str]] = {}
        """Steps, trials, and the first error."""

    def take(self, failures: Iterable[HookFailure]) -> None:
        """Count those of one trial."""
        for one in failures:
            key = (one.verifier, one.hook)
            steps, trials, first = self._counts.get(key, (0, 0, one.error))
            self._counts[key] = (steps + one.steps, trials + 1, first)

    def lines(self, *, tense: str = "earned") -> Iterator[str]:
        """``! Verifier progress's reward raised on 12 steps in 3 Trials, which earned it no
        reward``, the first error behind it, and what explains it."""
        for (verifier, hook), (steps, trials, first) in self._counts.items():
            on = f"on {plural(steps, 'step')} " if hook == "reward" else ""
            what = "reward" if hook == "reward" else "credit"
            yield (
                f"! Verifier {escaped(verifier)}'s {hook} raised {on}in "
                f"{plural(trials, 'Trial')}, which {tense} it no {what}"
            )
            yield f"    there: {escaped(first)}"
            yield f"    next: `trialog explain {hook}_failed` says what to do"
