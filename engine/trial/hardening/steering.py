"""Which paths can steer a verifier, by their names alone. A pure table."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Rule = Literal[
    "program",
    "library",
    "loader",
    "linker cache",
    "linker settings",
    "name services",
    "system folder",
    "standard module",
    "python set-up",
    "environment settings",
    "customize",
    "pth",
    "entry points",
    "pytest package",
    "python cache",
    "start-up file",
    "accounts",
    "cron",
    "pytest settings",
    "shared settings",
    "conftest",
    "git hook",
    "git settings",
    "git pointer",
    "bare git settings",
    "installer settings",
    "installer cache",
    "interpreter",
    "way",
    "entrypoint",
]

SHELLS = frozenset("sh bash dash ash ksh zsh busybox env".split())
BASIC = SHELLS | frozenset(
    "awk basename cat chgrp chmod chown cmp comm cp cut date dd diff dirname du echo egrep expr "
    "false fgrep find grep head id install kill ln ls mawk md5sum mkdir mktemp mv nawk nohup nproc "
    "od paste printf pwd readlink realpath rm rmdir sed seq setsid sha1sum sha256sum sha512sum "
    "sleep sort split stat sync tail tee test timeout touch tr true uname uniq wc whoami xargs [ "
    "python python3".split()
)
"""Programs that nearly every test script runs: another one may not stand before the image's."""
OTHERS = frozenset(
    "bc curl file gawk git gunzip gzip hexdump jq nc netstat openssl perl pgrep ps ss su sudo tar "
    "wget which xxd zcat".split()
)
"""Programs that are put back where the image's own was changed."""
PYTEST = frozenset({"pytest", "py.test"})
_PYTHON = re.compile(r"python3?(\.\d+)?")

_BIN = re.compile(r"(/(?:.*/)?s?bin|/etc/alternatives)/([^/]+)")
_USERS_BIN = re.compile(r"(?:/root|/home/[^/]+)/(?:\.local/)?bin")
_LIBRARY = re.compile(
    r"/(?:usr/)?lib(?:32|64|x32)?/(?:[^/]+-linux-[^/]+/)?(?:(?:glibc-hwcaps|tls)/(?:[^/]+/)*)?"
    r"(?:ld-[^/]*\.so[^/]*|(?:libc|libm|libdl|libpthread|librt|libutil|libresolv|libnss_\w+|libtinfo"
    r"|libselinux|libpcre2?-8|libpcre|libacl|libattr|libcap|libgmp|libz|libexpat|libcrypto|libssl"
    r"|libffi|libpython3[^/]*|libreadline|libc\.musl-[^/]*)(?:-[\d.]+)?\.so[^/]*)"
    r"|/.*/lib(?:64)?/libpython3[^/]*\.so[^/]*"
    r"|/usr/lib(?:64)?/(?:[^/]+-linux-[^/]+/)?gconv/.+|/usr/lib/locale/[^/]+/.+"
)

_LIB_DIR = re.compile(r"/(?:usr/)?lib(?:32|64|x32)?(?:/[^/]+-linux-[^/]+)?")
_STANDARD = re.compile(r"((?:/.*)?/lib(?:64)?/python3\.\d+)/(?!(?:site|dist)-packages)(.+)")
_PACKAGES = re.compile(r"(.*/(?:site|dist)-packages)/(.+)")
_PYTHON_SETUP = re.compile(
    r"/usr/(?:local/)?(?:lib(?:64)?/python3\d+\.zip|(?:bin/)?pyvenv\.cfg|bin/pybuilddir\.txt|bin/[^/]*\._pth)"
)
_INSTALLERS = re.compile(
    r"/etc/(?:pip\.conf|xdg/pip/pip\.conf|uv/.+|wgetrc|curlrc|npmrc|apt/.+|dpkg/dpkg\.cfg(?:\.d/.+)?)"
    r"|/usr/(?:local/)?(?:pip\.conf|etc/npmrc)"
    r"|(?:/root|/home/[^/]+)/\.(?:pip/.+|config/(?:pip|uv)/.+|(?:config/)?curlrc|wgetrc|npmrc)"
)
_CACHES = re.compile(r"((?:/root|/home/[^/]+)/\.cache/(?:pip|uv))(?:/.*)?")
_FOLDERS = re.compile(
    r"/(?:usr|etc|bin|sbin|lib|lib32|lib64|libx32|usr/s?bin|usr/lib(?:32|64|x32)?|usr/local"
    r"|usr/local/s?bin|usr/local/lib|(?:usr/)?lib/[^/]+-linux-[^/]+"
    r"|usr/(?:local/)?lib(?:64)?/python3(?:\.\d+)?(?:/(?:site|dist)-packages)?"
    r"|etc/(?:profile\.d|zsh|environment\.d)|home|(?:root|home/[^/]+)(?:/\.(?:local|config"
    r"|local/bin|local/lib|local/lib/python3\.\d+(?:/site-packages)?|config/(?:fish|git)))?)"
)
_STARTUP = re.compile(
    r"/etc/(?:profile|bash\.bashrc|bashrc|environment|zshenv|security/pam_env\.conf|profile\.d/.+"
    r"|zsh/.+|environment\.d/.+)"
    r"|(?:/root|/home/[^/]+)/\.(?:bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile"
    r"|zshrc|zshenv|zprofile|pam_environment|config/fish/.+)"
)
_CRON = re.compile(r"/etc/(?:cron[^/]*|anacrontab)(?:/.*)?|/var/spool/(?:cron|at)/.+")
_CUSTOMIZE = re.compile(r"(?:site|user)customize(?:\.[^/]*)?")
_CACHED = re.compile(r"(.*/)?__pycache__/[^/]+\.pyc")
_CACHED_CUSTOMIZE = re.compile(r"(?:site|user)customize\.[^/]*\.pyc")
_ENTRY_POINTS = re.compile(r".*\.(?:dist|egg)-info(?:/entry_points\.txt)?")
_SHADOWED = frozenset({"pytest", "_pytest", "pluggy"})
"""What would be imported in place of pytest from the folder that it is started in."""
_PYTEST_PARTS = re.compile(r"(?:_pytest|pytest|pluggy|iniconfig)(?:\.py)?|pytest-[\d.]+\.dist-info")
_SERVERS_HOOKS = "pre-receive|update|post-receive|post-update|push-to-checkout"
_GIT_HOOK = re.compile(
    rf".*\.git/(?:modules/.+/)?hooks(?:/(?!.*\.sample$)(?!(?:{_SERVERS_HOOKS})$)[^/]+)?"
)
_TEMPLATE_HOOK = re.compile(r"/usr/(?:local/)?share/git-core/templates/hooks/(?!.*\.sample$)[^/]+")
_GIT_POINTER = re.compile(r".*/\.git(?:/(?:.+/)?commondir)?")
_GIT_SETTINGS = re.compile(r".*\.git/(?:modules/.+/)?config(?:\.worktree)?")
_USERS_GIT_SETTINGS = re.compile(
    r"/etc/gitconfig|(?:/root|/home/[^/]+)/\.(?:gitconfig|config/git/config)"
)
_SHIPPED = re.compile(r"/usr/(?:lib|share)/.*|.*/(?:site|dist)-packages/.*")

PYTEST_SETTINGS = frozenset({"pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml"})
SHARED_SETTINGS = frozenset({"pyproject.toml", "tox.ini", "setup.cfg"})

PROGRAM_FOLDERS = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
"""Where an image's own programs are looked for."""


class Surroundings(NamedTuple):
    """What of a trial decides which paths matter."""

    workspace: str
    path: tuple[str, ...] = ()
    """Folders of the image's own PATH."""
    entrypoint: str | None = None
    """A program of the image's that runs beside the verifier; empty where only that is known."""
    interpreters: frozenset[str] = frozenset()
    """Names of programs that run the verifier's own scripts."""
    ways: frozenset[str] = frozenset()
    """Folders that lead to what the engine puts into a sandbox."""
    places: tuple[str, ...] = ()
    """Where the verifier's own files are: no link may lead there."""
    installs: bool = False
    """The verifier installs packages for itself."""


def rule_of(path: str, where: Surroundings) -> Rule | None:
    """Which rule a changed path falls under."""
    name = path.rpartition("/")[2]
    if path in where.ways:
        return "way"
    workspace = where.workspace.rstrip("/") + "/"
    if path.startswith(workspace):
        rule = _in_workspace(path, name, path[len(workspace) :].partition("/")[0])
        if rule is not None:
            return rule
    if where.entrypoint is not None:
        program = where.entrypoint
        if program and (path == program or path.endswith(f"/bin/{program}")):
            return "entrypoint"
        if _CRON.fullmatch(path):
            return "cron"
    return _program(path, where) or _python(path, name) or _system(path, name, where)


def _in_workspace(path: str, name: str, top: str) -> Rule | None:
    if top.removesuffix(".py") in _SHADOWED:
        return "pytest package"
    if name == "conftest.py":
        return "conftest"
    if name in PYTEST_SETTINGS:
        return "pytest settings"
    if name in SHARED_SETTINGS:
        return "shared settings"
    if _GIT_HOOK.fullmatch(path):
        return "git hook"
    if _GIT_SETTINGS.fullmatch(path):
        return "git settings"
    if _GIT_POINTER.fullmatch(path):
        return "git pointer"
    return "bare git settings" if name == "config" else None


def _program(path: str, where: Surroundings) -> Rule | None:
    found = _BIN.fullmatch(path)
    if found is None:
        return None
    name = found[2]
    if name in BASIC or name in OTHERS or name in PYTEST or _PYTHON.fullmatch(name):
        return "program"
    return "interpreter" if name in where.interpreters else None


def _python(path: str, name: str) -> Rule | None:
    if _CUSTOMIZE.fullmatch(name) or _CACHED_CUSTOMIZE.fullmatch(name):
        return "customize"
    if name.endswith(".pth"):
        return "pth"
    if _ENTRY_POINTS.fullmatch(path):
        return "entry points"
    if _PYTHON_SETUP.fullmatch(path):
        return "python set-up"
    if name == "pyvenv.cfg":
        return "environment settings"
    packages = _PACKAGES.fullmatch(path)
    if packages is not None and _PYTEST_PARTS.fullmatch(packages[2].partition("/")[0]):
        return "pytest package"
    standard = _STANDARD.fullmatch(path)
    if _CACHED.fullmatch(path) and (packages is not None or standard is not None):
        return "python cache"
    return "standard module" if standard is not None else None


def _system(path: str, name: str, where: Surroundings) -> Rule | None:
    if path == "/etc/ld.so.cache":
        return "linker cache"
    if path == "/etc/ld.so.conf" or path.startswith("/etc/ld.so.conf.d/"):
        return "linker settings"
    if path == "/etc/nsswitch.conf":
        return "name services"
    if path == "/etc/ld.so.preload" or re.fullmatch(r"/etc/ld-musl-[^/]*\.path", path):
        return "loader"
    if _FOLDERS.fullmatch(path):
        return "system folder"
    if _LIBRARY.fullmatch(path):
        return "library"
    if path == "/etc/passwd":
        return "accounts"
    if _STARTUP.fullmatch(path):
        return "start-up file"
    if _USERS_GIT_SETTINGS.fullmatch(path):
        return "git settings"
    if _TEMPLATE_HOOK.fullmatch(path):
        return "git hook"
    if _INSTALLERS.fullmatch(path):
        return "installer settings"
    if where.installs and _CACHES.fullmatch(path):
        return "installer cache"
    if (name == "conftest.py" or name in PYTEST_SETTINGS) and not _SHIPPED.fullmatch(path):
        return "conftest" if name == "conftest.py" else "pytest settings"
    if name in SHARED_SETTINGS and where.workspace.startswith(path.rpartition("/")[0] + "/"):
        return "pytest settings"  # pytest looks above the tests, too
    return None


def others_of(path: str, rule: Rule, where: Surroundings) -> list[str]:
    """Where an image may have a program or library that one of the same name would stand before."""
    folder, _, name = path.rpartition("/")
    if rule == "program":
        searched = folder in PROGRAM_FOLDERS or folder in where.path or _USERS_BIN.fullmatch(folder)
        if not searched or not (name in BASIC or name in PYTEST or _PYTHON.fullmatch(name)):
            return []
        folders = dict.fromkeys([*where.path, *PROGRAM_FOLDERS])
        return [f"{other}/{name}" for other in folders if other != folder]
    own = _LIB_DIR.match(path)
    places = {own[0]} if own else set[str]()
    places |= {"/lib", "/usr/lib", "/lib64", "/usr/lib64"}
    return [f"{place}/{name}" for place in sorted(places) if f"{place}/{name}" != path]


def stands_for_pytest(path: str) -> bool:
    """Whether a program has pytest's name where programs are looked for."""
    folder, _, name = path.rpartition("/")
    return name in PYTEST and (
        folder in PROGRAM_FOLDERS or _USERS_BIN.fullmatch(folder) is not None
    )


def packages_of(path: str) -> list[str]:
    """Folders where an image may have installed what is among other packages at a path."""
    version = re.search(r"/python(3\.\d+)/", path)
    folders = ["/usr/lib/python3/dist-packages"]
    if version is not None:
        own = f"python{version[1]}"
        folders += [f"/usr/local/lib/{own}/{kind}-packages" for kind in ("site", "dist")]
        folders += [f"/usr/lib/{own}/site-packages", f"/usr/lib64/{own}/site-packages"]
    return folders


def top_of(path: str, rule: Rule, where: Surroundings) -> str:
    """What is put back as one whole with a path."""
    if rule == "pytest package":
        packages = _PACKAGES.fullmatch(path)
        if packages is not None:
            return f"{packages[1]}/{packages[2].partition('/')[0]}"
        workspace = where.workspace.rstrip("/")
        return f"{workspace}/{path[len(workspace) + 1 :].partition('/')[0]}"
    if rule == "entry points" and path.endswith("/entry_points.txt"):
        return path.rpartition("/")[0]
    cache = _CACHES.fullmatch(path) if rule == "installer cache" else None
    return path if cache is None else cache[1]


def is_programs_folder(path: str) -> bool:
    """Whether a folder of the system's is put back when another one took its place."""
    return not path.startswith(("/root", "/home", "/etc")) and not path.endswith("-packages")


def is_system_library_folder(path: str) -> bool:
    """Whether the linker looks there in any image."""
    return _LIB_DIR.fullmatch(path) is not None or path in ("/usr/local/lib", "/usr/local/lib64")


def standard_name(path: str) -> str | None:
    """The top-level name of a path in Python's own library."""
    found = _STANDARD.fullmatch(path)
    return None if found is None else found[2].partition("/")[0]


def source_of(cached: str) -> str:
    """The module that a cached one was made from."""
    folder, _, name = cached.rpartition("/__pycache__/")
    return f"{folder}/{name.partition('.')[0]}.py"


def environment_of(path: str) -> str | None:
    """The folder of the virtual environment that a path would be of."""
    found = re.match(r"(.*)/lib(?:64)?/python3[^/]*/site-packages/", path)
    return None if found is None else found[1]
