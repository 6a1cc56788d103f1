"""What programs need of /etc, as a copy: no keys, no shadow, nothing of one machine's secrets."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

PARTS = (
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "crypto-policies",
    "debian_version",
    "environment.d",
    "fonts",
    "gai.conf",
    "group",
    "host.conf",
    "hosts",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "lsb-release",
    "locale.alias",
    "localtime",
    "magic",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "perl",
    "pki/ca-trust",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "pki/tls/openssl.cnf",
    "protocols",
    "python3",
    "rpc",
    "services",
    "shells",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
)
RESOLVER = "resolv.conf"
"""Empty in the copy; with a network the host's is mounted over it."""


def copy_etc(destination: Path, home: str) -> None:
    """Copy what programs need into a new folder; the engine's user gets `home` as its home."""
    destination.mkdir(mode=0o755)
    for part in PARTS:
        target = destination / part
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _copy(f"/etc/{part}", str(target))
        except OSError:
            continue  # not there, or not for this user: then programs do without it
    (destination / RESOLVER).touch()
    (destination / "passwd").write_text(_users(home), encoding="utf-8")


def _copy(source: str, target: str) -> None:
    """Copy a file, link or folder; of a folder as much as this user may read."""
    mode = os.lstat(source).st_mode
    if stat.S_ISLNK(mode):
        os.symlink(os.readlink(source), target)
    elif stat.S_ISREG(mode):
        with open(source, "rb", buffering=0) as original, open(target, "xb", buffering=0) as copy:
            copy.write(original.readall())
        os.chmod(target, mode & 0o755 | 0o444)
    elif stat.S_ISDIR(mode):
        os.mkdir(target)
        for name in os.listdir(source):
            try:
                _copy(f"{source}/{name}", f"{target}/{name}")
            except OSError:
                continue


def user_name() -> str:
    """The engine's user, by name where it has one."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return "user"


def _users(home: str) -> str:
    uid, gid = os.geteuid(), os.getegid()
    lines = [f"{user_name()}:x:{uid}:{gid}:trialog:{home}:/bin/sh"]
    try:
        known = Path("/etc/passwd").read_text("utf-8", "replace").splitlines()
    except OSError:
        known = []
    for line in known:
        fields = line.split(":")
        if len(fields) == 7 and fields[2] != str(uid) and int(fields[2]) < 1000:
            lines.append(line)  # services' users; the people of this machine are nobody's business
    return "\n".join([*lines, ""])
