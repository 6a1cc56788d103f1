"""What an agent's program reports of itself."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from trialog.engine.agents import AgentContext, Assignment
from trialog.engine.agents.report import MOST_ACTIONS, REPORT_CAP, Following, report_age
from trialog.engine.sandbox.protocol import TreeTooLarge
from trialog.events.codec import encode
from trialog.events.kinds import ActionTaken, TrialEvent, WarningRaised
from trialog.events.kinds.parts import SkippedPath
from trialog.events.values import BlobRef

if TYPE_CHECKING:
    from conftest import Bench, Refusals

SINCE = "2026-01-01T00:00:00.000000Z"


class Report:
    """What was emitted of a report."""

    def __init__(self) -> None:
        self.events: list[TrialEvent] = []
        self.turns = 0


def following(bench: Bench, found: Report) -> Following:
    """Follows the report of a phase."""

    def emit(event: TrialEvent) -> str:
        encode(event)
        found.events.append(event)
        return ""

    context = AgentContext(
        sandbox=bench.sandbox,
        folders=bench.folders,
        prompt="",
        assignment=Assignment(task="t", attempt=1),
        timeout=1.0,
        blobs=bench.blobs,
        clock=bench.clock,
        emit=emit,
        cut_off=lambda _: None,
    )
    return Following(context, since=SINCE)


async def read(bench: Bench) -> Report:
    """Read the report as after a phase."""
    found = Report()
    follower = following(bench, found)
    await follower.finish()
    found.turns = follower.turns
    return found


async def report(bench: Bench, *lines: Any) -> Report:
    """Write a report (bytes as they are, all else as JSON) and read it."""
    await bench.prepare()
    path = bench.folders.agent_logs / "actions.jsonl"
    path.write_bytes(
        b"".join((x if isinstance(x, bytes) else json.dumps(x).encode()) + b"\n" for x in lines)
    )
    return await read(bench)


def actions(report: Report) -> list[ActionTaken]:
    """The steps of a report."""
    return [event for event in report.events if isinstance(event, ActionTaken)]


def warnings(report: Report) -> list[tuple[str, str]]:
    """Codes and messages."""
    return [
        (event.code, str(event.message))
        for event in report.events
        if isinstance(event, WarningRaised)
    ]


async def test_each_line_is_a_step(bench: Bench) -> None:
    """A reported command is a step that the agent saw, with a tool call of its own."""
    found = await report(
        bench,
        {
            "command": "ls",
            "output": "a\nb\n",
            "exit_code": 0,
            "duration_sec": 0.25,
            "started_at": "2026-01-02T03:04:05+01:00",
            "id": "call_7",
            "more": "is passed over",
        },
        {"command": ["cat", "x"], "output": "", "exit_code": 1, "error": "no such file"},
        {"command": "sleep 1"},
    )
    assert found.turns == 3
    first, second, third = actions(found)
    assert first == ActionTaken(
        turn=1,
        tool_call="call_7",
        app="shell",
        action="run",
        arguments={"command": "ls"},
        observation={"output": "a\nb\n", "exit_code": 0},
        started_at="2026-01-02T02:04:05.000000Z",
        duration=0.25,
        observed_by="agent",
    )
    assert (second.turn, second.tool_call, second.error) == (2, "shell-2", "no such file")
    assert second.arguments == {"command": ["cat", "x"]}
    assert (third.observation, third.started_at) == ({"output": None, "exit_code": None}, SINCE)
    assert warnings(found) == []


async def test_no_report(bench: Bench) -> None:
    """A program need not report anything; an empty file and blank lines are nothing."""
    await bench.prepare()
    assert (await read(bench)).events == []
    (bench.folders.agent_logs / "actions.jsonl").write_bytes(b"\n \r\n\n")
    assert (await read(bench)).events == []


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"hello", "not JSON: Expecting value"),
        (b'{"command": "ls"', "not JSON: Expecting ',' delimiter"),
        (
            b'{"command": "ls", "duration_sec": NaN}',
            "not JSON: NaN, or a number of too many digits",
        ),
        (b"[" * 100_000, "nested too deeply"),
        (
            b'{"command": "x", "exit_code": ' + b"9" * 5000 + b"}",
            "not JSON: NaN, or a number of too many digits",
        ),
        (b"[]", "Expected `object`, got `array`"),
        (b"{}", "Object missing required field `command`"),
        (b'{"command": 1}', "Expected `str | array`, got `int` - at `$.command`"),
        (b'{"command": "x", "exit_code": "0"}', "Expected `int | null`"),
        (b'{"command": "x", "exit_code": 99999999999}', "Expected `int` <"),
        (b'{"command": "x", "duration_sec": -1}', "Expected `float` >= 0.0"),
        (b'{"command": "x", "duration_sec": 1e400}', "Expected `float` <= 1000000000.0"),
        (b'{"command": "x", "started_at": "yesterday"}', "started_at is no time with a zone"),
        (b'{"command": "x", "started_at": "2026-01-01T00:00:00"}', "started_at is no time"),
        (b"\xff\xfe\x00", "not JSON: Expecting value"),
    ],
)
async def test_malformed_lines(bench: Bench, line: bytes, why: str) -> None:
    """A line that is no action is a warning with its number, reason and text; the rest counts."""
    found = await report(bench, {"command": "before"}, line, {"command": "after"})
    assert [a.arguments for a in actions(found)] == [{"command": "before"}, {"command": "after"}]
    [(code, message)] = warnings(found)
    assert code == "agent_report_malformed"
    assert message.startswith(f"the agent's report, line 2: {why}")
    assert line[:20].decode("utf-8", "replace") in message
    assert len(message) < 800


async def test_many_malformed_lines(bench: Bench) -> None:
    """Twenty are shown, all are counted."""
    found = await report(bench, *[b"x"] * 50)
    assert len(warnings(found)) == 21
    assert warnings(found)[-1] == (
        "agent_report_malformed",
        "50 lines of the agent's report are no actions",
    )


async def test_dollar_keys_and_large_outputs(bench: Bench) -> None:
    """A large observation is a blob of its JSON."""
    found = await report(bench, {"command": "x", "output": "y" * 20_000, "exit_code": 0})
    [step] = actions(found)
    assert isinstance(step.observation, BlobRef)
    assert json.loads(await bench.blobs.get(step.observation)) == {
        "output": "y" * 20_000,
        "exit_code": 0,
    }


async def test_output_that_is_not_unicode(bench: Bench) -> None:
    """Bytes that are no UTF-8, raw or escaped, become U+FFFD with the bytes beside them."""
    found = await report(
        bench,
        b'{"command": "x\xff", "output": "a\xffb"}',
        b'{"command": "x", "output": "a\\udcffb"}',
        b'{"command": "x", "output": "\\ud83d\\ude00"}',
    )
    first, second, third = actions(found)
    assert first.arguments == {"command": "x\ufffd"}
    for step in (first, second):
        assert step.observation == {"output": "a\ufffdb", "exit_code": None}
        assert step.raw is not None
        assert await bench.blobs.get(step.raw) == b"a\xffb"
    assert (third.observation, third.raw) == ({"output": "😀", "exit_code": None}, None)


# Hostile reports


async def test_report_that_is_no_file(bench: Bench, tmp_path: Path) -> None:
    """A link, a pipe and a folder in the report's place are not read, and nothing hangs."""
    await bench.prepare()
    path = bench.folders.agent_logs / "actions.jsonl"
    outside = tmp_path / "outside"
    outside.write_text('{"command": "x"}\n')
    said = [("agent_report_cut", "the report is no regular file and was not read")]
    path.symlink_to(outside)
    assert path.read_text()
    assert warnings(await read(bench)) == said
    path.unlink()
    os.mkfifo(path)
    assert warnings(await read(bench)) == said
    path.unlink()
    path.mkdir()
    assert warnings(await read(bench)) == said


async def test_folder_was_replaced(bench: Bench, tmp_path: Path) -> None:
    """A link in place of the whole folder is not followed."""
    await bench.prepare()
    (tmp_path / "actions.jsonl").write_text('{"command": "x"}\n')
    bench.folders.agent_logs.rmdir()
    bench.folders.agent_logs.symlink_to(tmp_path)
    found = await read(bench)
    assert found.turns == 0
    [(code, message)] = warnings(found)
    assert (code, message.partition(":")[0]) == ("agent_report_cut", "the report can't be read")


async def test_huge_report(bench: Bench) -> None:
    """Of a report of a GiB only the whole lines in the first 16 MiB are read."""
    await bench.prepare()
    path = bench.folders.agent_logs / "actions.jsonl"
    path.write_bytes(b'{"command": "first"}\n')
    os.truncate(path, 2**30)
    found = await read(bench)
    assert [a.arguments for a in actions(found)] == [{"command": "first"}]
    assert warnings(found)[-1] == (
        "agent_report_cut",
        f"only the first {REPORT_CAP // 2**20} MiB of the report are kept",
    )


async def test_many_actions(bench: Bench) -> None:
    """Ten thousand actions are kept."""
    found = await report(bench, *[b'{"command": "x"}'] * (MOST_ACTIONS + 1))
    assert found.turns == MOST_ACTIONS
    assert warnings(found) == [
        ("agent_report_cut", f"only the first {MOST_ACTIONS} actions are kept")
    ]


async def test_report_of_another_user(bench: Bench, refusals: Refusals) -> None:
    """A report that this process may not read is fetched through the sandbox."""
    await bench.prepare()
    (bench.folders.agent_logs / "actions.jsonl").write_text('{"command": "x"}\n')
    refusals.refuse("actions.jsonl")
    assert (await read(bench)).turns == 1
    bench.sandbox.copied = TreeTooLarge(1)
    assert warnings(await read(bench)) == [
        ("agent_report_cut", "the report is over 16 MiB and can't be read")
    ]
    bench.sandbox.copied = [SkippedPath(path="x", reason="it may not be read")]
    assert warnings(await read(bench)) == [
        ("agent_report_cut", "the report can't be read: it may not be read")
    ]


async def test_report_on_a_broken_disk(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report that fails to open is a warning."""
    await bench.prepare()
    (bench.folders.agent_logs / "actions.jsonl").write_text('{"command": "x"}\n')
    opened = os.open

    def fail(path: Any, *args: Any, **more: Any) -> int:
        if path == "actions.jsonl":
            raise OSError(5, "Input/output error")
        return opened(path, *args, **more)

    monkeypatch.setattr(os, "open", fail)
    assert warnings(await read(bench)) == [
        ("agent_report_cut", "the report can't be read: Input/output error")
    ]


async def test_age(bench: Bench) -> None:
    """The age of a report is that of its last change, which no touch can put into the future."""
    await bench.prepare()
    assert await report_age(bench.folders.agent_logs) == float("inf")
    path = bench.folders.agent_logs / "actions.jsonl"
    path.write_text("")
    os.utime(path, (0, 0))
    assert 0 <= await report_age(bench.folders.agent_logs) < 60


# While the agent works


async def until(condition: Callable[[], object]) -> None:
    """Wait until something holds."""
    with anyio.fail_after(20):
        while not condition():
            await anyio.sleep(0.01)


async def test_steps_come_while_the_agent_works(bench: Bench) -> None:
    """A step is told as soon as its line is whole; the end tells the rest, each step once."""
    await bench.prepare()
    path = bench.folders.agent_logs / "actions.jsonl"
    found = Report()
    follower = following(bench, found)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follower.follow)
        path.write_text('{"command": "one"}\n{"command": "two"')
        await until(lambda: found.events)
        assert [a.arguments for a in actions(found)] == [{"command": "one"}]
        with path.open("a") as more:
            more.write('}\nno step\n{"command": "three"}\n')
        await until(lambda: len(found.events) == 4)
        tasks.cancel_scope.cancel()
    with path.open("a") as more:
        more.write('{"command": "four"}')
    await follower.finish()
    names = ("one", "two", "three", "four")
    assert [(a.turn, a.arguments) for a in actions(found)] == [
        (turn, {"command": name}) for turn, name in enumerate(names, 1)
    ]
    [(code, message)] = warnings(found)
    assert (code, message[:37]) == (
        "agent_report_malformed",
        "the agent's report, line 3: not JSON:",
    )


async def test_a_cut_off_phase_tells_its_last_steps(bench: Bench) -> None:
    """What was reported since the last look is told too, less a line that was not whole."""
    await bench.prepare()
    lines = b'{"command": "x"}\n' * 200_000
    (bench.folders.agent_logs / "actions.jsonl").write_bytes(lines[:3_000_000] + b'{"command')
    found = Report()
    follower = following(bench, found)
    await follower.catch_up()
    assert follower.turns == MOST_ACTIONS
    assert warnings(found) == []
    (bench.folders.agent_logs / "actions.jsonl").write_bytes(lines[:34] + b'{"command')
    again = Report()
    await following(bench, again).catch_up()
    assert len(actions(again)) == 2
    assert warnings(again) == []


@pytest.mark.parametrize("change", ["emptied", "replaced", "gone", "rewritten"])
async def test_a_report_that_is_changed_meanwhile(bench: Bench, change: str) -> None:
    """What was told stands; a file that does not go on from it is left, and that is told."""
    await bench.prepare()
    path = bench.folders.agent_logs / "actions.jsonl"
    path.write_text('{"command": "one"}\n')
    found = Report()
    follower = following(bench, found)
    await follower.catch_up()
    assert len(found.events) == 1
    match change:
        case "emptied":
            path.write_text("")
        case "replaced":
            path.write_text('{"command": "1"}\n{"command": "another one"}\n')
        case "gone":
            path.unlink()
        case _:
            path.unlink()
            path.write_text('{"command": "one"}\n{"command": "two"}\n')
    await follower.finish()
    if change == "rewritten":
        assert [a.arguments for a in actions(found)] == [{"command": "one"}, {"command": "two"}]
        assert warnings(found) == []
    else:
        assert len(actions(found)) == 1
        assert warnings(found) == [
            (
                "agent_report_cut",
                "the report was changed after its first 1 lines had been read; they stand, and "
                "the rest was not read",
            )
        ]


async def test_hostile_reports_meanwhile(bench: Bench, tmp_path: Path) -> None:
    """A link, a pipe or an endless line in the report's place neither hangs nor is followed."""
    await bench.prepare()
    path = bench.folders.agent_logs / "actions.jsonl"
    outside = tmp_path / "outside"
    outside.write_text('{"command": "x"}\n')
    found = Report()
    follower = following(bench, found)
    with anyio.fail_after(20):
        path.symlink_to(outside)
        assert path.read_text()
        await follower.catch_up()
        path.unlink()
        os.mkfifo(path)
        await follower.catch_up()
        path.unlink()
        path.touch()
        os.truncate(path, 2**34)
        await follower.catch_up()
    assert found.events == []


async def test_no_device_is_opened(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no plain file is never opened for reading, even if it takes the place meanwhile."""
    await bench.prepare()
    path = bench.folders.agent_logs / "actions.jsonl"
    os.mkfifo(path)
    opened: list[tuple[str, int]] = []
    really = os.open

    def look(name: Any, flags: int, *args: Any, **more: Any) -> int:
        opened.append((os.fsdecode(name), flags))
        return really(name, flags, *args, **more)

    monkeypatch.setattr(os, "open", look)
    await read(bench)
    assert [flags & os.O_PATH for name, flags in opened if name == "actions.jsonl"] == [os.O_PATH]
    assert not [name for name, _ in opened if name.startswith("/proc")]
