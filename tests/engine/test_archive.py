"""Archives: the same tree, the same bytes; a hostile tree does no harm."""

from __future__ import annotations

import io
import os
import resource
import shutil
import socket
import stat
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import zstandard
from anyio import to_thread
from hypothesis import given, settings
from hypothesis import strategies as st

from trialog.engine.archive import (
    copy_out,
    find_secrets_in_archive,
    members,
    pack_folder,
    pack_tar,
    read_member,
    remove_tree,
    unpack,
)
from trialog.engine.archive.headers import FILE, LINK, Entry, header
from trialog.engine.archive.inside import find_paths, parent_of, seen
from trialog.engine.archive.removal import ROUNDS
from trialog.engine.archive.unpack import ArchiveUnsafe
from trialog.engine.redact import Redactor
from trialog.engine.sandbox.protocol import TreeTooLarge
from trialog.events.kinds.parts import SkippedPath

CAP = 64 * 1024 * 1024


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    """An empty folder to fill; removed by our own means, since some trees defeat pytest's."""
    folder = tmp_path / "tree"
    folder.mkdir()
    yield folder
    remove_tree(folder)


def fill(folder: Path) -> None:
    """A bit of everything that an archive keeps."""
    (folder / "out.txt").write_text("an answer")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o4755)
    (folder / "empty").mkdir(mode=0o750)
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "deep").write_bytes(bytes(range(256)) * 5)
    os.link(folder / "out.txt", folder / "a" / "same.txt")
    os.symlink("../out.txt", folder / "a" / "link")
    os.symlink("/etc/passwd", folder / "away")
    os.utime(folder / "out.txt", ns=(1, 1_700_000_000_123_456_789))
    os.utime(folder / "empty", ns=(1, -5_500_000_000))


def names(archive: Path) -> list[bytes]:
    """Paths in an archive, in order."""
    return [member.entry.path for member in members(archive)]


def chain(folder: Path, depth: int, name: str = "d") -> None:
    """A folder in a folder in a folder …"""
    fd = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=fd)
        below = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    leaf = os.open("leaf", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=fd)
    os.write(leaf, b"at the bottom")
    os.close(leaf)
    os.close(fd)


@contextmanager
def as_user(folder: Path) -> Iterator[None]:
    """Run as a plain user, who owns a folder, when the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    subprocess.run(["chown", "-R", "nobody", folder], check=True)
    for parent in folder.parents:
        if parent.is_relative_to(tempfile.gettempdir()) and parent != Path(tempfile.gettempdir()):
            parent.chmod(parent.stat().st_mode | 0o011)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_same_tree_same_bytes(tree: Path, tmp_path: Path) -> None:
    """The same tree gives the same bytes, in whatever order it was made and when."""
    fill(tree)
    pack_folder(tree, tmp_path / "one", CAP)
    other = tmp_path / "other"
    other.mkdir()
    unpack(tmp_path / "one", other)
    os.rename(other / "out.txt", other / "zzz")
    os.rename(other / "zzz", other / "out.txt")  # another order of names in the folder
    for name in (".", "a"):
        status = os.stat(tree / name)
        os.utime(other / name, ns=(status.st_atime_ns, status.st_mtime_ns))
    pack_folder(other, tmp_path / "two", CAP)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_bytes_are_fixed() -> None:
    """A header's bytes never change between releases or Python versions."""
    plain = header(Entry(b"a", FILE, 0o644, 0, 0, 3, 1_000_000_000_000_000_000))
    assert plain.rstrip(b"\0") == (
        b"a" + bytes(99) + b"0000644\0" b"0000000\0" b"0000000\0" b"00000000003\0" b"07346545000\0"
        b"007403\0 0" + bytes(100) + b"ustar\x0000" + bytes(64) + b"0000000\0" b"0000000"
    )  # fmt: skip
    extended = header(Entry("ü".encode(), LINK, 0o777, 3_000_000, 0, 0, 1_500_000_000, b"to\xff"))
    assert extended[512:].split(b"\0")[0] == (
        b"21 hdrcharset=BINARY\n11 path=\xc3\xbc\n16 linkpath=to\xff\n15 uid=3000000\n"
        b"13 mtime=1.5\n"
    )


def test_sorted_and_complete(tree: Path, tmp_path: Path) -> None:
    """Entries are sorted by their paths' components; links and empty folders are kept."""
    fill(tree)
    (tree / "a.txt").write_text("sorts after what is in a")
    packed = pack_folder(tree, tmp_path / "one", CAP)
    assert names(tmp_path / "one") == [
        b"",
        b"a",
        b"a/b",
        b"a/b/deep",
        b"a/link",
        b"a/same.txt",
        b"a.txt",
        b"away",
        b"empty",
        b"out.txt",
        b"run.sh",
    ]
    assert packed.files == 4
    assert packed.size == 9 + 10 + 1280 + 24
    assert packed.skipped == []


def test_other_programs_read_it(tree: Path, tmp_path: Path) -> None:
    """An archive is an ordinary tar in an ordinary zstd frame."""
    fill(tree)
    pack_folder(tree, tmp_path / "one", CAP)
    plain = zstandard.ZstdDecompressor().decompressobj().decompress((tmp_path / "one").read_bytes())
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        assert tar.getmember("a/link").linkname == "../out.txt"
        assert tar.getmember("out.txt").islnk()
        assert tar.getmember("out.txt").linkname == "a/same.txt"
        assert tar.getmember("a/b/deep").size == 1280


def test_unpack_restores(tree: Path, tmp_path: Path) -> None:
    """Modes, nanosecond times, links, hard links and empty folders come back as they were."""
    fill(tree)
    (tree / "closed").mkdir(mode=0o500)
    pack_folder(tree, tmp_path / "one", CAP)
    place = tmp_path / "place"
    place.mkdir()
    unpack(tmp_path / "one", place)
    assert (place / "out.txt").stat().st_mtime_ns == 1_700_000_000_123_456_789
    assert (place / "empty").stat().st_mtime_ns == -5_500_000_000
    assert stat.S_IMODE((place / "run.sh").stat().st_mode) == 0o4755
    assert stat.S_IMODE((place / "closed").stat().st_mode) == 0o500
    assert os.readlink(place / "away") == "/etc/passwd"
    assert os.path.samefile(place / "out.txt", place / "a" / "same.txt")
    assert list((place / "empty").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_owners_are_numbers(tree: Path, tmp_path: Path) -> None:
    """Owners are kept as numbers and restored by root."""
    (tree / "theirs").write_text("x")
    os.chown(tree / "theirs", 12345, 3_000_000)
    os.symlink("x", tree / "link")
    os.chown(tree / "link", 77, 78, follow_symlinks=False)
    pack_folder(tree, tmp_path / "one", CAP)
    place = tmp_path / "place"
    place.mkdir()
    unpack(tmp_path / "one", place)
    status = (place / "theirs").stat()
    assert (status.st_uid, status.st_gid) == (12345, 3_000_000)
    assert (place / "link").lstat().st_uid == 77


name_bytes = st.binary(min_size=1, max_size=255).filter(
    lambda name: not set(name) & {0, 0x2F} and name not in (b".", b"..")
)
trees = st.recursive(
    st.one_of(st.binary(max_size=2000), st.builds(lambda b: ("link", b), name_bytes)),
    lambda inner: st.dictionaries(name_bytes, inner, max_size=4),
    max_leaves=12,
)


def build(folder: bytes, content: dict[bytes, object]) -> None:
    """Make a described tree."""
    for name, value in content.items():
        path = folder + b"/" + name
        match value:
            case dict():
                os.mkdir(path)
                build(path, value)
            case ("link", target):
                os.symlink(target, path)
            case _:
                with open(path, "wb") as file:
                    file.write(value)  # type: ignore[arg-type]


def described(folder: bytes) -> dict[bytes, object]:
    """The inverse of `build`, read by other means than ours."""
    found: dict[bytes, object] = {}
    for entry in os.scandir(folder):
        if entry.is_symlink():
            found[entry.name] = ("link", os.readlink(entry.path))
        elif entry.is_dir():
            found[entry.name] = described(entry.path)
        else:
            with open(entry.path, "rb") as file:
                found[entry.name] = file.read()
    return found


@settings(max_examples=60)
@given(st.dictionaries(name_bytes, trees, max_size=5))
def test_round_trip(content: dict[bytes, object]) -> None:
    """Any tree, whatever its names, unpacks to the same tree and packs to the same bytes."""
    with tempfile.TemporaryDirectory() as temporary:
        base = Path(temporary)
        (base / "tree").mkdir()
        build(os.fsencode(base / "tree"), content)
        pack_folder(base / "tree", base / "one", CAP)
        (base / "again").mkdir()
        unpack(base / "one", base / "again")
        assert described(os.fsencode(base / "again")) == content
        pack_folder(base / "again", base / "two", CAP)
        assert (base / "one").read_bytes() == (base / "two").read_bytes()


def test_links_are_not_followed(tree: Path, tmp_path: Path) -> None:
    """Loops and links that leave the tree cost nothing and lead nowhere; they are kept as links."""
    (tree / "out.txt").write_text("good")
    os.link(tree / "out.txt", tree / "twin")
    os.symlink(".", tree / "loop")
    os.symlink("b", tree / "a")
    os.symlink("a", tree / "b")
    os.symlink("/proc/self", tree / "hop")
    os.symlink(os.path.expanduser("~/.ssh"), tree / "keys")
    assert (tree / "hop" / "environ").exists()  # the way out is there
    packed = pack_folder(tree, tmp_path / "one", CAP)
    assert packed.files == 1
    assert names(tmp_path / "one") == [
        b"", b"a", b"b", b"hop", b"keys", b"loop", b"out.txt", b"twin"
    ]  # fmt: skip
    assert read_member(tmp_path / "one", "twin", 100) == b"good"


def test_copy_out_gives_links_back(tree: Path, tmp_path: Path) -> None:
    """Copying a folder keeps its regular files and gives each link back with its target."""
    (tree / "out.txt").write_text("good")
    os.symlink(".", tree / "loop")
    os.symlink("b", tree / "a")
    os.symlink("a", tree / "b")
    os.symlink("/proc/self", tree / "hop")
    skipped = copy_out(tree, "", tmp_path / "copy", CAP)
    assert [(s.path, s.target) for s in skipped] == [
        ("a", "b"),
        ("b", "a"),
        ("hop", "/proc/self"),
        ("loop", "."),
    ]
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["out.txt"]


def test_copy_out_refuses_a_link_in_the_way(tree: Path, tmp_path: Path) -> None:
    """A path that leads through a link is not followed: nothing outside is read."""
    os.symlink("/proc/self", tree / "hop")
    assert (tree / "hop" / "environ").read_bytes() is not None
    skipped = copy_out(tree, "hop/environ", tmp_path / "copy", CAP)
    assert skipped == [
        SkippedPath(
            path="hop/environ",
            reason="hop is a link, which is not followed",
            target="/proc/self",
        )
    ]
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("nothing", "there is no such file"),
        ("out.txt/below", "there is no such file"),
        ("../tree/out.txt", "it may not contain .."),
        ("pipe", "not a regular file"),
    ],
)
def test_copy_out_of_what_is_no_file(tree: Path, tmp_path: Path, path: str, reason: str) -> None:
    """What is missing, outside or no regular file is given back and nothing hangs."""
    (tree / "out.txt").write_text("good")
    os.mkfifo(tree / "pipe")
    assert [s.reason for s in copy_out(tree, path, tmp_path / "copy", CAP)] == [reason]


def test_copy_out_cap(tree: Path, tmp_path: Path) -> None:
    """Over the cap nothing of the file stays behind, sparse ones included."""
    with open(tree / "huge", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(TreeTooLarge):
        copy_out(tree, "huge", tmp_path / "copy", CAP)
    assert not (tmp_path / "copy").exists()


def test_copy_out_leaves_what_is_there(tree: Path, tmp_path: Path) -> None:
    """A file that is there already stays as it is, and the one that had no place is named."""
    (tree / "file").write_text("later")
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "file").write_text("earlier")
    skipped = copy_out(tree, "", tmp_path / "copy", CAP)
    assert [s.path for s in skipped] == ["file"]
    assert (tmp_path / "copy" / "file").read_text() == "earlier"


def test_copy_out_keeps_the_run_bit_and_no_set_id(tree: Path, tmp_path: Path) -> None:
    """Permission bits are kept, the set-user-id bit is not."""
    (tree / "run").write_text("x")
    (tree / "run").chmod(0o4755)
    assert copy_out(tree, "/run", tmp_path / "copy", CAP) == []
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o755


def test_other_kinds_are_skipped(tree: Path, tmp_path: Path) -> None:
    """Sockets, pipes and devices are noted with the reason, and never opened."""
    os.mkfifo(tree / "pipe")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tree / "socket"))
    listening.close()
    wanted = [("pipe", "a named pipe"), ("socket", "a socket")]
    if os.geteuid() == 0:
        os.mknod(tree / "device", stat.S_IFCHR | 0o600, os.makedev(1, 5))
        wanted.insert(0, ("device", "a device"))
    packed = pack_folder(tree, tmp_path / "one", CAP)
    assert [(s.path, s.reason) for s in packed.skipped] == wanted
    assert packed.files == 0


@pytest.mark.parametrize("depth", [300, 3000])
def test_deep_trees(tree: Path, tmp_path: Path, depth: int) -> None:
    """A chain of folders thousands deep is packed, unpacked, copied around and removed."""
    chain(tree, depth)
    (tree / "out.txt").write_text("good")
    packed = pack_folder(tree, tmp_path / "one", CAP)
    assert packed.files == 2
    deepest = "/".join(["d"] * depth) + "/leaf"
    assert read_member(tmp_path / "one", deepest, 100) == b"at the bottom"
    place = tmp_path / "place"
    place.mkdir()
    unpack(tmp_path / "one", place)
    pack_folder(place, tmp_path / "two", CAP)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    skipped = copy_out(tree, "", tmp_path / "copy", CAP)
    assert [s.reason for s in skipped] == (["its path is too long"] if depth == 3000 else [])
    remove_tree(place)
    assert not place.exists()


FILLER = """
import os, sys
while True:
    try:
        os.makedirs("filled/below", exist_ok=True)
        for name in ("filled/one", "filled/below/two"):
            open(name, "w").close()
    except OSError:
        pass
"""


def test_what_others_fill_meanwhile_is_removed(tmp_path: Path) -> None:
    """A folder goes although a process goes on putting files into it."""
    with subprocess.Popen([sys.executable, "-c", FILLER], cwd=tmp_path) as child:
        try:
            for _ in range(300):
                while not (tmp_path / "filled" / "one").exists():
                    assert child.poll() is None
                remove_tree(tmp_path / "filled")
        finally:
            child.kill()


def test_a_folder_filled_without_end_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is filled each time that it was emptied is given up, with the reason."""
    (tmp_path / "filled" / "below").mkdir(parents=True)
    rmdir = os.rmdir
    asked = 0

    def fill_first(name: bytes, *, dir_fd: int) -> None:
        nonlocal asked
        asked += 1
        folder = os.open(name, os.O_RDONLY, dir_fd=dir_fd)
        os.close(os.open(b"again", os.O_CREAT, dir_fd=folder))
        os.close(folder)
        rmdir(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "rmdir", fill_first)
    with pytest.raises(OSError, match="not empty"):
        remove_tree(tmp_path / "filled")
    assert asked == ROUNDS


def test_long_names_do_not_fill_a_disk(tree: Path, tmp_path: Path) -> None:
    """Folders whose paths are over 16 KiB are skipped, with what is in them."""
    chain(tree, 80, "n" * 255)
    packed = pack_folder(tree, tmp_path / "one", CAP)
    assert [s.reason for s in packed.skipped] == ["its path is too long"]
    assert packed.files == 0
    assert (tmp_path / "one").stat().st_size < 100_000


def test_strange_names(tree: Path, tmp_path: Path) -> None:
    """Names with line ends, bytes that are not UTF-8 and 255 bytes are kept."""
    wanted = sorted([b"line\nend", b"not \xff\xfe text", b"x" * 255, b"\xc3\xbc", b" ", b"-rf"])
    for name in wanted:
        with open(os.fsencode(tree) + b"/" + name, "wb") as file:
            file.write(name)
    pack_folder(tree, tmp_path / "one", CAP)
    assert names(tmp_path / "one") == [b"", *wanted]
    assert read_member(tmp_path / "one", "line\nend", 100) == b"line\nend"


def test_sparse_file_over_the_cap(tree: Path, tmp_path: Path) -> None:
    """A sparse file counts with its apparent size: 1 TiB of nothing is refused at once."""
    with open(tree / "huge", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(TreeTooLarge, match=f"more than {CAP} bytes"):
        pack_folder(tree, tmp_path / "one", CAP)
    assert not (tmp_path / "one").exists()


def test_cap_is_exact(tree: Path, tmp_path: Path) -> None:
    """A tree of just the cap is packed; one byte more is not, and nothing is left of it."""
    (tree / "a").write_bytes(bytes(600))
    (tree / "b").write_bytes(bytes(424))
    assert pack_folder(tree, tmp_path / "one", 1024).size == 1024
    (tree / "c").write_bytes(b"!")
    with pytest.raises(TreeTooLarge):
        pack_folder(tree, tmp_path / "two", 1024)
    assert not (tmp_path / "two").exists()


def test_large_file(tree: Path, tmp_path: Path) -> None:
    """Files over the size that is read at once are streamed and come back whole."""
    data = os.urandom(1024 * 1024) * 5 + b"end"
    (tree / "large").write_bytes(data)
    assert pack_folder(tree, tmp_path / "one", CAP).size == len(data)
    assert read_member(tmp_path / "one", "large", CAP) == data


def test_unreadable(tree: Path, tmp_path: Path) -> None:
    """What a plain user may not read is noted, and the rest is kept."""
    (tree / "good").write_text("good")
    (tree / "secret").write_text("x")
    (tree / "secret").chmod(0)
    (tree / "closed").mkdir()
    (tree / "closed" / "inside").write_text("x")
    (tree / "closed").chmod(0)
    place = tmp_path / "packed"
    place.mkdir(mode=0o777)
    place.chmod(0o777)
    with as_user(tree):
        packed = pack_folder(tree, place / "one", CAP)
        assert [(s.path, s.reason) for s in packed.skipped] == [
            ("closed", "it may not be read"),
            ("secret", "it may not be read"),
        ]
        assert packed.files == 1
        assert packed.size == 4
        remove_tree(tree / "closed")
    assert not (tree / "closed").exists()


def test_changes_meanwhile(tree: Path, tmp_path: Path) -> None:
    """Files that grow, shrink, vanish and turn into links while a tree is packed do no harm."""
    ending = threading.Event()
    secret = tmp_path / "secret.txt"
    secret.write_text("outside")

    def churn() -> None:
        number = 0
        while not ending.is_set():
            number += 1
            place = tree / f"f{number % 20}"
            try:
                if place.is_symlink() or (place.exists() and number % 3 == 0):
                    place.unlink()
                elif number % 7 == 0:
                    os.symlink(secret, place)
                else:
                    place.write_bytes(b"inside" * (number % 1000))
                folder = tree / "folder"
                if number % 5 == 0:
                    folder.mkdir(exist_ok=True)
                    (folder / "x").write_text("x")
                    os.rename(folder, tree / "moved")
                    remove_tree(tree / "moved")
            except OSError:
                continue

    worker = threading.Thread(target=churn)
    worker.start()
    try:
        for number in range(100):
            pack_folder(tree, tmp_path / f"{number}", CAP)
            for member in members(tmp_path / f"{number}"):
                assert b"outside" not in member.read(10_000)
    finally:
        ending.set()
        worker.join()


def test_few_descriptors(tmp_path: Path, tree: Path) -> None:
    """A deep tree needs few open files, and all are given back."""
    chain(tree, 500)
    before = len(os.listdir("/proc/self/fd"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before + 100, hard))
    try:
        pack_folder(tree, tmp_path / "one", CAP)
        with pytest.raises(TreeTooLarge):
            pack_folder(tree, tmp_path / "two", 1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(os.listdir("/proc/self/fd")) == before


async def test_cancelled(tree: Path, tmp_path: Path) -> None:
    """Packing in a worker thread stops when the task that waits for it is cancelled."""
    (tree / "large").write_bytes(os.urandom(1024 * 1024) * 40)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await to_thread.run_sync(pack_folder, tree, tmp_path / "one", CAP)
    with anyio.move_on_after(0.001) as scope:
        await to_thread.run_sync(pack_folder, tree, tmp_path / "one", CAP)
    assert scope.cancelled_caught
    assert not (tmp_path / "one").exists()


def docker_tar(path: Path, folder: Path, root: str, order: bool = True) -> None:
    """A tar as an engine gives it: names below a root, entries in some order."""
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        tar.add(folder, root, recursive=False)
        for each in sorted(folder.rglob("*"), reverse=not order):
            tar.add(each, f"{root}/{each.relative_to(folder)}", recursive=False)


@pytest.mark.parametrize("order", [True, False])
def test_pack_tar_is_canonical(tree: Path, tmp_path: Path, order: bool) -> None:
    """A tar stream, in whatever order, becomes the same bytes as the folder it came from."""
    fill(tree)
    for each in [tree, *tree.rglob("*")]:  # engines give whole seconds
        os.utime(each, ns=(0, 1_700_000_000_000_000_000), follow_symlinks=False)
    docker_tar(tmp_path / "tar", tree, "app", order)
    from_tar = pack_tar(tmp_path / "tar", tmp_path / "one", CAP, "app")
    from_folder = pack_folder(tree, tmp_path / "two", CAP)
    assert from_tar == from_folder
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_pack_tar_skips(tmp_path: Path) -> None:
    """Devices, pipes, links to nothing and names outside of the root are noted and left out."""
    with tarfile.open(tmp_path / "tar", "w") as tar:
        for name, kind, link in (
            ("app", tarfile.DIRTYPE, ""),
            ("app/pipe", tarfile.FIFOTYPE, ""),
            ("app/device", tarfile.CHRTYPE, ""),
            ("app/hard", tarfile.LNKTYPE, "etc/passwd"),
            ("app/../x", tarfile.REGTYPE, ""),
            ("other", tarfile.REGTYPE, ""),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, link
            tar.addfile(info)
    packed = pack_tar(tmp_path / "tar", tmp_path / "one", CAP, "app")
    assert {(s.path, s.reason) for s in packed.skipped} == {
        ("pipe", "a named pipe"),
        ("device", "a device"),
        ("hard", "a hard link to nothing in the tree"),
        ("app/../x", "it lies outside the tree"),
        ("other", "it lies outside the tree"),
    }
    assert names(tmp_path / "one") == [b""]


def test_pack_tar_cap(tree: Path, tmp_path: Path) -> None:
    """The cap holds for tars too."""
    (tree / "a").write_bytes(bytes(2000))
    docker_tar(tmp_path / "tar", tree, "app")
    with pytest.raises(TreeTooLarge):
        pack_tar(tmp_path / "tar", tmp_path / "one", 1999, "app")
    assert not (tmp_path / "one").exists()


def forged(path: Path, *entries: tuple[str, bytes, str]) -> Path:
    """An archive that this project would never write."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, kind, link in entries:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, link
            info.size = 4 if kind == tarfile.REGTYPE else 0
            tar.addfile(info, io.BytesIO(b"evil"))
    path.write_bytes(zstandard.compress(plain.getvalue()))
    return path


@pytest.mark.parametrize(
    "entries",
    [
        [("../escaped", tarfile.REGTYPE, "")],
        [("out", tarfile.SYMTYPE, ".."), ("out/escaped", tarfile.REGTYPE, "")],
        [("out", tarfile.SYMTYPE, "../escaped"), ("out", tarfile.REGTYPE, "")],
        [("twin", tarfile.LNKTYPE, "../victim")],
        [("out", tarfile.SYMTYPE, ".."), ("twin", tarfile.LNKTYPE, "out/victim")],
        [
            ("out", tarfile.SYMTYPE, ".."),
            ("out", tarfile.DIRTYPE, ""),
            ("out/x", tarfile.REGTYPE, ""),
        ],
    ],
)
def test_unpack_stays_inside(tmp_path: Path, entries: list[tuple[str, bytes, str]]) -> None:
    """No entry of a forged archive is written, or linked, outside of the folder."""
    (tmp_path / "victim").write_text("untouched")
    place = tmp_path / "place"
    place.mkdir()
    before = sorted(path.name for path in tmp_path.iterdir())
    archive = forged(tmp_path / "archive", *entries)
    with pytest.raises(ArchiveUnsafe, match="archive"):
        unpack(archive, place)
    archive.unlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert (tmp_path / "victim").stat().st_nlink == 1


def test_read_member(tree: Path, tmp_path: Path) -> None:
    """One file is read by its path, a hard link's included; links and folders are no files."""
    fill(tree)
    pack_folder(tree, tmp_path / "one", CAP)
    assert read_member(tmp_path / "one", "out.txt", 9) == b"an answer"
    assert read_member(tmp_path / "one", "away", 9) is None
    assert read_member(tmp_path / "one", "a", 9) is None
    assert read_member(tmp_path / "one", "missing", 9) is None
    with pytest.raises(TreeTooLarge):
        read_member(tmp_path / "one", "out.txt", 8)


def test_remove_tree(tree: Path, tmp_path: Path) -> None:
    """Links are removed, not followed; removing what is not there is fine."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("x")
    os.symlink(tmp_path / "kept", tree / "link")
    os.symlink(tmp_path / "kept", tmp_path / "link")
    remove_tree(tree)
    remove_tree(tmp_path / "link")
    remove_tree(tmp_path / "missing")
    remove_tree(tmp_path / "missing" / "below")
    assert (tmp_path / "kept" / "file").exists()
    assert not (tmp_path / "link").is_symlink()
    assert not tree.exists()


def test_find_secrets(tree: Path, tmp_path: Path) -> None:
    """A secret in a file, across read borders, in a name or a link is found, by its path."""
    secret = "s3cr3t-value-123"
    (tree / "clean").write_text("nothing here")
    (tree / "plain").write_text(f"key={secret}")
    (tree / "border").write_bytes(b"x" * (256 * 1024 - 5) + secret.encode() + b"y" * 100)
    (tree / f"named-{secret}").write_text("")
    os.symlink(f"/x/{secret}", tree / "link")
    pack_folder(tree, tmp_path / "one", CAP)
    before = (tmp_path / "one").read_bytes()
    found = find_secrets_in_archive(tmp_path / "one", Redactor({"API_KEY": secret}))
    assert found == ["border", "link", "named-[redacted:API_KEY]", "plain"]
    assert find_secrets_in_archive(tmp_path / "one", Redactor({})) == []
    assert (tmp_path / "one").read_bytes() == before


def test_trivial_tree_is_quick(tree: Path, tmp_path: Path) -> None:
    """A trivial workspace costs about a millisecond."""
    import time

    fill(tree)
    best = 1.0
    for number in range(20):
        begun = time.perf_counter()
        pack_folder(tree, tmp_path / f"{number}", CAP)
        best = min(best, time.perf_counter() - begun)
    assert best < 0.005, sys.version


def test_a_search_beside_others_that_change_what_is_searched(tmp_path: Path) -> None:
    """A folder that becomes a link or goes away after it was listed is passed over."""
    top, outside = tmp_path / "top", tmp_path / "outside"
    for folder in (top / "a", top / "b", top / "c", outside):
        folder.mkdir(parents=True)
        (folder / "conftest.py").touch()
    (top / "first").touch()

    def wanted(path: str) -> bool:
        if path.endswith("/first"):
            for name in ("a", "b"):
                shutil.rmtree(top / name)
            (top / "a").symlink_to(outside)
        return path.endswith("conftest.py")

    assert find_paths(top, "/app", wanted, frozenset()) == ["/app/c/conftest.py"]
    assert (outside / "conftest.py").exists()


def test_a_link_that_is_another_thing_by_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was a link when it was listed and is none when it is read is what it is then."""
    (tmp_path / "x").symlink_to("away")
    real = os.readlink

    def racing(path: Any, *, dir_fd: int | None = None) -> Any:
        if dir_fd is not None:
            os.unlink(tmp_path / "x")
            (tmp_path / "x").mkdir()
        return real(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "readlink", racing)
    with parent_of(tmp_path, "x") as (parent, name):
        assert seen(parent, name, 10).kind == "folder"
    (tmp_path / "x").rmdir()
    (tmp_path / "x").symlink_to("away")
    assert find_paths(tmp_path, "/app", lambda _: False, frozenset(), links=lambda _: True) == []
