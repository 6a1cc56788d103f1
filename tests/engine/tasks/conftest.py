"""Task folders made of a table of files."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

TEST = "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n"
SOLVE = "#!/bin/bash\ntrue\n"

A = {
    "task.md": "---\nagent: {timeout_sec: 30}\n---\n\n## prompt\n\nDo it.\n",
    "verifier/test.sh": TEST,
    "oracle/solve.sh": SOLVE,
}
B = {
    "task.toml": "[agent]\ntimeout_sec = 30\n",
    "instruction.md": "Do it.\n",
    "tests/test.sh": TEST,
    "solution/solve.sh": SOLVE,
}

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Make a task folder: a layout's files with some changed; None leaves one out."""

    def make(
        layout: str = "a",
        files: Mapping[str, str | bytes | None] | None = None,
        *,
        name: str = "ds/task",
    ) -> Path:
        folder = tmp_path / name
        shutil.rmtree(folder, ignore_errors=True)
        for path, content in {**(A if layout == "a" else B), **(files or {})}.items():
            if content is None:
                continue
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
        return folder

    return make
