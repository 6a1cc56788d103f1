"""Running a test script, over processes of the host in place of a sandbox."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from trialog.engine.errors import SandboxError, SandboxGone, SandboxStartTimeout
from trialog.engine.redact import Redactor
from trialog.engine.sandbox.protocol import Exit, TreeTooLarge
from trialog.engine.tasks.model import VerifierSettings
from trialog.engine.verifier.script import ScriptResult, ScriptVerifier, run_script_verifier
from trialog.events.codec import encode
from trialog.events.kinds import SandboxLost, VerifierFailed, VerifierScored, WarningRaised
from trialog.events.kinds.parts import Process, SkippedPath
from trialog.events.values import BlobRef

if TYPE_CHECKING:
    from conftest import Bench, Refusals


def make_script(folder: Path, body: str | bytes, **fields: Any) -> ScriptVerifier:
    """A verifier's folder with this test.sh, as a job's snapshot has it."""
    folder.mkdir()
    script = folder / "test.sh"
    script.write_bytes(body.encode() if isinstance(body, str) else body)
    digest = hashlib.sha256(script.read_bytes()).hexdigest()
    settings: dict[str, Any] = {
        "digest": "sha256:" + "0" * 64,
        "source": folder,
        "files": {"test.sh": digest},
        "settings": VerifierSettings(),
        "timeout": 30.0,
    }
    return ScriptVerifier(**settings | fields)


async def run(bench: Bench, tmp_path: Path, body: str | bytes, **fields: Any) -> ScriptResult:
    """Run a script as a trial does: after an agent's phase that left nothing."""
    await bench.prepare()
    script = make_script(tmp_path / "tests", body, **fields)
    return await grade(bench, script)


async def grade(bench: Bench, script: ScriptVerifier, **more: Any) -> ScriptResult:
    """Close the agent's phase and run the script."""
    await bench.folders.close_agent_phase(bench.blobs)
    return await run_script_verifier(
        script,
        sandbox=bench.sandbox,
        folders=bench.folders,
        blobs=bench.blobs,
        clock=bench.clock,
        **more,
    )


def scored(result: ScriptResult) -> VerifierScored:
    """The verdict, which comes first and is followed by its warnings alone."""
    first, *rest = result.events
    assert isinstance(first, VerifierScored)
    assert all(isinstance(event, WarningRaised) for event in rest)
    codes = [event.code for event in rest if isinstance(event, WarningRaised)]
    assert [c for c in codes if c != "verifier_file_skipped"] == first.warnings
    encode(first)
    return first


def failed(result: ScriptResult) -> VerifierFailed:
    """The failure, which comes last."""
    last = result.events[-1]
    assert isinstance(last, VerifierFailed)
    return last


async def test_a_reward(bench: Bench, tmp_path: Path) -> None:
    """A script's reward, exit code, output and the file's own bytes are in the verdict."""
    result = await run(
        bench, tmp_path, 'echo checking; echo 0.5 > "$TRIALOG_REWARD_TEXT"; echo >&2 done; exit 3'
    )
    verdict = scored(result)
    assert (verdict.score, verdict.source, verdict.exit_code) == (0.5, "verifier", 3)
    assert (verdict.verifier, verdict.verifier_kind, verdict.weight) == ("test.sh", "script", 1.0)
    assert verdict.duration > 0
    assert verdict.output is not None
    assert await bench.blobs.get(verdict.output.blob) == b"checking\ndone\n"
    [file] = verdict.files
    assert (file.path, await bench.blobs.get(file.blob)) == ("reward.txt", b"0.5\n")
    assert result.events == [verdict]


async def test_started_says_what_will_run() -> None:
    """The event before the run names verifier, digest, deadline and mode."""
    script = ScriptVerifier(
        digest="sha256:1", source=Path(), files={}, settings=VerifierSettings(), timeout=12.5
    )
    started = script.started()
    assert (started.verifier, started.digest, started.timeout_sec) == ("test.sh", "sha256:1", 12.5)
    assert (started.verifier_kind, started.sandbox_mode) == ("script", "shared")


async def test_shebang_and_working_folder(bench: Bench, tmp_path: Path) -> None:
    """The shebang's program runs the script, without a run bit, in the workspace."""
    body = (
        "#!/usr/bin/env python3\n"
        "import os, pathlib\n"
        "pathlib.Path(os.environ['TRIALOG_REWARD_TEXT']).write_text('1')\n"
        "print(os.getcwd())\n"
    )
    verdict = scored(await run(bench, tmp_path, body))
    assert verdict.score == 1.0
    assert verdict.output is not None
    assert await bench.blobs.get(verdict.output.blob) == f"{bench.workspace}\n".encode()
    assert bench.sandbox.commands[0].argv == ["/usr/bin/env", "python3", "/verifier/test.sh"]


async def test_bash_without_a_shebang(bench: Bench, tmp_path: Path) -> None:
    """A script without a shebang is bash's."""
    verdict = scored(
        await run(bench, tmp_path, '[[ -n $BASH ]] && echo 1 > "$TRIALOG_REWARD_TEXT"')
    )
    assert verdict.score == 1.0


async def test_environment(bench: Bench, tmp_path: Path) -> None:
    """The task's variables arrive; where things are is told under both prefixes, and wins."""
    await run(
        bench,
        tmp_path,
        "exit 0",
        env={"WANTED": "42", "EMPTY": "", "TRIALOG_WORKSPACE": "/elsewhere"},
        settings=VerifierSettings(user="grader"),
        timeout=7.5,
        start_timeout=3.0,
    )
    [command] = bench.sandbox.commands
    places = {
        "WORKSPACE": "/app",
        "VERIFIER_DIR": "/verifier",
        "AGENT_LOG_DIR": "/logs/agent",
        "REWARD_TEXT": "/logs/verifier/reward.txt",
        "REWARD_JSON": "/logs/verifier/reward.json",
        "REWARD_DETAILS_JSON": "/logs/verifier/reward-details.json",
        "PYTEST": "/.trialog/tools/pytest",
    }
    assert command.env == {
        "WANTED": "42",
        "EMPTY": "",
        **{f"TRIALOG_{name}": place for name, place in places.items()},
        **{f"BENCHFLOW_{name}": place for name, place in places.items()},
    }
    assert (command.user, command.timeout, command.start_timeout) == ("grader", 7.5, 3.0)
    assert command.stdin == b""


async def test_nothing_written(bench: Bench, tmp_path: Path) -> None:
    """A script that writes nothing: the engine's 0 with its warning, and the output is kept."""
    result = await run(bench, tmp_path, "echo no; exit 7")
    verdict = scored(result)
    assert (verdict.score, verdict.source, verdict.exit_code) == (0.0, "engine", 7)
    assert result.events[1] == WarningRaised(
        code="reward_missing",
        message="Verifier scored 0: verifier exited with rc=7; "
        "no reward file found at /logs/verifier/reward.txt",
    )


async def test_killed_by_a_signal(bench: Bench, tmp_path: Path) -> None:
    """A script that a signal ends has an exit code of 128 and the signal's number."""
    result = await run(bench, tmp_path, "kill -9 $$")
    assert scored(result).exit_code == 137


async def test_planted_reward_does_not_count(bench: Bench, tmp_path: Path) -> None:
    """A reward from the agent's phase is not there when a script writes nothing."""
    await bench.prepare()
    planted = bench.folders.verifier_logs / "reward.txt"
    planted.write_text("1")
    result = await grade(bench, make_script(tmp_path / "tests", "exit 1"))
    assert (scored(result).score, scored(result).source) == (0.0, "engine")


async def test_missing_reward_error(bench: Bench, tmp_path: Path) -> None:
    """With --missing-reward error the verdict says that the reward is missing."""
    verdict = scored(await run(bench, tmp_path, "exit 1", missing_reward="error"))
    assert (verdict.missing, verdict.score, verdict.source) == (True, 0.0, "engine")


async def test_timeout(bench: Bench, tmp_path: Path) -> None:
    """A script past its deadline: 0, no exit code, the output so far, a warning with the time."""
    result = await run(
        bench, tmp_path, 'echo 1 > "$TRIALOG_REWARD_TEXT"; echo hello; sleep 60', timeout=1.0
    )
    verdict = scored(result)
    assert (verdict.score, verdict.source, verdict.timed_out) == (0.0, "engine", True)
    assert verdict.exit_code is None
    assert verdict.output is not None
    assert await bench.blobs.get(verdict.output.blob) == b"hello\n"
    assert result.events[1] == WarningRaised(
        code="verifier_timeout", message="Verifier scored 0: verifier timed out after 1.0s"
    )
    assert [file.path for file in verdict.files] == ["reward.txt"]


async def test_json_scores_and_details(bench: Bench, tmp_path: Path) -> None:
    """Scores and details of reward.json; a user's ``$`` keys are escaped in both."""
    body = (
        """echo '{"reward": 1, "p": 0.5, "$blob": 0.25, "d": {"$blob": "sha256:x", "size": 1}}' """
        '> "$TRIALOG_REWARD_JSON"'
    )
    verdict = scored(await run(bench, tmp_path, body))
    assert verdict.scores == {"p": 0.5, "$$blob": 0.25}
    assert verdict.details == {"d": {"$$blob": "sha256:x", "size": 1}}


async def test_large_details_are_blobs(bench: Bench, tmp_path: Path) -> None:
    """A detail over the limit is a blob of its JSON; small ones stay in the event."""
    body = (
        "#!/usr/bin/env python3\n"
        "import json, os\n"
        "value = {'reward': 1, 'small': 'x', 'large': ['y' * 20000], 'more': 'z'}\n"
        "json.dump(value, open(os.environ['TRIALOG_REWARD_JSON'], 'w'))\n"
    )
    verdict = scored(await run(bench, tmp_path, body))
    assert (verdict.details["small"], verdict.details["more"]) == ("x", "z")
    large = verdict.details["large"]
    assert isinstance(large, BlobRef)
    assert await bench.blobs.get(large) == b'["' + b"y" * 20000 + b'"]'


async def test_many_details_are_bounded(bench: Bench, tmp_path: Path) -> None:
    """A hundred thousand details make no hundred thousand blobs; the file itself has them all."""
    body = (
        "#!/usr/bin/env python3\n"
        "import json, os\n"
        "value = {'reward': 1} | {f'k{i}': 'x' * 5 for i in range(60000)}\n"
        "json.dump(value, open(os.environ['TRIALOG_REWARD_JSON'], 'w'), separators=(',', ':'))\n"
    )
    verdict = scored(await run(bench, tmp_path, body))
    assert (verdict.score, verdict.files[0].path) == (1.0, "reward.json")
    assert 100 <= len(verdict.details) < 2000
    assert len(encode(verdict)) < 64 * 1024


async def test_details_and_reports_are_kept_and_never_scored(bench: Bench, tmp_path: Path) -> None:
    """reward-details.json and ctrf.json are blobs, whatever is in them."""
    body = (
        'cd "$(dirname "$TRIALOG_REWARD_TEXT")"; echo 0.5 > reward.txt\n'
        """echo '{"reward": 1, "x": NaN}' > reward-details.json; echo '{"results": 1' > ctrf.json"""
    )
    verdict = scored(await run(bench, tmp_path, body))
    assert (verdict.score, verdict.scores, verdict.warnings) == (0.5, {}, [])
    assert {f.path: await bench.blobs.get(f.blob) for f in verdict.files} == {
        "reward.txt": b"0.5\n",
        "reward-details.json": b'{"reward": 1, "x": NaN}\n',
        "ctrf.json": b'{"results": 1\n',
    }


async def test_details_that_can_not_be_kept(bench: Bench, tmp_path: Path) -> None:
    """A link in place of reward-details.json is not followed, and a warning says so."""
    body = (
        'cd "$(dirname "$TRIALOG_REWARD_TEXT")"; echo 1 > reward.txt\n'
        "ln -s /etc/hostname reward-details.json"
    )
    result = await run(bench, tmp_path, body)
    assert [f.path for f in scored(result).files] == ["reward.txt"]
    assert result.events[1] == WarningRaised(
        code="verifier_file_skipped",
        message="reward-details.json is a symbolic link, not a regular file; it was not kept",
        path="/logs/verifier/reward-details.json",
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("echo 1 > one; ln -s one reward.txt", "is a symbolic link, not a regular file"),
        ("mkfifo reward.txt", "is a named pipe, not a regular file"),
        ("mkdir reward.txt; echo 1 > reward.txt/x", "is a folder, not a regular file"),
        ("head -c 1048577 /dev/zero > reward.txt", "is over 1 MiB"),
    ],
)
async def test_reward_that_is_not_read(
    bench: Bench, tmp_path: Path, body: str, reason: str
) -> None:
    """A reward that is no plain small file is a 0 with its reason, at once."""
    result = await run(bench, tmp_path, f'cd "$(dirname "$TRIALOG_REWARD_TEXT")"; {body}')
    verdict = scored(result)
    assert (verdict.score, verdict.source, verdict.files) == (0.0, "engine", [])
    assert result.events[1] == WarningRaised(
        code="reward_unusable", message=f"Verifier scored 0: reward.txt {reason}"
    )


async def test_output_that_is_not_utf8(bench: Bench, tmp_path: Path) -> None:
    """Bytes that are no UTF-8 end no trial; the blob has them as they came."""
    body = rb"""printf 'a\xe2\x82b\xff\xfe'; echo 1 > "$TRIALOG_REWARD_TEXT" """
    verdict = scored(await run(bench, tmp_path, body))
    assert verdict.score == 1.0
    assert verdict.output is not None
    assert verdict.output.invalid_utf8
    assert await bench.blobs.get(verdict.output.blob) == b"a\xe2\x82b\xff\xfe"


async def test_verdict_comes_from_files_alone(bench: Bench, tmp_path: Path) -> None:
    """What a script prints about its reward changes nothing."""
    body = """echo '{"reward": 1}'; echo 'reward: 1.0 PASSED'; echo 0 > "$TRIALOG_REWARD_TEXT" """
    assert scored(await run(bench, tmp_path, body)).score == 0.0


async def test_secrets_in_the_output(bench: Bench, tmp_path: Path) -> None:
    """A secret is redacted from the output."""
    await bench.prepare()
    script = make_script(tmp_path / "tests", "echo pass=hunter2hunter2.")
    result = await grade(bench, script, redactor=Redactor({"PASS": "hunter2hunter2"}))
    output = scored(result).output
    assert output is not None
    assert await bench.blobs.get(output.blob) == b"pass=[redacted:PASS].\n"


async def test_left_processes_are_told(bench: Bench, tmp_path: Path) -> None:
    """What a script leaves running, and was killed, is in the result; so is a lack of memory."""
    await bench.prepare()
    bench.sandbox.exit = Exit(
        ended_by="exit",
        code=137,
        duration=1.0,
        left=[Process(pid=7, name="sleep")],
        out_of_memory=True,
    )
    result = await grade(bench, make_script(tmp_path / "tests", "exit 0"))
    assert result.killed == [Process(pid=7, name="sleep")]
    assert scored(result).evidence == ["the machine ran out of memory for the script"]


# Engine faults


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (SandboxGone("the container is gone"), "sandbox_lost"),
        (SandboxStartTimeout("no first process after 60 s"), "start_timeout"),
        (SandboxError("exec failed"), "sandbox_failed"),
    ],
)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_sandbox_faults_win(
    bench: Bench, tmp_path: Path, error: SandboxError, category: str, when: str
) -> None:
    """A sandbox's fault is a failure of the machine's, even when a reward lies there."""
    await bench.prepare()
    setattr(bench.sandbox, f"fails_{when}", error)
    script = make_script(tmp_path / "tests", 'echo out; echo 1 > "$TRIALOG_REWARD_TEXT"')
    result = await grade(bench, script)
    failure = failed(result)
    assert (failure.category, failure.infrastructure) == (category, True)
    assert failure.error == str(error)
    assert (bench.folders.verifier_logs / "reward.txt").exists() == (when == "after")
    assert (failure.output is not None) == (when == "after")
    lost = [event for event in result.events if isinstance(event, SandboxLost)]
    assert len(lost) == (category == "sandbox_lost")
    assert all(event.phase == "verifier" for event in lost)


async def test_changed_verifier(bench: Bench, tmp_path: Path) -> None:
    """Files that are not the recorded ones: nothing is run, and both digests are shown."""
    await bench.prepare()
    script = make_script(tmp_path / "tests", 'echo 0 > "$TRIALOG_REWARD_TEXT"')
    changed = b'echo 1 > "$TRIALOG_REWARD_TEXT"'
    (tmp_path / "tests" / "test.sh").write_bytes(changed)
    failure = failed(await grade(bench, script))
    assert (failure.category, failure.infrastructure) == ("verifier_digest_mismatch", True)
    assert isinstance(failure.error, str)
    assert script.files["test.sh"] in failure.error
    assert hashlib.sha256(changed).hexdigest() in failure.error
    assert bench.sandbox.commands == []


async def test_snapshot_is_gone(bench: Bench, tmp_path: Path) -> None:
    """A verifier folder that can't be copied in is a failed transfer."""
    await bench.prepare()
    script = make_script(tmp_path / "tests", "exit 0")
    failure = failed(await grade(bench, replace(script, source=tmp_path / "nowhere")))
    assert (failure.category, failure.infrastructure) == ("transfer_failed", True)


async def test_reward_folder_is_gone(bench: Bench, tmp_path: Path) -> None:
    """A reward's place that vanished from the host is a failed transfer, not a 0."""
    body = 'rm -r "$(dirname "$TRIALOG_REWARD_TEXT")"'
    failure = failed(await run(bench, tmp_path, body))
    assert (failure.category, failure.infrastructure) == ("transfer_failed", True)


async def test_reward_of_another_user(bench: Bench, tmp_path: Path, refusals: Refusals) -> None:
    """A reward that this process may not read is fetched through the sandbox."""
    await bench.prepare()
    script = make_script(tmp_path / "tests", 'echo 1 > "$TRIALOG_REWARD_TEXT"')
    refusals.refuse("reward.txt")
    verdict = scored(await grade(bench, script))
    assert (verdict.score, verdict.source) == (1.0, "verifier")


@pytest.mark.parametrize(
    ("copied", "reason"),
    [
        (TreeTooLarge(1), "is over 1 MiB"),
        ([SkippedPath(path="x", reason="a link")], "may not be read"),
    ],
)
async def test_reward_that_can_not_be_fetched(
    bench: Bench, tmp_path: Path, refusals: Refusals, copied: Any, reason: str
) -> None:
    """A reward that can't be fetched either is as if nothing usable was written."""
    await bench.prepare()
    bench.sandbox.copied = copied
    script = make_script(tmp_path / "tests", 'echo 1 > "$TRIALOG_REWARD_TEXT"')
    refusals.refuse("reward.txt")
    result = await grade(bench, script)
    assert scored(result).source == "engine"
    assert result.events[1] == WarningRaised(
        code="reward_unusable", message=f"Verifier scored 0: reward.txt {reason}"
    )
