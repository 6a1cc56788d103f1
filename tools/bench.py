"""Run all benchmarks, or those whose names are given: `python tools/bench.py append rebuild`.

What needs the Docker engine gets one as the tests do.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import services
from docker_engine import EngineError

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


def main() -> int:
    """Run them one after the other, so that they don't disturb each other."""
    names = sys.argv[1:]
    scripts = sorted(BENCHMARKS.glob("bench_*.py"))
    chosen = [script for script in scripts if not names or script.stem[6:] in names]
    if not chosen:
        known = ", ".join(script.stem[6:] for script in scripts)
        print(f"no such benchmark; there are: {known}")
        return 2
    failed = []
    with contextlib.ExitStack() as stack:
        env: dict[str, str] = {}
        try:
            services.bubblewrap()
            env = stack.enter_context(services.docker())
        except (services.Unavailable, EngineError) as error:
            print(f"Without all engines: {error}")
        for script in chosen:
            print(f"── {script.name}", flush=True)
            done = subprocess.run([sys.executable, script], env={**os.environ, **env}, check=False)
            if done.returncode != 0:
                failed.append(script.name)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
