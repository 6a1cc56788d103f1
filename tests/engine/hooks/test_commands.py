"""Checks that are programs."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import msgspec
import pytest

from helpers.counted import counting
from trialog.engine.hooks.pool import HookPool
from trialog.engine.hooks.protocol import CheckGiven, Hooks, HookSource

from .conftest import Make

PYTHON = sys.executable


def script(make: Make, text: str, **given: object) -> HookSource:
    """A verifier whose check is a shell script."""
    return make(check=["sh", "check.sh"], files={"check.sh": text}, **given)


async def test_a_command_reads_the_episode_and_writes_the_output(hooks: Hooks, make: Make) -> None:
    """JSON on standard input, JSON on standard output, in the verifier's folder."""
    source = make(
        check=[PYTHON, "check.py"],
        files={
            "check.py": """
                import json, os, sys
                episode = json.load(sys.stdin)
                assert os.path.exists("data.txt")
                assert episode["state"] == episode["apps"]["counter"]["final"] == {"value": 3}
                assert episode["trajectory"][1]["arguments"] == {"n": 2}
                assert episode["answer"] == episode["expected"] == episode["task"]["expected"]
                assert episode["outcome"] == {
                    "terminated": True, "truncated": False, "reason": None}
                assert episode["observation"] == 3 and episode["rewards"] == []
                print(json.dumps({"score": 0.5, "scores": {"a": 1}, "evidence": ["e"]}))
            """,
            "data.txt": "x",
        },
    )
    given = await hooks.check(source, counting(1, 2), None)
    assert given == CheckGiven(score=0.5, scores={"a": 1.0}, evidence=["e"])


async def test_a_command_is_given_shared_states_too(hooks: Hooks, make: Make) -> None:
    """With an app that others share its check rests on a shared state, whatever it reads."""
    source = script(make, "echo '{\"score\": 1}'")
    episode = counting(1)
    shared = {n: msgspec.structs.replace(a, control="live") for n, a in episode.apps.items()}
    given = await hooks.check(source, msgspec.structs.replace(episode, apps=shared), None)
    assert given == CheckGiven(score=1.0, live=True)
    assert await hooks.check(source, episode, None) == CheckGiven(score=1.0)


async def test_a_program_of_the_folder_needs_no_path(hooks: Hooks, make: Make) -> None:
    """``check.sh`` is found beside the manifest."""
    source = make(check=["grade"], files={"grade": "#!/bin/sh\necho '{\"score\": 1}'\n"})
    (source.folder / "grade").chmod(0o755)
    assert (await hooks.check(source, counting(1), None)).score == 1.0


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("echo wrong >&2; echo 'no such ticket' >&2; exit 3", "exit code 3: no such ticket"),
        ("exit 1", "exit code 1"),
        ("kill -9 $$", "killed by SIGKILL"),
        ("echo hello", "the check printed 'hello\\n' (str), which is no JSON: "),
        ("true", "the check printed '' (str), which is no JSON: "),
        ("echo '[1]'", "the check gave [1] (list); it must give a VerifierOutput"),
        (
            "echo '{\"score\": true}'",
            "the score is True (bool); it must be a finite number; write f",
        ),
        ("echo '{\"score\": NaN}'", "the check printed '{\"score\": NaN}\\n' (str), which is no"),
        ("yes", "the check printed more than 4,194,304 bytes"),
    ],
)
async def test_a_command_that_fails_is_a_fault(
    hooks: Hooks, make: Make, text: str, error: str
) -> None:
    """A non-zero exit with its last line of error output, or output that is none."""
    given = await hooks.check(script(make, text), counting(1), None)
    assert given.score is None
    assert given.fault is not None
    assert given.fault.error.startswith(error)


async def test_a_missing_program_is_a_fault(hooks: Hooks, make: Make) -> None:
    """The fault names it."""
    given = await hooks.check(make(check=["no-such-program"]), counting(1), None)
    assert given.fault is not None
    assert given.fault.error.startswith("the check's command 'no-such-program' can't be run: ")


async def test_what_a_command_leaves_running_is_killed(
    hooks: Hooks, make: Make, tmp_path: Path
) -> None:
    """A child that holds on to the output neither delays the score nor outlives it."""
    source = script(make, f"sleep 1000 & echo $! > {tmp_path}/pid; echo '{{\"score\": 1}}'")
    with anyio.fail_after(20):
        assert (await hooks.check(source, counting(1), None)).score == 1.0
    await gone(int((tmp_path / "pid").read_text()))


async def test_a_command_past_its_deadline_goes_with_its_children(
    pool: HookPool, make: Make, tmp_path: Path
) -> None:
    """The check is timed out; nothing of it runs on, not even what fled to a session of its own."""
    source = script(
        make, f"setsid sleep 1000 & echo $! > {tmp_path}/pid; sleep 1000", timeout_sec=0.5
    )
    given = await pool.check(source, counting(1), None)
    assert given.fault is not None
    assert given.fault.timed_out
    assert given.fault.error == "its check ran past the deadline of 0.5 s and was stopped"
    await gone(int((tmp_path / "pid").read_text()))


async def gone(pid: int) -> None:
    """Wait until a process has ended."""
    with anyio.fail_after(20):
        while True:
            try:
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            except (FileNotFoundError, ProcessLookupError):
                return
            if state == "Z":
                return
            await anyio.sleep(0.01)
