"""What a category of errors or a warning's code means."""

from __future__ import annotations

import difflib

from ...events.codes import BLAMES, CATEGORIES, WARNINGS
from ..errors import ConfigError
from .session import Request
from .text import escaped

__all__ = ("explain_code",)


def explain_code(request: Request, word: str | None) -> int:
    """Explain one category or code, or list all."""
    if word is None:
        for name in sorted(CATEGORIES):
            _tell_category(request, name, brief=True)
        for name in sorted(WARNINGS):
            _tell_warning(request, name, brief=True)
        return 0
    name = word.strip().lower().replace("-", "_")
    if name not in CATEGORIES and name not in WARNINGS:
        near = difflib.get_close_matches(name, [*CATEGORIES, *WARNINGS], n=1, cutoff=0.5)
        advice = f"did you mean {near[0]}?" if near else "`trialog explain` lists all"
        raise ConfigError(f"unknown category {word!r}; {advice}")
    if name in CATEGORIES:
        _tell_category(request, name, brief=False)
    if name in WARNINGS:
        _tell_warning(request, name, brief=False)
    return 0


def _tell_category(request: Request, name: str, *, brief: bool) -> None:
    terminal, category = request.terminal, CATEGORIES[name]
    if terminal.json:
        terminal.data({"category": name, **category._asdict()})
    elif brief:
        terminal.line(f"{name:<26} {escaped(category.meaning)}")
    else:
        terminal.line(f"{name} (category of errors)")
        terminal.line(f"  meaning: {escaped(category.meaning)}")
        terminal.line(f"  fault:   {BLAMES[category.blame]}")
        terminal.line(f"  next:    {escaped(category.next)}")


def _tell_warning(request: Request, name: str, *, brief: bool) -> None:
    terminal, code = request.terminal, WARNINGS[name]
    if terminal.json:
        terminal.data({"warning": name, **code._asdict()})
    elif brief:
        terminal.line(f"{name:<26} {escaped(code.meaning)} (warning)")
    else:
        terminal.line(f"{name} (warning)")
        terminal.line(f"  meaning: {escaped(code.meaning)}")
        terminal.line(f"  next:    {escaped(code.next)}")
