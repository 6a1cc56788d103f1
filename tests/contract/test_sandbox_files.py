"""Files out of a sandbox, into it and looked at from outside. Both backends run every test here."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from trialog.engine.archive import members
from trialog.engine.archive.headers import Entry
from trialog.engine.errors import SandboxError
from trialog.engine.sandbox.protocol import GivenFile, TreeTooLarge
from trialog.events.kinds.parts import SkippedPath

if TYPE_CHECKING:
    from conftest import Box

MakeBox = Callable[..., Awaitable["Box"]]

MIB = 1024 * 1024


async def test_save_tree(make_box: MakeBox, tmp_path: Path) -> None:
    """The same tree packs to the same bytes, in whatever order it was made."""
    made: list[bytes] = []
    for order in ("a b c", "c a b"):
        box = await make_box()
        await box.sh(
            f"for i in {order}; do mkdir $i; echo $i >$i/file; ln -s ../b $i/link; done; "
            "chmod 750 b; chmod +x c/file; find . -exec touch -h -d @1000000000 {} +"
        )
        place = tmp_path / f"{order[0]}.tar.zst"
        tree = await box.sandbox.save_tree("/app", place, cap=MIB)
        assert (tree.files, tree.size, tree.skipped) == (3, 6, [])
        made.append(place.read_bytes())
    assert made[0] == made[1]


async def test_save_hostile_tree(box: Box, tmp_path: Path) -> None:
    """What is no file, folder or link is noted; odd names and links are kept as they are."""
    ended, output = await box.run(
        [
            "python3",
            "-c",
            "import os, socket\n"
            "os.mkfifo('pipe')\n"
            "socket.socket(socket.AF_UNIX).bind('socket')\n"
            "open(b'\\xff\\n name', 'w').write('odd')\n"
            "os.symlink('/etc/passwd', 'absolute')\n"
            "os.symlink('../../..', 'up')\n"
            "open('one', 'w').write('same')\n"
            "os.link('one', 'two')\n"
            "os.chmod('one', 0)\n"
            "os.mkdir('closed'); open('closed/in', 'w').write('in'); os.chmod('closed', 0)\n"
            "os.chmod('.', 0o700)\n",
        ]
    )
    assert ended.code == 0, output
    place = tmp_path / "tree"
    tree = await box.sandbox.save_tree("/app", place, cap=MIB)
    skipped = {one.path for one in tree.skipped}
    closed = {"one", "two", "closed"}
    found = {entry.path: entry for entry in await _entries(place)}
    if os.geteuid() != 0 and closed <= skipped:  # without an engine a plain user can't read them
        skipped -= closed
    else:
        assert {b"one", b"two", b"closed/in"} <= set(found)
    assert {"pipe"} <= skipped <= {"pipe", "socket"}  # Docker itself leaves sockets out
    assert not {b"pipe", b"socket"} & set(found)
    assert {b"\xff\n name", b"absolute", b"up"} <= set(found)
    assert (found[b"absolute"].link, found[b"up"].link) == (b"/etc/passwd", b"../../..")


async def test_nothing_deep_is_lost_silently(box: Box, tmp_path: Path) -> None:
    """Folders deeper than any path may be long: each file is kept, or it is said where one is not.

    At 20 bytes a folder the chain is past 4,095 bytes, a system's longest path, after 195 folders.
    """
    ended, output = await box.run(
        [
            "python3",
            "-c",
            "import os\n"
            "os.mkdir('deep'); os.chdir('deep')\n"
            "for i in range(300):\n"
            "    os.mkdir('d' * 20); os.chdir('d' * 20); open('file', 'w').write('x')\n"
            "print(len(os.getcwd()))\n",
        ]
    )
    assert (ended.code, int(output)) == (0, len("/app/deep") + 300 * 21), output
    tree = await box.sandbox.save_tree("/app", tmp_path / "tree", cap=MIB)
    assert tree.files == 300 or tree.skipped
    kept = {entry.path for entry in await _entries(tmp_path / "tree")}
    assert b"deep/" + b"/".join([b"d" * 20] * 150) + b"/file" in kept
    assert all(len(one.path) == 1024 for one in tree.skipped)
    skipped = await box.sandbox.copy_file("/app/deep", tmp_path / "copied", cap=MIB)
    assert len(list((tmp_path / "copied").rglob("file"))) < 300
    assert skipped


async def test_save_too_large(box: Box, tmp_path: Path) -> None:
    """A tree over the cap is not kept, a sparse file counting whole; under it, it is."""
    await box.sh("head -c 3000 /dev/zero >file")
    with pytest.raises(TreeTooLarge):
        await box.sandbox.save_tree("/app", tmp_path / "tree", cap=2999)
    assert not (tmp_path / "tree").exists()
    assert (await box.sandbox.save_tree("/app", tmp_path / "tree", cap=3000)).size == 3000
    await box.sh("truncate -s 8G sparse")
    with anyio.fail_after(60), pytest.raises(TreeTooLarge):
        await box.sandbox.save_tree("/app", tmp_path / "other", cap=3000)


async def test_start_from_saved(make_box: MakeBox, tmp_path: Path) -> None:
    """A sandbox that starts from a saved workspace holds exactly that, and saves to the same."""
    first = await make_box()
    await first.sh("mkdir -p a/b; echo x >a/b/file; ln -s a link; chmod 711 a; chmod 500 a/b/file")
    saved = tmp_path / "saved"
    await first.sandbox.save_tree("/app", saved, cap=MIB)
    second = await make_box(workspace=saved)
    ended, output = await second.sh("find . | LC_ALL=C sort; cat a/b/file; readlink link")
    assert (ended.code, output.split()) == (
        0,
        [b".", b"./a", b"./a/b", b"./a/b/file", b"./link", b"x", b"a"],
    )
    again = tmp_path / "again"
    await second.sandbox.save_tree("/app", again, cap=MIB)
    assert await _entries(again) == await _entries(saved)


async def test_copy_file(box: Box, tmp_path: Path) -> None:
    """A regular file is copied out, with its bytes."""
    await box.sh(r"mkdir -p out; printf '\000\377' >out/file; chmod 400 out/file")
    assert await box.sandbox.copy_file("/app/out/file", tmp_path / "file", cap=100) == []
    assert (tmp_path / "file").read_bytes() == b"\x00\xff"
    with pytest.raises(TreeTooLarge):
        await box.sandbox.copy_file("/app/out/file", tmp_path / "other", cap=1)


async def test_copy_folder(box: Box, tmp_path: Path) -> None:
    """Of a folder every regular file is copied; links and what else is there are given back."""
    await box.sh(
        "mkdir -p out/deep/er; echo 1 >out/one; echo 2 >out/deep/er/two; "
        "ln -s /etc/passwd out/link; mkfifo out/pipe; ln out/one out/same"
    )
    skipped = await box.sandbox.copy_file("/app/out", tmp_path / "out", cap=MIB)
    copied = {
        str(path.relative_to(tmp_path / "out")): path.read_text()
        for path in (tmp_path / "out").rglob("*")
        if path.is_file()
    }
    assert copied == {"one": "1\n", "same": "1\n", "deep/er/two": "2\n"}
    assert {(one.path, one.target) for one in skipped} == {
        ("app/out/link", "/etc/passwd"),
        ("app/out/pipe", None),
    }


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/app/link", "/etc/passwd"),
        ("/app/way/passwd", "/etc"),
        ("/app/up/etc/passwd", "../.."),
        ("/app/hop/environ", "/proc/self"),
        ("/app/below/hop/environ", "/proc/self"),
    ],
)
async def test_links_are_not_followed(box: Box, tmp_path: Path, path: str, target: str) -> None:
    """A path that is a link, or leads through one, is not copied; it and its target are named."""
    ended, _ = await box.sh(
        "ln -s /etc/passwd link; ln -s /etc way; ln -s ../.. up; ln -s /proc/self hop; "
        "mkdir below; ln -s /proc/self below/hop; "
        "cat way/passwd up/etc/passwd hop/environ below/hop/environ"
    )
    assert ended.code == 0
    skipped = await box.sandbox.copy_file(path, tmp_path / "copy", cap=MIB)
    assert [(one.path, one.target) for one in skipped] == [(path.lstrip("/"), target)]
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("path", ["/app/nothing", "/app/file/below", "/none/of/it"])
async def test_copy_missing(box: Box, tmp_path: Path, path: str) -> None:
    """A path where nothing is, is given back."""
    await box.sh("echo x >file")
    skipped = await box.sandbox.copy_file(path, tmp_path / "copy", cap=MIB)
    assert skipped == [SkippedPath(path=path.lstrip("/"), reason="there is no such file")]


@pytest.mark.parametrize("path", ["/app/a", "/app/self", "/app/a/below"])
async def test_links_in_a_circle(box: Box, tmp_path: Path, path: str) -> None:
    """A link that leads back to itself is given back as a link, and ends no trial."""
    ended, _ = await box.sh("ln -s a b; ln -s b a; ln -s self self; cat a 2>/dev/null || exit 40")
    assert ended.code == 40
    (skipped,) = await box.sandbox.copy_file(path, tmp_path / "copy", cap=MIB)
    assert skipped.path == path.lstrip("/")
    assert "is not followed" in skipped.reason
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("target", ["/etc", "/app"])
async def test_workspace_that_is_gone(box: Box, tmp_path: Path, target: str) -> None:
    """A workspace that the agent removed or replaced by a link is saved as empty, and it is said.

    Nothing of what the link leads to is read.
    """
    ended, _ = await box.sh(f"cd /; rm -rf /app 2>/dev/null && ln -s {target} /app")
    tree = await box.sandbox.save_tree("/app", tmp_path / "tree", cap=512 * MIB)
    assert (tree.files, tree.size) == (0, 0)
    assert bool(tree.skipped) is (ended.code == 0)
    assert [entry.path for entry in await _entries(tmp_path / "tree")] == [b""]


async def test_changed_outside(box: Box) -> None:
    """Paths that were changed outside the workspace and the mounts are named, and no others."""
    await box.sh("echo x >file; echo x >/logs/file")
    before = await box.sandbox.changed_outside()
    if before is None:
        pytest.fail("this backend can tell what was changed")
    assert before == []
    ended, _ = await box.sh(
        "mkdir -p /tmp/new; echo x >/tmp/new/file; touch /tmp/gone; rm /tmp/gone"
    )
    assert ended.code == 0
    assert await box.sandbox.changed_outside() == ["/tmp/new", "/tmp/new/file"]


async def test_put_files(make_box: MakeBox, tmp_path: Path) -> None:
    """Files that are given before the first phase lie where they should, mounts included."""
    (tmp_path / "one").write_bytes(b"\x00\xff" * 300_000)
    (tmp_path / "two").write_text("in a mount")
    (tmp_path / "three").write_text("run me")
    box = await make_box()
    await box.sandbox.put_files(
        [
            GivenFile(source=tmp_path / "one", path="/tmp/made/for it/one"),
            GivenFile(source=tmp_path / "two", path="/logs/deep/two", mode=0o400),
            GivenFile(source=tmp_path / "three", path="/tmp/three", mode=0o755),
        ]
    )
    ended, output = await box.sh(
        "stat -c '%s %a' '/tmp/made/for it/one' /logs/deep/two /tmp/three; cat /logs/deep/two; "
        "stat -c %a /tmp"
    )
    assert ended.code == 0, output
    assert output == b"600000 644\n10 400\n6 755\nin a mount1777\n"


@pytest.mark.parametrize("path", ["/tmp/file/below", "/tmp/../x/..", "/logs"])
async def test_put_where_no_file_can_be(make_box: MakeBox, tmp_path: Path, path: str) -> None:
    """A place that can't be had is an error that names it, not a file somewhere else."""
    (tmp_path / "one").write_text("1")
    box = await make_box()
    await box.sandbox.put_files([GivenFile(source=tmp_path / "one", path="/tmp/file")])
    with pytest.raises(SandboxError, match=re.escape(path)):
        await box.sandbox.put_files([GivenFile(source=tmp_path / "one", path=path)])


# Between phases, from outside


async def test_changed(box: Box) -> None:
    """Wanted paths that a phase made are listed, wherever it may write, but not in mounts."""
    assert await box.sandbox.changed(lambda _: True) == []
    await box.sh(
        "mkdir -p a/b; echo 1 > a/b/x; ln -s / a/x; echo 1 > /tmp/x; echo 1 > /logs/x; echo 1 > y; "
        "mkdir locked; echo 1 > locked/x; chmod 0 locked"
    )
    found = await box.sandbox.changed(lambda path: path.endswith("/x"))
    assert found == ["/app/a/b/x", "/app/a/x", "/app/locked/x", "/tmp/x"]
    assert await box.sandbox.changed(lambda _: False, links=lambda t: t == b"/") == ["/app/a/x"]
    assert await box.sandbox.changed(lambda _: False, links=lambda t: t == b"x") == []
    _, output = await box.sh("stat -c %a locked")
    assert output == b"0\n"


async def test_changed_in_a_deep_tree(box: Box) -> None:
    """Depth hides nothing but what is deeper than any path may be, and ends in no error."""
    await box.sh(
        'echo 1 > x; i=0; while [ $i -lt 40 ]; do d=$(printf "%0200d" 0); '
        "mkdir $d && cd $d || break; i=$((i + 1)); done; echo 1 > x; echo $i > /tmp/depth"
    )
    found = await box.sandbox.changed(lambda path: path.endswith("/x"))
    assert found == ["/app/x"]


async def test_look(box: Box) -> None:
    """What is there is told by its kind, with bytes and hash of files, and no link is followed."""
    await box.sh("printf abc > file; ln -s file link; mkdir folder; mkfifo pipe; ln -s /tmp out")
    await box.sh("printf abc > /tmp/file")
    seen = {
        name: await box.sandbox.look(f"/app/{name}", cap=3)
        for name in ("file", "link", "folder", "pipe", "none", "out/file", "file/below")
    }
    kinds = {name: one.kind for name, one in seen.items() if name != "out/file"}
    assert kinds == {
        "file": "file", "link": "link", "folder": "folder", "pipe": "other", "none": "missing",
        "file/below": "missing",
    }  # fmt: skip
    assert seen["out/file"].data is None
    assert seen["file"].data == b"abc"
    assert seen["file"].sha256 == hashlib.sha256(b"abc").hexdigest()
    assert seen["link"].data == b"file"
    large = await box.sandbox.look("/app/file", cap=2)
    assert (large.kind, large.data, large.sha256) == ("file", None, None)
    assert (await box.sandbox.look("/app/file", cap=9, in_image=True)).kind == "missing"
    shell = await box.sandbox.look("/usr/bin/env", cap=10_000_000, in_image=True)
    assert shell.kind == "file"


async def test_put_back_and_replace(box: Box) -> None:
    """What the image has not is gone again; a file with other bytes keeps its mode."""
    await box.sh(
        "mkdir -p a/b; echo 1 > a/b/x; chmod 555 a a/b; echo 1 > y; chmod 751 y; ln -s y z"
    )
    for path in ("/app/a", "/app/z", "/app/none"):
        await box.sandbox.put_back(path)
    await box.sandbox.replace("/app/y", b"two\n")
    _, output = await box.sh("ls; cat y; stat -c %a y")
    assert output == b"y\ntwo\n751\n"


async def test_python(box: Box) -> None:
    """The image's python3 is found, and runs."""
    found = await box.sandbox.find_python()
    assert found is not None
    assert found.version >= (3, 8)
    ended, output = await box.run([found.path, "-ISc", "import sys; print(*sys.version_info[:2])"])
    assert (ended.code, output.decode().split()) == (0, [str(n) for n in found.version])


async def _entries(archive: Path) -> list[Entry]:
    """What an archive holds."""
    return await anyio.to_thread.run_sync(lambda: [member.entry for member in members(archive)])
