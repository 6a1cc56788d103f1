"""A disk that fills up in the middle of a job, and room again."""

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
mount -t tmpfs -o size={size}m none "$JOBS"
set +e
"$TRIALOG" run "$TASKS" -a oracle -n 2 --sandbox bubblewrap --jobs-dir "$JOBS" --json \
    > "$OUT/run.jsonl" 2> "$OUT/run.txt"
echo $? > "$OUT/run.rc"
mount -o remount,size=256m "$JOBS"
job=$(ls "$JOBS" | grep '^20')
"$TRIALOG" resume "$job" --log "$JOBS/trialog.db" --json > "$OUT/resume.jsonl" 2> "$OUT/resume.txt"
echo $? > "$OUT/resume.rc"
"$TRIALOG" rebuild "$job" --check --log "$JOBS/trialog.db" > "$OUT/check.txt" 2>&1
echo $? > "$OUT/check.rc"
cp "$JOBS/$job/summary.json" "$OUT/"
"""


@pytest.mark.bubblewrap
@pytest.mark.parametrize("size", [3, 8])
def test_full_disk_loses_nothing(tmp_path: Path, size: int) -> None:
    """A full disk ends the job with a sentence about it; with room again, a resume ends it well.

    No trial is failed for it, and every file is as the log has it.
    """
    noise = "head -c 300000 /dev/urandom | base64; echo 1 > /logs/verifier/reward.txt"
    for number in range(24):
        write_task(tmp_path / "tasks" / f"noisy-{number}", test=noise)
    jobs, out = tmp_path / "jobs", tmp_path / "out"
    jobs.mkdir()
    out.mkdir()
    subprocess.run(
        [*ALONE, "sh", "-ec", SCRIPT.format(size=size)],
        env=os.environ
        | {
            "JOBS": str(jobs), "OUT": str(out), "TASKS": str(tmp_path / "tasks"),
            "TRIALOG": str(TRIALOG),
        },
        check=True, timeout=100,
    )  # fmt: skip
    said = (out / "run.txt").read_text()
    assert (out / "run.rc").read_text().strip() == "1", said
    assert "full" in said or "No space left" in said
    reports = [json.loads(line) for line in (out / "run.jsonl").read_text().splitlines()]
    scored = [r for r in reports if r["report"] == "trial-ended" and r["outcome"] == "scored"]
    assert all(r["passed"] for r in scored)
    assert (out / "resume.rc").read_text().strip() == "0", (out / "resume.txt").read_text()
    counts = json.loads((out / "summary.json").read_bytes())["counts"]
    assert counts["passed"] == 24
    assert (out / "check.rc").read_text().strip() == "0", (out / "check.txt").read_text()


FULL = """
mount -t tmpfs -o size=16m none "$JOBS"
set +e
"$TRIALOG" run "$TASKS" -a oracle --sandbox bubblewrap --jobs-dir "$JOBS" > /dev/null 2>&1
job=$(ls "$JOBS" | grep '^20')
export TRIALOG_LOG="$JOBS/trialog.db"
for left in 0 131072; do
    head -c $(($(df --output=avail -B1 "$JOBS" | tail -1) - left)) /dev/zero > "$JOBS/ballast"
    "$TRIALOG" {command} > "$OUT/$left.out" 2> "$OUT/$left.txt"
    echo $? > "$OUT/$left.rc"
    rm "$JOBS/ballast"
done
"$TRIALOG" {again} > "$OUT/again.txt" 2>&1
echo $? > "$OUT/again.rc"
"""


@pytest.mark.bubblewrap
@pytest.mark.parametrize(
    ("command", "again"),
    [
        ("regrade $job", "regrade $job --resume"),
        (
            "run $TASKS -a oracle --sandbox bubblewrap",
            "run $TASKS -a oracle --sandbox bubblewrap",
        ),
        (
            "export $job --format events --out $JOBS/out.jsonl",
            "export $job --format events --out $JOBS/out.jsonl",
        ),
    ],
    ids=["regrade", "run", "export"],
)
def test_a_full_disk_is_told(tmp_path: Path, command: str, again: str) -> None:
    """However little room there is, the disk is said to be full, which one, and what to do.

    It goes on with room made, and nothing calls itself a fault.
    """
    noise = "head -c 100000 /dev/urandom | base64; echo 1 > /logs/verifier/reward.txt"
    write_task(tmp_path / "tasks" / "noisy", test=noise)
    jobs, out = tmp_path / "jobs", tmp_path / "out"
    jobs.mkdir()
    out.mkdir()
    subprocess.run(
        [*ALONE, "sh", "-ec", FULL.format(command=command, again=again)],
        env=os.environ
        | {
            "JOBS": str(jobs), "OUT": str(out), "TASKS": str(tmp_path / "tasks"),
            "TRIALOG": str(TRIALOG),
        },
        check=True, timeout=100,
    )  # fmt: skip
    told = 0
    for left in (0, 131072):
        said = (out / f"{left}.txt").read_text()
        if (out / f"{left}.rc").read_text().strip() == "0":
            continue
        told += 1
        assert "the disk is full" in said
        assert f"note: the disk is {jobs} (tmpfs): " in said
        assert "what the log has is kept\nhint: " in said
        assert "Traceback" not in said
        assert "please report" not in said
    assert told
    assert (out / "again.rc").read_text().strip() == "0", (out / "again.txt").read_text()
