"""Agents of the Agent Client Protocol, over processes of the host in place of a sandbox."""

from __future__ import annotations

import json
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio import to_thread

import helpers.acp_agent
from trialog.engine.agents import AgentContext, AgentOutcome, Assignment
from trialog.engine.agents.acp import inside, services, session, transport, updates
from trialog.engine.agents.acp import work as acp
from trialog.engine.agents.acp.agent import run_acp
from trialog.engine.agents.names import agent_by_name
from trialog.engine.agents.program import program_environment
from trialog.engine.errors import ConfigError, SandboxGone
from trialog.engine.output import Captured
from trialog.engine.sandbox.protocol import Exit
from trialog.events.codec import encode
from trialog.events.errors import LogPoisoned
from trialog.events.kinds import (
    ActionTaken,
    AgentFailed,
    AgentFinished,
    AgentMessage,
    SandboxLost,
    WarningRaised,
)
from trialog.events.values import as_blob_ref

if TYPE_CHECKING:
    from conftest import Bench

AGENT = helpers.acp_agent.__file__


class Worked:
    """What came of an agent."""

    def __init__(self, outcome: AgentOutcome, events: list[Any], printed: str) -> None:
        self.outcome = outcome
        self.events = events
        self.printed = printed

    @property
    def finished(self) -> AgentFinished:
        """The end, which left work to grade."""
        assert isinstance(self.outcome.end, AgentFinished), self.outcome.end
        return self.outcome.end

    @property
    def failed(self) -> AgentFailed:
        """The end, which left none."""
        assert isinstance(self.outcome.end, AgentFailed), self.outcome.end
        return self.outcome.end

    @property
    def ending(self) -> tuple[str, str | None]:
        """How the phase ended."""
        return self.finished.ended_by, self.finished.error_category

    def of(self, kind: type[Any]) -> list[Any]:
        """The events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def said(self) -> list[tuple[str, str | None]]:
        """Messages and thoughts of the agent."""
        return [(m.text, m.reasoning) for m in self.of(AgentMessage) if m.role == "assistant"]

    @property
    def steps(self) -> list[tuple[str, str, Any, Any]]:
        """What was done: where, what, on what, and what came of it."""
        return [
            (s.app, s.action, s.arguments, s.observation if s.error is None else f"! {s.error}")
            for s in self.of(ActionTaken)
        ]

    @property
    def warnings(self) -> list[str]:
        """What is to be known."""
        return [str(w.message) for w in self.of(WarningRaised)]


class Desk:
    """Lets agents work."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.events: list[Any] = []
        self.cut: list[Captured] = []

    def emit(self, event: Any) -> str:
        """What the log would take."""
        encode(event)
        self.events.append(event)
        return f"e{len(self.events)}"

    def context(self, **fields: Any) -> AgentContext:
        """What an agent gets."""
        settings: dict[str, Any] = {
            "sandbox": self.bench.sandbox,
            "folders": self.bench.folders,
            "prompt": "Work.",
            "timeout": 30.0,
            "blobs": self.bench.blobs,
            "clock": self.bench.clock,
            "assignment": Assignment(task="t", attempt=1, model=fields.pop("model", None)),
            "emit": self.emit,
            "cut_off": self.cut.append,
        }
        return AgentContext(**settings | fields)

    async def work(self, scenario: str = "", **fields: Any) -> Worked:
        """Let an agent work that does what a scenario says."""
        bench = self.bench
        place = bench.workspace.parent / "scenario.py"
        await to_thread.run_sync(place.write_text, textwrap.dedent(scenario))
        await bench.prepare()
        context = self.context(**fields)
        words = [sys.executable, "-I", AGENT, str(place)]
        env = program_environment(context) | {"FOLDER": str(bench.workspace)}
        outcome = await run_acp(context, words, env)
        for event in [*outcome.events, outcome.end]:
            encode(event)
        output = outcome.end.output
        printed = b"" if output is None else await bench.blobs.get(output.blob)
        return Worked(outcome, self.events, printed.decode("utf-8", "replace"))


@pytest.fixture
def desk(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """The fake sandbox's workspace is another path on the host."""
    monkeypatch.setattr(bench.folders, "workspace", str(bench.workspace))
    return Desk(bench)


# The conversation


async def test_an_agent_works_until_its_turn_ends(desk: Desk) -> None:
    """The prompt is told and given, what it does in the workspace stays, its version is known."""
    done = await desk.work(
        """
        def work(prompt):
            open("answer.txt", "w").write(prompt)
            print("to standard error", file=sys.stderr)
            used = {"totalTokens": 12, "inputTokens": 10, "outputTokens": 2, "cachedReadTokens": 4}
            return {"stopReason": "end_turn", "usage": used}
        """
    )
    assert done.ending == ("done", None)
    assert (done.finished.version, done.finished.exit_code) == ("7.7", None)
    assert (desk.bench.workspace / "answer.txt").read_text() == "Work."
    [prompt] = done.of(AgentMessage)
    assert (prompt.role, prompt.text) == ("user", "Work.")
    assert done.printed == "to standard error\n"
    used = done.finished.reported_usage
    assert used is not None
    assert (used.input_tokens, used.output_tokens, used.cached_tokens) == (10, 2, 4)
    assert (used.cost_usd, used.model_calls) == (None, None)


async def test_what_it_is_told_of_its_client(desk: Desk) -> None:
    """It hears of the workspace, of files and terminals, and of no servers."""
    done = await desk.work(
        """
        def initialize(params):
            say(json.dumps(params, sort_keys=True) + "|")
            return {"protocolVersion": 1}
        def new_session(params):
            say(json.dumps(params, sort_keys=True))
            return {"sessionId": SESSION}
        """
    )
    [(text, _)] = done.said
    client, given = (json.loads(part) for part in text.split("|"))
    assert client["protocolVersion"] == 1
    assert client["clientInfo"]["name"] == "trialog"
    assert client["clientCapabilities"]["fs"] == {"readTextFile": True, "writeTextFile": True}
    assert client["clientCapabilities"]["terminal"] is True
    assert given == {"cwd": desk.bench.folders.workspace, "mcpServers": []}
    assert done.finished.version is None


async def test_messages_thoughts_and_plans(desk: Desk) -> None:
    """Pieces become one message; thoughts go with what is said after them; a plan is a thought."""
    done = await desk.work(
        """
        def work(prompt):
            think("I ", ); think("wonder."); say("Hello, "); say("world.")
            think("Next.")
            entries = [{"content": "a", "priority": "high", "status": "completed"},
                       {"content": "b", "priority": "low", "status": "in_progress"},
                       {"content": "c", "priority": "low", "status": "pending"}]
            update("plan", entries=entries); update("plan", entries=entries)
            say("[")
            for block in ({"type": "resource_link", "uri": "file:///x", "name": "x"},
                          {"type": "resource", "resource": {"uri": "file:///y", "text": "inner"}},
                          {"type": "resource", "resource": {"uri": "file:///z", "blob": "QQ=="}},
                          {"type": "image", "data": "QUJD", "mimeType": "image/png"}):
                update("agent_message_chunk", content=block)
            update("usage_update", used=5, size=100, cost={"amount": 0.25, "currency": "USD"})
            update("available_commands_update", availableCommands=[])
            update("user_message_chunk", content={"type": "text", "text": prompt})
            update("of_a_later_protocol", what="ever")
            send({"method": "$/unknown", "params": {}})
            return "end_turn"
        """
    )
    assert done.said == [
        ("Hello, world.", "I wonder."),
        ("", "Next."),
        ("", "Plan:\n[x] a\n[>] b\n[ ] c"),
        ("[[link: file:///x]inner[resource: file:///z][image: image/png, 4 characters of base64]",
         None),
    ]  # fmt: skip
    assert [message.turn for message in done.of(AgentMessage)] == [None, 1, 2, 3, 4]
    assert done.warnings == []
    assert done.finished.reported_usage is not None
    assert done.finished.reported_usage.cost_usd == 0.25


async def test_tool_calls_are_steps(desk: Desk) -> None:
    """A call becomes a step when it ends, with what its updates have told, by the agent's word."""
    done = await desk.work(
        """
        def work(prompt):
            say("Looking.")
            update("tool_call", toolCallId="c1", title="Look", kind="read", status="pending",
                   rawInput={"path": "a"}, locations=[{"path": "/a", "line": 3}, {"path": "/b"}])
            update("tool_call_update", toolCallId="c1", status="in_progress",
                   content=[{"type": "content", "content": {"type": "text", "text": "half"}}])
            update("tool_call_update", toolCallId="c1", status="completed",
                   content=[{"type": "content", "content": {"type": "text", "text": "whole"}}])
            update("tool_call_update", toolCallId="c1", status="failed", title="Too late")
            say("Editing.")
            update("tool_call", toolCallId="c2", title="Edit", kind="edit", status="completed",
                   content=[{"type": "diff", "path": "/a", "oldText": "x", "newText": "y"},
                            {"type": "terminal", "terminalId": "t"}], rawOutput={"ok": True})
            update("tool_call", toolCallId="c3", title="Try", status="failed",
                   content=[{"type": "content", "content": {"type": "text", "text": "no such"}}])
            update("tool_call", toolCallId="c4", title="Think", kind="think", status="failed")
            update("tool_call", toolCallId="c5", title="Run", kind="execute", status="completed",
                   rawOutput=[1, 2])
            update("tool_call", toolCallId="c6", title="Forget", kind="fetch")
            return "end_turn"
        """
    )
    assert done.steps == [
        ("agent", "read", {"title": "Look", "input": {"path": "a"}, "locations": ["/a:3", "/b"]},
         "whole"),
        ("agent", "edit", {"title": "Edit"},
         {"content": [{"path": "/a", "old_text": "x", "new_text": "y"}, {"terminal": "t"}],
          "output": {"ok": True}}),
        ("agent", "other", {"title": "Try"}, "! no such"),
        ("agent", "think", {"title": "Think"}, "! the tool call failed"),
        ("agent", "execute", {"title": "Run"}, [1, 2]),
        ("agent", "fetch", {"title": "Forget"}, "! the tool call's end was not told"),
    ]  # fmt: skip
    steps = done.of(ActionTaken)
    assert [step.turn for step in steps] == [1, 2, 2, 2, 2, 2]
    assert [step.tool_call for step in steps] == ["c1", "c2", "c3", "c4", "c5", "c6"]
    assert {step.observed_by for step in steps} == {"agent"}


@pytest.mark.parametrize(
    ("stop", "ended_by", "category"),
    [
        ("max_tokens", "truncated", "reply_cut"),
        ("max_turn_requests", "max_turns", "agent_limit"),
        ("refusal", "agent_exit", "agent_refused"),
        ("cancelled", "agent_exit", "agent_failed"),
    ],
)
async def test_other_stop_reasons(desk: Desk, stop: str, ended_by: str, category: str) -> None:
    """Each has a category of its own, and the work is graded."""
    done = await desk.work(f"def work(prompt): return {stop!r}")
    assert done.ending == (ended_by, category)
    assert done.finished.error


# What it asks of its client


async def test_terminals(desk: Desk) -> None:
    """Commands run in the sandbox, at once if they are to, with folder, variables and an exit."""
    done = await desk.work(
        """
        def work(prompt):
            told = []
            one = ask("terminal/create", command="echo on; sleep 60; echo never")["terminalId"]
            word = {"name": "WORD", "value": "a 'b'"}
            told.append(run("pwd; echo $WORD >&2; exit 3", env=[word]))
            told.append(run("printf", args=["%s|", "a b", "$HOME"], cwd="/"))
            while not ask("terminal/output", terminalId=one)["output"]: pass
            told.append(ask("terminal/output", terminalId=one))
            ask("terminal/kill", terminalId=one)
            told.append(ask("terminal/wait_for_exit", terminalId=one))
            told.append(ask("terminal/output", terminalId=one))
            ask("terminal/release", terminalId=one)
            told.append(ask("terminal/output", terminalId=one))
            say(json.dumps(told))
            return "end_turn"
        """
    )
    here = desk.bench.workspace
    [(text, _)] = done.said
    assert json.loads(text) == [
        [f"{here}\na 'b'\n", {"exitCode": 3}],
        ["a b|$HOME|", {"exitCode": 0}],
        {"output": "on\n", "truncated": False},
        {"signal": "SIGKILL"},
        {"output": "on\n", "truncated": False, "exitStatus": {"signal": "SIGKILL"}},
        "error: there is no terminal 'terminal-1'",
    ]
    assert done.steps == [
        ("shell", "run", {"command": "pwd; echo $WORD >&2; exit 3"},
         {"output": f"{here}\na 'b'\n", "exit_code": 3}),
        ("shell", "run", {"command": "printf '%s|' 'a b' '$HOME'", "cwd": "/"},
         {"output": "a b|$HOME|", "exit_code": 0}),
        ("shell", "run", {"command": "echo on; sleep 60; echo never"},
         {"output": "on\n", "exit_code": 137}),
    ]  # fmt: skip
    assert {(s.observed_by, s.tool_call) for s in done.of(ActionTaken)} == {("host", None)}
    assert "$ pwd; echo $WORD >&2; exit 3\n" in done.printed


async def test_a_terminal_keeps_the_end_of_its_output(desk: Desk) -> None:
    """As many bytes as the agent asks for, from a whole character on; it is told what is gone."""
    done = await desk.work(
        r"""
        def work(prompt):
            zeros = "head -c 3000000 /dev/zero | tr '\\0' x; printf '\\377!'"
            say(json.dumps([run("printf abcää", outputByteLimit=3),
                            run("echo hi", outputByteLimit=0), run(zeros)[0][-3:]]))
            return "end_turn"
        """
    )
    [(text, _)] = done.said
    assert json.loads(text) == [["ä", {"exitCode": 0}], ["", {"exitCode": 0}], "x\ufffd!"]
    cut, none, long = done.of(ActionTaken)
    assert cut.observation == {"output": "ä", "exit_code": 0, "output_bytes": 7}
    assert none.observation == {"output": "", "exit_code": 0, "output_bytes": 3}
    assert as_blob_ref(long.observation) is not None
    assert long.raw is not None


async def test_what_a_terminal_may_not_be(desk: Desk) -> None:
    """Each wrong wish is answered with what is wrong with it, and nothing is run."""
    done = await desk.work(
        """
        def work(prompt):
            say("\\n".join([
                ask("terminal/create", command="x", cwd="relative"),
                ask("terminal/create", command="x", env=[{"name": "A B", "value": ""}]),
                ask("terminal/create", command="x\\0"),
                ask("terminal/create", command=5),
                ask("terminal/create", command="x", sessionId="other"),
                ask("terminal/wait_for_exit", terminalId="none"),
                ask("terminal/resize", terminalId="none"),
                ask("elicitation/create", message="Who are you?"),
            ]))
            return "end_turn"
        """
    )
    [(text, _)] = done.said
    assert text.splitlines() == [
        "error: expected an absolute path, found 'relative'",
        "error: env: 'A B' can't be set",
        "error: command: it has a NUL",
        "error: command: Input should be a valid string",
        "error: sessionId: there is no such session",
        "error: there is no terminal 'none'",
        "error: Method not found",
        "error: Method not found",
    ]
    assert done.steps == []


async def test_terminals_have_bounds(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many at once, so many in all; what still runs at the end is told as such."""
    monkeypatch.setattr(services, "MOST_TERMINALS", 2)
    monkeypatch.setattr(inside, "MOST_COMMANDS", 3)
    done = await desk.work(
        """
        def work(prompt):
            ask("terminal/create", command="sleep 60")
            two = ask("terminal/create", command="true")["terminalId"]
            told = [ask("terminal/create", command="true")]
            ask("terminal/release", terminalId=two)
            ask("terminal/create", command="true")
            told.append(ask("terminal/create", command="true"))
            told.append(ask("fs/write_text_file", path="/x", content=""))
            say("\\n".join(told))
            return "end_turn"
        """
    )
    [(text, _)] = done.said
    assert text.splitlines() == [
        "error: there are 2 terminals; release some",
        "error: there are 2 terminals; release some",
        "error: no more commands can be run",
    ]
    running = [step for step in done.steps if step[2] == {"command": "sleep 60"}]
    assert [step[3] for step in running] == ["! the command was still running at the end"]


async def test_a_machine_without_room(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing more can be opened, the agent is told, and goes on."""

    def full(*_: Any) -> Any:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(inside.Inside, "_put", full)
    done = await desk.work(
        "def work(prompt): say(ask('terminal/create', command='x')); return 'end_turn'"
    )
    assert done.said == [("error: no more commands can be run", None)]
    assert done.ending == ("done", None)


async def test_files(desk: Desk) -> None:
    """Files of the sandbox are read, whole or in part, and written, with folders on the way."""
    done = await desk.work(
        """
        def work(prompt):
            here = os.environ["FOLDER"]
            path = here + "/a b/c'd.txt"
            told = [ask("fs/write_text_file", path=path, content="one\\ntwo\\nthree")]
            read = lambda **more: ask("fs/read_text_file", path=path, **more)
            told += [read()["content"], read(line=2)["content"], read(line=2, limit=1)["content"]]
            told += [ask("fs/read_text_file", path=here + "/none"),
                     ask("fs/read_text_file", path="none"),
                     ask("fs/read_text_file", path="/dev/zero"),
                     ask("fs/write_text_file", path=here, content="")]
            open("binary", "wb").write(b"\\377")
            told += [ask("fs/read_text_file", path=here + "/binary")]
            say(json.dumps(told))
            return "end_turn"
        """
    )
    here = desk.bench.workspace
    [(text, _)] = done.said
    told = json.loads(text)
    assert told[:4] == [{}, "one\ntwo\nthree", "two\nthree", "two\n"]
    assert told[4:7] == [
        f"error: there is no file {here}/none",
        "error: expected an absolute path, found 'none'",
        "error: there is no file /dev/zero",
    ]
    assert told[7].startswith("error: ")
    assert told[8] == f"error: {here}/binary is no UTF-8 text"
    assert (here / "a b" / "c'd.txt").read_text() == "one\ntwo\nthree"
    assert done.steps[0] == (
        "files", "write", {"path": f"{here}/a b/c'd.txt", "content": "one\ntwo\nthree"}, None,
    )  # fmt: skip
    assert done.steps[3] == (
        "files", "read", {"path": f"{here}/a b/c'd.txt", "line": 2, "limit": 1}, "two\n",
    )  # fmt: skip
    assert done.steps[4][3] == f"! there is no file {here}/none"


async def test_a_file_that_is_too_large(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not cut: the agent is told."""
    monkeypatch.setattr(services, "FILE_CAP", 1024 * 1024)
    done = await desk.work(
        """
        def work(prompt):
            open("big", "w").write("x" * (1024 * 1024 + 1))
            say(ask("fs/read_text_file", path=os.environ["FOLDER"] + "/big"))
            return "end_turn"
        """
    )
    assert done.said == [(f"error: {desk.bench.workspace}/big is over 1 MiB", None)]


async def test_a_file_that_takes_too_long(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading is stopped, and the agent goes on."""
    monkeypatch.setattr(services, "FILE_SEC", 0.2)
    done = await desk.work(
        """
        def work(prompt):
            subprocess.run("mkdir bin; echo 'sleep 60' > bin/mkdir; chmod +x bin/mkdir", shell=True)
            say(ask("fs/write_text_file", path=os.environ["FOLDER"] + "/x", content=""))
            return "end_turn"
        """,
        env={"PATH": f"{desk.bench.workspace}/bin:/usr/bin:/bin"},
    )
    assert done.said == [("error: it took over 0.2 s", None)]


@pytest.mark.parametrize(
    ("kinds", "chosen"),
    [
        (["reject_once", "allow_always", "allow_once"], "allow_once"),
        (["allow_always", "reject_once"], "allow_always"),
        (["reject_always", "reject_once"], "reject_once"),
        ([], None),
    ],
)
async def test_permission(desk: Desk, kinds: list[str], chosen: str | None) -> None:
    """It is given once where that is offered, and what was asked and chosen is in the log."""
    done = await desk.work(
        f"""
        def work(prompt):
            say(json.dumps(ask("session/request_permission",
                toolCall={{"toolCallId": "c1", "title": "Remove all"}},
                options=[{{"optionId": "o-" + k, "name": k, "kind": k}} for k in {kinds}])))
            return "end_turn"
        """
    )
    [(text, _)] = done.said
    outcome = json.loads(text)["outcome"]
    [(app, action, asked, came)] = done.steps
    assert (app, action) == ("session", "permission")
    assert asked["title"] == "Remove all"
    if chosen is None:
        assert outcome == {"outcome": "cancelled"}
        assert came == "! no option was offered"
    else:
        assert outcome == {"outcome": "selected", "optionId": f"o-{chosen}"}
        assert came == {"chosen": chosen}


async def test_permission_for_a_call_that_was_told_before(desk: Desk) -> None:
    """A request may name the call alone: its title is the one that the call was begun with."""
    done = await desk.work(
        """
        def work(prompt):
            update("tool_call", toolCallId="c1", title="Remove all", kind="delete")
            for call in ("c1", "c2"):
                ask("session/request_permission", toolCall={"toolCallId": call},
                    options=[{"optionId": "o", "name": "Yes", "kind": "allow_once"}])
            return "end_turn"
        """
    )
    asked = [step[2] for step in done.steps if step[:2] == ("session", "permission")]
    assert [("c1", "Remove all"), ("c2", "")] == [(a["tool_call"], a["title"]) for a in asked]


async def test_an_agent_made_with_the_package(desk: Desk) -> None:
    """The protocol's own library on the other side understands what is said, and is understood."""
    done = await desk.work(
        """
        import asyncio
        import acp
        class Packaged:
            def on_connect(self, conn):
                self.client = conn
            async def initialize(self, protocol_version, client_capabilities, **more):
                assert client_capabilities.terminal and client_capabilities.fs.read_text_file
                return acp.InitializeResponse(
                    protocol_version=1, agent_info=acp.schema.Implementation(name="p", version="3"))
            async def new_session(self, cwd, **more):
                self.cwd = cwd
                return acp.NewSessionResponse(session_id="s")
            async def prompt(self, session_id, prompt, **more):
                client, path = self.client, self.cwd + "/answer.txt"
                await client.session_update("s", acp.update_agent_thought_text("Hm."))
                await client.session_update("s", acp.start_edit_tool_call("c", "Write", path, "4"))
                asked = await client.request_permission(
                    session_id="s", tool_call=acp.update_tool_call("c"),
                    options=[acp.schema.PermissionOption(
                        option_id="yes", name="Yes", kind="allow_once")])
                assert asked.outcome.option_id == "yes"
                await client.write_text_file(session_id="s", path=path, content=prompt[0].text)
                read = await client.read_text_file(session_id="s", path=path)
                made = await client.create_terminal(session_id="s", command="echo", args=["a b"])
                terminal = {"session_id": "s", "terminal_id": made.terminal_id}
                ended = await client.wait_for_terminal_exit(**terminal)
                printed = await client.terminal_output(**terminal)
                assert (ended.exit_code, printed.output) == (0, "a b\\n")
                await client.kill_terminal(**terminal)
                await client.release_terminal(**terminal)
                await client.session_update("s", acp.update_tool_call("c", status="completed"))
                await client.session_update("s", acp.update_agent_message_text(read.content))
                return acp.PromptResponse(stop_reason="end_turn")
        asyncio.run(acp.run_agent(Packaged()))
        """
    )
    assert done.ending == ("done", None), done.printed
    assert (done.finished.version, done.warnings) == ("3", [])
    assert done.said == [("", "Hm."), ("Work.", None)]
    assert [step[:2] for step in done.steps] == [
        ("session", "permission"), ("files", "write"), ("files", "read"), ("shell", "run"),
        ("agent", "edit"),
    ]  # fmt: skip


# Logging in


LOGIN = """
logged_in, tried = None, []
def initialize(params):
    methods = [{"id": "browser", "name": "By a browser"},
               {"id": "tty", "name": "By a terminal", "type": "terminal"},
               {"id": "other-api-key", "name": "By a key"},
               {"id": "b", "name": "By B", "type": "env_var", "vars": [{"name": "B_KEY"}]},
               {"id": "a", "name": "By A", "type": "env_var", "vars":
                [{"name": "A_KEY"}, {"name": "MORE", "optional": True}]}]
    return {"protocolVersion": 1, "authMethods": methods}
def authenticate(params):
    global logged_in
    tried.append(params["methodId"])
    if params["methodId"] not in WORKS: raise Refused(-32603, "no such key")
    logged_in = params["methodId"]
    return {}
def new_session(params):
    if logged_in is None: raise Refused(-32000, "Authentication required")
    say(" ".join(tried))
    return {"sessionId": SESSION}
"""


@pytest.mark.parametrize(
    ("works", "given", "tried"),
    [
        (["a"], "A_KEY", "a"),
        (["b"], "A_KEY", "a other-api-key b"),
        (["other-api-key"], "OTHER_API_KEY", "other-api-key"),
    ],
)
async def test_an_agent_that_wants_a_login(
    desk: Desk, works: list[str], given: str, tried: str
) -> None:
    """It is logged in by a key in a variable, one that it is known to have first."""
    done = await desk.work(f"WORKS = {works}\n{LOGIN}", env={given: "very-secret"})
    assert done.ending == ("done", None)
    assert done.said == [(tried, None)]


async def test_a_login_that_takes_a_person(desk: Desk) -> None:
    """Browsers and terminals are not for a machine; what is offered is told."""
    failed = (await desk.work(f"WORKS = []\n{LOGIN}")).failed
    assert failed.category == "agent_setup_failed"
    assert "it wants to be logged in, and offers: browser, tty, other-api-key, b, a." in str(
        failed.error
    )


# Models


MODELS = """
def new_session(params):
    options = [{"value": "small", "name": "S"}, {"value": "large", "name": "L"}]
    options = [{"group": "g", "name": "G", "options": options}] if GROUPED else options
    return {"sessionId": SESSION, "configOptions": [
        {"type": "boolean", "id": "b", "name": "B", "currentValue": True},
        {"type": "select", "id": "m", "name": "Model", "category": "model",
         "currentValue": "small", "options": options}]}
def set_option(params):
    say(params["configId"] + "=" + params["value"])
    return {"configOptions": []}
"""


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(
    ("model", "said"), [("large", [("m=large", None)]), ("small", []), (None, [])]
)
async def test_the_model_is_chosen(
    desk: Desk, model: str | None, said: list[Any], grouped: bool
) -> None:
    """Where the agent has a choice of models, it is told of --model's, if that is another one."""
    done = await desk.work(f"GROUPED = {grouped}\n{MODELS}", model=model)
    assert done.ending == ("done", None)
    assert done.said == said


async def test_a_model_that_the_agent_has_not(desk: Desk) -> None:
    """It does not work with another one under this one's name."""
    failed = (await desk.work(f"GROUPED = False\n{MODELS}", model="huge")).failed
    assert failed.category == "agent_setup_failed"
    assert "the agent has no model 'huge'; it offers small, large" in str(failed.error)


# What goes wrong


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


async def test_without_the_package(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job with such an agent is refused with what to install, and a resume says so."""
    monkeypatch.setattr("trialog.engine.agents.acp.agent.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'trialog\[acp\]'"):
        agent_by_name("acp:x")
    done = await desk.work()
    assert done.failed.category == "agent_setup_failed"
    assert "pip install 'trialog[acp]'" in str(done.failed.error)


def test_names() -> None:
    """`acp:` is followed by a command of the sandbox's shell."""
    agent = agent_by_name("acp:mine --acp")
    assert (agent.name, agent.digest, agent.version) == ("acp:mine --acp", None, None)
    with pytest.raises(ConfigError, match="expected a command, as in 'acp:my-agent --acp'"):
        agent_by_name("acp:")
    with pytest.raises(ConfigError, match="write acp:COMMAND"):
        agent_by_name("acp")
