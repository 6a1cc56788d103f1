"""Whose a sandbox is, and whether that process still runs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from trialog.engine.sandbox.owner import (
    Owner,
    is_dead,
    parse_owner,
    process_start,
    this_host,
    this_process,
)


def test_label_round_trip() -> None:
    """A label is read as what it was written from."""
    owner = this_process()
    assert parse_owner(str(owner)) == owner
    assert owner.pid == os.getpid()


@pytest.mark.parametrize("label", ["", "a", "a:b", "a:b:c", ":1:2", "host:²:1", "host:-1:x"])
def test_no_label(label: str) -> None:
    """What is no owner's label is none."""
    assert parse_owner(label) is None


def test_living_and_dead() -> None:
    """A process that runs is not dead; ended it is, even before its parent has waited for it."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    start = process_start(child.pid)
    assert start is not None
    owner = Owner(this_host(), child.pid, start)
    assert not is_dead(owner)
    assert child.stdin is not None
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_dead(owner)
    child.wait()
    assert is_dead(owner)


def test_process_id_in_use_again() -> None:
    """Another process with the same id is not the owner."""
    own = this_process()
    assert is_dead(own._replace(start="0.1"))


def test_other_hosts_live() -> None:
    """Of other hosts nothing is known, so their owners are never dead."""
    assert not is_dead(Owner("another-host", 1, "0"))


def test_fork_is_another_owner() -> None:
    """A forked process is an owner of its own."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, str(this_process()).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    told = parse_owner(os.read(read, 1000).decode())
    os.close(read)
    os.close(write)
    assert told is not None
    assert told.pid == pid
