"""What a reviewer may read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trialog.engine.reviews import evidence
from trialog.engine.reviews.evidence import EvidenceOpen, close, copy_task, copy_trial


def make(folder: Path, *paths: str) -> Path:
    """Files that hold their own paths."""
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)
    return folder


def tree(folder: Path) -> set[str]:
    """Every path below a folder."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def test_a_trials_files_are_copied_as_they_are(tmp_path: Path) -> None:
    """Every file arrives with its bytes, and the source is left as it was."""
    source = make(tmp_path / "s", "result.json", "verifier/test-stdout.txt", "artifacts/a/b")
    before = {path: path.stat().st_mtime_ns for path in source.rglob("*")}
    assert copy_trial(source, tmp_path / "t") == []
    assert tree(tmp_path / "t") == tree(source)
    assert (tmp_path / "t/artifacts/a/b").read_text() == "artifacts/a/b"
    assert {path: path.stat().st_mtime_ns for path in source.rglob("*")} == before


def test_earlier_reviews_and_message_logs_stay_out(tmp_path: Path) -> None:
    """No reviewer reads an earlier verdict or a provider's whole log, wherever a review was put;
    the notes say what is not there, so that no name of an agent's hides anything silently."""
    source = make(
        tmp_path / "s",
        "result.json",
        "reviews/r/review_report.json",
        "runtime/t/x/result.json",
        "review_report.json",
        "mine/review_report.json",
        "mine/runtime/t/x/trajectory.json",
        "agent/review-result.json",
        "agent/llm_trajectory.jsonl",
        "agent/log.txt",
        "artifacts/reviews/of-films.txt",
        "artifacts/runtime/x",
    )
    notes = copy_trial(source, tmp_path / "t")
    assert tree(tmp_path / "t") == {
        "result.json", "agent", "agent/log.txt", "artifacts", "artifacts/reviews",
        "artifacts/reviews/of-films.txt", "artifacts/runtime", "artifacts/runtime/x",
    }  # fmt: skip
    assert sorted(notes) == [
        "t/agent/llm_trajectory.jsonl: a message log, left out",
        "t/agent/review-result.json: an earlier review, left out",
        "t/mine: an earlier review, left out",
        "t/review_report.json: an earlier review, left out",
        "t/reviews: an earlier review, left out",
        "t/runtime: an earlier review, left out",
    ]


def test_links_are_dropped_and_never_followed(tmp_path: Path) -> None:
    """A link to a file, to a folder or to nothing is left out with a note, and so is a pipe."""
    secret = make(tmp_path / "secret", "key")
    source = make(tmp_path / "s", "result.json")
    (source / "file").symlink_to(secret / "key")
    (source / "folder").symlink_to(secret)
    (source / "broken").symlink_to("nowhere")
    os.mkfifo(source / "pipe")
    notes = copy_trial(source, tmp_path / "t")
    assert tree(tmp_path / "t") == {"result.json"}
    assert [note.split(":")[0] for note in notes] == [
        "t/broken", "t/file", "t/folder", "t/pipe"
    ]  # fmt: skip


def test_a_flood_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files over the limits and folders without end are left out with a note, the rest is kept."""
    monkeypatch.setattr(evidence, "LARGEST", 20)
    monkeypatch.setattr(evidence, "MOST_BYTES", 30)
    monkeypatch.setattr(evidence, "DEEPEST", 2)
    source = make(tmp_path / "s", "a", "x/y/z/w")
    (source / "b").write_bytes(b"." * 21)
    (source / "c").write_bytes(b"." * 20)
    (source / "d").write_bytes(b"." * 20)
    notes = copy_trial(source, tmp_path / "t")
    assert tree(tmp_path / "t") == {"a", "c", "x", "x/y"}
    assert [note.split(":")[0] for note in notes] == ["t/b", "t/d", "t/x/y/z"]


def test_a_tasks_skills_and_rubrics_stay_out(tmp_path: Path) -> None:
    """Skills and any shipped rubric are no evidence, wherever they lie."""
    source = make(
        tmp_path / "s",
        "task.toml",
        "tests/test.sh",
        "tests/rubric.json",
        "verifier/rubric.json",
        "environment/skills/a/SKILL.md",
        "skills/x",
    )
    copy_task(source, tmp_path / "t")
    assert tree(tmp_path / "t") == {
        "task.toml", "tests", "tests/test.sh", "verifier", "environment"
    }  # fmt: skip


def test_closed_evidence_is_readable_and_nobodys_to_change(tmp_path: Path) -> None:
    """Whatever the modes were, folders end as 0755 and files as 0644, all of this user's."""
    source = make(tmp_path / "s", "a/b")
    (source / "a/b").chmod(0o777)
    (source / "a").chmod(0o700)
    close(source)
    modes = {path: path.stat().st_mode & 0o7777 for path in (source, source / "a", source / "a/b")}
    assert list(modes.values()) == [0o755, 0o755, 0o644]
    assert {path.stat().st_uid for path in modes} == {os.geteuid()}


def test_what_can_not_be_closed_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link in the tree, and a mode that does not hold, are refused instead of shown."""
    source = make(tmp_path / "s", "a")
    (source / "l").symlink_to("a")
    with pytest.raises(EvidenceOpen, match="is a link"):
        close(source)
    (source / "l").unlink()
    (source / "a").chmod(0o666)
    monkeypatch.setattr(Path, "chmod", lambda *_: None)
    with pytest.raises(EvidenceOpen, match="mode 0666"):
        close(source)
