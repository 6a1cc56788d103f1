"""Reviewers on a container engine: one image of the user's, evidence and network as elsewhere."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from helpers.reviewing import WRITE, MakeReviewer, bytes_of, logged, review

if TYPE_CHECKING:
    from acceptance.conftest import MakeTask, User

pytestmark = pytest.mark.docker
IMAGE = os.environ.get("TRIALOG_TEST_IMAGE", "trialog-base:latest")
DOCKER = ("--sandbox", "docker", "--image", IMAGE)

LOOKS = """
import socket
found = []
for at, folders, files in os.walk("/evidence"):
    for path in [at, *(os.path.join(at, name) for name in files)]:
        status = os.lstat(path)
        if status.st_uid != 0 or status.st_mode & 0o022:
            found.append(f"{path} {status.st_uid} {status.st_mode:o}")
        for change in (
            lambda: os.chmod(path, 0o777), lambda: os.rename(path, "/tmp/x"),
            lambda: open(path if os.path.isfile(path) else path + "/new", "a").write("x"),
        ):
            try:
                change()
                found.append("changed " + path)
            except OSError:
                pass
try:
    socket.create_connection(("1.1.1.1", 53), 2)
    found.append("the network")
except OSError:
    pass
answer["summary"] = f"user {os.getuid()} found {sorted(found)} in {os.getcwd()}"
"""


def test_a_review_on_docker(user: User, make_task: MakeTask, reviewer: MakeReviewer) -> None:
    """Root in the container changes no evidence and reaches nobody; the image is the one named, by
    its digest, and the reviewed job is as it was."""
    make_task("t", folder=user.home / "tasks")
    job = user.job("tasks")
    before = bytes_of(job)
    agent = reviewer(LOOKS)
    ran = user.run("review", "run", job, "--agent", agent, "--sandbox", "docker", code=2)
    assert "--image" in ran.err
    assert not (job / "reviews").exists()
    report = review(user, job, agent, "--tasks-root", "tasks", sandbox=DOCKER)
    [trial] = report["trials"]
    assert trial["summary"] == "user 0 found [] in /review"
    assert report["reviewer"]["environment"] == "docker"
    assert bytes_of(job) == before
    [begun] = logged(user, "ReviewStarted")
    used = [s["image_digest"] for s in logged(user, "SandboxStarted") if s["backend"] == "docker"]
    assert used == [begun["image_digest"]]
    assert begun["image_digest"].startswith("sha256:")
    user.run("rebuild", job, "--check", code=0)


BAD = {
    "crash": ("sys.exit(3)", "wrote no review-result.json: the agent exited with code 3"),
    "link": ("os.symlink('/evidence/trial/result.json', FILE)", "link"),
    "pipe": ("os.mkfifo(FILE)", "wrote no review-result.json: "),
    "sparse": ("open(FILE, 'wb').truncate(10 * 2**30)", "more than"),
    "hangs": (WRITE + "import time; time.sleep(1000)", "so its answer does not count"),
}


def test_bad_reviewers_on_docker(user: User, make_task: MakeTask, reviewer: MakeReviewer) -> None:
    """What one leaves instead of an answer costs its own entry, there as on bubblewrap."""
    codes = {"honest": WRITE} | {name: code for name, (code, _) in BAD.items()}
    for name in codes:
        make_task(name, folder=user.home / "tasks")
    job = user.job("tasks")
    agent = reviewer(
        f"\nFILE = 'review-result.json'\nexec({codes!r}[result['task_name']])\n", write=False
    )
    report = review(user, job, agent, "--max-seconds", "10", sandbox=DOCKER, code=1)
    found = {trial["trial_name"].split("__")[0]: trial["error"] for trial in report["trials"]}
    assert found.pop("honest") is None
    assert {name: error for name, error in found.items() if BAD[name][1] not in error} == {}
    assert found.keys() == BAD.keys()
