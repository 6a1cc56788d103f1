"""What a saved workspace keeps, and what it survives: out of a sandbox and into a fresh one."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from trialog.engine.archive import members, read_member
from trialog.engine.archive.headers import FILE, HARD_LINK, LINK, Entry
from trialog.engine.sandbox.protocol import SandboxBackend, TreeTooLarge

if TYPE_CHECKING:
    from conftest import Box

MakeBox = Callable[..., Awaitable["Box"]]

MIB = 1024 * 1024
CAP = 16 * MIB


async def entries(archive: Path) -> dict[bytes, Entry]:
    """What an archive holds, by path, in its order."""
    listed = await anyio.to_thread.run_sync(lambda: [one.entry for one in members(archive)])
    return {entry.path: entry for entry in listed}


async def file_in(archive: Path, path: str) -> bytes | None:
    """A small file's bytes."""
    return await anyio.to_thread.run_sync(read_member, archive, path, 1000)


async def there_and_back(make_box: MakeBox, program: str, folder: Path) -> tuple[Path, Path]:
    """Archives of what a Python program makes of a workspace: saved, and saved again from there."""
    first = await make_box()
    ended, output = await first.run(["python3", "-c", program])
    assert ended.code == 0, output
    await first.sandbox.save_tree("/app", folder / "one", cap=CAP)
    second = await make_box(workspace=folder / "one")
    ended, output = await second.sh("true")
    assert ended.code == 0, output
    await second.sandbox.save_tree("/app", folder / "two", cap=CAP)
    return folder / "one", folder / "two"


async def test_round_trip_is_exact(make_box: MakeBox, tmp_path: Path) -> None:
    """A workspace that was saved, restored into a fresh sandbox and saved again has the same bytes.

    Modes with their special bits, times, links and their own times, hard links, empty folders.
    """
    one, two = await there_and_back(
        make_box,
        "import os\n"
        "os.makedirs('a/b'); open('a/b/file', 'w').write('x'); open('tool', 'w').write('y')\n"
        "os.mkdir('empty'); os.link('tool', 'a/same'); os.link('tool', 'zz')\n"
        "os.symlink('../tool', 'a/link'); os.symlink('/etc/passwd', 'away')\n"
        "os.symlink('nowhere', 'dangling'); os.symlink('.', 'loop'); os.symlink('a/b', 'folder')\n"
        "open('closed', 'w').write('no'); os.mkdir('shut'); open('shut/in', 'w').write('z')\n"
        "for path, mode in (('tool', 0o4755), ('a', 0o2710), ('empty', 0o1777),\n"
        "                   ('closed', 0o400), ('shut', 0o500)): os.chmod(path, mode)\n"
        "for path in ('a/b/file', 'tool', 'a/link', 'away', 'dangling', 'loop', 'folder',\n"
        "             'shut/in'): os.utime(path, (1e9, 1e9), follow_symlinks=False)\n"
        "os.utime('closed', (4e9, 4e9)); os.utime('a/b', (5, 5))\n"
        "os.utime('shut', (1.5e9, 1.5e9)); os.utime('.', (7e8, 7e8))\n",
        tmp_path,
    )
    found = await entries(one)
    assert found[b"tool"].kind == HARD_LINK
    assert found[b"tool"].link == found[b"zz"].link == b"a/same"
    assert found[b"a/same"].mode == 0o4755
    assert (found[b"a"].mode, found[b"empty"].mode, found[b"shut"].mode) == (0o2710, 0o1777, 0o500)
    assert found[b"closed"].mode == 0o400
    assert {path: found[path].link for path in (b"away", b"dangling", b"loop", b"folder")} == {
        b"away": b"/etc/passwd",
        b"dangling": b"nowhere",
        b"loop": b".",
        b"folder": b"a/b",
    }
    seconds = {path: entry.mtime // 10**9 for path, entry in found.items()}
    assert (seconds[b""], seconds[b"a/b"], seconds[b"shut"]) == (7 * 10**8, 5, 15 * 10**8)
    assert (seconds[b"closed"], seconds[b"a/link"]) == (4 * 10**9, 10**9)
    assert await entries(two) == await entries(one)
    assert one.read_bytes() == two.read_bytes()


async def test_owners_come_back(make_box: MakeBox, backend: SandboxBackend, tmp_path: Path) -> None:
    """Owners are kept as numbers, however large, of links too; bubblewrap has one user inside."""
    if backend.name == "bubblewrap":
        ended, output = await (await make_box()).sh("touch mine; chown 1000 mine")
        assert (ended.code != 0, b"chown" in output) == (True, True)
        return
    one, two = await there_and_back(
        make_box,
        "import os\n"
        "open('theirs', 'w').write('x'); os.mkdir('home'); os.symlink('theirs', 'link')\n"
        "os.chown('theirs', 1000, 3_000_000); os.chown('home', 2_000_000_000, 7)\n"
        "os.chown('link', 11, 12, follow_symlinks=False); os.chown('.', 1000, 1000)\n",
        tmp_path,
    )
    found = await entries(one)
    assert {path.decode(): (entry.uid, entry.gid) for path, entry in found.items()} == {
        "": (1000, 1000),
        "home": (2_000_000_000, 7),
        "link": (11, 12),
        "theirs": (1000, 3_000_000),
    }
    assert await entries(two) == await entries(one)
    assert one.read_bytes() == two.read_bytes()


async def test_strange_names_come_back(make_box: MakeBox, tmp_path: Path) -> None:
    """Names and link targets with line ends, bytes that are no UTF-8, and 255 bytes are kept."""
    one, two = await there_and_back(
        make_box,
        "import os\n"
        "names = [b'line\\nend', b'not \\xff\\xfe text', b'x' * 255, b'\\xc3\\xbc', b' ', b'-rf',\n"
        "         b'$(id)', b'\\x01\\x1b[2J', b'=', b'.hidden', b'\\\\', b'...']\n"
        "for name in names:\n"
        "    open(name, 'wb').write(name); os.mkdir(name + b'd' if len(name) < 255 else b'long')\n"
        "os.symlink(b'to\\n\\xff' * 50, b'li\\nnk')\n",
        tmp_path,
    )
    found = await entries(one)
    for name in (b"line\nend", b"not \xff\xfe text", b"x" * 255, b"\xc3\xbc", b" ", b"-rf", b"..."):
        assert found[name].kind == FILE
        assert await file_in(one, os.fsdecode(name)) == name
    assert (found[b"li\nnk"].kind, found[b"li\nnk"].link) == (LINK, b"to\n\xff" * 50)
    assert list(found) == sorted(found, key=lambda path: path.split(b"/"))
    assert await entries(two) == await entries(one)
    assert one.read_bytes() == two.read_bytes()


async def test_three_hundred_levels(make_box: MakeBox, tmp_path: Path) -> None:
    """A chain of 300 folders is saved, restored, saved again, and removed with its sandbox."""
    one, two = await there_and_back(
        make_box,
        "import os\n"
        "for _ in range(300):\n"
        "    os.mkdir('folder'); os.chdir('folder')\n"
        "open('leaf', 'w').write('at the bottom')\n",
        tmp_path,
    )
    deepest = "/".join(["folder"] * 300) + "/leaf"
    assert await file_in(one, deepest) == b"at the bottom"
    assert await entries(two) == await entries(one)
    assert one.read_bytes() == two.read_bytes()


async def test_hostile_tree_comes_back(
    make_box: MakeBox, backend: SandboxBackend, tmp_path: Path
) -> None:
    """Loops, ways out, sockets, pipes and devices harm nobody: links stay links, the rest is named.

    Nothing that lies behind a link is read, and the restored workspace has no such things.
    """
    box = await make_box()
    ended, output = await box.run(
        [
            "python3",
            "-c",
            "import os, socket, stat\n"
            "open('good', 'w').write('good')\n"
            "os.symlink('b', 'a'); os.symlink('a', 'b'); os.symlink('/', 'root')\n"
            "os.symlink('/proc/self', 'self'); os.symlink('../' * 20 + 'etc', 'out')\n"
            "os.mkfifo('pipe'); socket.socket(socket.AF_UNIX).bind('socket')\n"
            "assert os.path.exists('self/environ') and os.path.exists('out/passwd')\n"
            "try:\n"
            "    os.mknod('device', stat.S_IFCHR | 0o666, os.makedev(1, 5)); print('device')\n"
            "except PermissionError: pass\n",
        ]
    )
    assert ended.code == 0, output
    assert (b"device" in output) is (backend.name == "docker")
    with anyio.fail_after(60):
        tree = await box.sandbox.save_tree("/app", tmp_path / "one", cap=CAP)
    reasons = {one.path: one.reason for one in tree.skipped}
    reasons.setdefault("socket", "a socket")  # Docker itself leaves sockets out
    wanted = {"pipe": "a named pipe", "socket": "a socket"}
    assert reasons == wanted | ({"device": "a device"} if b"device" in output else {})
    assert (tree.files, tree.size) == (1, 4)
    again = await make_box(workspace=tmp_path / "one")
    _, output = await again.sh("ls -A1; cat good; readlink a self root")
    assert output.split() == b"a b good out root self goodb /proc/self /".split()


async def test_limit_counts_apparent_sizes(make_box: MakeBox, tmp_path: Path) -> None:
    """Sparse files count whole, so 1 TiB of nothing is refused; small ones come back as they read.

    Hard links count once.
    """
    box = await make_box()
    await box.sh("truncate -s 3M sparse; printf end >>sparse; ln sparse twin; chmod 600 sparse")
    tree = await box.sandbox.save_tree("/app", tmp_path / "one", cap=4 * MIB)
    assert (tree.files, tree.size) == (1, 3 * MIB + 3)
    assert (tmp_path / "one").stat().st_size < 4096
    again = await make_box(workspace=tmp_path / "one")
    _, output = await again.sh("stat -c '%s %h %a' sparse twin; tail -c 3 twin")
    assert output == b"3145731 2 600\n3145731 2 600\nend"
    await box.sh("truncate -s 1T huge")
    with anyio.fail_after(60), pytest.raises(TreeTooLarge, match="more than 4194304 bytes"):
        await box.sandbox.save_tree("/app", tmp_path / "two", cap=4 * MIB)
    assert not (tmp_path / "two").exists()


async def test_many_names(make_box: MakeBox, tmp_path: Path) -> None:
    """Two thousand empty files and links come back."""
    one, two = await there_and_back(
        make_box,
        "import os\n"
        "for number in range(1000):\n"
        "    open(f'f{number}', 'w').close(); os.symlink(f'f{number}', f'l{number}')\n",
        tmp_path,
    )
    assert len(await entries(one)) == 2001
    assert await entries(two) == await entries(one)
    assert one.read_bytes() == two.read_bytes()


async def test_both_sandboxes_give_the_same_bytes(make_box: MakeBox, tmp_path: Path) -> None:
    """The same tree of root's, with times in whole seconds, has one digest, wherever it was."""
    box = await make_box()
    ended, output = await box.sh(
        "umask 022; mkdir -p d/e; echo text >d/file; ln -s ../x d/e/link; ln d/file twin; "
        "chmod 755 . d d/e; find . -exec touch -h -d @1000000000 {} +; stat -c %u:%g ."
    )
    assert ended.code == 0, output
    await box.sandbox.save_tree("/app", tmp_path / "one", cap=CAP)
    found = await entries(tmp_path / "one")
    assert {stat.S_IMODE(entry.mode) for entry in found.values()} == {0o755, 0o644, 0o777}
    digest = hashlib.sha256((tmp_path / "one").read_bytes()).hexdigest()
    same = digest == "2f1cde2c4b8fe46bd5dc1867c28b28df726e5e306f3cdd8aefa2cdb303b3206f"
    assert same is (output == b"0:0\n")
