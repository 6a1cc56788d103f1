"""What runs in the sandbox: the agent on two pipes, and beside it commands that it has run.

A phase is one command, so that is a driver: it starts the agent, and is told by a pipe which file
to run beside it. All that it says and all that is run beside is the agent's to break, which harms
only its own work: the engine's side has a deadline for everything.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from .pipes import Pipe

MOST_COMMANDS = 10_000
"""Commands that are run beside one agent."""

LONGEST_REPORT = 256
"""Bytes of a line that the driver says."""

MOST_LEFT = 256
"""Pieces that are still read of a command that has ended, while something it left goes on
printing."""

DRIVER = r"""
# Starts the agent on two pipes, and beside it the files that the engine names on `calls`.
here=$1
shift
exec 6>&1 2>/dev/null  # its own remarks are no output of the agent's
# Without setsid only a command's first process can be stopped before the phase ends.
if command -v setsid >/dev/null 2>&1; then apart=setsid; else apart=; fi
exec 3<"$here/calls" 4<"$here/stops" 5>"$here/told"
( while read -r pid <&4; do
    kill -KILL "-$pid" || kill -KILL "$pid"
  done ) >/dev/null 3<&- 5>&- 6>&- &
stopper=$!
( while read -r number <&3; do
    ( $apart /bin/sh "$here/$number.sh" <"$here/$number.in" >"$here/$number.out" 2>&1 \
        3<&- 4<&- 5>&- &
      pid=$!
      printf 'begun %s %s\n' "$number" "$pid" >&5
      wait "$pid"
      printf 'ended %s %s\n' "$number" "$?" >&5 ) &
  done ) >/dev/null 4<&- 6>&- &
caller=$!
# In a subshell, or this shell would say in the agent's place that the agent was killed.
( exec $apart /bin/sh -c 'printf "begun 0 %s\n" "$$" >&5; exec "$@" 5>&-' sh "$@" \
    <"$here/in" >"$here/out" 2>&6 3<&- 4<&- 6>&- )
code=$?
exec 3<&- 4<&-
kill -KILL "$caller" "$stopper"
wait
exit "$code"
"""


class Running:
    """A command beside the agent; number 0 is the agent itself."""

    def __init__(self, number: int, output: Pipe | None) -> None:
        self.number = number
        self.pid: int | None = None
        self.code: int | None = None
        """Null where it did not end by itself."""
        self.over = anyio.Event()
        """It has ended, and all that it printed was taken."""
        self.output = output
        self.stop_wanted = False


class Inside:
    """The driver's files and pipes, in a folder of the host that is seen inside as `seen`."""

    def __init__(self, folder: Path, seen: str) -> None:
        """Make them; blocks."""
        self._folder = folder
        self._seen = seen
        folder.mkdir()
        folder.chmod(0o755)
        _write(folder / "driver.sh", DRIVER.encode())
        self.agent_in = Pipe(folder / "in", 0o644)
        self.agent_out = Pipe(folder / "out", 0o666)
        self._calls = Pipe(folder / "calls", 0o644)
        self._stops = Pipe(folder / "stops", 0o644)
        self._told = Pipe(folder / "told", 0o666)
        self._agent = Running(0, None)
        self._running: dict[int, Running] = {0: self._agent}
        self._count = 0
        self._over = False

    def argv(self, words: list[str]) -> list[str]:
        """The phase's command, for an agent that is started by these words."""
        return ["/bin/sh", f"{self._seen}/driver.sh", self._seen, *words]

    async def follow(self) -> None:
        """Hear what the driver says, to the end of the phase."""
        held = b""
        while data := await self._told.read():
            *lines, held = (held + data).split(b"\n")
            held = held[-LONGEST_REPORT:]
            for line in lines:
                self._hear(line)

    async def run(
        self, group: TaskGroup, script: str, stdin: bytes, take: Callable[[bytes], None]
    ) -> Running | None:
        """Run a shell script beside the agent; None where none can be run any more.

        `take` is given what it prints, as it comes.
        """
        if self._count == MOST_COMMANDS or self._over:
            return None
        self._count += 1
        number = self._count
        try:
            output = await to_thread.run_sync(self._put, number, script, stdin)
        except OSError:  # many agents at once have many pipes
            return None
        running = self._running[number] = Running(number, output)
        group.start_soon(self._read, running, output, take)
        self._calls.write_now(f"{number}\n".encode())
        if self._over:
            self._end(running)
        return running

    def stop(self, running: Running) -> None:
        """Kill a command with all that it started, now or as soon as it has begun."""
        running.stop_wanted = True
        if running.pid is not None:
            self._stops.write_now(f"{running.pid}\n".encode())

    def stop_agent(self) -> None:
        """Kill the agent; the phase ends with it."""
        self.stop(self._agent)

    def end(self) -> None:
        """The phase is over: nothing runs any more."""
        self._over = True
        for pipe in (self.agent_in, self.agent_out, self._told):
            pipe.finish()
        for running in list(self._running.values()):
            self._end(running)

    def close(self) -> None:
        """Give the pipes back, once nobody waits for them."""
        for pipe in (self.agent_in, self.agent_out, self._calls, self._stops, self._told):
            pipe.close()

    def _put(self, number: int, script: str, stdin: bytes) -> Pipe:
        _write(self._folder / f"{number}.sh", script.encode("utf-8", "replace"))
        _write(self._folder / f"{number}.in", stdin)
        return Pipe(self._folder / f"{number}.out", 0o666)

    async def _read(self, running: Running, output: Pipe, take: Callable[[bytes], None]) -> None:
        ended, left = False, MOST_LEFT
        try:
            while left and (data := await output.read()):
                take(data)
                ended = ended or running.number not in self._running
                left -= ended
        finally:
            output.close()
            running.over.set()
        await to_thread.run_sync(self._tidy, running.number)

    def _tidy(self, number: int) -> None:
        for end in ("sh", "in", "out"):
            with suppress(OSError):
                (self._folder / f"{number}.{end}").unlink()

    def _hear(self, line: bytes) -> None:
        word, _, rest = line.partition(b" ")
        first, _, second = rest.partition(b" ")
        if not (first.isdigit() and second.isdigit() and len(rest) < 32):
            return
        running = self._running.get(int(first))
        if running is None:
            return
        if word == b"begun" and running.pid is None:
            running.pid = int(second)
            if running.stop_wanted:
                self.stop(running)
        elif word == b"ended" and running.number:
            running.code = int(second)
            self._end(running)

    def _end(self, running: Running) -> None:
        self._running.pop(running.number, None)
        if running.output is not None:
            running.output.finish()


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    path.chmod(0o644)
