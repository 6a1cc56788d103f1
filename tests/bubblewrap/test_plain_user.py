"""The same suites, as a plain user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.bubblewrap, pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
WHOLE_JOBS = ("acp", "chat", "gateway", "gateway_replays", "installed")
NOBODY = 65534


def pythons() -> list[str]:
    """Interpreters of this version that a plain user may be able to run."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    found = [sys.executable, shutil.which(name, path="/usr/local/bin:/usr/bin")]
    return [python for python in found if python is not None]


@pytest.mark.skipif(os.geteuid() != 0, reason="these tests run as a plain user already")
def test_as_a_plain_user() -> None:
    """Everything that holds for root's sandboxes holds for a plain user's."""
    path = os.pathsep.join([str(ROOT / "src"), sysconfig.get_path("purelib")])
    with tempfile.TemporaryDirectory() as temporary:
        os.chown(temporary, NOBODY, NOBODY)
        settings = {
            "user": NOBODY,
            "group": NOBODY,
            "extra_groups": [],
            "cwd": ROOT,
            "env": {
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "PYTHONPATH": path,
                "PYTHONDONTWRITEBYTECODE": "1",
                "TMPDIR": temporary,
                "HOME": temporary,
            },
            "capture_output": True,
            "text": True,
            "check": False,
        }
        probe = "import os, trialog.engine.sandbox.bubblewrap, pytest; assert os.geteuid()"
        for python in pythons():
            try:
                if subprocess.run([python, "-c", probe], **settings).returncode == 0:  # type: ignore[call-overload]
                    break
            except OSError:
                continue
        else:
            pytest.fail("a plain user can run none of: " + ", ".join(pythons()))
        # Whole jobs need a newer Python than the system's may be.
        words = "-m pytest -q -p no:cacheprovider -m bubblewrap tests/contract tests/bubblewrap"
        words += "".join(f" --ignore tests/contract/test_{name}.py" for name in WHOLE_JOBS)
        done = subprocess.run([python, *words.split(), f"--basetemp={temporary}/base"], **settings)  # type: ignore[call-overload]
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        assert " passed" in done.stdout
