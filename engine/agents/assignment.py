"""What one run of an agent is about, as the program is told it: model, parameters, seed, task."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

LONGEST = 64 * 1024
"""Bytes of one variable's value; the system refuses to start a program with much longer ones."""

_NAME = re.compile(r"[A-Za-z0-9_]+")


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """One cell of the job's matrix, for the agent that works on it."""

    task: str
    attempt: int
    """1 … k."""
    model: str | None = None
    parameters: Mapping[str, Any] = {}
    seed: int | None = None
    """The slot's own, derived from the job's."""

    def document(self) -> bytes:
        """All of it, as a JSON object."""
        encoded = msgspec.json.encode(
            {
                "task": self.task,
                "attempt": self.attempt,
                "model": self.model,
                "parameters": dict(self.parameters),
                "seed": self.seed,
            }
        )
        return msgspec.json.format(encoded, indent=2) + b"\n"

    def variables(self) -> dict[str, str]:
        """The environment variables that tell it.

        One that a variable can't hold (see `_fits`) is left out, and so are parameters whose names
        differ in nothing but the case of their letters: the document has them all.
        """
        told = {
            "TRIALOG_TASK": self.task,
            "TRIALOG_ATTEMPT": str(self.attempt),
            "TRIALOG_PARAMETERS": _json(dict(self.parameters)),
        }
        if self.model is not None:
            told["TRIALOG_MODEL"] = self.model
        if self.seed is not None:
            told["TRIALOG_SEED"] = str(self.seed)
        spelled = Counter(name.upper() for name in self.parameters)
        for name, value in self.parameters.items():
            if _NAME.fullmatch(name) and spelled[name.upper()] == 1:
                text = value if isinstance(value, str) else _json(value)
                told[f"TRIALOG_PARAM_{name.upper()}"] = text
        return {name: value for name, value in told.items() if _fits(value)}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _fits(value: str) -> bool:
    return "\0" not in value and len(value.encode()) <= LONGEST
