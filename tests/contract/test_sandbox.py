"""What every sandbox does the same way. Both backends run every test here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Box


@pytest.mark.parametrize("code", [0, 3, 255])
async def test_exit_code(box: Box, code: int) -> None:
    """A phase's exit code is the command's own."""
    ended, _ = await box.sh(f"exit {code}")
    assert (ended.ended_by, ended.code) == ("exit", code)


async def test_output_bytes(box: Box) -> None:
    """Both streams come as one, in the order they were written, whatever the bytes."""
    ended, output = await box.sh(r"printf 'one\n'; printf '\377\000two' >&2; printf 'three'")
    assert (ended.code, output) == (0, b"one\n\xff\x00twothree")
