"""What agents of the Agent Client Protocol ask of their client: terminals, files and leave."""

from __future__ import annotations

import json
from typing import Any

import pytest

from helpers.acp_desk import Desk
from trialog.engine.agents.acp import inside, services
from trialog.events.kinds import ActionTaken
from trialog.events.values import as_blob_ref


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
