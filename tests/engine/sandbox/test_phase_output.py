"""Taking a phase's reports out of its output."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialog.engine.sandbox.docker.phase import PhaseOutput
from trialog.engine.sandbox.left import LONGEST, MOST

MARK = "0123456789abcdef"
RULE = b"\x1e" + MARK.encode()


def read(data: bytes, size: int) -> tuple[PhaseOutput, bytes]:
    """Feed some output in pieces."""
    got: list[bytes] = []
    printed = PhaseOutput(MARK, got.append)
    for place in range(0, len(data), size):
        printed.feed(data[place : place + size])
    printed.close()
    return printed, b"".join(got)


def report(text: str) -> bytes:
    """A line of the script's."""
    return RULE + b" " + text.encode() + b"\n"


BEGIN = report("begin 7")
STAT = "{pid} ({name}) {state} 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 {start} 20"


@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
def test_reports_are_no_output(size: int) -> None:
    """Whatever pieces the output comes in, reports are taken out and the rest is passed on."""
    before = report("before " + STAT.format(pid=1, name="init", state="S", start=5))
    left = report("left " + STAT.format(pid=1, name="init", state="S", start=5))
    left += report("left " + STAT.format(pid=7, name="sh", state="R", start=6))
    left += report("left " + STAT.format(pid=9, name="a) b (", state="S", start=7))
    left += report("left " + STAT.format(pid=8, name="gone", state="Z", start=7))
    data = before + BEGIN + b"one\x1e0123\x1e\n" + RULE[:-1] + left + report("end 3") + b"late"
    printed, output = read(data, size)
    assert output == b"one\x1e0123\x1e\n" + RULE[:-1]
    assert printed.code == 3
    assert [(one.pid, one.name) for one in printed.left] == [(9, "a) b (")]
    assert printed.before == ["init"]


@given(st.binary(), st.integers(1, 40))
def test_all_bytes_pass(data: bytes, size: int) -> None:
    """Without reports every byte is passed on."""
    printed, output = read(BEGIN + data, size)
    assert output == data
    assert printed.begun
    assert not printed.ended


@given(st.lists(st.sampled_from([RULE, RULE[:3], b"\x1e", b" ", b"\n", b"end ", b"9", b"x"])))
def test_forged_reports_do_no_harm(parts: list[bytes]) -> None:
    """Output that is made like reports is never a fault."""
    printed, _ = read(BEGIN + b"".join(parts), 3)
    assert printed.begun


def test_no_beginning() -> None:
    """Without a beginning nothing is output; it is kept for the error."""
    printed, output = read(b"sh: 0: cannot open phase\n", 5)
    assert (output, printed.begun, printed.early) == (b"", False, "sh: 0: cannot open phase")


def test_name_with_a_line_end() -> None:
    """A process whose name has a line end in it is named as far as it goes."""
    printed, _ = read(BEGIN + report("left 12 (a\nb) S 1 2") + report("end 0"), 100)
    assert [(one.pid, one.name) for one in printed.left] == [(12, "a")]


def test_endless_reports_are_bounded() -> None:
    """Neither a report without an end nor very many of them fill the memory."""
    printed = PhaseOutput(MARK, lambda _: None)
    printed.feed(BEGIN)
    for _ in range(100):
        printed.feed(RULE + b" left " + b"x" * 100_000)
    assert len(printed._held) < 2_000_000
    for number in range(20_000):
        printed.feed(
            b"\n" + report("left " + STAT.format(pid=number, name="x" * 200, state="S", start=1))
        )
    assert len(printed.left) == MOST


@pytest.mark.parametrize("text", [
    "left ² (a) S 1", "left " + "9" * 5000 + " (a) S 1", "left 5 (a) ", "left  (a) S",
    "end ²", "end " + "9" * 5000, "begin ²",
])  # fmt: skip
def test_a_forged_report_is_no_fault(text: str) -> None:
    """Numbers that are none, or of no process, and lines without fields are passed over."""
    printed, _ = read(BEGIN + report(text) + report("left 9 (b) S 1") + report("end 3"), 100)
    assert printed.code == 3
    assert "b" in [one.name for one in printed.left]
    assert all(one.pid < 10 for one in printed.left)


def test_a_forged_name_is_cut() -> None:
    """No process has a name that long."""
    printed, _ = read(BEGIN + report("left 9 (" + "x" * 9000 + ") S 1") + report("end 0"), 100)
    assert [one.name for one in printed.left] == ["x" * LONGEST]
