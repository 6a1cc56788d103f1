"""What is committed: nothing of one machine, and nothing that a fresh clone would lack."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Put together from halves, so that this file does not find itself.
HOST_FOLDERS = ["/wor" + "k/", "/far" + "m/", "/root/" + r"\.pyenv"]
if len(ROOT.parts) > 2:
    HOST_FOLDERS.append(re.escape(str(ROOT)) + r"\b")
MACHINE = re.compile("|".join(HOST_FOLDERS))
HOSTS = ["py" + r"pi\.org", "python" + r"hosted\.org", "registry" + r"\.npmjs", "deb" + r"\.debian"]
SETTINGS = ["index" + "-url", "find" + "-links", r"https?://\S*/simple\b"]
REGISTRY = re.compile("|".join(HOSTS + SETTINGS))


def tracked() -> list[str]:
    """The names of all files that git knows and that are there."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def matches(pattern: re.Pattern[str]) -> list[str]:
    """Places where tracked text matches."""
    return [
        f"{name}:{number}: {line.strip()[:80]}"
        for name in tracked()
        for number, line in enumerate((ROOT / name).read_text("utf-8", "replace").splitlines(), 1)
        if pattern.search(line)
    ]


@pytest.mark.parametrize(
    ("pattern", "example"),
    [
        (MACHINE, "see /wor" + "k/engine"),
        (REGISTRY, "https://py" + "pi.org/simple/anyio"),
    ],
    ids=["machine", "registry"],
)
def test_no_tracked_file_names_a_machine_or_registry(
    pattern: re.Pattern[str], example: str
) -> None:
    """No path of the machine it was written on, and no address that packages come from."""
    assert pattern.search(example)
    assert [] == matches(pattern)


def test_constraints_pin_every_declared_dependency() -> None:
    """Each pin is a plain `name==version`, and each dependency of pyproject.toml has one."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert [] == [pin for pin in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", pin)]
    pinned = {re.sub(r"[_.]", "-", pin.partition("==")[0]).lower() for pin in pins}
    text = (ROOT / "pyproject.toml").read_text()
    declared = re.findall(r'^(?:    |requires = \[|bench = \[)"([\w-]+)(?:\[\w+\])?>=', text, re.M)
    assert {"anyio", "pytest", "hatchling", "eventsourcing"} <= set(declared)
    assert set() == {name.lower() for name in declared} - pinned


def test_scripts_are_executable_and_strict() -> None:
    """`.ci/run` starts by itself, and every shell script stops at the first failure."""
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    scripts = [ROOT / ".ci" / "run", *(ROOT / "tools").glob("*.sh")]
    assert [] == [path.name for path in scripts if "\nset -eu\n" not in path.read_text()]


@pytest.mark.parametrize("target", ["demo", "test", "lint", "bench"])
def test_make_targets_set_up_what_they_need(target: str) -> None:
    """In a clone without an environment, each target makes it first."""
    plan = subprocess.run(
        ["make", "--no-print-directory", "-n", f"VENV={ROOT}/no-such-folder", target],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    first, *_, last = plan.splitlines()
    assert "tools/venv.sh" in first
    assert "tools/" in last
    assert "no-such-folder/bin/python" in last


def test_ci_runs_the_tests() -> None:
    """`.ci/run` is `make test`, so that CI can't run less than a developer does."""
    commands = [
        line
        for line in (ROOT / ".ci" / "run").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert "exec make --no-print-directory test" == commands[-1]
