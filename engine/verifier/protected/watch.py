"""Whether the guard was kept out of a pytest."""

from __future__ import annotations

from .asking import Asked

_NO_PYTEST = b"No module named pytest"


class GuardWatch:
    """Reads along in what a verifier prints.

    Text gives no verdict. It counts here only where the verifier's own files show that they run a
    pytest into which the guard could fail to be loaded; and the guard's name is of this one
    trial, told to nobody but the verifier.
    """

    def __init__(self, asked: Asked, guard: str) -> None:
        signs = [f'Error importing plugin "{guard}"'.encode()] if asked.protected else []
        if asked.protected and asked.isolated:
            signs.append(_NO_PYTEST)
        self._signs = signs if asked.other or asked.isolated else []
        self._longest = max(map(len, self._signs), default=0)
        self._tail = b""
        self.kept_out = False

    def feed(self, data: bytes) -> None:
        """The next bytes."""
        if self.kept_out or not self._signs:
            return
        text = self._tail + data
        self.kept_out = any(sign in text for sign in self._signs)
        self._tail = text[-(self._longest - 1) :]
