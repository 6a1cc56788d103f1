"""The folders behind a trial's sandbox."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from anyio import to_thread

from trialog.engine.trial.folders import (
    TamperUncleared,
    TrialFolders,
    VerifierDigestMismatch,
)
from trialog.engine.trial.leftovers import MOST_NAMED, list_leftovers
from trialog.events.kinds import TamperFound
from trialog.events.log import BlobStore
from trialog.events.memory import MemoryLog

if TYPE_CHECKING:
    from conftest import Refusals


def sha256(data: bytes) -> str:
    """Hex."""
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def blobs() -> BlobStore:
    """A blob store."""
    return MemoryLog().blobs


@pytest.fixture
async def folders(tmp_path: Path) -> TrialFolders:
    """A trial's folders, as they are while the agent works."""
    made = TrialFolders(tmp_path / "scratch", workspace="/app")
    await made.prepare(prompt="do it")
    return made


@pytest.fixture
def verifier(tmp_path: Path) -> Path:
    """A snapshot's verifier folder."""
    folder = tmp_path / "snapshot" / "tests"
    (folder / "data").mkdir(parents=True)
    (folder / "test.sh").write_text("exit 0\n")
    (folder / "test.sh").chmod(0o600)
    (folder / "tool").write_text("#!/bin/sh\n")
    (folder / "tool").chmod(0o700)
    (folder / "data" / "expected.bin").write_bytes(b"\x00\xff")
    return folder


def digests(folder: Path) -> dict[str, str]:
    """What a job records of a verifier's folder."""
    return {
        str(path.relative_to(folder)): sha256(path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


def mode(path: Path) -> int:
    """Permission bits."""
    return stat.S_IMODE(path.stat().st_mode)


def chattr(change: str, path: Path) -> None:
    """Change a file's attributes."""
    subprocess.run(["chattr", change, path], check=True)


# While the agent works


async def test_any_user_may_write_logs(folders: TrialFolders) -> None:
    """/logs/* is open to any user inside, whatever the umask; the scratch is the engine's alone."""
    targets = {mount.target: mount for mount in folders.mounts()}
    for name in ("agent", "verifier", "artifacts"):
        assert mode(targets[f"/logs/{name}"].source) == 0o777
        assert not targets[f"/logs/{name}"].readonly
    assert mode(folders.scratch) == 0o700


async def test_verifier_is_not_there_yet(folders: TrialFolders) -> None:
    """While the agent works /verifier and /tests are one empty folder, and there is no solution."""
    targets = {mount.target: mount.source for mount in folders.mounts()}
    assert targets["/verifier"] == targets["/tests"]
    assert list(targets["/verifier"].iterdir()) == []
    assert "/solution" not in targets
    assert "/oracle" not in targets


async def test_prompt(folders: TrialFolders) -> None:
    """The prompt is in a read-only folder of its own that any user can read."""
    mount = next(mount for mount in folders.mounts() if mount.target == "/task")
    assert mount.readonly
    assert (mount.source / "prompt.md").read_text() == "do it"
    assert (mode(mount.source), mode(mount.source / "prompt.md")) == (0o755, 0o644)
    assert folders.prompt == "/task/prompt.md"


async def test_oracle_sees_the_solution(tmp_path: Path) -> None:
    """For the oracle the solution is at both of its names, without the verifier."""
    solution = tmp_path / "solution"
    solution.mkdir()
    (solution / "solve.sh").write_text("echo")
    folders = TrialFolders(tmp_path / "scratch", workspace="/app")
    await folders.prepare(solution=solution)
    targets = {mount.target: mount.source for mount in folders.mounts()}
    assert targets["/solution"] == targets["/oracle"]
    assert (targets["/solution"] / "solve.sh").read_text() == "echo"
    assert list(targets["/verifier"].iterdir()) == []


@pytest.mark.parametrize(
    ("workspace", "solution", "verifier", "task"),
    [
        ("/app", ["/solution", "/oracle"], ["/verifier", "/tests"], "/task"),
        ("/solution", ["/oracle"], ["/verifier", "/tests"], "/task"),
        ("/solution/src", ["/oracle"], ["/verifier", "/tests"], "/task"),
        ("/solutions", ["/solution", "/oracle"], ["/verifier", "/tests"], "/task"),
        ("/", ["/solution", "/oracle"], ["/verifier", "/tests"], "/task"),
        ("/tests", ["/solution", "/oracle"], ["/verifier"], "/task"),
        ("/x/../oracle/", ["/solution"], ["/verifier", "/tests"], "/task"),
        ("//oracle", ["/solution"], ["/verifier", "/tests"], "/task"),
        ("/task", ["/solution", "/oracle"], ["/verifier", "/tests"], "/.trialog/task"),
    ],
)
def test_workspace_is_never_hidden(
    workspace: str, solution: list[str], verifier: list[str], task: str, tmp_path: Path
) -> None:
    """No folder is mounted at the workspace or above it."""
    folders = TrialFolders(tmp_path, workspace=workspace)
    assert folders.solution_targets == solution
    assert folders.verifier_targets == verifier
    assert folders.task_target == task


# Between the phases


async def test_nothing_left(folders: TrialFolders, blobs: BlobStore) -> None:
    """An honest agent leaves nothing, and nothing is said."""
    assert await folders.close_agent_phase(blobs) == []


async def test_fresh_places_stay(folders: TrialFolders, blobs: BlobStore) -> None:
    """Where nothing has run, places that are as they were made are not made again."""
    made = [os.stat(place).st_ino for place in (folders.verifier_logs, folders.verifier)]
    assert await folders.close_agent_phase(blobs, fresh=True) == []
    kept = [os.stat(place).st_ino for place in (folders.verifier_logs, folders.verifier)]
    assert made == kept
    assert await folders.close_agent_phase(blobs) == []
    assert made != [os.stat(place).st_ino for place in (folders.verifier_logs, folders.verifier)]


@pytest.mark.parametrize("way", ["file", "mode", "link", "gone"])
async def test_fresh_places_are_looked_at(
    folders: TrialFolders, blobs: BlobStore, way: str
) -> None:
    """One that is not as it was made is made again, though nothing should have run."""
    place = folders.verifier_logs
    match way:
        case "file":
            (place / "reward.txt").write_text("1")
        case "mode":
            place.chmod(0o755)
        case "link":
            place.rmdir()
            place.symlink_to(folders.verifier)
        case _:
            place.rmdir()
    found = await folders.close_agent_phase(blobs, fresh=True)
    assert len(found) == (way in ("file", "link"))
    assert not place.is_symlink()
    assert mode(place) == 0o777
    assert list(place.iterdir()) == []


async def test_planted_reward(folders: TrialFolders, blobs: BlobStore) -> None:
    """A planted reward is gone for the verifier, and named with its hash."""
    planted = folders.verifier_logs / "reward.json"
    planted.write_text('{"reward": 1}')
    found = await folders.close_agent_phase(blobs)
    assert not planted.exists()
    assert list(folders.verifier_logs.iterdir()) == []
    assert mode(folders.verifier_logs) == 0o777
    assert found == [
        TamperFound(
            path="/logs/verifier/reward.json",
            sha256=sha256(b'{"reward": 1}'),
            what="a file of 13 bytes, left where the reward goes; taken away",
        )
    ]


async def test_swapped_folder_is_another_one(folders: TrialFolders, blobs: BlobStore) -> None:
    """What still holds the old folder open writes beside the verifier's place, not into it."""
    held = os.open(folders.verifier_logs, os.O_RDONLY | os.O_DIRECTORY)
    try:
        await folders.close_agent_phase(blobs)
        os.close(os.open("reward.txt", os.O_CREAT | os.O_WRONLY, dir_fd=held))
        assert "reward.txt" in os.listdir(held)
    finally:
        os.close(held)
    assert list(folders.verifier_logs.iterdir()) == []


async def test_read_only_folder_and_folder_in_the_place(
    folders: TrialFolders, blobs: BlobStore
) -> None:
    """A folder without rights, and a folder in the reward file's place, are taken away too."""
    (folders.verifier_logs / "reward.txt").mkdir()
    (folders.verifier_logs / "reward.txt" / "x").write_text("1")
    (folders.verifier_logs / "reward.txt").chmod(0o555)
    folders.verifier_logs.chmod(0o555)
    found = await folders.close_agent_phase(blobs)
    assert [(t.path, t.sha256) for t in found] == [
        ("/logs/verifier/reward.txt", None),
        ("/logs/verifier/reward.txt/x", sha256(b"1")),
    ]
    assert found[0].what.startswith("a folder, left where the reward goes")
    (folders.verifier_logs / "reward.txt").write_text("0")


async def test_links_pipes_and_sockets(folders: TrialFolders, blobs: BlobStore) -> None:
    """Links are named with where they lead and not followed; pipes are not opened."""
    place = folders.verifier_logs
    (place / "reward.txt").symlink_to("/etc/hostname")
    (place / "loop").symlink_to(".")
    os.mkfifo(place / "reward.json")
    found = await folders.close_agent_phase(blobs)
    assert {t.path: (t.sha256, t.what.partition(",")[0]) for t in found} == {
        "/logs/verifier/loop": (None, "a symbolic link to ."),
        "/logs/verifier/reward.json": (None, "a named pipe"),
        "/logs/verifier/reward.txt": (None, "a symbolic link to /etc/hostname"),
    }


async def test_place_itself_replaced(folders: TrialFolders, blobs: BlobStore) -> None:
    """A link in place of the whole folder is taken away and not followed."""
    elsewhere = folders.scratch / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "reward.txt").write_text("1")
    folders.verifier_logs.rmdir()
    folders.verifier_logs.symlink_to(elsewhere)
    found = await folders.close_agent_phase(blobs)
    assert [t.path for t in found] == ["/logs/verifier"]
    assert found[0].what.startswith("a symbolic link took the folder's place")
    assert not folders.verifier_logs.is_symlink()
    assert (elsewhere / "reward.txt").exists()


async def test_place_itself_removed(folders: TrialFolders, blobs: BlobStore) -> None:
    """A folder that is gone is made again."""
    folders.verifier_logs.rmdir()
    assert await folders.close_agent_phase(blobs) == []
    assert mode(folders.verifier_logs) == 0o777


async def test_verifier_files_planted_early(folders: TrialFolders, blobs: BlobStore) -> None:
    """What the agent put where the verifier's files go is taken away and named."""
    (folders.verifier / "test.sh").write_text("echo 1 > /logs/verifier/reward.txt")
    found = await folders.close_agent_phase(blobs)
    assert [t.path for t in found] == ["/verifier/test.sh"]
    assert "left where the verifier's files go" in found[0].what
    assert list(folders.verifier.iterdir()) == []


async def test_solution_is_gone_for_the_verifier(tmp_path: Path, blobs: BlobStore) -> None:
    """The oracle's solution, and what the oracle left there, is not in the verifier's phase."""
    solution = tmp_path / "solution"
    solution.mkdir()
    (solution / "solve.sh").write_text("echo")
    folders = TrialFolders(tmp_path / "scratch", workspace="/app")
    await folders.prepare(solution=solution)
    assert (folders.solution / "solve.sh").exists()
    assert await folders.close_agent_phase(blobs) == []
    assert list(folders.solution.iterdir()) == []


async def test_rewards_in_the_image(folders: TrialFolders, blobs: BlobStore) -> None:
    """Reward files that the image brings are named with their hashes."""
    found = await folders.close_agent_phase(
        blobs, planted={"/logs/verifier/reward.txt": "ab" * 32, "/logs/verifier/reward.json": None}
    )
    assert [(t.path, t.sha256) for t in found] == [
        ("/logs/verifier/reward.txt", "ab" * 32),
        ("/logs/verifier/reward.json", None),
    ]
    assert found[0].what == "a reward file in the image; not believed"


async def test_name_that_is_not_utf8(folders: TrialFolders, blobs: BlobStore) -> None:
    """A name that is no UTF-8 is shown with U+FFFD, and its bytes are kept beside it."""
    os.close(os.open(os.fsencode(folders.verifier_logs) + b"/\xff.txt", os.O_CREAT | os.O_WRONLY))
    [found] = await folders.close_agent_phase(blobs)
    assert found.path == "/logs/verifier/\ufffd.txt"
    assert found.raw_path is not None
    assert await blobs.get(found.raw_path) == b"/logs/verifier/\xff.txt"


async def test_many_leftovers_are_bounded(folders: TrialFolders, blobs: BlobStore) -> None:
    """A hundred are named, the others counted."""
    for number in range(MOST_NAMED + 30):
        (folders.verifier_logs / f"{number:04}").touch()
    found = await folders.close_agent_phase(blobs)
    assert len(found) == MOST_NAMED + 1
    assert found[-1].path == "/logs/verifier"
    assert found[-1].what.startswith("30 further paths")


def test_counting_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a bound nothing is counted any more."""
    monkeypatch.setattr("trialog.engine.trial.leftovers.MOST_COUNTED", 300)
    for number in range(305):
        (tmp_path / str(number)).touch()
    assert list_leftovers(tmp_path)[-1].what == f"{300 - MOST_NAMED} or more further paths"


def test_large_files_are_not_hashed(tmp_path: Path) -> None:
    """A sparse terabyte costs nothing: it is named without a hash."""
    (tmp_path / "reward.txt").touch()
    os.truncate(tmp_path / "reward.txt", 2**40)
    [found] = list_leftovers(tmp_path)
    assert (found.sha256, found.what) == (None, f"a file of {2**40} bytes, not hashed")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder immutable")
async def test_immutable_folder_fails_closed(folders: TrialFolders, blobs: BlobStore) -> None:
    """What can't be moved away means that nothing is graded; it is still named."""
    (folders.verifier_logs / "reward.txt").write_text("1")
    chattr("+i", folders.verifier_logs)
    try:
        with pytest.raises(TamperUncleared) as caught:
            await folders.close_agent_phase(blobs)
    finally:
        chattr("-i", folders.verifier_logs)
    assert caught.value.category == "reward_tampered"
    assert str(caught.value).startswith("what the agent left in /logs/verifier can't be removed: ")
    assert [t.sha256 for t in caught.value.found] == [sha256(b"1")]


async def test_immutable_content_is_moved_away(folders: TrialFolders, blobs: BlobStore) -> None:
    """A file that can't be deleted is moved away with its folder."""
    planted = folders.verifier_logs / "reward.txt"
    planted.write_text("1")
    immutable = os.geteuid() == 0
    if immutable:
        chattr("+i", planted)
        with pytest.raises(PermissionError):
            planted.unlink()
    try:
        found = await folders.close_agent_phase(blobs)
        assert [t.sha256 for t in found] == [sha256(b"1")]
        assert list(folders.verifier_logs.iterdir()) == []
    finally:
        if immutable:
            for path in folders.scratch.rglob("reward.txt"):
                chattr("-i", path)


async def test_what_can_not_be_moved(
    tmp_path: Path, blobs: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rename that fails, of the solution's folder too, means that nothing is graded."""
    solution = tmp_path / "solution"
    solution.mkdir()
    folders = TrialFolders(tmp_path / "scratch", workspace="/app")
    await folders.prepare(solution=solution)
    rename = os.rename

    def fail(source: Path, target: Path) -> None:
        if source == folders.solution:
            raise OSError(16, "Device or resource busy")
        rename(source, target)

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(TamperUncleared, match="/solution can't be removed: Device or resource"):
        await folders.close_agent_phase(blobs)


def test_leftovers_of_another_user(tmp_path: Path, refusals: Refusals) -> None:
    """What can't be looked at is named all the same; rights that are ours are taken back."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "below").write_text("y")
    refusals.refuse("file", 1)
    refusals.refuse("folder", 1)
    assert [(f.path, f.sha256) for f in list_leftovers(tmp_path)] == [
        (b"file", sha256(b"x")),
        (b"folder", None),
        (b"folder/below", sha256(b"y")),
    ]
    refusals.refuse("file")
    refusals.refuse("folder")
    found = {f.path: f.what for f in list_leftovers(tmp_path)}
    assert found[b"file"] == "it can't be looked at: Permission denied"
    assert found[b"folder"] in ("a folder", "it can't be looked at: Permission denied")
    refusals.refuse(tmp_path.name)
    [whole] = list_leftovers(tmp_path)
    assert (whole.path, whole.what) == (b"", "it can't be looked into: Permission denied")


# The verifier's files


async def test_verifier_files_come_in(folders: TrialFolders, verifier: Path) -> None:
    """The files are copied with their modes, readable by any user; the snapshot is not touched."""
    await to_thread.run_sync(folders.fill_verifier, verifier, digests(verifier))
    assert (folders.verifier / "data" / "expected.bin").read_bytes() == b"\x00\xff"
    assert mode(folders.verifier / "test.sh") == 0o644
    assert mode(folders.verifier / "tool") == 0o755
    (folders.verifier / "test.sh").write_text("changed by a test that writes beside itself")
    assert (verifier / "test.sh").read_text() == "exit 0\n"


@pytest.mark.parametrize("change", ["altered", "added", "removed", "linked", "added link"])
async def test_changed_verifier_is_refused(
    folders: TrialFolders, verifier: Path, change: str
) -> None:
    """A file that is not what the job recorded: refused, with both digests."""
    recorded = digests(verifier)
    script = verifier / "test.sh"
    honest = sha256(b"exit 0\n")
    match change:
        case "altered":
            script.write_text("echo 1 > /logs/verifier/reward.txt")
            expected = ("test.sh", honest, sha256(script.read_bytes()))
        case "added":
            (verifier / "conftest.py").write_text("x")
            expected = ("conftest.py", "nothing", sha256(b"x"))
        case "removed":
            script.unlink()
            expected = ("test.sh", honest, "nothing")
        case "linked":
            script.unlink()
            script.symlink_to("tool")
            expected = ("test.sh", honest, "a symbolic link")
        case _:
            (verifier / "more").symlink_to("/app")
            expected = ("more", "nothing", "a symbolic link")
    with pytest.raises(VerifierDigestMismatch) as caught:
        await to_thread.run_sync(folders.fill_verifier, verifier, recorded)
    path, before, after = expected
    assert caught.value.category == "verifier_digest_mismatch"
    assert str(caught.value).startswith(f"{path}: recorded {before}, found {after}; ")


async def test_digests_may_name_their_algorithm(folders: TrialFolders, verifier: Path) -> None:
    """A digest with or without ``sha256:`` before it is the same."""
    recorded = {path: f"sha256:{digest}" for path, digest in digests(verifier).items()}
    await to_thread.run_sync(folders.fill_verifier, verifier, recorded)
    assert digests(folders.verifier) == digests(verifier) != {}


async def test_it_is_quick(tmp_path: Path, verifier: Path, blobs: BlobStore) -> None:
    """All of a trial's folders cost a few milliseconds of processor time (the best of ten)."""
    recorded = digests(verifier)
    best = 1.0
    for number in range(10):
        began = time.process_time()
        folders = TrialFolders(tmp_path / f"scratch{number}", workspace="/app")
        await folders.prepare(prompt="do it")
        await folders.close_agent_phase(blobs)
        await to_thread.run_sync(folders.fill_verifier, verifier, recorded)
        best = min(best, time.process_time() - began)
    assert best < 0.03
