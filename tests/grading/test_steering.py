"""What an agent leaves to steer Python and pytest, where the test runs apart or beside it."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.tasks_in_jobs import Grade
from trialog.engine.sandbox.protocol import SandboxBackend

FILES = {"test_answer.py": "def test_answer():\n    assert open('/app/answer').read() == '42\\n'\n"}
TEST = """
echo 0 >/logs/verifier/reward.txt
"$TRIALOG_PYTEST" /tests/test_answer.py -q && echo 1 >/logs/verifier/reward.txt
"""
PLANT = """
cat >evil.py <<'END'
import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = "passed"
END
cp evil.py conftest.py
mkdir -p evil-1.0.dist-info
printf 'Metadata-Version: 2.1\\nName: evil\\nVersion: 1.0\\n' >evil-1.0.dist-info/METADATA
printf '[pytest11]\\nevil = evil\\n' >evil-1.0.dist-info/entry_points.txt
printf '[pytest]\\naddopts = -p evil --co\\n' >pytest.ini
printf 'raise SystemExit(0)\\n' >sitecustomize.py
cp sitecustomize.py usercustomize.py
cp sitecustomize.py json.py
python=$(python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
mkdir -p "$HOME/.local/lib/$python/site-packages" "$HOME/.local/bin"
echo 'import sys; sys.exit(0)' >"$HOME/.local/lib/$python/site-packages/evil.pth"
printf '#!/bin/sh\\nexit 0\\n' >"$HOME/.local/bin/python3"; chmod 755 "$HOME/.local/bin/python3"
echo 'export PYTEST_ADDOPTS="-p evil" LD_PRELOAD=/app/evil.so PATH="$HOME/.local/bin:$PATH"' \\
  >>"$HOME/.bashrc"
"""
AGAIN = (
    "cat >/tmp/plant.sh <<'EOS'\n%s\nEOS\n(while :; do sh /tmp/plant.sh; done) >/dev/null 2>&1 &"
)


def settings(backend: SandboxBackend, mode: str) -> dict[str, Any]:
    """How a task is run: apart, or with processes that stay."""
    if mode == "separate":
        return {"mode": "separate"}
    user = 'agent.user = "nobody"\n' if backend.name == "docker" else ""
    return {"settings": f"{user}verifier.keep_processes = true\n"}


@pytest.mark.parametrize("mode", ["separate", "kept"])
async def test_planted_files_change_no_verdict(
    grade: Grade, backend: SandboxBackend, mode: str
) -> None:
    """A wrong answer stays one, whatever lies in the workspace and at home, or comes again."""
    again = AGAIN % PLANT if mode == "kept" else ""
    graded = await grade(
        solve="export HOME=${HOME:-/tmp}; [ -w $HOME ] || export HOME=/tmp\n"
        f"echo 41 >answer\n{PLANT}\n{again}\ntest -e conftest.py",
        test=TEST,
        files=FILES,
        **settings(backend, mode),
    )
    assert (graded.ended.outcome, graded.ended.reward) == ("scored", 0.0), graded.ended
    assert "1 failed" in graded.printed


@pytest.mark.parametrize("mode", ["separate", "kept"])
async def test_honest_work_passes(grade: Grade, backend: SandboxBackend, mode: str) -> None:
    """The control: the right answer, graded the same way."""
    graded = await grade(
        solve="echo 42 >answer; sleep 300 &", test=TEST, files=FILES, **settings(backend, mode)
    )
    assert (graded.ended.outcome, graded.ended.reward) == ("scored", 1.0), graded.printed
    assert "1 passed" in graded.printed
