"""Everything that must hold before a change lands.

    python tools/check.py lint            the checkers
    python tools/check.py test [ARGS]     checkers, tests with their engines, coverage gates

ARGS go to pytest; the coverage gates are then left out, since they need the whole suite.
A suite whose engine can't be had here is named in the last lines; in CI (CI=true) that fails.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import services
from docker_engine import EngineError

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent

LINT = {
    "ruff format": ["ruff", "format", "--check", "--quiet", "."],
    "ruff check": ["ruff", "check", "--quiet", "."],
    "mypy": ["mypy", "--no-error-summary"],
    "pyright": ["pyright"],
    "import-linter": ["lint-imports", "--no-logo"],
}
# Events and folds decide what the log says, so every branch of theirs is run.
FULLY_COVERED = ["events/*", "projections/*"]
# Tests mostly wait: for disks, engines and processes. So there is one worker more than cores.
WHOLE_SUITE = ["-n", str((os.cpu_count() or 1) + 1), "--dist", "worksteal"]
WHOLE_SUITE += ["--durations", "10", "--cov", "--cov-report="]


class Parts:
    """Runs one part after the other, whatever became of those before, and remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.failed: list[str] = []

    def run(self, name: str, argv: list[str], env: dict[str, str] | None = None) -> None:
        """Run a program of the virtual environment and show what it prints."""
        print(f"── {name}", flush=True)
        begun = time.monotonic()
        program, *rest = argv
        code = subprocess.run(
            [str(BIN / program), *rest],
            cwd=ROOT,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            check=False,
        ).returncode
        self.note(name, time.monotonic() - begun, ok=code == 0)

    def note(self, name: str, seconds: float, *, ok: bool = True) -> None:
        """Remember how a part went."""
        self.lines.append(f"  {'ok    ' if ok else 'FAILED'} {seconds:6.1f} s  {name}")
        if not ok:
            self.failed.append(name)

    def lint(self) -> None:
        """All checkers."""
        for name, argv in LINT.items():
            self.run(name, argv)

    def finish(self) -> int:
        """Print what was run; the exit code."""
        print("\n".join(["── parts", *self.lines]), flush=True)
        return 1 if self.failed else 0


def test(parts: Parts, arguments: list[str]) -> int:
    """Checkers, tests, gates."""
    parts.lint()
    not_run: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        begun = time.monotonic()
        env: dict[str, str] = {}
        try:
            services.bubblewrap()
        except services.Unavailable as error:
            not_run["bubblewrap"] = str(error)
        try:
            env = stack.enter_context(services.docker())
        except (services.Unavailable, EngineError) as error:
            not_run["docker"] = str(error)
        parts.note("engines", time.monotonic() - begun)

        argv = ["pytest", *(arguments or WHOLE_SUITE)]
        if not_run:
            argv += ["-m", " and ".join(f"not {suite}" for suite in not_run)]
        # Compiled modules are kept, so that commands which tests start begin quicker.
        parts.run("pytest", argv, {"PYTHONDONTWRITEBYTECODE": "", **env})
    if not arguments:
        include = f"--include={','.join(FULLY_COVERED)}"
        gate = ["coverage", "report", include, "--fail-under=100"]
        parts.run("every branch of events and projections", gate)
        parts.run("coverage of everything", ["coverage", "report"])
    code = parts.finish()
    for suite in ("bubblewrap", "docker"):
        if suite not in not_run:
            print(f"Suite {suite}: run.")
    for suite, reason in not_run.items():
        print(f"Suite {suite}: NOT RUN. {reason}")
    if not_run and os.environ.get("CI") == "true":
        print("In CI every suite must run.")
        return 1
    return code


def main() -> int:
    """Run `lint` or `test`."""
    os.chdir(ROOT)
    match sys.argv[1:]:
        case ["lint"]:
            parts = Parts()
            parts.lint()
            return parts.finish()
        case ["test", *arguments]:
            return test(Parts(), arguments)
        case _:
            print(__doc__)
            return 2


if __name__ == "__main__":
    sys.exit(main())
