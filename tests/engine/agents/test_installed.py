"""Agents by manifest: reading, installing, working, over processes of the host for a sandbox."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from anyio import to_thread

from trialog.engine.agents import AgentContext, AgentOutcome, Assignment, InstalledAgent
from trialog.engine.agents.installing import Prepared
from trialog.engine.agents.names import agent_by_name, agent_from_snapshot, agent_name
from trialog.engine.errors import ConfigError, SandboxGone
from trialog.engine.output import Captured
from trialog.engine.sandbox.protocol import Exit
from trialog.events.codec import encode
from trialog.events.kinds import AgentFailed, AgentFinished, SandboxLost, WarningRaised

if TYPE_CHECKING:
    from conftest import Bench


def write(folder: Path, manifest: str, **files: str) -> Path:
    """An agent's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "agent.yaml").write_text(f"name: {folder.name}\n{manifest}")
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


async def given(bench: Bench, manifest: str, **files: str) -> InstalledAgent:
    """An agent of a manifest, as a job took it, on a bench that is ready."""
    await bench.prepare(prompt="Write 42.")
    folder = bench.workspace.parent / "mine"

    def made() -> Any:
        loaded = InstalledAgent.load(write(folder, manifest, **files))
        return agent_from_snapshot(loaded.name, loaded.program, loaded.digest)

    agent = await to_thread.run_sync(made)
    assert isinstance(agent, InstalledAgent)
    return agent


def context(bench: Bench, **fields: Any) -> AgentContext:
    """What an agent gets."""
    cut: list[Captured] = []
    settings: dict[str, Any] = {
        "sandbox": bench.sandbox,
        "folders": bench.folders,
        "prompt": "Write 42.",
        "timeout": 30.0,
        "blobs": bench.blobs,
        "clock": bench.clock,
        "assignment": Assignment(task="t", attempt=1),
        "emit": lambda event: pytest.fail(str(event)),
        "cut_off": cut.append,
    }
    return AgentContext(**settings | fields)


def checked(outcome: AgentOutcome) -> AgentOutcome:
    """An outcome that the log would take."""
    for event in [*outcome.events, outcome.end]:
        encode(event)
    return outcome


async def prepared(bench: Bench, agent: InstalledAgent, **fields: Any) -> Prepared:
    """An agent that could be installed."""
    ready = await agent.prepare(context(bench, **fields))
    assert isinstance(ready, Prepared), ready
    return ready


async def failed(bench: Bench, manifest: str, **files: str) -> AgentFailed:
    """How an installation failed."""
    agent = await given(bench, manifest, **files)
    outcome = await agent.prepare(context(bench))
    assert isinstance(outcome, AgentOutcome)
    end = checked(outcome).end
    assert isinstance(end, AgentFailed)
    return end


async def test_it_is_installed_and_then_works(bench: Bench) -> None:
    """`install` runs beside the agent's files, `command` in the workspace with the prompt."""
    agent = await given(
        bench,
        'install: cp data.txt "$TRIALOG_AGENT_HOME/copy"; echo installed\n'
        'command: cat "$TRIALOG_AGENT_HOME/copy" - > answer.txt; echo worked\n',
        data_txt="from the folder ",
    )
    ready = await prepared(bench, agent)
    assert ready.install is not None
    assert ready.install.output is not None
    assert await bench.blobs.get(ready.install.output.blob) == b"installed\n"
    outcome = checked(await agent.run(context(bench)))
    assert isinstance(outcome.end, AgentFinished)
    assert (outcome.end.ended_by, outcome.end.exit_code) == ("done", 0)
    assert (bench.workspace / "answer.txt").read_text() == "from the folder Write 42."
    [step] = outcome.events
    assert getattr(step, "arguments", None) == {"program": "mine"}


async def test_it_reports_its_actions_as_a_command_does(bench: Bench) -> None:
    """The file that TRIALOG_ACTIONS names becomes steps."""
    line = '{"command": "look", "exit_code": 0}'
    agent = await given(bench, "command: |\n  echo '" + line + '\' > "$TRIALOG_ACTIONS"\n')
    await prepared(bench, agent)
    told: list[Any] = []
    await agent.run(context(bench, emit=lambda event: told.append(event) or "e1"))
    assert [event.arguments for event in told] == [{"command": "look"}]


@pytest.mark.parametrize(
    ("manifest", "version"),
    [
        ("command: x\n", None),
        ("command: x\nversion: '1.2'\n", "1.2"),
        ("command: x\nversion: {command: 'echo; echo \"  mine 3.4 \"; echo more'}\n", "mine 3.4"),
    ],
)
async def test_its_version(bench: Bench, manifest: str, version: str | None) -> None:
    """A fixed text, or the first line that a command in the sandbox prints."""
    agent = await given(bench, manifest)
    ready = await prepared(bench, agent)
    assert (ready.version or agent.version) == version
    assert ready.warnings == []


@pytest.mark.parametrize(
    ("command", "how"),
    [
        ("echo broken; exit 3", "ended with exit code 3 and said 'broken'"),
        ("true", "ended with exit code 0 and said nothing"),
    ],
)
async def test_a_version_that_cannot_be_had(bench: Bench, command: str, how: str) -> None:
    """It is a warning that says how the command ended, and the agent works all the same."""
    agent = await given(bench, f"command: x\nversion: {{command: '{command}'}}\n")
    ready = await prepared(bench, agent)
    assert ready.version is None
    [warning] = ready.warnings
    assert isinstance(warning, WarningRaised)
    assert warning.code == "agent_version_unknown"
    assert how in str(warning.message)


async def test_an_install_that_fails(bench: Bench) -> None:
    """It stops at the first command that fails, and its output and exit code are kept."""
    end = await failed(bench, "install: |\n  echo one\n  (exit 7)\n  echo two\ncommand: x\n")
    assert (end.category, end.exit_code) == ("agent_install_failed", 7)
    assert "ended with exit code 7" in str(end.error)
    assert end.output is not None
    assert await bench.blobs.get(end.output.blob) == b"one\n"


async def test_an_install_has_a_deadline_of_its_own(bench: Bench) -> None:
    """Past it, with its multiplier, it is stopped."""
    agent = await given(bench, "install: echo on; sleep 60\ninstall_timeout_sec: 0.2\ncommand: x\n")
    outcome = await agent.prepare(context(bench, patience=2.0))
    assert isinstance(outcome, AgentOutcome)
    end = checked(outcome).end
    assert isinstance(end, AgentFailed)
    assert (end.category, end.exit_code) == ("agent_install_timeout", None)
    assert "stopped after 0.4s" in str(end.error)


async def test_a_sandbox_that_is_lost_meanwhile(bench: Bench) -> None:
    """It is the sandbox's failure and not the agent's."""
    agent = await given(bench, "install: 'true'\ncommand: x\n")
    bench.sandbox.fails_before = SandboxGone("it is gone")
    outcome = await agent.prepare(context(bench))
    assert isinstance(outcome, AgentOutcome)
    [lost] = checked(outcome).events
    assert isinstance(lost, SandboxLost)
    assert isinstance(outcome.end, AgentFailed)
    assert outcome.end.category == "sandbox_lost"


async def test_an_install_out_of_memory_says_so(bench: Bench) -> None:
    """The kernel's killing is named."""
    bench.sandbox.exit = Exit(ended_by="exit", code=137, duration=0.1, out_of_memory=True)
    end = await failed(bench, "install: 'true'\ncommand: x\n")
    assert "exit code 137, out of memory" in str(end.error)


async def test_a_program_of_its_folder(bench: Bench) -> None:
    """The first word of a list may name one; it needs no run bit, and words are taken as such."""
    agent = await given(
        bench,
        "command: [./run.py, '$HOME', 'a b']\n",
        run_py="#!/usr/bin/env python3\nimport sys\nopen('told', 'w').write(repr(sys.argv[1:]))\n",
    )
    await prepared(bench, agent)
    await agent.run(context(bench))
    assert (bench.workspace / "told").read_text() == "['$HOME', 'a b']"


async def test_words_of_the_sandbox(bench: Bench) -> None:
    """A first word without a slash, or an absolute one, is a program of the sandbox's."""
    agent = await given(bench, "command: [/bin/sh, -c, 'echo hi > told']\n")
    await prepared(bench, agent)
    await agent.run(context(bench))
    assert (bench.workspace / "told").read_text() == "hi\n"


async def test_what_lies_in_its_way(bench: Bench) -> None:
    """Files that can't be put where the sandbox sees them are a transfer that failed."""
    agent = await given(bench, "command: x\n")
    await to_thread.run_sync(lambda: bench.folders.program.write_text("in the way"))
    outcome = await agent.prepare(context(bench))
    assert isinstance(outcome, AgentOutcome)
    assert isinstance(outcome.end, AgentFailed)
    assert outcome.end.category == "transfer_failed"


# Reading


def test_one_agent_has_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder or its manifest, with `agent:` or without, is the same agent."""
    write(tmp_path / "agents" / "mine", "command: x\n")
    monkeypatch.chdir(tmp_path)
    for spelled in (
        "agent:agents/mine", "agent:./agents/mine/", "agent:agents/mine/agent.yaml",
        "agents/mine", "./agents/mine/agent.yaml",
    ):  # fmt: skip
        assert agent_name(spelled) == "agent:agents/mine"
    assert agent_name("agents/other") == "agents/other"
    agent = agent_by_name("agent:agents/mine")
    assert (agent.name, agent.version) == ("mine", None)
    monkeypatch.chdir(tmp_path / "agents" / "mine")
    assert agent_name("agent.yaml") == "agent:."
    assert agent_by_name("agent:.").digest == agent.digest


def test_the_digest_is_of_all_its_files(tmp_path: Path) -> None:
    """It changes with any of them, and not with the place that they lie in."""
    one = InstalledAgent.load(write(tmp_path / "a" / "mine", "command: x\n", more_txt="1"))
    same = InstalledAgent.load(write(tmp_path / "b" / "mine", "command: x\n", more_txt="1"))
    other = InstalledAgent.load(write(tmp_path / "c" / "mine", "command: x\n", more_txt="2"))
    assert one.digest == same.digest != other.digest
    assert one.program == same.program


def test_names_of_projects(tmp_path: Path) -> None:
    """A project's agent goes by its name; two of one name are told apart by their paths."""
    for root in ("one", "two"):
        write(tmp_path / root / "agents" / "mine", "command: x\n")
        (tmp_path / root / "trialog.yaml").write_text("name: p\n")
    assert agent_by_name("mine", [tmp_path / "one"]).name == "mine"
    with pytest.raises(ConfigError, match=r"two projects have an agent 'mine'.*write agent:PATH"):
        agent_by_name("mine", [tmp_path / "one", tmp_path / "two"])
    with pytest.raises(ConfigError, match=r"there is no such agent; known are oracle.*agent:PATH"):
        agent_by_name("yours", [tmp_path / "one"])


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ("command: x\nnetwrok: true\n", "mine/agent.yaml:3: netwrok: unknown key; did you mean "
         "'network'?"),
        ("command: []\n", "agent.yaml:2: command: a command needs at least one word"),
        ("command: [./run.py]\n", "command: there is no program ./run.py in the agent's folder"),
        ("command: x\nprotocol: mcp\n", "protocol: expected one of acp, found the text 'mcp'"),
        ("command: x\nnetwork: maybe\n", "network: expected true, false or install, found the text "
         "'maybe'"),
        ("command: x\nnetwork: install\n", "network: there is no `install` that it could be for"),
        ("command: x\ninstall_timeout_sec: 5\n", "there is no `install` that it could be for"),
        ("command: x\ninstall: y\ninstall_timeout_sec: 0\n", "expected a number above 0"),
        ("command: x\nversion: 1.2\n", "version: expected text (put it in quotes), or `command: "
         "…` below it, found the number 1.2"),
        ("command: x\nversion: {comand: y}\n", "did you mean 'command'?"),
        ("command: x\nenv: {A-B: c}\n", "env.A-B: expected a name of ASCII letters, digits and"),
        ('command: x\nenv: {A: "b\\0"}\n', "env.A: a variable can't hold a NUL"),
        ("model: m\nenv: {A: b}\n", "env: not for an agent that is a model"),
        ("model: m\ntools: [shell, fly]\n", "in a sandbox a model has the tool shell, and not fly"),
        ("python: policy.py:x\nversion: {command: y}\n", "version.command: only for an agent that "
         "is installed; give a fixed text"),
        ("python: policy.py:x\n", "is a policy for environments and can't work in a sandbox"),
    ],
)  # fmt: skip
def test_manifests_that_cannot_be_used(tmp_path: Path, manifest: str, message: str) -> None:
    """The file, the key, what was found and what to do are named."""
    write(tmp_path / "mine", "command: x\n")
    assert InstalledAgent.load(tmp_path / "mine")
    write(tmp_path / "mine", manifest, policy_py="")
    with pytest.raises(ConfigError) as caught:
        InstalledAgent.load(tmp_path / "mine")
    assert message in str(caught.value)


def test_a_name_that_is_not_to_be_had(tmp_path: Path) -> None:
    """Agents of trialog's own are not to be mistaken for others."""
    with pytest.raises(ConfigError, match="name: chat is an agent of trialog's; give the folder"):
        InstalledAgent.load(write(tmp_path / "chat", "command: x\n"))


def test_a_path_without_a_manifest(tmp_path: Path) -> None:
    """It is said what is missing there."""
    with pytest.raises(ConfigError, match=r"there is no agent\.yaml; give the path of an agent's"):
        InstalledAgent.load(tmp_path)


def test_a_link_out_of_its_folder(tmp_path: Path) -> None:
    """Files of elsewhere are not taken along."""
    folder = write(tmp_path / "agents" / "mine", "command: x\n")
    (tmp_path / "elsewhere").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=r"a symbolic link leads to .*elsewhere"):
        InstalledAgent.load(folder)


def test_too_many_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is large is to be fetched by the installation."""
    folder = write(tmp_path / "mine", "command: x\n", big_bin="x" * 1000)
    assert InstalledAgent.load(folder)
    monkeypatch.setattr("trialog.engine.agents.installed.FILES_CAP", 999)
    with pytest.raises(ConfigError, match="fetch what is large with `install`"):
        InstalledAgent.load(folder)
