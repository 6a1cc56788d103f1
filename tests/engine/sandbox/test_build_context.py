"""What of a folder goes to a build, and in which form."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from trialog.engine.sandbox.docker.context import Ignored, pack_context


@pytest.mark.parametrize(
    ("patterns", "ignored", "kept"),
    [
        ("*.log", ["a.log"], ["deep/a.log", "a.logs"]),
        ("**/*.log", ["a.log", "deep/er/a.log"], ["a.txt"]),
        ("folder", ["folder", "folder/a", "folder/b/c"], ["folders", "other/folder"]),
        ("/folder/", ["folder/a"], ["other"]),
        ("a/*/c", ["a/b/c", "a/b/c/d"], ["a/c", "a/b/x/c"]),
        ("file?", ["file1"], ["file", "file12"]),
        ("file[0-9]", ["file1"], ["filex"]),
        ("*\n!keep", ["a", "b"], ["keep", "keep/below"]),
        ("*.md\n!README*.md\nREADME-secret.md", ["a.md", "README-secret.md"], ["README.md"]),
        ("# comment\n\n  a  ", ["a"], ["# comment"]),
        ("a**b", ["ab", "a/x/b"], ["b"]),
        (r"a\*b", ["a*b"], ["axb"]),
        ("", [], ["a"]),
        (".", [], ["a"]),
    ],
)
def test_ignored(patterns: str, ignored: list[str], kept: list[str]) -> None:
    """.dockerignore's patterns mean what they mean to Docker; the last that matches decides."""
    rule = Ignored(patterns)
    assert [path for path in ignored if not rule(path)] == []
    assert [path for path in kept if rule(path)] == []


def names(packed: Path) -> list[str]:
    """The names in a tar."""
    with tarfile.open(packed) as tar:
        return tar.getnames()


def test_pack(tmp_path: Path) -> None:
    """Ignored files stay out, but never the Dockerfile; exceptions below ignored folders go in."""
    folder = tmp_path / "context"
    (folder / "out/deep").mkdir(parents=True)
    for name in ("Dockerfile", "a.txt", "out/x", "out/deep/keep", "key.pem"):
        (folder / name).write_text(name)
    (folder / ".dockerignore").write_text("*\n!a.txt\n!out/deep/keep\n")
    os.symlink("/etc/passwd", folder / "key")
    packed = pack_context(folder, folder / "Dockerfile", tmp_path / "tar")
    assert names(packed.tar) == [".dockerignore", "Dockerfile", "a.txt", "out/deep/keep"]
    assert (packed.name, packed.dockerfile) == ("Dockerfile", "Dockerfile")


def test_same_files_same_digest(tmp_path: Path) -> None:
    """Owners and times do not count; bytes, names, run bits and the Dockerfile's name do."""
    digests: list[str] = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name in ("b", "a", "Dockerfile")[:: 1 if number else -1]:
            (folder / name).write_text(name)
            os.utime(folder / name, (number, number))
        digests.append(pack_context(folder, folder / "Dockerfile", tmp_path / f"t{number}").digest)
    assert digests[0] == digests[1]
    folder = tmp_path / "0"
    (folder / "a").chmod(0o755)
    changed = [pack_context(folder, folder / "Dockerfile", tmp_path / "t").digest]
    (folder / "a").write_text("other")
    changed.append(pack_context(folder, folder / "Dockerfile", tmp_path / "t").digest)
    changed.append(pack_context(folder, folder / "b", tmp_path / "t").digest)
    assert len({digests[0], *changed}) == 4


def test_dockerfile_elsewhere(tmp_path: Path) -> None:
    """A Dockerfile outside of its context goes along."""
    folder = tmp_path / "context"
    folder.mkdir()
    (folder / "a").write_text("a")
    (tmp_path / "Dockerfile").write_text("FROM x")
    packed = pack_context(folder, tmp_path / "Dockerfile", tmp_path / "tar")
    assert packed.name in names(packed.tar)
    assert packed.dockerfile == "FROM x"


def test_links_are_not_followed(tmp_path: Path) -> None:
    """Links go in as links, so that nothing outside of the context is sent."""
    folder = tmp_path / "context"
    folder.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("x")
    (folder / "Dockerfile").write_text("FROM x")
    os.symlink(tmp_path / "outside", folder / "way")
    os.mkfifo(folder / "pipe")
    packed = pack_context(folder, folder / "Dockerfile", tmp_path / "tar")
    with tarfile.open(packed.tar) as tar:
        assert {info.name: info.issym() for info in tar} == {"Dockerfile": False, "way": True}
