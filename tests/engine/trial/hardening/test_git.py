"""What of git's settings makes it run programs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialog.engine.trial.hardening.git import git_folder, without_programs

STEERS = [
    b"[core]\n\tfsmonitor = /x\n",
    b"[core] fsmonitor=/x\n",
    b"[CORE]FSMonitor = x",
    b"[core]\n hooksPath\n",
    b"\xef\xbb\xbf[core]hookspath = x\n",
    b"[core]\n\tfsmonitor = \\\n/x\n",
    b"[core]\r\n\tsshCommand = x\r\n",
    b"[core] # fsmonitor\n\tfsmonitor = x # why\n",
    b'[diff "x"]\n\ttextconv = evil\n',
    b"[diff.x]\n\tcommand = evil\n",
    b"[diff]\n\texternal = evil\n",
    b'[filter "x"]\n\tsmudge = evil\n',
    b'[filter "lfs"]\n\tclean = git-lfs clean -- %f; evil\n',
    b'[filter "a \\" ] b"]\n\tprocess = evil\n',
    b"[include]\n\tpath = evil\n",
    b'[includeIf "gitdir:/"]\n\tpath = evil\n',
    b"[init]\n\ttemplateDir = /evil\n",
    b"[credential]\n\thelper = !evil\n",
    b'[submodule "x"]\n\tupdate = !evil\n',
]


@pytest.mark.parametrize("config", STEERS)
def test_what_steers(config: bytes) -> None:
    """It is cut out, and what is left has none of it."""
    left = without_programs(b"[user]\n\tname = me\n" + config)
    assert left is not None
    assert left.startswith(b"[user]\n\tname = me\n")
    assert b"evil" not in left
    assert b"/x" not in left
    assert without_programs(left) is None


@pytest.mark.parametrize(
    "config",
    [
        b"[core]\n\tfsmonitor = true\n\tbare = false\n",
        b'[remote "origin"]\n\turl = git@example.org:x\n\tfetch = +refs/*:refs/*\n',
        b'[filter "lfs"]\n\tclean = git-lfs clean -- %f\n\tprocess = git-lfs filter-process\n',
        b"[user]\n\tname = fsmonitor = x\n# hookspath = x\n; [core] fsmonitor = x\n",
        b"[alias]\n\tst = status\n[credential]\n\thelper = store\n",
        b"[diff]\n\talgorithm = patience\n",
        b"nonsense",
        b"",
    ],
)
def test_what_stays(config: bytes) -> None:
    """Ordinary settings are left alone."""
    assert without_programs(config) is None


@pytest.mark.skipif(shutil.which("git") is None, reason="checked where there is a git")
@pytest.mark.parametrize("config", STEERS)
def test_git_agrees(config: bytes, tmp_path: Path) -> None:
    """Git itself reads the setting before, and none of it after."""

    def listed(text: bytes) -> list[str]:
        file = tmp_path / "config"
        file.write_bytes(text)
        ran = subprocess.run(
            ["git", "config", "--list", "--name-only", "--file", file],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return ran.stdout.split()

    assert listed(config) != []
    assert listed(without_programs(config) or b"") == []


@given(st.binary(max_size=200))
def test_nothing_raises(noise: bytes) -> None:
    """Whatever the bytes are, what is left is fewer of them, and is left by a second look."""
    left = without_programs(b"[core]\n" + noise + b"\n[core] fsmonitor = x\n")
    if left is not None:
        assert len(left) < len(noise) + 40
        assert without_programs(left) is None


def test_pointer() -> None:
    """A file that leads to a repository's folder, and others."""
    assert git_folder(b"gitdir: ../x/.git\n") == b"../x/.git"
    assert git_folder(b"gitdir:\n") is None
    assert git_folder(b"else") is None
