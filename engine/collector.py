"""Python's garbage collector while much is in flight.

A full collection walks over everything that is alive, and the event loop stands still for it:
about half a second with 10,000 trials in flight. Python starts one whenever a quarter more has
come to live, which is many times while a job fills up, though next to nothing of it is garbage.
"""

from __future__ import annotations

import gc
import time

import anyio

SHARE = 0.01
"""Of the time, at most, that full collections take."""

LEAST_SEC = 10.0
"""Between two of them."""

YOUNG = 3_000
"""Allocations, net, between collections of the youngest; Python's own is 700 or 2,000."""

NEVER = 2**31 - 1

_LOOK_SEC = 1.0
_WORTHWHILE = 10
"""Collections of the middle generation since the last full one: Python's own rule."""

_under_way = 0
_before = (0, 0, 0)


async def collect_rarely(young: int = YOUNG) -> None:
    """Keep full collections apart until cancelled; then Python's own rule holds again.

    It may run many times at once: the thresholds are the process's own, and the first one's `young`
    holds.
    """
    global _under_way, _before
    if _under_way == 0:
        _before = gc.get_threshold()
        if _before[0] > 0:  # zero: it was turned off
            gc.set_threshold(max(young, _before[0]), _before[1], NEVER)
    _under_way += 1
    try:
        due = time.monotonic() + LEAST_SEC
        while True:
            await anyio.sleep(_LOOK_SEC)
            if time.monotonic() >= due and gc.get_count()[2] >= _WORTHWHILE and gc.isenabled():
                began = time.monotonic()
                gc.collect()
                ended = time.monotonic()
                due = ended + max(LEAST_SEC, (ended - began) / SHARE)
    finally:
        _under_way -= 1
        if _under_way == 0:
            gc.set_threshold(*_before)
