"""What files say that could steer a verifier, and files without that. Pure, on bytes."""

from __future__ import annotations

import os
import re
import struct
import tomllib
from collections.abc import Iterable, Iterator

_SECTION = re.compile(rb"^[ \t]*\[")
_CACHE_MAGIC = b"glibc-ld.so.cache1.1"
_CACHED_LIBRARIES = re.compile(
    rb"(?:ld-linux[^/]*|libc|libm|libdl|libpthread|librt|libtinfo|libselinux|libpcre2-8|libacl|libattr"
    rb"|libz|libexpat|libpython3[^/]*|libnss_\w+)"
    rb"\.so(?:\.\d+)*"
)
_TRUSTED = re.compile(rb"/(?:usr/)?lib(?:32|64|x32)?/(?:[^/]+-linux-[^/]+/)?[^/]+")
_CONSOLE_SCRIPT = re.compile(
    rb"#!(?P<python>/usr/(?:local/)?bin/python3?[\d.]*)\n(?:# -\*- coding: utf-8 -\*-\n)?"
    rb"import re\nimport sys\nfrom pytest import console_main\n"
    rb"if __name__ == '__main__':\n"
    rb"    sys\.argv\[0\] = re\.sub\(r'[^'\n]*', '', sys\.argv\[0\]\)\n"
    rb"    sys\.exit\(console_main\(\)\)\n?"
)


def runs_code(pth: bytes) -> bool:
    """Whether a .pth file has a line that Python runs at its start."""
    return any(line.startswith((b"import ", b"import\t")) for line in pth.splitlines())


def is_pytest_plugin(entry_points: bytes) -> bool:
    """Whether a distribution offers pytest a plugin."""
    return re.search(rb"^\s*\[\s*pytest11\s*\]", entry_points, re.M) is not None


def is_pips_script(program: bytes) -> bool:
    """Whether a `pytest` is the small script that pip writes when it installs it."""
    return _CONSOLE_SCRIPT.fullmatch(program) is not None


def with_accounts_of(image: bytes, now: bytes) -> bytes | None:
    """The list of users with the image's own lines as they were; None if they still are."""
    own = {line.partition(b":")[0]: line for line in image.splitlines()}
    lines = now.splitlines()
    kept = [own.get(line.partition(b":")[0], line) for line in lines]
    there = {line.partition(b":")[0] for line in lines}
    kept += [line for name, line in own.items() if name not in there]
    return None if kept == lines else b"\n".join([*kept, b""])


def without_pytest(name: str, text: bytes) -> bytes | None:
    """A shared settings file without its part for pytest.

    Empty where that can't be cut out cleanly, None if there is no such part.
    """
    if name == "pyproject.toml":
        return _toml_without_pytest(text)
    header = rb"\[(?:tool:)?pytest\]"
    if not re.search(rb"^" + header, text, re.M):
        return None
    return b"".join(_without_sections(text, re.compile(rb"^" + header)))


def _toml_without_pytest(text: bytes) -> bytes | None:
    try:
        before = tomllib.loads(text.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):
        return None  # pytest ends with an error over it
    tool = before.get("tool")
    if not isinstance(tool, dict) or "pytest" not in tool:
        return None
    header = re.compile(rb"^[ \t]*\[\[?[ \t]*tool[ \t]*\.[ \t]*pytest[ \t]*(?:\.[^\]]*)?\]")
    left = b"".join(_without_sections(text, header))
    del tool["pytest"]
    try:
        after = tomllib.loads(left.decode())
    except tomllib.TOMLDecodeError:
        return b""
    if not tool:
        after.setdefault("tool", {})
    return left if after == before else b""


def _without_sections(text: bytes, header: re.Pattern[bytes]) -> Iterator[bytes]:
    inside = False
    for line in text.splitlines(True):
        if _SECTION.match(line):
            inside = header.match(line) is not None
        if not inside:
            yield line


def redirects(cache: bytes, image: bytes | None = None) -> bool:
    """Whether the linker's cache has basic libraries from elsewhere than the system's folders.

    What the image's own cache says of a library is in order, and so is one that the image has not.
    """
    entries = _entries(cache)
    if entries is None:
        return True
    own = None if image is None else _entries(image)
    names = None if own is None else {name for name, _ in own}
    return any(
        _CACHED_LIBRARIES.fullmatch(name)
        and not _TRUSTED.fullmatch(path)
        and (own is None or (name, path) not in own)
        and (names is None or name in names)
        for name, path in entries
    )


def _entries(cache: bytes) -> list[tuple[bytes, bytes]] | None:
    """Names and paths in a linker's cache; None for what is none."""
    start = cache.find(_CACHE_MAGIC)
    if start < 0:
        return None
    found: list[tuple[bytes, bytes]] = []
    try:
        count, size = struct.unpack_from("<II", cache, start + len(_CACHE_MAGIC))
        if count * 24 > len(cache) or size > len(cache):
            return None
        for index in range(count):
            entry = start + 48 + index * 24
            key, value = struct.unpack_from("<II", cache, entry + 4)
            found.append((_string(cache, start + key), _string(cache, start + value)))
    except (struct.error, ValueError):
        return None
    return found


LIBRARIES = (
    "libc.so.6 libm.so.6 libtinfo.so.6 libselinux.so.1 libpcre2-8.so.0 libacl.so.1 libattr.so.1 "
    "libz.so.1 libexpat.so.1 glibc-hwcaps"
).split()
"""Names by which a folder of libraries would come before the system's."""


def library_folders(settings: bytes) -> list[str] | None:
    """Folders that a part of ld.so.conf names; None where it leads to other settings."""
    folders: list[str] = []
    for line in settings.splitlines():
        words = line.partition(b"#")[0].split()
        if words[:1] == [b"include"] and words[1:] != [b"/etc/ld.so.conf.d/*.conf"]:
            return None
        folders += [os.fsdecode(word) for word in words if word.startswith(b"/")]
    return [folder.partition("=")[0] for folder in folders if "*.conf" not in folder]


_KNOWN_SERVICES = frozenset(
    b"files compat db dns nis nisplus systemd myhostname mymachines resolve mdns mdns4 "
    b"mdns_minimal mdns4_minimal mdns6_minimal sss ldap winbind wins extrausers".split()
)


def names_strange_services(nsswitch: bytes) -> bool:
    """Whether users, hosts and so on are looked up by a library that no system package brings."""
    text = re.sub(rb"#.*|\[[^\]]*\]", b"", nsswitch)
    words = [word for line in text.splitlines() for word in line.partition(b":")[2].split()]
    return any(word not in _KNOWN_SERVICES for word in words)


def programs_of(scripts: Iterable[bytes]) -> frozenset[str]:
    """Names of the programs that the first lines of scripts say they are run by."""
    names: set[str] = set()
    for script in scripts:
        if script.startswith(b"#!"):
            words = os.fsdecode(script.partition(b"\n")[0][2:]).split()
            names |= {word.rpartition("/")[2] for word in words if not word.startswith("-")}
    return frozenset(names)


def _string(data: bytes, place: int) -> bytes:
    return data[place : data.index(b"\0", place)]
