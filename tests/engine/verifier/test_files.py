"""Reading reward files that may be anything."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from trialog.engine.verifier.files import DETAILS_CAP, REWARD_CAP, read_reward_files

if TYPE_CHECKING:
    from conftest import Refusals

NAMES = {"reward.txt": "text", "reward.json": "json"}


def reason(folder: Path, name: str = "reward.txt") -> str:
    """Why a file that is there can't be used."""
    found = getattr(read_reward_files(folder), NAMES[name])
    assert found is not None
    assert found.data is None
    return str(found.reason)


def test_plain_files(tmp_path: Path) -> None:
    """The four files are read as they are; others are not looked at."""
    (tmp_path / "reward.txt").write_bytes(b"\xef\xbb\xbf1.0\r\n")
    (tmp_path / "reward.json").write_bytes(b"{}")
    (tmp_path / "reward-details.json").write_bytes(b"\xff")
    (tmp_path / "ctrf.json").write_bytes(b"")
    (tmp_path / "other.json").write_bytes(b"{}")
    files = read_reward_files(tmp_path)
    assert [(f.name, f.data, f.reason) for f in files.found()] == [
        ("reward.txt", b"\xef\xbb\xbf1.0\r\n", None),
        ("reward.json", b"{}", None),
        ("reward-details.json", b"\xff", None),
        ("ctrf.json", b"", None),
    ]


def test_nothing_there(tmp_path: Path) -> None:
    """A file that is not there is none; one that differs in case is not there."""
    (tmp_path / "REWARD.TXT").write_text("1")
    assert read_reward_files(tmp_path).found() == []


def test_folder_is_gone(tmp_path: Path) -> None:
    """A missing folder is the engine's fault and raises."""
    with pytest.raises(FileNotFoundError):
        read_reward_files(tmp_path / "none")


@pytest.mark.parametrize("name", NAMES)
def test_symbolic_link(tmp_path: Path, name: str) -> None:
    """A link is not followed, wherever it leads, and what it leads to stays unread."""
    outside = tmp_path / "outside"
    outside.write_text("1")
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / name).symlink_to(outside)
    assert (folder / name).read_text() == "1"
    assert reason(folder, name) == "is a symbolic link, not a regular file"


def test_dangling_and_looping_links(tmp_path: Path) -> None:
    """A link to nothing and one to itself are links too."""
    (tmp_path / "reward.txt").symlink_to("nowhere")
    (tmp_path / "reward.json").symlink_to("reward.json")
    for name in NAMES:
        assert reason(tmp_path, name) == "is a symbolic link, not a regular file"


def test_named_pipe(tmp_path: Path) -> None:
    """A FIFO without a writer, which a plain open would wait on for ever, is not opened."""
    os.mkfifo(tmp_path / "reward.txt")
    assert reason(tmp_path) == "is a named pipe, not a regular file"


def test_folder_and_socket(tmp_path: Path) -> None:
    """A folder, even with a file in it, and a socket are no reward."""
    (tmp_path / "reward.txt").mkdir()
    (tmp_path / "reward.txt" / "x").write_text("1")
    assert reason(tmp_path) == "is a folder, not a regular file"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "reward.json"))
        assert reason(tmp_path, "reward.json") == "is a socket, not a regular file"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make device nodes")
def test_device(tmp_path: Path) -> None:
    """An endless device is not read."""
    os.mknod(tmp_path / "reward.txt", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    assert reason(tmp_path) == "is a device, not a regular file"


def test_size(tmp_path: Path) -> None:
    """One byte over 1 MiB is not read, nor is a sparse terabyte; 1 MiB is."""
    (tmp_path / "reward.txt").write_bytes(b" " * REWARD_CAP)
    found = read_reward_files(tmp_path).text
    assert found is not None
    assert found.data == b" " * REWARD_CAP
    os.truncate(tmp_path / "reward.txt", REWARD_CAP + 1)
    assert reason(tmp_path) == "is over 1 MiB"
    os.truncate(tmp_path / "reward.txt", 2**40)
    assert reason(tmp_path) == "is over 1 MiB"


def test_kept_files_may_be_larger(tmp_path: Path) -> None:
    """Details and test reports have a larger cap of their own."""
    details = tmp_path / "reward-details.json"
    details.write_bytes(b" " * (REWARD_CAP + 1))
    found = read_reward_files(tmp_path).details
    assert found is not None
    assert found.data is not None
    os.truncate(details, DETAILS_CAP + 1)
    found = read_reward_files(tmp_path).details
    assert found is not None
    assert (found.data, found.reason) == (None, "is over 16 MiB")


def test_rights_that_were_taken(tmp_path: Path) -> None:
    """A folder and a file without any rights are read all the same, for they are ours."""
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "reward.txt").write_text("1")
    (folder / "reward.txt").chmod(0)
    folder.chmod(0)
    found = read_reward_files(folder).text
    assert found is not None
    assert found.data == b"1"


def test_rights_are_taken_back(tmp_path: Path, refusals: Refusals) -> None:
    """What may not be opened at first is opened once its rights are ours again."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "reward.txt").write_text("1")
    refusals.refuse("logs", 1)
    refusals.refuse("reward.txt", 1)
    found = read_reward_files(tmp_path / "logs").text
    assert found is not None
    assert found.data == b"1"
    refusals.refuse("reward.txt", 2)
    assert reason(tmp_path / "logs") == "may not be read"


def test_file_that_changes_under_our_hands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is another one by the time it is open, or that grows, or fails, is not used."""
    (tmp_path / "reward.txt").write_text("1")
    (tmp_path / "other").write_text("0")
    with monkeypatch.context() as patch:
        opened = os.open

        def other(path: Any, *args: Any, **more: Any) -> int:
            return opened("other" if path == "reward.txt" else path, *args, **more)

        patch.setattr(os, "open", other)
        assert reason(tmp_path) == "changed while it was read"
    with monkeypatch.context() as patch:
        patch.setattr(os, "read", lambda fd, size: b" " * size)  # as a file that grows
        assert reason(tmp_path) == "is over 1 MiB"
    with monkeypatch.context() as patch:

        def fail(fd: int, size: int) -> bytes:
            raise OSError(5, "Input/output error")

        patch.setattr(os, "read", fail)
        assert reason(tmp_path) == "can't be read: Input/output error"
