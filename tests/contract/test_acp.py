"""Agents of the Agent Client Protocol on both sandboxes."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

import helpers.acp_agent
from helpers.gateway import KEY, Endpoint
from helpers.installed import RunInstalled, Worked
from trialog.engine.sandbox.protocol import SandboxBackend
from trialog.events.kinds import (
    ActionTaken,
    AgentFailed,
    AgentFinished,
    AgentMessage,
    AgentStarted,
    ModelCalled,
    ProcessesKilled,
    VerifierScored,
)

MANIFEST = "command: [./acp_agent.py, /task/agent/scenario]\nprotocol: acp\n"
TEST = "grep -q 42 answer.txt && echo 1 > /logs/verifier/reward.txt"


class Acp:
    """Runs agents that do what a scenario says."""

    def __init__(self, run: RunInstalled) -> None:
        self._run = run

    async def __call__(self, scenario: str, *, manifest: str = "", **more: Any) -> Worked:
        """One trial."""
        text = await to_thread.run_sync(Path(helpers.acp_agent.__file__).read_text)
        files = {"acp_agent.py": text, "scenario": textwrap.dedent(scenario)}
        return await self._run(MANIFEST + manifest, files=files, **more)


@pytest.fixture
def acp(backend: SandboxBackend, tmp_path: Path) -> Acp:
    """Runs agents that do what a scenario says."""
    return Acp(RunInstalled(backend, tmp_path))


async def test_it_works_in_the_sandbox(acp: Acp) -> None:
    """It is installed and spoken to there, its files and terminals are there, and all is shown."""
    done = await acp(
        """
        def work(prompt):
            say("I write: " + prompt)
            update("tool_call", toolCallId="c1", title="Write", kind="edit", rawInput={"n": 42})
            ask("fs/write_text_file", path="/app/answer.txt", content="4")
            output, ended = run("printf 2 >> answer.txt; id -u; hostname; exit 3")
            say(repr((output, ended)))
            text = [{"type": "content", "content": {"type": "text", "text": "written"}}]
            update("tool_call_update", toolCallId="c1", status="completed", content=text)
            say(ask("fs/read_text_file", path="/app/answer.txt")["content"])
            print("on standard error", file=sys.stderr)
            return "end_turn"
        """,
        manifest='install: echo 7 > "$TRIALOG_AGENT_HOME/x"\n',
        settings='sandbox.workdir = "/app"\n',
        test=TEST,
    )
    assert done.one(VerifierScored).score == 1.0
    finished = done.one(AgentFinished)
    assert (finished.ended_by, finished.error) == ("done", None)
    assert done.one(AgentStarted).install is not None
    assert done.result["agent_version"] == "7.7"
    assert done.result["n_tool_calls"] == 1
    assert b"on standard error\n" in done.blobs[finished.output.sha256]
    steps = {(step.app, step.action): step for step in done.of(ActionTaken)}
    ran, call = steps["shell", "run"], steps["agent", "edit"]
    assert steps["files", "write"].error is None
    assert steps["files", "read"].observation == "42"
    assert ran.observation["output"].endswith("sandbox\n")
    assert (ran.observation["exit_code"], ran.observed_by) == (3, "host")
    assert (call.observation, call.observed_by, call.tool_call) == ("written", "agent", "c1")
    shown = done.files["trajectory.json"]["steps"]
    assert shown[0]["source"] == "user"
    assert shown[1]["message"] == "I write: Write 42 to answer.txt.\n"
    [named] = [c for step in shown for c in step.get("tool_calls", ()) if c["tool_call_id"] == "c1"]
    assert named["function_name"] == "edit"


async def test_it_calls_its_model_through_the_engine(acp: Acp) -> None:
    """The gateway is there for it as for any program, and its calls are the trial's usage."""
    endpoint = Endpoint()
    try:
        done = await acp(
            """
            import urllib.request
            def work(prompt):
                body = {"model": os.environ["TRIALOG_MODEL"],
                        "messages": [{"role": "user", "content": prompt}]}
                request = urllib.request.Request(
                    os.environ["OPENAI_BASE_URL"] + "/chat/completions",
                    json.dumps(body).encode(),
                    {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"],
                     "Content-Type": "application/json"})
                with urllib.request.urlopen(request, timeout=30) as answer:
                    say(json.load(answer)["choices"][0]["message"]["content"])
                return "end_turn"
            """,
            environ=endpoint.environ, secrets={"OPENAI_API_KEY": KEY}, models=["m"],
        )  # fmt: skip
    finally:
        endpoint.close()
    assert done.one(AgentFinished).ended_by == "done"
    call = done.one(ModelCalled)
    assert (call.model, call.error) == ("m", None)
    assert done.result["usage"]["model_calls"] == 1
    said = [(m.text, m.model_call is None) for m in done.of(AgentMessage) if m.role != "user"]
    assert sorted(said) == [("hello", False), ("hello", True)]  # the model, and the agent after it


async def test_nothing_of_it_is_left(acp: Acp) -> None:
    """What it has running when its turn ends is killed before the work is graded."""
    done = await acp(
        """
        def asleep(seconds):
            for place in os.listdir("/proc"):
                try:
                    with open(f"/proc/{place}/cmdline", "rb") as file:
                        if file.read() == b"sleep\\0%d\\0" % seconds: return True
                except OSError: pass
            return False
        def work(prompt):
            ask("terminal/create", command="echo 42 > answer.txt; exec sleep 1111")
            subprocess.Popen(["setsid", "sleep", "1112"])
            while not (asleep(1111) and asleep(1112)): pass
            return "end_turn"
        """,
        test=f"! pgrep -f 'sleep 111[12]' && {TEST}",
    )
    assert done.one(VerifierScored).score == 1.0
    assert done.one(AgentFinished).ended_by == "done"
    names = [process.name for process in done.one(ProcessesKilled).processes]
    assert names.count("sleep") == 2


@pytest.mark.parametrize(
    ("work", "settings", "ended_by"),
    [
        ("say('x'); time.sleep(600)", "agent.timeout_sec = 6", "agent_timeout"),
        ("say('x'); time.sleep(600)", "agent.idle_timeout_sec = 5", "idle_timeout"),
        ("say('x'); os.kill(os.getpid(), 9)", "", "agent_exit"),
        ("say('x'); raw(b'{' * (33 * 2**20)); time.sleep(600)", "", "agent_exit"),
        ("say('x'); subprocess.run('kill -9 -1', shell=True)", "", "agent_exit"),
    ],
)
async def test_agents_that_do_not_end_well(
    acp: Acp, work: str, settings: str, ended_by: str
) -> None:
    """Their work is graded, and the log says how they ended."""
    done = await acp(
        f"def work(prompt): open('answer.txt', 'w').write('42'); {work}",
        settings=f"{settings}\n",
        test=TEST,
    )
    assert done.one(AgentFinished).ended_by == ended_by
    assert done.one(VerifierScored).score == 1.0


async def test_an_agent_that_does_not_come_up(acp: Acp) -> None:
    """There is no work, and what it printed says why."""
    done = await acp("print('no key', file=sys.stderr); sys.exit(5)")
    failed = done.one(AgentFailed)
    assert (failed.category, failed.exit_code) == ("agent_setup_failed", 5)
    assert done.blobs[failed.output.sha256] == b"no key\n"
    assert done.ended.outcome == "errored"


async def test_a_service_that_stays(acp: Acp, backend: SandboxBackend) -> None:
    """Where a task is graded on what is left running, what a terminal started goes on; the agent
    may be another user than the image's."""
    user = 'agent.user = "nobody"\n' if backend.name == "docker" else ""
    done = await acp(
        """
        def work(prompt):
            run("(while :; do date > /tmp/beat; sleep 0.05; done) </dev/null >/dev/null 2>&1 & :")
            return "end_turn"
        """,
        settings=f"{user}verifier.keep_processes = true\n",
        test="rm -f /tmp/beat; sleep 1; [ -f /tmp/beat ] && echo 1 > /logs/verifier/reward.txt",
    )
    assert done.one(AgentFinished).ended_by == "done"
    assert done.one(VerifierScored).score == 1.0
