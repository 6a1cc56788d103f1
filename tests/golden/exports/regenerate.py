"""Write this folder's expected exports anew, after a change of a form that is meant.

    python tests/golden/exports/regenerate.py

They are made of the log in `../files`. Look at the difference before it is committed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from helpers.exports import FORMS, exported  # noqa: E402 - the path comes first
from helpers.golden import JOB, golden_log  # noqa: E402


async def main() -> None:
    """Write everything."""
    async with golden_log(HERE.parent / "files") as log:
        for name, file in FORMS.items():
            data, left_out = await exported(log, JOB, name)
            assert not left_out, left_out
            (HERE / file).write_bytes(data)


anyio.run(main)
