"""An agent that fills the disk before it is graded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.jobs import write_task

TRIALOG = Path(sys.executable).with_name("trialog")
ALONE = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--user", "--map-root-user"])
SCRIPT = """
mount -t tmpfs -o size=24m none "$JOBS"
set +e
"$TRIALOG" run "$TASK" -a "command:$AGENT" --sandbox bubblewrap --jobs-dir "$JOBS" > "$OUT/run" 2>&1
mount -o remount,size=256m "$JOBS"
job=$(ls "$JOBS" | grep '^20')
"$TRIALOG" resume "$job" --log "$JOBS/trialog.db" > "$OUT/resume" 2>&1
cp "$JOBS/$job/summary.json" "$OUT/"
"""
TEST = """
if [ "$(cat answer.txt)" = 42 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
FILL = "head -c 64M /dev/zero > /tmp/fill || echo full; cat /tmp/fill >> /logs/agent/more || true\n"


@pytest.mark.bubblewrap
@pytest.mark.parametrize(("answer", "passed"), [("41", 0), ("42", 1)])
def test_full_disk(tmp_path: Path, answer: str, passed: int) -> None:
    """With room again its answer is graded as it is: filling the disk gains and costs nothing."""
    task = write_task(tmp_path / "task", test=TEST)
    agent = tmp_path / "agent.sh"
    agent.write_text(f"echo {answer} > answer.txt\n{FILL}")
    jobs, out = tmp_path / "jobs", tmp_path / "out"
    jobs.mkdir()
    out.mkdir()
    subprocess.run(
        [*ALONE, "sh", "-ec", SCRIPT],
        env=os.environ
        | {
            "JOBS": str(jobs), "OUT": str(out), "TASK": str(task), "AGENT": str(agent),
            "TRIALOG": str(TRIALOG),
        },
        check=True, timeout=100,
    )  # fmt: skip
    summary = json.loads((out / "summary.json").read_bytes())
    assert "the disk is full" in (out / "run").read_text()
    assert (summary["counts"]["scored"], summary["counts"]["passed"]) == (1, passed)
