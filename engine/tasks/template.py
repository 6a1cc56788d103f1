"""A first task of one's own: small, working, with comments that teach."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from ..errors import ConfigError
from .files import present
from .names import safe_name

_SETTINGS_A = """\
---
# Settings. Every one is optional; docs/tasks.md lists them all.
metadata:
  difficulty: easy
agent:
  timeout_sec: 600        # then the agent is stopped; what it did is graded all the same
verifier:
  timeout_sec: 60         # then test.sh is stopped, and the reward is 0
sandbox:                  # docker_image, or environment/Dockerfile, gives the task its own image
  cpus: 1
  memory_mb: 512
  allow_internet: false
---

Everything above this line is for the reader of the task. The agent is given what follows.

## prompt

"""

_SETTINGS_B = """\
# Settings. Every one is optional; docs/tasks.md lists them all.
version = "1.0"

[metadata]
difficulty = "easy"

[agent]
timeout_sec = 600.0        # then the agent is stopped; what it did is graded all the same

[verifier]
timeout_sec = 60.0         # then test.sh is stopped, and the reward is 0

[environment]              # docker_image, or environment/Dockerfile, gives the task its own image
cpus = 1
memory_mb = 512
allow_internet = false
"""

_PROMPT = """\
Find the prime factors of 8633 and write them into the file `factors.txt` in the current folder,
smallest first, one a line.
"""

_TEST = """\
#!/bin/bash
# Runs in the agent's workspace after the agent has ended, and writes the reward: a number from
# 0 to 1, of which 1 is a pass. This folder is then at /verifier, and at /tests as well.
# What is printed here can be read later, so say what was wrong.

# A 0 first, so that no way out is without a reward.
echo 0 > /logs/verifier/reward.txt

# With -I, Python does not import what the agent may have left in the workspace.
python3 -I "$(dirname "$0")/check.py"
"""

_CHECK = '''\
"""Compares the agent's answer with the right one. Try wrong answers on it, too."""

import os
import sys

EXPECTED = [89, 97]


def read_answer(path):
    """The numbers in a file. A link is not followed: it could lead to this very folder."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
        return [int(line) for line in file.read(1000).split()]


try:
    found = read_answer("factors.txt")
except (OSError, ValueError) as error:
    print(f"FAIL: no answer that can be read: {error}")
    sys.exit(1)
if found != EXPECTED:
    print(f"FAIL: found {found}, expected {EXPECTED}")
    sys.exit(1)
print(f"PASS: {found}")
with open("/logs/verifier/reward.txt", "w") as file:
    file.write("1\\n")
'''

_SOLVE = """\
#!/bin/bash
# The reference solution: it shows that the task can be done, and must get the reward 1.
# `trialog check` runs it, and an agent that does nothing, which must get less.
number=8633
for ((factor = 2; number > 1; factor++)); do
    while ((number % factor == 0)); do
        echo "$factor"
        ((number /= factor))
    done
done > factors.txt
exit 0
"""


def new_task(path: Path | str, layout: Literal["a", "b"] = "a") -> list[Path]:
    """Write a small working task into a new folder, and give back the files that were written.

    Raises ConfigError when the folder is there already and not empty, when its name would be
    changed to be safe, and when it can't be written.
    """
    folder = Path(os.path.abspath(path))
    if safe_name(folder.name) != folder.name:
        raise ConfigError(
            f"{folder.name!r} is no good name for a task: use up to 80 ASCII letters, digits, "
            "'.', '_' and '-', with a letter or digit first",
            file=folder,
        )
    try:
        if present(folder) and (not folder.is_dir() or any(folder.iterdir())):
            raise ConfigError("is there already; give another name", file=folder)
        return [_write(folder / name, text) for name, text in _files(layout).items()]
    except OSError as error:
        raise ConfigError(f"can't be written: {error.strerror}", file=error.filename) from None


def _files(layout: Literal["a", "b"]) -> dict[str, str]:
    if layout == "a":
        return {
            "task.md": _SETTINGS_A + _PROMPT,
            "verifier/test.sh": _TEST,
            "verifier/check.py": _CHECK,
            "oracle/solve.sh": _SOLVE,
        }
    return {
        "task.toml": _SETTINGS_B,
        "instruction.md": _PROMPT,
        "tests/test.sh": _TEST,
        "tests/check.py": _CHECK,
        "solution/solve.sh": _SOLVE,
    }


def _write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    if file.suffix == ".sh":
        file.chmod(0o755)
    return file
