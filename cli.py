"""The `trialog` command: words in, words out."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
