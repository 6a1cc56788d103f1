"""Which task folder may be evidence: one that is known to be what the trial ran, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.jobs import write_task
from trialog.engine.reviews.admitting import DEEPEST, NO_ROOT, admit, digest_of
from trialog.engine.reviews.choosing import Subject
from trialog.events.kinds.job import TaskSnapshot
from trialog.events.values import blob_ref

OTHER = "sha256:" + "0" * 64


def subject(*digests: str, task: str | None = "t", layout: str = "b") -> Subject:
    """A trial of the task with these recorded digests."""
    snapshot = TaskSnapshot(
        task="t", digest=OTHER, path="/nowhere", layout=layout, snapshot=blob_ref(b"")
    )
    return Subject(trial="t__1", task=task, passed=True, digests=list(digests), snapshot=snapshot)


def test_the_task_that_ran_is_admitted(tmp_path: Path) -> None:
    """Found by its name below the root, it counts when every recorded digest is the folder's."""
    folder = write_task(tmp_path / "set" / "t")
    digest = digest_of(folder)
    assert admit(subject(digest, digest), tmp_path) == (folder, None)
    assert admit(subject(digest), folder) == (folder, None)


def test_without_a_root_nothing_is_admitted(tmp_path: Path) -> None:
    """The path that a trial recorded is not read, right as it may be."""
    folder = write_task(tmp_path / "t")
    assert admit(subject(digest_of(folder)), None) == (None, NO_ROOT)


def test_what_can_not_be_verified_stays_out(tmp_path: Path) -> None:
    """A missing, invalid or contradicting digest, a changed folder, and one that is not there."""
    folder = write_task(tmp_path / "t")
    digest = digest_of(folder)
    assert admit(subject(digest), tmp_path).folder == folder
    for chosen, said in (
        (subject(), "no digest of the task was recorded"),
        (subject("abc", "abc"), "its recorded digest 'abc' is none"),
        (subject(digest, digest[:-1]), "is none"),
        (subject(digest, OTHER), "its recorded digests differ"),
        (subject(OTHER), "is not what the trial ran"),
        (subject(digest, task="u"), "there is no task u below"),
        (subject(digest, task=None), "do not name its task"),
        (subject(digest, layout="project"), "is a project's"),
    ):
        found = admit(chosen, tmp_path)
        assert found.folder is None
        assert found.note is not None
        assert found.note.startswith("task evidence skipped: ")
        assert said in found.note
    (folder / "instruction.md").write_text("another")
    assert "is not what the trial ran" in str(admit(subject(digest), tmp_path).note)


def test_of_two_folders_neither_is_taken(tmp_path: Path) -> None:
    """Which one it was can't be told by its name."""
    first, second = write_task(tmp_path / "a" / "t"), write_task(tmp_path / "b" / "t")
    assert digest_of(first) == digest_of(second)
    assert "2 folders" in str(admit(subject(digest_of(first)), tmp_path).note)


def test_links_and_depths_are_not_searched(tmp_path: Path) -> None:
    """What lies behind a link, in a hidden folder or too deep is not below the root."""
    folder = write_task(tmp_path / "elsewhere" / "t")
    digest = digest_of(folder)
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(tmp_path / "elsewhere")
    deep = root.joinpath(*"abcdefgh"[: DEEPEST + 1])
    write_task(deep / "t")
    write_task(root / ".hidden" / "t")
    assert "there is no task t below" in str(admit(subject(digest), root).note)


def test_a_folder_that_is_no_task_any_more(tmp_path: Path) -> None:
    """The note says why it has no digest."""
    folder = write_task(tmp_path / "t")
    digest = digest_of(folder)
    (folder / "task.toml").write_text("not toml [")
    note = admit(subject(digest), tmp_path).note
    assert note is not None
    assert "task.toml" in note


@pytest.mark.parametrize("name", ["../t", "a/../t", "/t"])
def test_a_recorded_name_is_no_path(tmp_path: Path, name: str) -> None:
    """A trial's own word for its task leads nowhere but to a folder of that name."""
    folder = write_task(tmp_path / "t")
    root = tmp_path / "root"
    root.mkdir()
    assert admit(subject(digest_of(folder), task=name), root).folder is None
