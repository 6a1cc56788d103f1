"""The base of all payloads.

A payload is a frozen, tagged struct: its JSON begins with ``"kind"``, the same word as in the
envelope. Fields without a value are not written: the only defaults are null, empty and false, so
that an absent field has one meaning for ever. Durations are seconds from a monotonic clock.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec


class Payload(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag_field="kind",
    tag=True,
    gc=False,
):
    """What an event says happened. The class name is its kind."""

    schema: ClassVar[int] = 1
    """Raised when fields change in a way that old readers can't read; see the upcasters."""
    ignorable: ClassVar[bool] = False
    """A projection that doesn't know the kind may pass over it."""


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A piece of a payload."""
