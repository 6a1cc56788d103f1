"""What stands in the writer's queue."""

from __future__ import annotations

from typing import NamedTuple

from ..drafts import Draft
from ..envelope import Appended
from ..tickets import Ticket


class Append(Ticket[Appended]):
    """An append in the queue."""

    __slots__ = ("drafts", "expected", "stream")

    def __init__(self, stream: str, expected: int, drafts: list[Draft]) -> None:
        super().__init__()
        self.stream = stream
        self.expected = expected
        self.drafts = drafts


class Blob(NamedTuple):
    """A small blob on its way into the database."""

    digest: str
    data: bytes


class BlobPut(Ticket[bool]):
    """A small blob in the queue."""

    __slots__ = ("blob",)

    def __init__(self, blob: Blob) -> None:
        super().__init__()
        self.blob = blob
