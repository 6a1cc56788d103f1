"""Which command runs a script that has no run bit."""

import subprocess
from pathlib import Path

import pytest

from trialog.engine.errors import TaskError
from trialog.engine.tasks.scripts import interpreter


@pytest.mark.parametrize(
    ("first", "command"),
    [
        (b"#!/bin/bash", ["/bin/bash"]),
        (b"#!/bin/sh -e", ["/bin/sh", "-e"]),
        (b"#! /bin/bash -eu -o pipefail ", ["/bin/bash", "-eu", "-o", "pipefail"]),
        (b"#!/usr/bin/env python3", ["/usr/bin/env", "python3"]),
        (b"#!/usr/bin/env -S python3 -I", ["/usr/bin/env", "python3", "-I"]),
        (b"#!/usr/bin/env -S A='b c' bash", ["/usr/bin/env", "A=b c", "bash"]),
        (b"#!/usr/bin/env -S 'a", ["/usr/bin/env", "'a"]),
        (b"#!/usr/bin/env --split-string=bash -e", ["/usr/bin/env", "bash", "-e"]),
        (b"#!/bin/bash\r", ["/bin/bash"]),
        (b"#!/usr/bin/python3 -I\r", ["/usr/bin/python3", "-I"]),
        (b"echo hi", ["bash"]),
        (b"", ["bash"]),
        (b"#!", ["bash"]),
        (b"#!  \r", ["bash"]),
        (b" #!/bin/sh", ["bash"]),
        (b"\x7fELF\x02\xff", ["bash"]),
        (b"#!/bin/\xffsh", ["/bin/\udcffsh"]),
    ],
)
def test_the_shebangs_program_else_bash(tmp_path: Path, first, command):
    """Its arguments come along, env -S is taken apart, a carriage return is dropped."""
    script = tmp_path / "test.sh"
    script.write_bytes(first + b"\necho more\n")
    assert interpreter(script) == command


def test_the_command_really_runs_the_script(tmp_path: Path):
    """Without a run bit, through its interpreter."""
    script = tmp_path / "test.sh"
    script.write_text("#!/usr/bin/env -S bash -eu\necho ran $-\n")
    done = subprocess.run(
        [*interpreter(script), script], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("ran")
    assert {"e", "u"} <= set(done.stdout.split()[1])


def test_a_script_that_is_not_there(tmp_path: Path):
    """Is an error that names it."""
    with pytest.raises(TaskError, match="nix: can't be read"):
        interpreter(tmp_path / "nix")
