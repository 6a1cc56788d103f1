"""Clocks and ids, so that nothing else asks the machine for them."""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol

import uuid_utils


class Clock(Protocol):
    """Where times come from."""

    def now(self) -> str:
        """UTC, RFC 3339, six digits and ``Z``."""
        ...

    def monotonic(self) -> float:
        """Seconds from some fixed moment; never steps back."""
        ...


class Ids(Protocol):
    """Where ids and random names come from."""

    def event_id(self) -> str:
        """A UUIDv7."""
        ...

    def suffix(self) -> str:
        """Eight random hex digits."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> str:
        """UTC now."""
        return format_time(time.time_ns() // 1000)

    def monotonic(self) -> float:
        """Seconds, monotonic."""
        return time.monotonic()


class RandomIds:
    """Real ids."""

    def event_id(self) -> str:
        """A UUIDv7 of this moment."""
        return str(uuid_utils.uuid7())

    def suffix(self) -> str:
        """Eight random hex digits."""
        return secrets.token_hex(4)


def format_time(microseconds: int) -> str:
    """Microseconds since 1970 as RFC 3339 with six digits and ``Z``."""
    seconds, micro = divmod(microseconds, 1_000_000)
    return f"{_second(seconds)}.{micro:06d}Z"


@lru_cache(maxsize=16)  # many events have the same one
def _second(seconds: int) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}"  # %Y does not fill up


def parse_time(text: str) -> int:
    """Microseconds since 1970; the inverse of `format_time`."""
    moment = datetime.fromisoformat(text)
    return int(moment.replace(microsecond=0).timestamp()) * 1_000_000 + moment.microsecond
