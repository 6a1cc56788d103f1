"""Hooks that do harm: each costs its own call, and nothing and nobody else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import anyio
import pytest

from helpers.counted import counting
from trialog.engine.hooks.mark import in_hook_process
from trialog.engine.hooks.pool import HookPool, HooksUnavailable
from trialog.engine.hooks.protocol import RewardGiven

from .conftest import Make
from .test_commands import gone

HARM = """
    import os
    def reward(step):
        with open({notes!r}, "a") as notes:
            notes.write(str(step.turn))
        if step.turn == 3:
            {harm}
        return float(step.turn)
"""


@pytest.mark.parametrize(
    ("harm", "error", "timed_out"),
    [
        ("while True: pass", "its reward ran past the deadline of 1 s and was stopped", True),
        ("import re; re.match('(a+)+$', 'a' * 64 + 'b')", "its reward ran past", True),
        ("while True:\n                try: os.read(0, 1) or input()\n"
         "                except BaseException: pass", "its reward ran past", True),
        ("os._exit(3)", "its reward ended the process that it ran in: exit code 3", False),
        ("import ctypes; ctypes.string_at(0)", "its reward ended the process that it ran in: "
         "killed by SIGSEGV", False),
        ("os.kill(os.getpid(), 9)", "its reward ended the process that it ran in: killed by "
         "SIGKILL", False),
        ("os.abort()", "its reward ended the process that it ran in: killed by SIGABRT", False),
        ("[bytearray(1 << 24) for _ in range(1000)]", "MemoryError", False),
        ("input()", "EOFError: EOF when reading a line", False),
    ],
)  # fmt: skip
async def test_a_harmful_call_costs_itself_only(
    make: Make, tmp_path: Path, harm: str, error: str, timed_out: bool
) -> None:
    """The other calls of its batch have their outcome, and none was made twice."""
    notes = tmp_path / "notes"
    source = make(HARM.format(notes=str(notes), harm=harm), timeout_sec=1.0)
    async with HookPool(memory=1 << 28) as pool:
        with anyio.fail_after(30):
            given = await pool.rewards(source, counting(*range(6)), range(6), None)
    assert [g.value for g in given] == [1.0, 2.0, None, 4.0, 5.0, 6.0]
    fault = given[2].fault
    assert fault is not None
    assert fault.error.startswith(error)
    assert fault.timed_out is timed_out
    assert notes.read_text() == "123456"


@pytest.mark.parametrize(
    ("harm", "line"),
    [
        ("while True: pass", 6),
        ("import re; re.match('(a+)+$', 'a' * 64 + 'b')", 6),
        ("import ctypes; ctypes.string_at(0)", 6),
    ],
)
async def test_the_line_is_known_of_what_was_killed(
    pool: HookPool, make: Make, tmp_path: Path, harm: str, line: int
) -> None:
    """An endless loop and a crash name the author's line as any error does."""
    code = HARM.format(notes=str(tmp_path / "notes"), harm=harm)
    given = await pool.rewards(make(code, timeout_sec=0.5), counting(1, 2, 3), [2], None)
    assert given[0].fault is not None
    assert given[0].fault.line == f"verify.py:{line}"


async def test_other_trials_go_on_at_full_speed(pool: HookPool, make: Make) -> None:
    """Endless loops in more verifiers than there are processes hold up nobody behind them."""
    loop = make("def check(episode):\n    while True: pass", name="loop", timeout_sec=20.0)
    fine = make("def check(episode): return {'score': 1.0}", name="fine")
    async with anyio.create_task_group() as stuck:
        for _ in range(4):
            stuck.start_soon(pool.check, loop, counting(1), None)
        with anyio.fail_after(10):
            for _ in range(50):
                assert (await pool.check(fine, counting(1), None)).score == 1.0
        stuck.cancel_scope.cancel()


async def test_works_behind_a_long_call_are_given_to_others(make: Make, tmp_path: Path) -> None:
    """What was already sent to a process that is held up is done elsewhere, and only once."""
    notes = tmp_path / "notes"
    fine = make(f"def check(episode):\n    open({str(notes)!r}, 'a').write('x')\n"
                "    return {'score': 1.0}", name="fine")  # fmt: skip
    slow = make("import time\ndef check(episode):\n    time.sleep(3)\n    return {'score': 0.5}")
    done: list[float | None] = []
    async with HookPool(size=1) as pool:
        await pool.check(fine, counting(1), None)

        async def one(source: Any) -> None:
            done.append((await pool.check(source, counting(1), None)).score)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, slow)
            for _ in range(20):
                tasks.start_soon(one, fine)
    assert done == [1.0] * 20 + [0.5]
    assert notes.read_text() == "x" * 21


async def test_the_deadline_is_each_calls_own(pool: HookPool, make: Make) -> None:
    """Many calls that each keep it may together take longer."""
    source = make("import time\ndef reward(step):\n    time.sleep(0.2)\n    return 1.0",
                  timeout_sec=0.8)  # fmt: skip
    given = await pool.rewards(source, counting(*range(8)), range(8), None)
    assert given == [RewardGiven(value=1.0)] * 8


async def test_a_process_serves_many_trials(pool: HookPool, make: Make) -> None:
    """One is not started for each hook, and it is none of the engine's threads."""
    source = make("import os, threading\n"
                  "def check(episode):\n"
                  "    main = threading.current_thread() is threading.main_thread()\n"
                  "    return {'score': os.getpid(), 'scores': {'main': float(main)}}")  # fmt: skip
    given = [await pool.check(source, counting(1), None) for _ in range(20)]
    assert len({g.score for g in given}) == 1
    assert given[0].score != os.getpid()
    assert given[0].scores == {"main": 1.0}


@pytest.mark.parametrize(
    "harm",
    [
        "if os.fork() == 0: return 99.0",
        "os.fork() or os._exit(1)",
        "os.fork() or __import__('time').sleep(1000)",
        "import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True)",
        "import threading; threading.Thread(target=__import__('time').sleep, args=[1000],"
        " daemon=True).start()",
        "import signal; signal.setitimer(signal.ITIMER_REAL, 0.2)",
        "import signal as s; s.signal(s.SIGTERM, s.SIG_IGN); s.setitimer(s.ITIMER_REAL, 0.2)",
        "import signal as s; s.signal(s.SIGALRM, lambda *_: os._exit(1)); s.setitimer(0, 0.2)",
        "import atexit; atexit.register(print, 'bye'); __import__('sys').setrecursionlimit(70)",
        "os.closerange(3, 1000)",
        "os.close(0); os.close(1); os.close(2)",
        "import sys; sys.stdout.close(); sys.stderr = sys.stdin = None",
        "os.chdir('/'); os.environ.clear(); __import__('sys').path.clear()",
        "__import__('gc').disable(); __import__('sys').modules.pop('json', None)",
    ],
)
async def test_what_a_hook_leaves_behind_harms_nobody(
    pool: HookPool, make: Make, harm: str
) -> None:
    """Children, threads, timers, signals, closed files: later calls know nothing of them."""
    code = f"""
        import os
        def reward(step):
            if step.turn == 2:
                {harm}
            return float(step.turn)
    """
    source = make(code, name="harm")
    other = make("import time, json, os\n"
                 "def check(episode):\n"
                 "    time.sleep(0.5)\n"
                 "    print('fine')\n"
                 "    assert os.environ['PATH']\n"
                 "    def deep(n): return n and deep(n - 1)\n"
                 "    return {'score': float(deep(300) == 0)}", name="other")  # fmt: skip
    with anyio.fail_after(30):
        given = await pool.rewards(source, counting(1, 2, 3), range(3), None)
        assert given == [RewardGiven(value=float(n)) for n in (1, 2, 3)]
        check = await pool.check(other, counting(1), None)
        assert (check.score, check.fault) == (1.0, None)


async def test_threads_of_a_verifiers_modules_may_stay(pool: HookPool, make: Make) -> None:
    """What was started when the code was loaded is its own matter; the process serves on."""
    source = make("""
        import os, threading, time
        threading.Thread(target=time.sleep, args=[1000], daemon=True).start()
        def reward(step): return os.getpid()
    """)
    given = await pool.rewards(source, counting(*range(6)), range(6), None)
    assert len({g.value for g in given}) == 1


async def test_code_knows_that_it_runs_as_a_hook(pool: HookPool, make: Make) -> None:
    """So that a file that would start trials when it is loaded can be kept from it."""
    source = make("""
        from trialog.engine.hooks.mark import in_hook_process
        here = in_hook_process()
        def check(episode): return {"score": float(here)}
    """)
    assert (await pool.check(source, counting(1), None)).score == 1.0
    assert not in_hook_process()


@pytest.mark.parametrize("how", ["", "start_new_session=True"])
async def test_what_a_timed_out_hook_started_is_killed(
    pool: HookPool, make: Make, tmp_path: Path, how: str
) -> None:
    """Its children end with it, even in a session of their own and without a parent."""
    code = f"""
        import os, subprocess, sys, time
        def check(episode):
            if os.fork() == 0:
                child = subprocess.Popen(["sleep", "1000"], {how})
                with open({str(tmp_path / "pid")!r}, "w") as file:
                    file.write(str(child.pid))
                os._exit(0)
            while True:
                pass
    """
    given = await pool.check(make(code, timeout_sec=0.7), counting(1), None)
    assert given.fault is not None
    assert given.fault.timed_out
    await gone(int((tmp_path / "pid").read_text()))


async def test_a_fork_bomb_ends_at_its_deadline(pool: HookPool, make: Make, tmp_path: Path) -> None:
    """Processes that keep making others are stopped together, then killed."""
    mark = f"bomb-{os.getpid()}"
    code = f"""
        import os, time
        def check(episode):
            os.environ["BOMB"] = {mark!r}
            while True:
                if os.fork() == 0:
                    os.execv("/bin/sh", ["sh", "-c", "sleep 1000 & sleep 1000; : {mark}"])
                time.sleep(0.02)
    """
    with anyio.fail_after(30):
        given = await pool.check(make(code, timeout_sec=0.5), counting(1), None)
    assert given.fault is not None
    assert given.fault.timed_out

    def left() -> list[str]:
        found: list[str] = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if mark.encode() in path.read_bytes():
                    found.append(path.parent.name)
            except OSError:
                pass
        return found

    with anyio.fail_after(10):
        while left():
            await anyio.sleep(0.01)


@pytest.mark.parametrize(
    ("harm", "error"),
    [
        ("while True: pass", "loading its code ran past the deadline of 0.5 s and was stopped"),
        ("__import__('os')._exit(5)", "loading its code ended the process that it ran in: exit"),
    ],
)
async def test_code_that_can_not_even_be_loaded(
    pool: HookPool, make: Make, harm: str, error: str
) -> None:
    """Every call of that verifier has the fault, after two tries no more is wasted on it."""
    code = f"def check(episode): return {{'score': 1.0}}\ndef reward(step): return 1.0\n{harm}\n"
    bad = make(code, name="bad", timeout_sec=0.5)
    fine = make("def check(episode): return {'score': 1.0}", name="fine")
    given = await pool.trial([bad, fine], counting(1, 2, 3), None)
    faults = [g.fault for g in given.rewards["bad"]] + [given.checks["bad"].fault]
    assert all(f is not None and f.error.startswith(error) for f in faults)
    assert given.checks["fine"].score == 1.0
    await pool.check(bad, counting(1), None)
    begun = anyio.current_time()
    again = await pool.rewards(bad, counting(*range(20)), range(20), None)
    assert all(g.fault is not None and g.fault.error.startswith(error) for g in again)
    assert anyio.current_time() - begun < 0.5


async def test_a_query_that_is_never_answered_ends_at_the_deadline(
    pool: HookPool, make: Make
) -> None:
    """Waiting for an app counts as the hook's own time."""
    source = make("def check(e): return {'score': e.apps['counter'].query('value')}",
                  check="verify.py:check", timeout_sec=0.5)  # fmt: skip

    async def never(app: str, action: str, arguments: dict[str, Any]) -> Any:
        await anyio.sleep_forever()

    with anyio.fail_after(20):
        given = await pool.check(source, counting(1), never)
    assert given.fault is not None
    assert given.fault.timed_out


async def test_questions_come_from_threads_too(pool: HookPool, make: Make) -> None:
    """A hook may ask from threads of its own while it runs; each has its own answer."""
    source = make("""
        from concurrent.futures import ThreadPoolExecutor
        def check(episode):
            ask = episode.apps["counter"].query
            with ThreadPoolExecutor(8) as threads:
                answers = list(threads.map(lambda n: ask("double", n=n), range(50)))
            return {"score": float(answers == [2 * n for n in range(50)])}
    """)

    async def ask(app: str, action: str, arguments: dict[str, Any]) -> Any:
        return arguments["n"] * 2

    assert (await pool.check(source, counting(1), ask)).score == 1.0


async def test_large_episodes_and_outputs(pool: HookPool, make: Make) -> None:
    """Megabytes go both ways, more than a pipe or the shared memory holds."""
    source = make("""
        def check(episode):
            return {"score": len(episode.answer), "evidence": ["x" * 3_000_000]}
    """)
    async with anyio.create_task_group() as tasks:

        async def one() -> None:
            given = await pool.check(source, counting(1, answer=["y" * 5_000_000]), None)
            assert given.score == 5_000_000.0
            assert [len(text) for text in given.evidence] == [3_000_000]

        for _ in range(6):
            tasks.start_soon(one)


async def test_a_waiter_who_is_cancelled_disturbs_nobody(pool: HookPool, make: Make) -> None:
    """His call is dropped; the process serves on."""
    slow = make("import time\ndef check(e):\n    time.sleep(0.5)\n    return {'score': 1.0}",
                check="verify.py:check")  # fmt: skip
    with anyio.move_on_after(0.05):
        await pool.check(slow, counting(1), None)
    assert (await pool.check(slow, counting(1), None)).score == 1.0


async def test_what_hooks_print_is_passed_on(make: Make) -> None:
    """Whoever wants it is given it; however much it is, nobody waits for anybody."""
    printed: list[bytes] = []
    source = make("def check(e):\n    print('hello' * 100_000)\n    return {'score': 1}",
                  check="verify.py:check")  # fmt: skip
    async with HookPool(printed=printed.append) as pool:
        await pool.check(source, counting(1), None)
        with anyio.fail_after(10):
            while len(b"".join(printed)) < 500_000:
                await anyio.sleep(0.01)
    assert b"".join(printed) == b"hello" * 100_000 + b"\n"


async def test_a_closed_pool_refuses(make: Make) -> None:
    """Closing ends what runs, and whoever waits or comes later is told."""
    loop = make("def check(episode):\n    while True: pass")
    refused: list[str] = []
    pool = HookPool()

    async def wait() -> None:
        try:
            await pool.check(loop, counting(1), None)
        except HooksUnavailable as error:
            refused.append(str(error))

    async with pool, anyio.create_task_group() as tasks:
        for _ in range(30):
            tasks.start_soon(wait)
        await anyio.sleep(0.5)
        await pool.aclose()
    assert refused == ["the hooks are closed"] * 30
    with pytest.raises(HooksUnavailable):
        await pool.check(loop, counting(1), None)


async def test_processes_that_can_not_start_are_told(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After some tries whoever waits gets the reason."""
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    source = make("def check(episode): return {'score': 1.0}")
    async with HookPool() as pool:
        with pytest.raises(HooksUnavailable, match=r"no hook process can be started: .*python"):
            await pool.check(source, counting(1), None)
    assert HooksUnavailable.category == "host_failed"


def test_hook_processes_end_with_the_engine(make: Make, tmp_path: Path) -> None:
    """An engine that is killed leaves no hook running, not even one in an endless loop."""
    pid = tmp_path / "pid"
    make(f"""
        import os
        def check(episode):
            open({str(pid)!r}, "w").write(str(os.getpid()))
            while True: pass
    """)
    folder = tmp_path / "project" / "verifiers" / "v"
    program = dedent(f"""
        import anyio
        from pathlib import Path
        from helpers.counted import counting
        from trialog.engine.hooks.pool import HookPool
        from trialog.engine.hooks.protocol import HookSource
        async def main():
            async with HookPool() as pool:
                folder = Path({str(folder)!r})
                source = HookSource(name="v", version="1.0.0", digest="d", weight=1.0,
                    timeout_sec=100.0, folder=folder, root=folder, check="verify.py:check")
                await pool.check(source, counting(1), None)
        anyio.run(main)
    """)
    tests = str(Path(__file__).parents[2])
    engine = subprocess.Popen(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": tests}
    )

    async def check() -> None:
        with anyio.fail_after(20):
            while not pid.exists() or not pid.read_text():
                await anyio.sleep(0.01)
        assert engine.poll() is None
        assert Path(f"/proc/{pid.read_text()}").exists()
        engine.send_signal(signal.SIGKILL)
        await gone(int(pid.read_text()))

    try:
        anyio.run(check)
    finally:
        engine.kill()
        engine.wait()
