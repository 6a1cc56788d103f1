"""Agent, end of its phase, test script and reward, really in both sandboxes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import anyio
import pytest

from helpers.grading import Grade, Graded, both, bubblewrap
from trialog.events.kinds import ActionTaken, AgentFinished


def write(text: str, name: str = "reward.txt") -> str:
    """A test script that writes these bytes (as printf takes them)."""
    return f"printf -- '{text}' > /logs/verifier/{name}"


MISSING = "Verifier scored 0: verifier exited with rc={}; no reward file found at {}".format
PLACE = "/logs/verifier/reward.txt"


@bubblewrap
@pytest.mark.parametrize(
    ("test", "score", "source", "warning"),
    [
        (write(r"\357\273\2771.0\n"), 1.0, "verifier", None),
        (write(r"1.0\r\n"), 1.0, "verifier", None),
        (write(r"\n 0.5 \n\n"), 0.5, "verifier", None),
        (write(r"1.0\n0.0\n"), 0.0, "engine", "reward in reward.txt is '1.0\\n0.0'"),
        (write("1.0 ok"), 0.0, "engine", "reward in reward.txt is '1.0 ok', which is not a number"),
        ("exit 0", 0.0, "engine", MISSING(0, PLACE)),
        ("exit 1", 0.0, "engine", MISSING(1, PLACE)),
        (": > /logs/verifier/reward.txt", 0.0, "engine", "reward in reward.txt is ''"),
        ("echo pass > /logs/verifier/reward.txt", 0.0, "engine", "is 'pass'"),
        ("kill -9 $$", 0.0, "engine", MISSING(137, PLACE)),
        ("echo 0 > /logs/verifier/reward.txt; exit 1", 0.0, "verifier", None),
        ("echo 1 > /logs/verifier/reward.txt; exit 1", 1.0, "verifier", None),
        (write('{"reward": NaN}', "reward.json"), 0.0, "engine", "NaN"),
        (write('{"reward": true}', "reward.json"), 0.0, "engine", "true"),
        (write('{"reward": 0, "reward": 1}', "reward.json"), 0.0, "engine", "'reward' twice"),
        (write('{"reward": 1, "p": 0.5}', "reward.json"), 1.0, "verifier", None),
        (write("-0.5"), 0.0, "engine", "is -0.5, outside the range 0.0 to 1.0"),
        (write("0") + ";" + write('{"reward": 1}', "reward.json"), 0.0, "verifier",
         "reward.txt says 0 and reward.json says 1"),
        ("echo 1 > /app/mine; ln -s /app/mine " + PLACE, 0.0, "engine",
         "reward.txt is a symbolic link"),
        ("ln -s /proc/self/environ " + PLACE, 0.0, "engine", "reward.txt is a symbolic link"),
        ("mkfifo " + PLACE, 0.0, "engine", "reward.txt is a named pipe"),
        ("mkdir " + PLACE, 0.0, "engine", "reward.txt is a folder"),
        ("head -c 2000000 /dev/zero > " + PLACE, 0.0, "engine", "reward.txt is over 1 MiB"),
        ("echo 1 > " + PLACE + "; chmod 0 " + PLACE + " /logs/verifier", 1.0, "verifier", None),
    ],
)  # fmt: skip
async def test_reward_table(
    grade: Grade, test: str, score: float, source: str, warning: str | None
) -> None:
    """Rows of the reward table, written by real scripts."""
    graded = await grade(test)
    assert (graded.verdict.score, graded.verdict.source) == (score, source)
    if warning is None:
        assert graded.warnings == []
    else:
        assert warning in graded.warnings[0]
        assert graded.warnings[0].startswith("Verifier scored 0: ") == (source == "engine")


PLANT = """echo '{"reward":1}' > /logs/verifier/reward.json; """


@both
async def test_planted_reward(grade: Grade) -> None:
    """A reward that the agent planted is named with its hash and never believed."""
    graded = await grade("exit 1", agent=PLANT)
    assert (graded.verdict.score, graded.verdict.source) == (0.0, "engine")
    assert [(t.path, t.sha256) for t in graded.tampered] == [
        ("/logs/verifier/reward.json", hashlib.sha256(b'{"reward":1}\n').hexdigest())
    ]


@both
@pytest.mark.parametrize(
    ("agent", "path"),
    [
        (PLANT + "chmod 555 /logs/verifier", "/logs/verifier/reward.json"),
        (PLANT + "chmod 0 /logs/verifier/* /logs/verifier", "/logs/verifier/reward.json"),
        ("mkdir /logs/verifier/reward.txt; echo 1 > /logs/verifier/reward.txt/x", PLACE),
        ("ln -s /app/mine /logs/verifier/reward.txt; echo 1 > /app/mine", PLACE),
        ("mkfifo /logs/verifier/reward.txt", PLACE),
    ],
)
async def test_place_made_hard_to_clear(grade: Grade, agent: str, path: str) -> None:
    """A folder without rights, a folder, link or pipe in the file's place: an honest 0.5 holds."""
    graded = await grade(write("0.5"), agent=agent)
    assert (graded.verdict.score, graded.verdict.source) == (0.5, "verifier")
    assert path in [found.path for found in graded.tampered]


@both
async def test_honest_zero_beside_a_planted_one(grade: Grade) -> None:
    """An honest 0 in reward.txt is not touched by a planted reward.json."""
    graded = await grade(write("0"), agent=PLANT)
    assert (graded.verdict.score, graded.verdict.source, graded.warnings) == (0.0, "verifier", [])


@both
async def test_control(grade: Grade) -> None:
    """Honest work is not harmed by the clean-up: still 1.0, and nothing is said."""
    graded = await grade(
        '[ "$(cat /app/answer.txt)" = 42 ] && [ -x /app/tool ] && echo 1 > "$TRIALOG_REWARD_TEXT"',
        agent="echo 42 > answer.txt; touch tool; chmod +x tool; echo log > /logs/agent/log.txt",
    )
    assert (graded.verdict.score, graded.verdict.source) == (1.0, "verifier")
    assert (graded.tampered, graded.warnings) == ([], [])


@both
async def test_verifier_is_out_of_the_agents_sight(grade: Grade) -> None:
    """While the agent works the verifier's folders are empty, and what it puts there is gone."""
    graded = await grade(
        "ls /tests /verifier; ls /solution /oracle 2>/dev/null; "
        '[ ! -e /tests/planted ] && [ -z "$(cat /app/seen)" ] && echo 1 > ' + PLACE,
        agent="ls -A /verifier /tests /solution /oracle 2>/dev/null | grep -v : | grep . > seen;"
        "echo 'echo 1' > /tests/planted; true",
    )
    assert graded.verdict.score == 1.0
    assert graded.output.decode().split() == ["/tests:", "test.sh", "/verifier:", "test.sh"]
    assert [found.path for found in graded.tampered] == ["/verifier/planted"]


DAEMON = """
cat > /tmp/daemon.sh <<'END'
while :; do echo 1 > /logs/verifier/reward.txt; echo >> /app/alive; sleep 0.05; done
END
setsid bash -c 'bash /tmp/daemon.sh & exit' < /dev/null > /dev/null 2>&1 &
for i in $(seq 200); do [ -s /app/alive ] && break; sleep 0.05; done
[ -s /app/alive ] && echo the daemon lives
"""


@both
async def test_daemon_can_not_write_the_reward(grade: Grade) -> None:
    """A re-parented process that writes rewards in a loop is gone, and named, before grading."""
    graded = await grade(
        "n=$(wc -l < /app/alive); sleep 0.5; echo 0 > " + PLACE + "; sleep 0.5;"
        "echo $(( $(wc -l < /app/alive) - n )) new lines",
        agent=DAEMON,
    )
    assert graded.agent is not None
    assert "bash" in [process.name for process in graded.agent.killed]
    assert graded.output == b"0 new lines\n"
    assert (graded.verdict.score, graded.verdict.source) == (0.0, "verifier")
    assert [found.path for found in graded.tampered] == [PLACE]


@both
async def test_timeout_kills_all_children(grade: Grade, tmp_path: Path) -> None:
    """Past its deadline the script and its children die, one in a session of its own too."""
    mark = f"86399.{abs(hash(str(tmp_path))) % 10**6:06}"

    def seen() -> int:
        """Processes of this machine that wait as the script's children do."""
        found = 0
        for entry in os.scandir("/proc"):
            try:
                with open(f"/proc/{entry.name}/cmdline", "rb") as file:
                    found += file.read() == f"sleep\0{mark}\0".encode()
            except OSError:
                continue
        return found

    most = 0
    graded: list[Graded] = []

    async def run() -> None:
        graded.append(
            await grade(
                f"trap '' TERM; setsid sleep {mark} & sleep {mark} & echo begun; sleep {mark}",
                timeout=3.0,
            )
        )
        watching.cancel()

    with anyio.fail_after(50):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            with anyio.CancelScope() as watching:
                while True:
                    most = max(most, await anyio.to_thread.run_sync(seen))
                    await anyio.sleep(0.05)
    assert most == 3
    assert await anyio.to_thread.run_sync(seen) == 0
    [result] = graded
    assert result.verdict.timed_out
    assert result.output == b"begun\n"
    assert result.warnings == ["Verifier scored 0: verifier timed out after 3.0s"]


@both
async def test_child_that_holds_the_pipe(grade: Grade) -> None:
    """A script that ends while a background child holds its output is over at once."""
    with anyio.fail_after(30):
        graded = await grade(
            'sleep 300 & until [ "$(cat /proc/$!/comm)" = sleep ]; do :; done; echo 1 > ' + PLACE
        )
    assert graded.verdict.score == 1.0
    assert [process.name for process in graded.killed] == ["sleep"]


@both
async def test_output_across_chunk_borders(grade: Grade) -> None:
    """Broken and whole characters across reads of 64 KiB: the bytes are kept as they came."""
    body = (
        "#!/usr/bin/env python3\n"
        "import os\n"
        "def put(data):\n"
        "    while data:\n"
        "        data = data[os.write(1, data):]\n"
        "put(b'a' * 409774 + b'\\xe2\\x82')\n"
        "put(b'b' * (65536 - 2 - (409774 + 2) % 65536) + '\\U0001f600'.encode())\n"
        "put(b'\\xff\\xfe')\n"
        "open('/logs/verifier/reward.txt', 'w').write('1')\n"
    )
    graded = await grade(body)
    assert (graded.verdict.score, graded.verdict.source) == (1.0, "verifier")
    assert graded.verdict.output is not None
    assert graded.verdict.output.invalid_utf8
    assert not graded.verdict.output.truncated
    text = graded.output.decode("utf-8", "replace")
    assert graded.output.startswith(b"a" * 409774 + b"\xe2\x82b")
    assert graded.output.endswith("😀".encode() + b"\xff\xfe")
    assert text.count("\ufffd") == 3


@both
async def test_agent_reports_actions(grade: Grade) -> None:
    """An agent's program reports through the file that it is told of."""
    graded = await grade(
        write("1"),
        agent="""printf '{"command": "ls", "output": "", "exit_code": 0}\\n' >> $TRIALOG_ACTIONS
        exit 3""",
    )
    assert graded.agent is not None
    assert [event.turn for event in graded.agent.events if hasattr(event, "turn")] == [1, 2]
    assert graded.agent.end.exit_code == 3
    assert graded.verdict.score == 1.0


@both
async def test_idle_agent(grade: Grade) -> None:
    """Printing and reporting keep an agent from being stopped as idle; silence does not."""
    graded = await grade(
        write("1"),
        agent="""for i in 1 2 3 4 5; do sleep 0.6; echo '{"command": "x"}' >> $TRIALOG_ACTIONS; done
        touch /app/reported; for i in 1 2 3; do sleep 0.6; echo $i; done
        touch /app/printed; sleep 300""",
        idle_timeout=1.5,
    )
    assert graded.agent is not None
    end = graded.agent.end
    assert isinstance(end, AgentFinished)
    assert (end.ended_by, end.error_category) == ("idle_timeout", "idle_timeout")
    assert 6.0 < end.duration < 20.0
    assert end.output is not None
    assert end.output.total == 6
    steps = [event for event in graded.agent.events if isinstance(event, ActionTaken)]
    assert [step.action for step in steps] == ["run"] * 5 + ["exit"]
    assert graded.verdict.score == 1.0
