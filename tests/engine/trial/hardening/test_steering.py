"""Which changed paths can steer a verifier, by their names."""

from __future__ import annotations

import pytest

from trialog.engine.trial.hardening.steering import (
    Surroundings,
    environment_of,
    others_of,
    rule_of,
    source_of,
    top_of,
)

WHERE = Surroundings(workspace="/srv/app")
SITE = "/usr/local/lib/python3.12/site-packages"


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("/usr/bin/bash", "program"),
        ("/bin/sh", "program"),
        ("/usr/local/bin/python3.12", "program"),
        ("/usr/local/bin/pytest", "program"),
        ("/root/.local/bin/env", "program"),
        ("/usr/bin/thing", None),
        ("/usr/bin/bash-completion", None),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "library"),
        ("/lib/x86_64-linux-gnu/glibc-hwcaps/x86-64-v3/libc.so.6", "library"),
        ("/lib64/ld-linux-x86-64.so.2", "library"),
        ("/lib/ld-musl-x86_64.so.1", "library"),
        ("/usr/lib/x86_64-linux-gnu/libselinux.so.1", "library"),
        ("/usr/lib/x86_64-linux-gnu/libpq.so.5", None),
        ("/usr/local/lib/libz.so.1", None),
        ("/etc/ld.so.preload", "loader"),
        ("/etc/ld.so.cache", "linker cache"),
        ("/usr/bin", "system folder"),
        ("/usr/lib/x86_64-linux-gnu", "system folder"),
        ("/usr/share", None),
        ("/usr/lib/python3.11/json/decoder.py", "standard module"),
        ("/usr/lib/python311.zip", "python set-up"),
        ("/usr/pyvenv.cfg", "python set-up"),
        (f"{SITE}/sitecustomize.py", "customize"),
        (f"{SITE}/__pycache__/usercustomize.cpython-312.pyc", "customize"),
        (f"{SITE}/requests/api.py", None),
        (f"{SITE}/requests/__pycache__/api.cpython-312.pyc", "python cache"),
        (f"{SITE}/evil.pth", "pth"),
        (f"{SITE}/evil-1.dist-info/entry_points.txt", "entry points"),
        (f"{SITE}/_pytest/main.py", "pytest package"),
        (f"{SITE}/pytest_cov/plugin.py", None),
        ("/root/.bashrc", "start-up file"),
        ("/home/me/.profile", "start-up file"),
        ("/etc/profile.d/x.sh", "start-up file"),
        ("/etc/nginx/nginx.conf", None),
        ("/etc/cron.d/x", None),
        ("/conftest.py", "conftest"),
        ("/srv/pytest.ini", "pytest settings"),
        ("/opt/conftest.py", "conftest"),
        ("/usr/lib/python3/dist-packages/x/conftest.py", None),
        ("/opt/setup.cfg", None),
        ("/srv/setup.cfg", "pytest settings"),
        ("/opt/conda/bin/python3", "program"),
        ("/opt/conda/lib/python3.11/json/decoder.py", "standard module"),
        ("/root/.local", "system folder"),
        ("/etc/profile.d", "system folder"),
        ("/etc/passwd", "accounts"),
        ("/root/.gitconfig", "git settings"),
        (f"{SITE}/evil-1.dist-info", "entry points"),
        ("/srv/app/pytest.py", "pytest package"),
        ("/srv/app/_pytest/main.py", "pytest package"),
        ("/srv/app/src/_pytest/main.py", None),
        ("/srv/app/.git/hooks", "git hook"),
        ("/srv/app/sub/conftest.py", "conftest"),
        ("/srv/app/setup.cfg", "shared settings"),
        ("/srv/app/.git/hooks/pre-commit", "git hook"),
        ("/srv/app/.git/hooks/pre-commit.sample", None),
        ("/srv/app/.git/config", "git settings"),
        ("/srv/app/venv/bin/python3", "program"),
        ("/srv/app/bash", None),
        ("/usr/local/lib/libpython3.12.so.1.0", "library"),
        ("/opt/conda/lib/libpython3.12.so.1.0", "library"),
        ("/usr/lib/x86_64-linux-gnu/gconv/gconv-modules.cache", "library"),
        ("/usr/lib/locale/C.utf8/LC_CTYPE", "library"),
        ("/usr/lib/locale/locale-archive", None),
        ("/etc/ld.so.conf.d/x.conf", "linker settings"),
        ("/etc/nsswitch.conf", "name services"),
        ("/opt/venv/pyvenv.cfg", "environment settings"),
        ("/srv/app/.git", "git pointer"),
        ("/srv/app/.git/commondir", "git pointer"),
        ("/srv/app/config", "bare git settings"),
        ("/srv/app/x.git/hooks/post-receive", None),
        ("/srv/app/x.git/hooks/update.py", "git hook"),
        ("/usr/share/git-core/templates/hooks/post-checkout", "git hook"),
        ("/etc/apt/apt.conf.d/99", "installer settings"),
        ("/root/.config/uv/uv.toml", "installer settings"),
        ("/root/.cache/uv/x", None),
        ("/usr/bin/node", None),
    ],
)
def test_rules(path: str, rule: str | None) -> None:
    """Each path has the rule of what it steers, and honest work's paths have none."""
    assert rule == rule_of(path, WHERE)


def test_beside_an_entrypoint() -> None:
    """Tables of cron and the program itself count where a program of the image's runs along."""
    where = WHERE._replace(entrypoint="start.sh")
    for path in ("/etc/cron.d/x", "/var/spool/cron/crontabs/root"):
        assert rule_of(path, where) == "cron"
    assert rule_of("/usr/local/bin/start.sh", where) == "entrypoint"
    assert rule_of("/usr/local/bin/start.sh", WHERE) is None


def test_what_the_verifier_runs() -> None:
    """A program that runs the verifier's scripts counts, and caches where it installs packages."""
    where = WHERE._replace(interpreters=frozenset({"node"}), installs=True, ways=frozenset({"/l"}))
    assert rule_of("/usr/bin/node", where) == "interpreter"
    assert rule_of("/root/.cache/uv/x/y", where) == "installer cache"
    assert top_of("/root/.cache/uv/x/y", "installer cache", where) == "/root/.cache/uv"
    assert rule_of("/l", where) == "way"


def test_what_is_put_back_as_one() -> None:
    """A distribution's folder, the image's pytest; else the path alone."""
    path = f"{SITE}/evil-1.dist-info/entry_points.txt"
    assert top_of(path, "entry points", WHERE) == f"{SITE}/evil-1.dist-info"
    assert top_of(f"{SITE}/_pytest/a/b.py", "pytest package", WHERE) == f"{SITE}/_pytest"
    assert top_of("/srv/app/_pytest/a.py", "pytest package", WHERE) == "/srv/app/_pytest"
    assert top_of("/usr/bin/bash", "program", WHERE) == "/usr/bin/bash"


def test_places_of_the_same_name() -> None:
    """Only basic programs may not stand before the image's; a newer git of the agent's may."""
    assert "/usr/bin/python3" in others_of("/usr/local/bin/python3", "program", WHERE)
    assert others_of("/usr/local/bin/git", "program", WHERE) == []
    assert "/usr/lib/libc.so.6" in others_of("/lib/tls/libc.so.6", "library", WHERE)
    assert others_of("/srv/app/venv/bin/python3", "program", WHERE) == []
    there = WHERE._replace(path=("/opt/own/bin",))
    assert "/opt/own/bin/cat" in others_of("/usr/bin/cat", "program", there)
    assert "/usr/bin/cat" in others_of("/opt/own/bin/cat", "program", there)


def test_sources_and_environments() -> None:
    """A cached module's source, and the environment that a package is in."""
    assert source_of("/a/__pycache__/b.cpython-312.pyc") == "/a/b.py"
    assert environment_of("/srv/v/lib/python3.12/site-packages/x.pth") == "/srv/v"
    assert environment_of("/srv/x.pth") is None
