"""Agents of the Agent Client Protocol, over processes of the host in place of a sandbox."""

from __future__ import annotations

import json
from typing import Any

import pytest

from helpers.acp_desk import Desk
from trialog.engine.agents.names import agent_by_name
from trialog.engine.errors import ConfigError
from trialog.events.kinds import ActionTaken, AgentMessage


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
async def test_without_the_package(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job with such an agent is refused with what to install, and a resume says so."""
    monkeypatch.setattr("trialog.engine.agents.acp.agent.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install 'agent-client-protocol>="):
        agent_by_name("acp:x")
    done = await desk.work()
    assert done.failed.category == "agent_setup_failed"
    assert "pip install 'agent-client-protocol>=" in str(done.failed.error)


def test_names() -> None:
    """`acp:` is followed by a command of the sandbox's shell."""
    agent = agent_by_name("acp:mine --acp")
    assert (agent.name, agent.digest, agent.version) == ("acp:mine --acp", None, None)
    with pytest.raises(ConfigError, match="expected a command, as in 'acp:my-agent --acp'"):
        agent_by_name("acp:")
    with pytest.raises(ConfigError, match="write acp:COMMAND"):
        agent_by_name("acp")
