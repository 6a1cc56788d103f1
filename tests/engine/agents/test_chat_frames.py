"""Telling a shell's frames from output."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from trialog.engine.agents.chat.frames import Frame, FrameReader

WORD = "0123456789abcdef"


def read(*chunks: bytes) -> tuple[bytes, list[Frame]]:
    """Output and frames in what comes in these pieces."""
    reader = FrameReader()
    reader.expect(WORD)
    pieces = [piece for chunk in chunks for piece in reader.feed(chunk)]
    output = b"".join(piece for piece in pieces if isinstance(piece, bytes)) + reader.finish()
    return output, [piece for piece in pieces if isinstance(piece, Frame)]


def test_frames_are_taken_out_of_output() -> None:
    """What a command prints stays as it is, with or without a newline at its end."""
    printed = f"\n{WORD} begun 12\nhello\nno newline\n{WORD} ended 3\n".encode()
    assert (b"hello\nno newline", [Frame("begun", 12), Frame("ended", 3)]) == read(printed)


@given(st.binary(max_size=60), st.binary(max_size=60), st.lists(st.integers(0, 200), max_size=6))
def test_frames_are_found_however_they_are_cut(
    before: bytes, after: bytes, cuts: list[int]
) -> None:
    """The pieces that output comes in make no difference."""
    whole = before + f"\n{WORD} begun 7\n".encode() + after + f"\n{WORD} ended 0\n".encode()
    edges = sorted({0, len(whole), *(min(cut, len(whole)) for cut in cuts)})
    chunks = [whole[a:b] for a, b in pairwise(edges)]
    assert (before + after, [Frame("begun", 7), Frame("ended", 0)]) == read(*chunks)


def test_forged_frames_are_output() -> None:
    """Another word, another name, no number, or a line that is too long makes no frame."""
    forged = (
        "\nffffffffffffffff ended 0\n"
        f"\n{WORD} finished 0\n\n{WORD} ended zero\n\n{WORD} ended {'1' * 80}\nend"
    ).encode()
    assert (forged, []) == read(forged)
    assert (forged, []) == read(*(bytes([byte]) for byte in forged))
