"""trialog's pytest: it runs the tests of the verifier's folder, and nothing else steers it.

Started by the image's own python3, without site packages, variables or the current folder. Whatever
way it is started, it starts itself anew that way. Must run on Python 3.8.
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

NOT_FINISHED = 3
"""Exit code where the tests' process ended before pytest did: as pytest's own internal error."""


def main() -> int:
    """Run pytest in a process of its own; its exit code holds only if it came to its end."""
    if not (sys.flags.isolated and sys.flags.no_site):
        with open(os.path.abspath(__file__), encoding="utf-8") as own:
            python = own.readline()[2:].split()[0]
        os.execv(python, [python, "-IS", os.path.abspath(__file__), *sys.argv[1:]])  # noqa: S606
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        code = run(sys.argv[1:])
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(writer, b"%d." % code)
        os._exit(0)
    os.close(writer)
    status = os.waitpid(child, 0)[1]
    os.set_blocking(reader, False)
    try:
        told = os.read(reader, 16)
    except BlockingIOError:  # something that the tests started holds the other end
        told = b""
    if os.WIFSIGNALED(status):
        sys.stderr.write(f"trialog: signal {os.WTERMSIG(status)} ended the tests\n")
        return 128 + os.WTERMSIG(status)
    if not told.endswith(b"."):
        sys.stderr.write("trialog: the tests' process ended before pytest had finished\n")
        return NOT_FINISHED
    return int(told[:-1])


def run(args: list[str]) -> int:
    """Run pytest here."""
    sys.dont_write_bytecode = True
    for name in [name for name in os.environ if name.startswith("PYTEST_")]:
        del os.environ[name]
    sys.path.insert(0, os.path.join(HERE, "lib"))
    sys.path.insert(1, os.path.join(HERE, "own"))
    import trialog_protected  # type: ignore[import-not-found]

    return int(trialog_protected.run(HERE, args))


if __name__ == "__main__":
    sys.exit(main())
