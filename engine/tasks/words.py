"""What readers of settings know of YAML without its parser, which is slow to import."""

from __future__ import annotations


class Word(str):
    """One of yes, no, on and off without quotes: text, which a truth value may be made of."""

    __slots__ = ()


class YamlError(ValueError):
    """Text that is no YAML, or none that is accepted here."""

    def __init__(self, message: str, line: int | None) -> None:
        self.line = line
        """From 1, within the text."""
        super().__init__(message)
