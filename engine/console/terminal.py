"""Where a command writes: results on standard output, messages on standard error.

With ``--json`` standard output carries JSON alone, one object a line, and everything for people
goes to standard error. Colour and the live line are for terminals, and never carry the meaning.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from ...events.errors import DISK_FULL

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

__all__ = ("Terminal", "discard_output")

_STYLES = {
    "[PASS]": "bold green",
    "[FAIL]": "bold red",
    "[ERR]": "bold yellow",
    "[RETRY]": "yellow",
    "[STOP]": "yellow",
    "error:": "bold red",
    "warning:": "yellow",
    "hint:": "cyan",
    "note:": "cyan",
}


_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


class _Nowhere(io.StringIO):
    """Keeps nothing of what is written."""

    def write(self, text: str, /) -> int:
        return len(text)


class Terminal:
    """Both streams of one command."""

    def __init__(
        self,
        *,
        json: bool = False,
        environ: Mapping[str, str] = os.environ,
        out: TextIO | None = None,
        err: TextIO | None = None,
    ) -> None:
        self.json = json
        # A stream of the system's that was closed before the start is None.
        self._out = out or sys.stdout or _Nowhere()
        self._err = err or sys.stderr or _Nowhere()
        plain = bool(environ.get("NO_COLOR")) or environ.get("TERM") in {"dumb", ""}
        self.live_allowed = self._err.isatty() and not plain
        self._plain = plain
        self._consoles: dict[int, Console] = {}
        self._live: Live | None = None
        self._closed = False
        self.patient = False
        """What is done goes on even where nothing can be written any more: a job, that is."""
        self.streaming = False
        """The output is all there is to it: a command ends when nobody reads any more. Another one
        goes on without a word, as its exit code is a verdict."""
        self._hide: Callable[[str], str] = str

    def hide(self, secrets: Mapping[str, str]) -> None:
        """From now on print the names of these secrets in place of their values."""
        from ..redact import Redactor

        redactor = Redactor(secrets)
        if not redactor.empty:
            self._hide = redactor.text

    def data(self, value: object) -> None:
        """One JSON object on a line of standard output."""
        self._write(self._out, self._hide(msgspec.json.encode(value).decode()) + "\n")

    def raw(self, text: str) -> None:
        """Text on standard output as it is; the caller has made it safe."""
        self._write(self._out, self._hide(text))

    def line(self, text: str = "") -> None:
        """A line of the result, for a person."""
        if self.json:
            self.message(text)
        elif self._live is not None and self._out.isatty():
            self._print(self._err, text)
        else:
            self._print(self._out, text)

    def lines(self, texts: Iterable[str]) -> None:
        """Many lines of the result; in one go, unless each is to be coloured."""
        if _is_simple(self._err if self.json else self._out, ""):
            self.line("\n".join(texts))
        else:
            for text in texts:
                self.line(text)

    def message(self, text: str) -> None:
        """A line about the work, for a person."""
        self._print(self._err, text)

    def show_live(self, text: str) -> None:
        """Put the live line at the terminal's foot, or renew it."""
        from rich.live import Live
        from rich.text import Text

        line = Text(self._hide(text), no_wrap=True, overflow="ellipsis", style="dim")
        if self._live is None:
            self._live = Live(
                line,
                console=self._console(self._err),
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        self._live.update(line, refresh=True)

    def end_live(self) -> None:
        """Take the live line away."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _print(self, stream: TextIO, text: str) -> None:
        text = self._hide(text)
        if _is_simple(stream, text):
            try:
                stream.write(f"{text}\n")
                stream.flush()
            except OSError as error:
                self._broken(stream, error)
            return
        from rich.text import Text

        console = self._console(stream)
        shown = Text(text)
        head = text.lstrip().split(" ", 1)[0]
        if head in _STYLES:
            start = len(text) - len(text.lstrip())
            shown.stylize(_STYLES[head], start, start + len(head))
        try:
            console.print(shown, soft_wrap=True, markup=False, highlight=False, emoji=False)
            console.file.flush()
        except OSError as error:
            self._broken(console.file, error)

    def _console(self, stream: TextIO) -> Console:
        console = self._consoles.get(id(stream))
        if console is None:
            console = self._consoles[id(stream)] = _console(stream, self._plain)
        return console

    def _write(self, stream: TextIO, text: str) -> None:
        if self._closed:
            return
        try:
            stream.write(text)
            stream.flush()
        except OSError as error:
            self._broken(stream, error)

    def _broken(self, stream: Any, error: OSError) -> None:
        """Nobody reads any more, or nothing can be written. A job's log has everything."""
        self._closed = self._closed or stream is self._out
        self.live_allowed = self.live_allowed and stream is not self._err
        discard_output(stream)
        if self.patient:
            return
        if error.errno in DISK_FULL:
            name = "standard output" if stream is self._out else "standard error"
            raise OSError(error.errno, f"{error.strerror}, for {name}") from None
        if self.streaming:
            raise BrokenPipeError from None


def discard_output(stream: TextIO) -> None:
    """Send what is still written to a stream that nobody reads into nothing."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, stream.fileno())
    except OSError:  # a stream without a descriptor of its own
        pass
    finally:
        os.close(nothing)


def _is_simple(stream: TextIO, text: str) -> bool:
    """Whether rich, which is slow to import, would write a text just as it is."""
    if stream.isatty() or "FORCE_COLOR" in os.environ or "TTY_COMPATIBLE" in os.environ:
        return False
    return _CONTROL.search(text) is None


def _console(stream: TextIO, plain: bool) -> Console:
    from rich.console import Console

    class Quiet(Console):
        def on_broken_pipe(self) -> None:  # rich would end the process, the job with it
            raise BrokenPipeError

    return Quiet(
        file=stream,
        no_color=plain or None,
        color_system=None if plain else "auto",
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
