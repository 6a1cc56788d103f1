"""What `append` gives: a promise that can be awaited by anyone, any number of times."""

from __future__ import annotations

import asyncio  # noqa: TID251 - a plain future costs a fifth of an event, and is made per append
from collections.abc import Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Ticket(Generic[T]):
    """An outcome that comes later.

    Each await has a future of its own, so that a waiter who is cancelled disturbs nobody: what
    was queued is written all the same.
    """

    __slots__ = ("_error", "_result", "_waiters")

    def __init__(self) -> None:
        self._result: T | None = None
        self._error: Exception | None = None
        self._waiters: tuple[asyncio.Future[T], ...] = ()

    def succeed(self, result: T) -> None:
        """Give the result to all who wait, now and later."""
        self._result = result
        for waiter in self._waiters:
            if not waiter.done():  # cancelled
                waiter.set_result(result)
        self._waiters = ()  # they hold the waiting tasks, and those this ticket

    def fail(self, error: Exception) -> None:
        """Raise `error` in all who wait, now and later."""
        self._error = error
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(error)
        self._waiters = ()

    def __await__(self) -> Generator[Any, None, T]:
        if self._result is None and self._error is None:
            waiter: asyncio.Future[T] = asyncio.Future()  # of the loop that runs
            self._waiters = (*self._waiters, waiter) if self._waiters else (waiter,)
            return waiter.__await__()
        return self._given()

    def _given(self) -> Generator[Any, None, T]:
        """What was given before anyone waited."""
        if self._error is not None:
            raise self._error.with_traceback(None)
        assert self._result is not None
        return self._result
        yield  # makes this a generator
