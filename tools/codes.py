"""Write docs/codes.md from the tables in events/codes.py: `python tools/codes.py`."""

from __future__ import annotations

from pathlib import Path

from trialog.events.codes import BLAMES, CATEGORIES, WARNINGS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "codes.md"
HEAD = """\
# Codes

Made by `tools/codes.py` from `events/codes.py`; `trialog explain CODE` says the same.
Codes are part of the log's format: they are only ever added to, and keep their meaning.
"""


def page() -> str:
    """The page's text."""
    lines = [HEAD, "## Categories of errors", ""]
    lines += ["In `error_category` and `verifier_error_category` of `result.json`.", ""]
    lines += ["| category | meaning | fault | next |", "|---|---|---|---|"]
    lines += [
        f"| `{name}` | {entry.meaning} | {BLAMES[entry.blame]} | {entry.next} |"
        for name, entry in CATEGORIES.items()
    ]
    lines += ["", "## Warnings", "", "In `warnings` of `result.json`, and on the console.", ""]
    lines += ["| code | meaning | next |", "|---|---|---|"]
    lines += [f"| `{name}` | {code.meaning} | {code.next} |" for name, code in WARNINGS.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
