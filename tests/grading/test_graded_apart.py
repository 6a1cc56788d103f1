"""Trials graded in a sandbox of the test's own, on both sandboxes: what gets there and what not."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

from helpers.tasks_in_jobs import Grade
from trialog.engine.sandbox.protocol import SandboxBackend
from trialog.events.kinds import (
    AgentFinished,
    ArtifactsSaved,
    SandboxRemoved,
    TamperFound,
    WorkspaceSaved,
)

SOLVE = """
set -e
echo 42 >answer.txt
mkdir -p deep/er; echo x >deep/er/file; ln -s /etc/passwd link; chmod 750 deep
echo kept >/logs/artifacts/kept.txt
mkdir -p /tmp/data/below
echo declared >/tmp/data/below/file
echo run >/tmp/tool; chmod 755 /tmp/tool
echo left >/tmp/elsewhere
echo left >"$HOME/elsewhere"
echo 1 >/logs/verifier/reward.txt
sleep 300 &
test -e /tmp/elsewhere -a -e "$HOME/elsewhere" -a -e /logs/verifier/reward.txt
"""
TEST = """
set -x
test "$(cat answer.txt)" = 42 && test "$(cat deep/er/file)" = x &&
test "$(readlink link)" = /etc/passwd && test "$(stat -c %a deep)" = 750 &&
test "$(cat /logs/artifacts/kept.txt)" = kept &&
test "$(cat /tmp/data/below/file)" = declared && test -x /tmp/tool &&
echo 0.5 >/logs/verifier/reward.txt
test ! -e /tmp/elsewhere -a ! -e "$HOME/elsewhere" &&
! grep -qz sleep /proc/[0-9]*/cmdline && test "$(ls -A /solution /oracle 2>/dev/null)" = "" &&
echo 1 >/logs/verifier/reward.txt
"""
DECLARED = 'artifacts = ["/tmp/data", "/tmp/tool", "answer.txt", "/tmp/never-made"]\n'


async def test_what_the_verifier_gets(
    grade: Grade, leftovers: Callable[[str], Awaitable[list[str]]]
) -> None:
    """The workspace, /logs/artifacts and what is declared come along; nothing else does.

    In the shared sandbox the same test finds the rest: it was there.
    """
    shared = await grade(solve=SOLVE, test=TEST, settings=DECLARED, mode="shared")
    assert (shared.ended.outcome, shared.ended.reward) == ("scored", 0.5), shared.printed
    apart = await grade(solve=SOLVE, test=TEST, settings=DECLARED, mode="separate")
    assert (apart.ended.outcome, apart.ended.reward) == ("scored", 1.0), apart.printed
    tampered = [event.path for event in apart.events if isinstance(event, TamperFound)]
    assert tampered == ["/logs/verifier/reward.txt"]
    removed = [event for event in apart.events if isinstance(event, SandboxRemoved)]
    assert [event.error for event in removed] == [None, None]
    assert await leftovers(apart.log_id) == []


async def test_an_answer_kept_elsewhere_scores_nothing(grade: Grade) -> None:
    """What a task does not declare stays behind, and its test finds nothing."""
    solve, test = "echo 42 >/tmp/answer", "cat /tmp/answer && echo 1 >/logs/verifier/reward.txt"
    shared = await grade(solve=solve, test=test, mode="shared")
    assert shared.ended.reward == 1.0
    apart = await grade(solve=solve, test=test, mode="separate")
    assert (apart.ended.outcome, apart.ended.reward) == ("scored", 0.0)
    assert "--verifier-sandbox" in apart.ended.warnings[0]


async def test_a_link_in_place_of_an_artifact(grade: Grade) -> None:
    """A link in a declared file's place, or on the way to it, is not followed, and spares no 0.

    What is behind it is nowhere: not in the artifacts, not in the saved workspace.
    """
    links = {"/tmp/out": "/etc/passwd", "hop/environ": "/proc/self", "loop/loop/answer.txt": "."}
    apart = await grade(
        mode="separate",
        solve="ln -s /etc/passwd /tmp/out; ln -s /proc/self hop; ln -s . loop; ln -s b a; "
        "ln -s a b; echo 42 >answer.txt; ln answer.txt twin; "
        "cat /tmp/out hop/environ loop/loop/answer.txt",
        test="test -s /tmp/out && echo 1 >/logs/verifier/reward.txt; cat answer.txt twin",
        settings=f"artifacts = {json.dumps([*links, 'answer.txt'])}\n",
    )
    assert (apart.ended.outcome, apart.ended.reward) == ("scored", 0.0)
    assert apart.printed == "42\n42\n"
    (agent,) = [event for event in apart.events if isinstance(event, AgentFinished)]
    assert agent.exit_code == 0
    (saved,) = [event for event in apart.events if isinstance(event, ArtifactsSaved)]
    assert [one.path for one in saved.artifacts] == ["answer.txt"]
    assert {one.target for one in saved.skipped} == set(links.values())
    (kept,) = [event for event in apart.events if isinstance(event, WorkspaceSaved)]
    assert (kept.files, kept.size) == (1, 3)


async def test_an_artifact_that_is_too_large(grade: Grade) -> None:
    """One over the limit leaves the trial unscored, and the artifact is named."""
    apart = await grade(
        mode="separate",
        solve="truncate -s 300M /tmp/huge",
        test="echo 1 >/logs/verifier/reward.txt",
        settings='artifacts = ["/tmp/huge"]\n',
    )
    assert (apart.ended.outcome, apart.ended.category) == ("unscored", "work_too_large")
    assert not apart.ended.infrastructure
    assert apart.ended.error == (
        "separate verifier transfer failed: artifact /tmp/huge: more than 268435456 bytes"
    )


async def test_logs_that_are_too_large(grade: Grade) -> None:
    """So do those of the agent's own, and it is not run again for it."""
    apart = await grade(
        mode="separate",
        solve="truncate -s 300M /logs/artifacts/huge",
        test="echo 1 >/logs/verifier/reward.txt",
    )
    assert (apart.ended.outcome, apart.ended.category) == ("unscored", "work_too_large")
    assert apart.ended.error == (
        "separate verifier transfer failed: artifact /logs/artifacts: more than 268435456 bytes"
    )


async def test_a_workspace_that_is_too_large(grade: Grade) -> None:
    """A workspace over the limit is not graded, and its path and the limit are named."""
    apart = await grade(
        mode="separate",
        solve="head -c 2M /dev/zero >big",
        test="echo 1 >/logs/verifier/reward.txt",
        workspace_cap_mb=1,
    )
    assert apart.ended.error == (
        "separate verifier transfer failed: workspace /app: it holds more than 1 MiB "
        "(--workspace-cap-mb)"
    )


async def test_programs_of_the_system_are_the_images(grade: Grade, backend: SandboxBackend) -> None:
    """An agent that is root wins nothing by replacing the programs that the test runs with."""
    solve = (
        "printf '#!/bin/sh\\nexit 0\\n' >/tmp/fake; chmod 755 /tmp/fake\n"
        "for each in grep python3 cmp; do cp /tmp/fake /usr/bin/$each; done\n"
        "mkdir -p /usr/local/bin && cp /tmp/fake /usr/local/bin/grep\n"
        "grep nothing /etc/passwd && echo replaced >how.txt"
    )
    test = "cat how.txt; grep -q right answer.txt && echo 1 >/logs/verifier/reward.txt"
    apart = await grade(solve=solve, test=test, mode="separate")
    assert ("replaced" in apart.printed) is (backend.name == "docker")
    assert (apart.ended.outcome, apart.ended.reward) == ("scored", 0.0)
