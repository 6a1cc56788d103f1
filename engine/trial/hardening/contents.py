"""What files say that could steer a verifier, and files without that. Pure, on bytes."""

from __future__ import annotations

import re
import struct
import tomllib
from collections.abc import Iterator

_GIT_KEYS = re.compile(rb"^\s*(?:hookspath|fsmonitor)\s*=", re.I | re.M)
_SECTION = re.compile(rb"^[ \t]*\[")
_CACHE_MAGIC = b"glibc-ld.so.cache1.1"
_CACHED_LIBRARIES = re.compile(
    rb"(?:ld-linux[^/]*|libc|libm|libdl|libpthread|libtinfo|libselinux|libpcre2-8|libacl|libattr)"
    rb"\.so\.\d+"
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


def without_git_hooks(config: bytes) -> bytes | None:
    """A repository's settings without those that make git run programs; None if it has none."""
    if not _GIT_KEYS.search(config):
        return None
    return b"".join(line for line in config.splitlines(True) if not _GIT_KEYS.match(line))


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


def redirects(cache: bytes) -> bool:
    """Whether the linker's cache has basic libraries from elsewhere than the system's folders."""
    start = cache.find(_CACHE_MAGIC)
    if start < 0:
        return True
    try:
        count, size = struct.unpack_from("<II", cache, start + len(_CACHE_MAGIC))
        if count * 24 > len(cache) or size > len(cache):
            return True
        for index in range(count):
            entry = start + 48 + index * 24
            key, value = struct.unpack_from("<II", cache, entry + 4)
            name, path = _string(cache, start + key), _string(cache, start + value)
            if _CACHED_LIBRARIES.fullmatch(name) and not _TRUSTED.fullmatch(path):
                return True
    except (struct.error, ValueError):
        return True
    return False


def _string(data: bytes, place: int) -> bytes:
    return data[place : data.index(b"\0", place)]
