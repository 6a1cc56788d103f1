"""Tasks whose answer is a running service, on both sandboxes: honest ones, and those that cheat."""

from __future__ import annotations

import pytest

from helpers.tasks_in_jobs import Grade
from trialog.engine.errors import TaskError
from trialog.engine.sandbox.protocol import SandboxBackend
from trialog.events.kinds import ProcessesKilled, TamperFound, WorkspaceHardened

SERVE = {
    "plain": "python3 -m http.server 8123 & echo started",
    "nohup": "nohup setsid python3 -m http.server 8123 >/dev/null 2>&1 </dev/null & echo started",
    "double fork": "(python3 -m http.server 8123 & ) ; echo started",
}
ASK = """
echo 0 >/logs/verifier/reward.txt
python3 -I -c '
import time, urllib.request
for _ in range(100):
    try:
        print(urllib.request.urlopen("http://127.0.0.1:8123/answer").read().decode()); break
    except OSError: time.sleep(0.05)
' | grep -qx 42 && echo 1 >/logs/verifier/reward.txt
"""


@pytest.fixture
def keeps(backend: SandboxBackend) -> str:
    """Settings of a task that keeps processes; on Docker they are a plain user's."""
    user = 'agent.user = "nobody"\n' if backend.name == "docker" else ""
    return f"{user}verifier.keep_processes = true\n"


@pytest.mark.parametrize("kind", SERVE)
async def test_a_service_is_graded_where_it_is_declared(
    grade: Grade, keeps: str, kind: str
) -> None:
    """Declared, it answers the test and is in the log as kept; else it is gone, and named."""
    solve = f"echo 42 >answer; {SERVE[kind]}; sleep 1"
    kept = await grade(solve=solve, test=ASK, settings=keeps)
    assert (kept.ended.outcome, kept.ended.reward) == ("scored", 1.0), kept.printed
    (stayed,) = [e for e in kept.events if isinstance(e, ProcessesKilled)]
    assert "python3" in {process.name for process in stayed.kept or []}
    assert stayed.processes == []
    (hardened,) = [e for e in kept.events if isinstance(e, WorkspaceHardened)]
    assert len(hardened.steps_skipped) == 1
    other = await grade(solve=solve, test=ASK, mode="shared")
    assert (other.ended.outcome, other.ended.reward) == ("scored", 0.0)
    (killed,) = [e for e in other.events if isinstance(e, ProcessesKilled)]
    assert "python3" in {process.name for process in killed.processes}
    assert killed.kept is None


async def test_a_service_of_an_agent_that_ran_out_of_time(grade: Grade, keeps: str) -> None:
    """However the agent ended, what it had started is graded."""
    kept = await grade(
        solve=f"echo 42 >answer; {SERVE['plain']}; sleep 300",
        test=ASK,
        settings=keeps.replace("verifier.", "agent.timeout_sec = 3\nverifier."),
    )
    assert kept.ended.category == "agent_timeout"
    assert (kept.ended.outcome, kept.ended.reward) == ("scored", 1.0), kept.printed


async def test_nothing_was_started(grade: Grade, keeps: str) -> None:
    """The control: without the service the same test scores 0."""
    kept = await grade(solve="echo 42 >answer", test=ASK, settings=keeps)
    assert (kept.ended.outcome, kept.ended.reward) == ("scored", 0.0)
    (stayed,) = [e for e in kept.events if isinstance(e, ProcessesKilled)]
    assert stayed.kept == []


CHEAT = """
cat >/tmp/cheat.sh <<'END'
while :; do
  for place in /logs/verifier /proc/[0-9]*/root/logs/verifier /proc/[0-9]*/cwd/../logs/verifier; do
    echo 1 >$place/reward.txt
    mv $place/reward.txt $place/old
    rm -rf $place
    chmod -R 777 $place
  done 2>/dev/null
  for place in /verifier /tests /proc/[0-9]*/root/verifier; do
    cat $place/secret.txt >>/logs/artifacts/stolen
    echo 'echo 1 >/logs/verifier/reward.txt; exit' >$place/test.sh
  done 2>/dev/null
  cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep ^ANSWER_ >>/logs/artifacts/stolen
  date +%s >/logs/artifacts/beat
done
END
sh /tmp/cheat.sh >/dev/null 2>&1 &
sleep 1
"""
HONEST_ZERO = """
echo 0 >/logs/verifier/reward.txt
ls -la /logs/artifacts /logs/verifier
sleep 2
test "$ANSWER_SHEET" = from-the-test-alone || exit
before=$(cat /logs/artifacts/beat); sleep 1.5
test "$(cat /logs/artifacts/beat)" != "$before" && echo it was alive
test -s /logs/artifacts/stolen && cat /logs/artifacts/stolen
"""


async def test_a_kept_process_that_cheats(grade: Grade, keeps: str) -> None:
    """It works beside the test all the time, and neither writes a reward nor reads a secret."""
    kept = await grade(
        solve=CHEAT, test=HONEST_ZERO,
        settings=keeps + 'verifier.env = {ANSWER_SHEET = "from-the-test-alone"}\n',
    )  # fmt: skip
    assert (kept.ended.outcome, kept.ended.reward) == ("scored", 0.0), kept.printed
    assert "it was alive" in kept.printed
    assert "from-the-test-alone" not in kept.printed
    assert not [event for event in kept.events if isinstance(event, TamperFound)]


PLANTED = """
echo 'import os; os._exit(0)' > conftest.py
ln -s /verifier/expected.json out.json
"""


async def test_what_was_planted_beside_a_service(grade: Grade, keeps: str) -> None:
    """What lay there before the test is taken away, though its processes stay."""
    look = (
        "[ -s conftest.py ] && echo steered; cmp -s out.json /verifier/expected.json && echo same\n"
        "# c.py\n"
    ).replace("conftest.py ]", "conf*.py ]")
    kept = await grade(
        solve=f"chmod 777 . 2>/dev/null; echo 42 >answer; {PLANTED}{SERVE['plain']}; sleep 1",
        test=f"({look})\n{ASK}", files={"expected.json": "42"}, settings=keeps,
    )  # fmt: skip
    assert "steered" not in kept.printed
    assert "same" not in kept.printed
    assert (kept.ended.outcome, kept.ended.reward) == ("scored", 1.0), kept.printed
    tampered = {event.path for event in kept.events if isinstance(event, TamperFound)}
    assert tampered == {"/app/conftest.py", "/app/out.json"}


SWAPS = """
chmod 777 . 2>/dev/null
cat >/tmp/swap.py <<'END'
import ctypes, os
swap = ctypes.CDLL(None, use_errno=True).syscall
os.chdir("/app")
pairs = [(b"d%d" % n, b"l%d" % n) for n in range(20)]
for folder, link in pairs:
    os.makedirs(folder + b"/.git/hooks")
    os.symlink("/verifier", link)
    for name in (b"conftest.py", b"pytest.ini", b".git/config", b".git/hooks/pre-commit"):
        with open(folder + b"/" + name, "w") as file:
            file.write("[core]\\n fsmonitor = x\\n")
print("swapping", flush=True)
while True:
    for folder, link in pairs:
        swap(316, -100, folder, -100, link, 2)  # renameat2, RENAME_EXCHANGE
END
for n in 1 2; do python3 /tmp/swap.py >/tmp/said$n 2>&1 & sleep 0.3; done
sleep 0.3
"""


async def test_a_kept_process_that_swaps_folders_and_links(grade: Grade, keeps: str) -> None:
    """However paths change while they are looked at, that is no fault of the engine's."""
    kept = await grade(
        solve=f"echo 42 >answer; {SERVE['plain']}; sleep 0.5; {SWAPS}",
        test=f"cat /tmp/said1\n{ASK}", settings=keeps,
    )  # fmt: skip
    assert "swapping" in kept.printed
    assert (kept.ended.outcome, kept.ended.reward) == ("scored", 1.0), kept.ended
    assert [event for event in kept.events if isinstance(event, TamperFound)]


async def test_the_rewards_folder_is_shut_to_the_agent(grade: Grade, keeps: str) -> None:
    """While it works, too: it can plant nothing, and the test writes where it never was."""
    kept = await grade(
        solve="(echo 1 >/logs/verifier/reward.txt; ls /logs/verifier; echo 1 >/verifier/x) 2>&1 | "
        "tee /logs/artifacts/said",
        test="cat /logs/artifacts/said; ls /logs/verifier",
        settings=keeps,
    )
    assert "reward.txt: " in kept.printed
    assert kept.printed.count("denied") + kept.printed.count("Read-only") >= 2
    assert (kept.ended.reward, kept.ended.outcome) == (0.0, "scored")
    assert not [event for event in kept.events if isinstance(event, TamperFound)]


async def test_what_is_refused(grade: Grade, backend: SandboxBackend) -> None:
    """Where what stays could reach the verifier, the task is refused before anything starts."""
    keep = "verifier.keep_processes = true\n"
    refused = [
        (f'{keep}verifier.sandbox_mode = "separate"\n', None, r"verifier\.sandbox_mode"),
        (keep, "separate", "--verifier-sandbox"),
    ]
    if backend.name == "docker":
        refused += [
            (keep, None, r"agent\.user"),
            (f'{keep}agent.user = "root"\n', None, r"agent\.user"),
            (f'{keep}agent.user = "0:100"\n', None, r"agent\.user"),
            (f'{keep}agent.user = "nobody"\nverifier.user = "games"\n', None, r"verifier\.user"),
        ]
    for settings, mode, key in refused:
        with pytest.raises(TaskError, match=key):
            await grade(solve="true", test="true", settings=settings, mode=mode)
