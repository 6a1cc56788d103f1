"""Both streams of a command, and the program's own log lines."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialog.engine import own_log
from trialog.engine.console.failure import nobody_reads
from trialog.engine.console.logs import configure
from trialog.engine.console.terminal import Terminal
from trialog.engine.errors import ConfigError


@pytest.fixture
def broken() -> Iterator[IO[str]]:
    """A stream that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w")
    yield stream
    with contextlib.suppress(BrokenPipeError):
        stream.close()


def test_a_stream_that_nobody_reads(broken: IO[str]) -> None:
    """What a job prints and nobody reads is dropped, whatever it is; the job goes on."""
    err = io.StringIO()
    terminal = Terminal(environ={}, out=broken, err=err)
    terminal.patient = True
    terminal.line("a")
    terminal.line("b")
    terminal.data({"c": 1})
    terminal.raw("d")
    terminal.message("still said")
    assert err.getvalue() == "still said\n"


def test_data_that_nobody_reads(broken: IO[str]) -> None:
    """A command that is all output ends quietly when its reader goes away."""
    terminal = Terminal(json=True, environ={}, out=broken, err=io.StringIO())
    terminal.streaming = True
    with pytest.raises(BrokenPipeError) as caught:
        terminal.data({"a": 1})
    assert nobody_reads(ExceptionGroup("in a task group", [caught.value]))


def test_a_verdict_that_nobody_reads(broken: IO[str]) -> None:
    """Any other command goes on to its own exit code, and still says on standard error why."""
    err = io.StringIO()
    terminal = Terminal(environ={}, out=broken, err=err)
    terminal.line("a")
    terminal.line("b")
    terminal.message("error: c")
    assert err.getvalue() == "error: c\n"


def test_secrets_are_hidden_on_both_streams() -> None:
    """A secret's value is replaced in lines, messages, JSON and output."""
    out, err = io.StringIO(), io.StringIO()
    terminal = Terminal(environ={}, out=out, err=err)
    terminal.line("a hunter22hunter")
    terminal.hide({"PW": "hunter22"})
    terminal.line("a hunter22")
    terminal.data({"b": "hunter22"})
    terminal.raw("c hunter22\n")
    terminal.message("d hunter22")
    assert out.getvalue() == (
        'a hunter22hunter\na [redacted:PW]\n{"b":"[redacted:PW]"}\nc [redacted:PW]\n'
    )
    assert err.getvalue() == "d [redacted:PW]\n"


def test_markup_is_data() -> None:
    """Square brackets and emoji codes of others are shown as they are."""
    out = io.StringIO()
    Terminal(environ={}, out=out, err=io.StringIO()).line("[red]x[/red] :smile: " + "long " * 50)
    assert out.getvalue() == "[red]x[/red] :smile: " + "long " * 50 + "\n"


@pytest.mark.parametrize(
    ("verbose", "environ", "levels"),
    [
        (0, {}, ["warning", "error"]),
        (1, {}, ["info", "warning", "error"]),
        (2, {}, ["debug", "info", "warning", "error"]),
        (0, {"TRIALOG_LOG_LEVEL": "ERROR"}, ["error"]),
        (1, {"TRIALOG_LOG_LEVEL": "error"}, ["info", "warning", "error"]),
    ],
)
def test_levels(verbose: int, environ: dict[str, str], levels: list[str]) -> None:
    """-v, -vv and $TRIALOG_LOG_LEVEL choose what the program says of its own work."""
    err = io.StringIO()
    configure(Terminal(environ={}, out=io.StringIO(), err=err), verbose, environ)
    logger = own_log.logger()
    for level in ("debug", "info", "warning", "error"):
        getattr(logger, level)(f"a {level}", why="\x1b[2J")
    lines = err.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == [f"{level}:" for level in levels]
    assert all(line.endswith(r" why=\x1b[2J") for line in lines)


def test_exceptions_are_logged_with_their_lines() -> None:
    """An exception's traceback keeps its lines and no control characters."""
    err = io.StringIO()
    configure(Terminal(environ={}, out=io.StringIO(), err=err), 0, {})
    try:
        raise ValueError("odd \x07")  # noqa: TRY301 - it needs a traceback
    except ValueError:
        own_log.logger().exception("fault")
    assert "error: fault\nTraceback" in err.getvalue()
    assert r"ValueError: odd \x07" in err.getvalue()


@given(text=st.text(), head=st.sampled_from(["", "[PASS] ", "error: "]), json=st.booleans())
def test_plain_text_is_written_as_rich_would(text: str, head: str, json: bool) -> None:
    """Where nobody looks on, text comes out the same whether rich writes it or not."""
    written: list[tuple[str, str]] = []
    for by_rich in (False, True):
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            if by_rich:
                patch.setattr("trialog.engine.console.terminal._is_simple", lambda *_: False)
            terminal = Terminal(json=json, environ={}, out=out, err=err)
            terminal.line(head + text)
            terminal.message(text)
        written.append((out.getvalue(), err.getvalue()))
    assert written[0] == written[1]


def test_unknown_level() -> None:
    """A level that does not exist is refused with those that do."""
    with pytest.raises(ConfigError, match=r"TRIALOG_LOG_LEVEL: unknown level 'loud'; known are"):
        configure(Terminal(environ={}), 0, {"TRIALOG_LOG_LEVEL": "loud"})


def test_streams_that_were_never_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """With both streams closed before the start, what is printed goes nowhere and harms nothing."""
    monkeypatch.setattr("sys.stdout", None)
    monkeypatch.setattr("sys.stderr", None)
    terminal = Terminal(environ={})
    assert not terminal.live_allowed
    terminal.line("nobody reads this")
    terminal.message("nor this")
