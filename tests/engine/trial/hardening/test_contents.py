"""What files say that could steer a verifier."""

from __future__ import annotations

import shutil
import struct
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialog.engine.trial.hardening import contents, git


def test_pth() -> None:
    """Lines that begin with import are run; paths are not."""
    assert contents.runs_code(b"/opt\nimport os\n")
    assert contents.runs_code(b"import\tos")
    assert not contents.runs_code(b"/opt/import x\n# import os\n important\n")


@pytest.mark.parametrize(
    "text",
    [
        "[project]\nname = 'x'\n\n[tool.pytest.ini_options]\naddopts = '-x'\n\n[tool.a]\nb = 1\n",
        "[tool.pytest]\nx = 1\n[tool.pytest.ini_options]\ny = [\n  'a',\n]\n",
        "[tool.a]\nb = 1\n[ tool . pytest . ini_options ]\nc = 1\n",
        "[[tool.pytest.x]]\na = 1\n[[tool.pytest.x]]\na = 2\n[last]\n",
    ],
)
def test_pyproject(text: str) -> None:
    """Only pytest's part is cut out, and all else means what it meant."""
    left = contents.without_pytest("pyproject.toml", text.encode())
    assert left is not None
    before, after = tomllib.loads(text), tomllib.loads(left.decode())
    assert "pytest" in before["tool"]
    del before["tool"]["pytest"]
    assert after.get("tool", {}) == before.pop("tool")
    after.pop("tool", None)
    assert after == before


@pytest.mark.parametrize(
    "text",
    [
        "tool.pytest.ini_options.addopts = '-x'\n",
        "[tool]\npytest = {ini_options = {addopts = '-x'}}\n",
        '[tool.pytest.ini_options]\na = """\n[tool.b]\n"""\n[tool.c]\nd = 1\n',
    ],
)
def test_pyproject_that_can_not_be_cut(text: str) -> None:
    """Where its part can't be told from the rest by lines, nothing is left."""
    assert contents.without_pytest("pyproject.toml", text.encode()) == b""


def test_settings_without_a_part_for_pytest() -> None:
    """They stay as they are."""
    assert contents.without_pytest("pyproject.toml", b"[tool.ruff]\n") is None
    assert contents.without_pytest("pyproject.toml", b"not = = toml") is None
    assert contents.without_pytest("tox.ini", b"[tox]\nx = [pytest]\n") is None


def test_ini_files() -> None:
    """A section of an ini file goes to the next one's header."""
    text = b"[a]\nb=1\n[tool:pytest]\naddopts =\n  -x\n[c]\nd=1\n"
    assert contents.without_pytest("setup.cfg", text) == b"[a]\nb=1\n[c]\nd=1\n"
    assert contents.without_pytest("tox.ini", b"[pytest]\nx=1") == b""


def test_git_settings() -> None:
    """Settings by which git runs programs go; others stay."""
    text = b"[core]\n\tbare = false\n\thooksPath = /x\n\tFSMonitor=/y\n[user]\n\tname = fsmonitor\n"
    left = git.without_programs(text)
    assert left == b"[core]\n\tbare = false\n[user]\n\tname = fsmonitor\n"
    assert git.without_programs(left) is None


def test_accounts() -> None:
    """Lines of the image's users are as they were, and others may be added."""
    image = b"root:x:0:0:root:/root:/bin/bash\nnobody:x:9:9::/:/bin/false\n"
    new = b"me:x:1000:1000::/home/me:/bin/sh\n"
    assert contents.with_accounts_of(image, image + new) is None
    evil = image.replace(b"/root:", b"/evil:")
    assert contents.with_accounts_of(image, evil + new) == image + new
    assert contents.with_accounts_of(image, new) == new + image


def test_pips_script() -> None:
    """The script that pip writes is known; anything else that is called pytest is not."""
    script = (
        b"#!/usr/bin/python3\n# -*- coding: utf-8 -*-\nimport re\nimport sys\n"
        b"from pytest import console_main\nif __name__ == '__main__':\n"
        b"    sys.argv[0] = re.sub(r'(-script\\.pyw|\\.exe)?$', '', sys.argv[0])\n"
        b"    sys.exit(console_main())\n"
    )
    assert contents.is_pips_script(script)
    assert not contents.is_pips_script(script + b"import os\n")
    assert not contents.is_pips_script(script.replace(b"/usr/bin/python3", b"/tmp/python3"))


def cache(*entries: tuple[str, str]) -> bytes:
    """A linker's cache with these names and paths."""
    strings = b""
    rows = b""
    start = 48 + 24 * len(entries)
    for name, path in entries:
        key = start + len(strings)
        strings += name.encode() + b"\0"
        value = start + len(strings)
        strings += path.encode() + b"\0"
        rows += struct.pack("<iIIIQ", 0x303, key, value, 0, 0)
    head = b"glibc-ld.so.cache1.1" + struct.pack("<II", len(entries), len(strings)) + b"\0" * 20
    return head + rows + strings


def test_linkers_cache() -> None:
    """Basic libraries from the system's folders are in order, others may be anywhere."""
    system = ("libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6")
    assert not contents.redirects(cache(system, ("libpq.so.5", "/opt/libpq.so.5")))
    assert contents.redirects(cache(system, ("libtinfo.so.6", "/opt/libtinfo.so.6")))
    assert contents.redirects(cache(("libc.so.6", "/opt/innocent")))
    assert contents.redirects(b"nonsense")
    libz = ("libz.so.1", "/usr/local/lib/libz.so.1")
    assert contents.redirects(cache(system, libz), cache(system, ("libz.so.1", "/lib/libz.so.1")))
    assert not contents.redirects(cache(system, libz), cache(system, libz)), "as the image has it"
    assert not contents.redirects(cache(system, libz), cache(system)), "no program of the image's"
    if shutil.which("ldconfig", path="/sbin:/usr/sbin") and Path("/etc/ld.so.cache").exists():
        assert not contents.redirects(Path("/etc/ld.so.cache").read_bytes())


def test_linkers_settings() -> None:
    """The folders that a part of its settings names; null where it goes on elsewhere."""
    text = b"# x\n/opt/one\n/opt/two=libc6 # y\ninclude /etc/ld.so.conf.d/*.conf\n"
    assert contents.library_folders(text) == ["/opt/one", "/opt/two"]
    assert contents.library_folders(b"include /opt/more.conf\n") is None


def test_services() -> None:
    """Names are looked up by libraries of the system's; any other is strange."""
    assert not contents.names_strange_services(
        b"passwd: files systemd # evil\nhosts: files mdns4_minimal [NOTFOUND=return] dns\n"
    )
    assert contents.names_strange_services(b"passwd: evil files\n")


def test_programs_of_scripts() -> None:
    """What the first line of a script names, also through env."""
    scripts = [b"#!/usr/bin/env -S uv run\nx", b"#!/usr/bin/perl -w\n", b"echo node\n"]
    assert contents.programs_of(scripts) == {"env", "uv", "run", "perl"}


@given(st.binary(max_size=200))
def test_no_cache_raises(noise: bytes) -> None:
    """Whatever is in it, the answer is yes or no."""
    good = cache(("libc.so.6", "/lib/libc.so.6"))
    assert contents.redirects(good[:24] + noise) in (True, False)
    assert contents.redirects(good + noise) in (True, False)


@given(st.sampled_from(["pyproject.toml", "tox.ini", "setup.cfg"]), st.text(max_size=200))
def test_no_settings_raise(name: str, text: str) -> None:
    """So it is with settings: nothing, or fewer bytes of the same."""
    left = contents.without_pytest(name, text.encode())
    assert left is None or len(left) < len(text.encode())
