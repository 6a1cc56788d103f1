"""Text of others, made safe for a terminal.

Names, warnings and errors come from tasks, agents and verifiers. What could move the cursor, change
colours, set the window's title or reorder a line is shown as an escape sequence instead.
"""

from __future__ import annotations

import re
import unicodedata

from ...events.values import BlobRef, Text

__all__ = (
    "duration",
    "escaped",
    "memory",
    "number",
    "percent",
    "plural",
    "shortened",
    "telling",
    "text_of",
)

_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # C0, DEL, C1
    "\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def escaped(text: object, *, lines: bool = False) -> str:
    """The text with every control and direction character spelled out.

    With `lines`, line ends and tabs stay, for output that is shown as it was printed.
    """
    if lines:
        return "\n".join(
            "\t".join(escaped(cell) for cell in line.split("\t")) for line in str(text).split("\n")
        )
    return _UNSAFE.sub(_spelled, str(text))


def _spelled(match: re.Match[str]) -> str:
    code = ord(match[0])
    short = {0x0A: r"\n", 0x0D: r"\r", 0x09: r"\t", 0x1B: r"\x1b"}.get(code)
    if short:
        return short
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shortened(text: object, width: int) -> str:
    """Escaped text on one line, cut with an ellipsis to `width` terminal cells."""
    whole = escaped(" ".join(str(text).split()))
    used = 0
    for index, character in enumerate(whole):
        used += _cells(character)
        if used > width:
            cut = index
            while cut and _width(whole[:cut]) > width - 1:
                cut -= 1
            return whole[:cut].rstrip() + "…"
    return whole


def telling(text: object, width: int) -> str:
    """An error on one line: where it has several that don't fit, the first and the last of them.

    What a program printed last is mostly what it failed of.
    """
    lines = [line for line in map(str.strip, str(text).splitlines()) if line]
    whole = " ".join(lines)
    if len(lines) < 2 or _width(escaped(whole)) <= width:
        return shortened(whole, width)
    first = shortened(lines[0], width * 3 // 5)
    last = shortened(lines[-1], width - _width(first) - 3)
    return f"{first} … {last}"


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _width(text: str) -> int:
    return sum(map(_cells, text))


def percent(rate: float | None) -> str:
    """``50.0%``; a dash where there is no rate."""
    return "–" if rate is None else f"{rate * 100:.1f}%"


def number(value: float | None) -> str:
    """Two decimals; a dash where there is none."""
    return "–" if value is None else f"{value:.2f}"


def memory(size: int) -> str:
    """``512 bytes``, ``1.5 MiB``."""
    unit = "bytes"
    shown = float(size)
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if shown < 1024:
            break
        shown, unit = shown / 1024, larger
    return f"{size} bytes" if unit == "bytes" else f"{shown:.1f} {unit}"


def duration(seconds: float) -> str:
    """``4s``, ``3min 20s``, ``2h 05min``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}min {whole % 60:02d}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02d}min"


def plural(count: int, word: str, words: str | None = None) -> str:
    """``1 trial``, ``2 trials``."""
    return f"{count} {word if count == 1 else words or word + 's'}"


def text_of(text: Text | None) -> str | None:
    """A stored text; of one that is kept as a blob only its size."""
    return f"({text.size} bytes of text)" if isinstance(text, BlobRef) else text
