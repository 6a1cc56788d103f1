"""Agents of the Agent Client Protocol that fail, flood, hang or hear of nothing."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from helpers.acp_desk import Desk
from trialog.engine.agents.acp import session, transport, updates
from trialog.engine.agents.acp import work as acp
from trialog.engine.agents.names import agent_by_name
from trialog.engine.errors import SandboxGone
from trialog.engine.sandbox.protocol import Exit
from trialog.events.errors import LogPoisoned
from trialog.events.kinds import ActionTaken, AgentFailed, AgentMessage, SandboxLost


@pytest.mark.parametrize(
    ("scenario", "error"),
    [
        ("sys.exit(3)", "the agent exited with code 3 before it had answered initialize"),
        ("def new_session(params): os._exit(0)",
         "the agent exited with code 0 before it had answered session/new"),
        ("def initialize(params): raise Refused(-32603, 'no way', {'x': 1})",
         'the agent answered initialize with error -32603: no way {"x": 1}'),
        ("def new_session(params): raise Refused(-32000, 'Authentication required')",
         "error -32000: Authentication required; it wants to be logged in, and offers: none. Give"),
        ("def initialize(params): return {'protocolVersion': 2}",
         "the agent speaks version 2 of the Agent Client Protocol, and trialog version 1"),
        ("def new_session(params): return {}",
         "the agent's answer to session/new has not the form of one: sessionId: Field required"),
        ("def initialize(params): return [[]]", "the agent's answer to initialize has not the"),
        ("raw('{' * (33 * 2**20))", "the agent broke the protocol: it sent a line of over 32 MiB"),
        ("while True: raw('rubbish' + chr(10))",
         "the agent broke the protocol: it sent over 1000 lines that are no messages"),
        ("def initialize(params): time.sleep(60)",
         "the agent did not answer initialize within 1 s"),
    ],
)  # fmt: skip
async def test_agents_that_do_not_come_up(
    desk: Desk, scenario: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without having been given the task there is no work: the trial is errored."""
    monkeypatch.setattr(session, "SETUP_SEC", 1.0 if "sleep" in scenario else 30.0)
    monkeypatch.setattr(acp, "CLOSING_SEC", 0.2)
    done = await desk.work(scenario)
    assert done.failed.category == "agent_setup_failed"
    assert error in str(done.failed.error)


async def test_a_command_that_is_not_there(desk: Desk) -> None:
    """The shell's words and its exit code are kept."""
    await desk.bench.prepare()
    context = desk.context()
    outcome = await agent_by_name("acp:no-such-agent --acp").run(context)
    assert isinstance(outcome.end, AgentFailed)
    assert (outcome.end.category, outcome.end.exit_code) == ("agent_setup_failed", 127)
    assert outcome.end.output is not None
    assert b"no-such-agent" in await desk.bench.blobs.get(outcome.end.output.blob)


@pytest.mark.parametrize(
    ("work", "ended_by", "category", "error"),
    [
        ("sys.exit(4)", "agent_exit", "agent_exit",
         "the agent exited with code 4 before it had answered session/prompt"),
        ("os.kill(os.getpid(), 9)", "agent_exit", "agent_exit", "exited with code 137"),
        ("raise Refused(-32603, 'out of tokens')", "agent_exit", "agent_failed",
         "the agent answered session/prompt with error -32603: out of tokens"),
        ("return 'tired'", "agent_exit", "agent_failed", "has not the form of one: stopReason"),
        ("raw(b'x' * (33 * 2**20)); time.sleep(60)", "agent_exit", "agent_failed",
         "the agent broke the protocol: it sent a line of over 32 MiB"),
    ],
)  # fmt: skip
async def test_agents_that_fail_at_work(
    desk: Desk,
    work: str,
    ended_by: str,
    category: str,
    error: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What they had done is graded, and what they had said is kept."""
    monkeypatch.setattr(acp, "CLOSING_SEC", 0.2)
    done = await desk.work(
        f"""
        def work(prompt):
            say("Half"); update("tool_call", toolCallId="c", title="Try", kind="edit")
            {work}
        """
    )
    assert done.ending == (ended_by, category)
    assert error in str(done.finished.error)
    assert done.said == [("Half", None)]
    assert [step[3] for step in done.steps] == ["! the tool call's end was not told"]


async def test_an_agent_that_never_answers_is_stopped(desk: Desk) -> None:
    """The task's deadline ends it, as any other agent."""
    done = await desk.work("def work(prompt): say('On it.'); time.sleep(60)", timeout=5.0)
    assert done.ending == ("agent_timeout", "agent_timeout")
    assert "stopped after 5.0s" in str(done.finished.error)
    assert done.said == [("On it.", None)]


async def test_silence(desk: Desk) -> None:
    """Messages and what terminals print are signs of life; the sandbox is told of both."""
    done = await desk.work(
        "def work(prompt): say('x'); run('sleep 0.3; echo x'); return 'end_turn'"
    )
    assert done.ending == ("done", None)
    [command] = desk.bench.sandbox.commands
    assert command.quiet_for is not None
    assert await command.quiet_for() < 20


async def test_an_idle_agent(desk: Desk) -> None:
    """What the sandbox stops for its silence ends as any other agent of that kind."""
    desk.bench.sandbox.exit = Exit(ended_by="idle", code=None, duration=1.0)
    done = await desk.work("def work(prompt): os._exit(1)", idle_timeout=7.0)
    assert done.ending == ("idle_timeout", "idle_timeout")
    assert "after 7.0s of silence" in str(done.finished.error)


async def test_rubbish_between_messages(desk: Desk) -> None:
    """Lines that are no messages are warnings that show them; the conversation goes on."""
    done = await desk.work(
        """
        def work(prompt):
            raw("Welcome!\\n\\n[1]\\n")
            raw(b'\\xff{"a"\\n')
            raw("[" * 100000 + "\\n")
            raw(json.dumps({"jsonrpc": "2.0", "method": 5}) + "\\n")
            raw(json.dumps({"jsonrpc": "2.0", "id": [1], "method": "x"}) + "\\n")
            raw(json.dumps({"jsonrpc": "2.0", "id": 1, "error": "x"}) + "\\n")
            raw(json.dumps({"jsonrpc": "2.0", "id": 999, "result": {}}) + "\\n")
            raw('{"jsonrpc": "2.0", "method": "x", "params": NaN}\\n')
            update("agent_message_chunk", content={"type": "text"})
            send({"method": "session/update", "params": []})
            update("tool_call", title="without an id")
            say("Still here: \\ud800" + chr(10))
            update("tool_call", toolCallId="big", title="t", status="completed", rawInput=2**70)
            return "end_turn"
        """
    )
    assert done.ending == ("done", None)
    assert [text for text, _ in done.said] == ["Still here: \ufffd\n"]
    assert done.of(AgentMessage)[-1].raw is not None
    assert done.steps == [("agent", "other", {"title": "t", "input": float(2**70)}, None)]
    whys = [
        warning.rpartition("}: ")[2] if "}: " in warning else warning for warning in done.warnings
    ]
    assert [
        why.split(": ", 1)[-1] if why.startswith("the agent sent") else why for why in whys
    ] == [
        "not JSON: Expecting value",
        "not a JSON object",
        "not JSON: Expecting value",
        "nested too deeply",
        "neither a request nor a notification",
        "neither a request nor a notification",
        "neither a request nor a response",
        "not JSON: NaN is no number",
        "session/update: update.agent_message_chunk.content.text.text: Field required",
        "session/update: Input should be a valid dictionary or instance of SessionNotification",
        "session/update: update.tool_call.toolCallId: Field required",
    ]


@pytest.mark.parametrize("depth", [50, 200, 600, 900, 2000])
async def test_nested_values(desk: Desk, depth: int) -> None:
    """What can't be kept is passed over at once, be it of a call that has ended or of an open one;
    the agent works on."""
    done = await desk.work(
        f"""
        def work(prompt):
            deep = '{{"title": "t", "rawInput": ' + "[" * {depth} + "]" * {depth} + "}}"
            for rest in ('"toolCallId": "a"', '"toolCallId": "b", "status": "completed"'):
                update_of = '{{"sessionUpdate": "tool_call", ' + rest + ", " + deep[1:]
                params = '{{"sessionId": "s1", "update": ' + update_of + "}}"
                raw('{{"jsonrpc": "2.0", "method": "session/update", "params": '
                    + params + "}}" + chr(10))
            say("on")
            return "end_turn"
        """
    )
    assert (done.ending, done.said) == (("done", None), [("on", None)])
    assert len(done.steps) == (2 if depth < 100 else 0)
    assert ["nested too deeply"] * (2 - len(done.steps)) == [
        warning.rpartition(": ")[2] for warning in done.warnings
    ]


async def test_floods_are_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of messages, calls and warnings so many are kept, and what is left out is said."""
    monkeypatch.setattr(updates, "MOST_EVENTS", 5)
    monkeypatch.setattr(updates, "MOST_WARNINGS", 2)
    monkeypatch.setattr(updates, "MESSAGE_CAP", 10)
    monkeypatch.setattr(transport, "MOST_OPEN", 2)
    done = await desk.work(
        """
        def work(prompt):
            for _ in range(50): say("123456")
            for n in range(50): update("tool_call", toolCallId=f"c{n}", title="t")
            for _ in range(50): raw("x" + chr(10))
            name = ask("terminal/create", command="sleep 60")["terminalId"]
            waits = [start("terminal/wait_for_exit", terminalId=name) for _ in range(3)]
            refused = answer_to(waits[2])["error"]["message"]
            print(refused, file=sys.stderr)
            return "end_turn"
        """
    )
    assert done.ending == ("done", None)
    assert len(done.of(AgentMessage)) == 6
    assert len(done.warnings) == 4
    assert done.warnings[2:] == [
        "50 messages of the agent's are none of the protocol's",
        "only the first 5 of what it told are kept",
    ]
    assert "too many requests are open at once" in done.printed


@pytest.mark.parametrize(
    "flood",
    [
        'say(f"{n}" * 5000)',
        'update("tool_call", toolCallId=f"c{n}", title="t", rawInput=f"{n}" * 5000,'
        ' status="completed")',
        'ask("fs/write_text_file", path=FOLDER + "/x", content=f"{n}" * 5000)',
        'name = ask("terminal/create", command=f"printf %05000d {n}")["terminalId"];'
        ' ask("terminal/wait_for_exit", terminalId=name)',
        'ask("session/request_permission", options=[],'
        ' toolCall={"toolCallId": "c", "title": f"{n}" * 5000})',
    ],
)
async def test_what_is_kept_is_bounded_in_bytes(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, flood: str
) -> None:
    """A few messages may be as large as many, and the log is no place to fill a disk from."""
    monkeypatch.setattr(updates, "KEPT_CAP", 12_000)
    monkeypatch.setattr(updates, "MESSAGE_CAP", 10)
    done = await desk.work(
        f"""
        import os
        FOLDER = os.environ["FOLDER"]
        def work(prompt):
            for n in range(9):
                {flood}
            return "end_turn"
        """
    )
    assert done.ending == ("done", None)
    assert len(done.said) + len(done.steps) in (2, 3)
    assert done.warnings == ["only the first 0 MiB of what it told are kept"]


async def test_what_is_held_is_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of large open calls the oldest count as ended; of large requests some are refused."""
    monkeypatch.setattr(updates, "OPEN_CAP", 10_000)
    monkeypatch.setattr(transport, "OPEN_CAP", 10_000)
    done = await desk.work(
        """
        def work(prompt):
            for _ in range(9):
                update("tool_call", toolCallId="again", title="t", rawInput="x" * 1000)
            for n in range(3):
                update("tool_call", toolCallId=f"c{n}", title="t", rawInput="x" * 3000)
            name = ask("terminal/create", command="sleep 60")["terminalId"]
            start("terminal/wait_for_exit", terminalId=name)
            say(ask("fs/write_text_file", path="/x", content="x" * 20000))
            return "end_turn"
        """
    )
    assert done.said == [("error: too many requests are open at once", None)]
    steps = [step for step in done.of(ActionTaken) if step.app == "agent"]
    assert [step.tool_call for step in steps] == ["again", "c0", "c1", "c2"]
    assert steps[0].turn == 1


async def test_an_agent_that_does_not_read(desk: Desk) -> None:
    """Answers that it never takes stand in nobody's way."""
    done = await desk.work(
        """
        def work(prompt):
            open("big", "w").write("x" * 300000)
            for _ in range(10): start("fs/read_text_file", path=os.environ["FOLDER"] + "/big")
            time.sleep(60)
        """,
        timeout=6.0,
    )
    assert done.ending == ("agent_timeout", "agent_timeout")


async def test_an_agent_that_stays_after_its_answer(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is ended; its turn was over, so all is well, and its last words are still taken."""
    monkeypatch.setattr(acp, "CLOSING_SEC", 0.5)
    done = await desk.work(
        """
        import signal
        def _prompt(params):
            say("Done.")
            send({"id": 2, "result": {"stopReason": "end_turn"}})
            say(" Really."); time.sleep(60)
        """
    )
    assert done.ending == ("done", None)
    assert done.said == [("Done. Really.", None)]
    assert done.printed == ""


async def test_cut_off(desk: Desk) -> None:
    """What it was saying, and the command that it had running, are told; output is kept."""
    begun = anyio.Event()

    def emit(event: Any) -> str:
        if isinstance(event, ActionTaken):
            begun.set()
        return desk.emit(event)

    async with anyio.create_task_group() as group:

        async def work() -> None:
            await desk.work(
                """
                def work(prompt):
                    print("printed", file=sys.stderr, flush=True)
                    ask("terminal/create", command="sleep 60")
                    run("true")
                    say("Half"); time.sleep(60)
                """,
                emit=emit,
            )

        group.start_soon(work)
        await begun.wait()
        group.cancel_scope.cancel()
    steps = [event for event in desk.events if isinstance(event, ActionTaken)]
    assert [step.arguments for step in steps] == [{"command": "true"}, {"command": "sleep 60"}]
    assert steps[1].error == "the command was still running at the end"
    [cut] = desk.cut
    assert b"printed\n" in cut.data


async def test_a_sandbox_that_is_lost(desk: Desk) -> None:
    """It is the sandbox's failure, whatever the agent had said."""
    desk.bench.sandbox.fails_after = SandboxGone("it is gone")
    done = await desk.work("def work(prompt): say('x'); return 'end_turn'")
    assert done.failed.category == "sandbox_lost"
    [lost] = done.outcome.events
    assert isinstance(lost, SandboxLost)


@pytest.mark.parametrize(
    "after", ["ask('fs/write_text_file', path=os.getcwd() + '/x', content='')", "say('y')"]
)
@pytest.mark.parametrize("kind", [AgentMessage, ActionTaken])
async def test_a_log_that_fails_is_no_fault_of_the_agents(
    desk: Desk, kind: type[Any], after: str
) -> None:
    """The engine's own faults come through as they are, wherever they come up."""

    def emit(event: Any) -> str:
        if isinstance(event, kind) and getattr(event, "role", "") != "user":
            raise LogPoisoned("/log", "the disk is full")
        return desk.emit(event)

    with pytest.raises(LogPoisoned, match="the disk is full"):
        await desk.work(
            f"""
            def work(prompt):
                say("x"); update("tool_call", toolCallId="c", title="t", status="completed")
                {after}
                time.sleep(60)
            """,
            emit=emit,
        )
