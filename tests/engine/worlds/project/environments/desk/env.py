"""Apps that do what apps may do, and some that do what they must not."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
from helper import SEEN
from shared import WORD

from trialog import App, action


class Item(msgspec.Struct):
    """Something in the state."""

    name: str
    price: float = 1.0


class Count(msgspec.Struct):
    """A counter's state."""

    value: int = 0
    items: list[Item] = []
    secret: str = "state-mark-77f3"


class Counter(App[Count]):
    """Well-behaved."""

    def reset(self, task: Any) -> Any:
        """The first observation."""
        return {
            "task": task.name,
            "dice": self.rng.random(),
            "step": self.settings.get("step", 1),
            "word": WORD,
        }

    @action
    def add(self, n: int) -> int:
        """Add to the value."""
        self.state.value += n
        return self.state.value

    @action
    def put(self, item: Item, times: int = 1) -> int:
        """Put items in."""
        self.state.items += [item] * times
        return len(self.state.items)

    @action(readonly=True)
    def get(self) -> int:
        """The value."""
        return self.state.value

    @action(readonly=True)
    def sly(self) -> int:
        """Says that it is read-only."""
        self.state.value += 1
        return self.state.value

    @action
    def roll(self) -> float:
        """Chance."""
        return self.rng.random()

    @action
    def fail(self) -> None:
        """Raises after a change."""
        self.state.value = 99
        raise KeyError("no such thing")

    @action
    def odd(self) -> Any:
        """Gives what is no JSON data."""
        return object()

    @action
    def echo(self, value: Any) -> Any:
        """Gives back what it is given."""
        return value

    @action
    def nothing(self) -> None:
        """Gives nothing and changes nothing."""

    def terminated(self) -> bool:
        """At ten."""
        return self.state.value >= 10

    def truncated(self) -> bool:
        """Below zero."""
        return self.state.value < 0


class Second(App[Count]):
    """Another app, with an action of the same name."""

    @action
    def add(self, n: int) -> int:
        """Subtract, in fact."""
        self.state.value -= n
        return self.state.value


class BadReset(App[Count]):
    """Can't be reset."""

    def reset(self, task: Any) -> Any:
        """Raises."""
        raise ValueError("no world today")


class BadSnapshot(App[Count]):
    """Has a state that can't be shown once it was touched."""

    @action
    def touch(self) -> None:
        """From here on `snapshot` raises."""
        self.state.value = 1

    def snapshot(self) -> Any:
        """Raises when touched."""
        if self.state.value:
            raise RuntimeError("can't tell")
        return {}


class BadEnd(App[Count]):
    """Can't say whether it is over."""

    @action
    def touch(self) -> None:
        """Any action."""

    def terminated(self) -> bool:
        """Raises."""
        return bool(1 / 0)


class Wild(App[Count]):
    """Does things to its process."""

    @action
    def spin(self) -> None:
        """Never comes back, and holds the interpreter's lock."""
        while True:
            pass

    @action
    def deaf(self) -> None:
        """Never comes back, and has taken care not to be told."""
        faulthandler.cancel_dump_traceback_later()
        while True:
            pass

    @action
    def shut(self) -> None:
        """Closes whatever is open, its way to the engine as well."""
        os.closerange(0, 256)

    @action
    def regex(self) -> None:
        """Never comes back from a library."""
        import re

        re.match(r"(a+)+$", "a" * 60 + "b")

    @action
    def leave(self) -> None:
        """Ends the process at once."""
        print("about to leave")
        os._exit(3)

    @action
    def quit(self) -> None:
        """Ends the process politely."""
        sys.exit("enough")

    @action
    def crash(self) -> None:
        """Reads where nothing is."""
        ctypes.string_at(0)

    @action
    def fork(self) -> int:
        """Both copies come back."""
        os.fork()
        self.state.value += 1
        return self.state.value

    @action
    def stay(self, mark: str) -> int:
        """Leaves a process running, detached as well as can be."""
        program = "import time; time.sleep(300)"
        command = [sys.executable, "-c", program, mark]
        started = subprocess.Popen(command, start_new_session=True)
        return started.pid

    @action
    def noise(self) -> str:
        """Prints wherever it can."""
        print("\x00\x00\x00\x05hello", flush=True)
        os.write(1, b"raw bytes \xff")
        os.write(2, b"x" * 300_000)
        subprocess.run(["echo", "from a child"], check=True)
        return sys.stdin.read()

    @action
    def remember(self, n: int) -> list[int]:
        """Keeps something in a module."""
        SEEN.append(n)
        return SEEN

    @action
    def large(self, size: int) -> str:
        """Gives a lot."""
        return "x" * size

    @action
    def wait(self, seconds: float) -> str:
        """Takes its time."""
        time.sleep(seconds)
        return "waited"

    @action
    def see(self, path: str) -> Any:
        """What is at a path: a file's text, a folder's names, or null."""
        place = Path(path)
        try:
            return sorted(os.listdir(place)) if place.is_dir() else place.read_text("utf-8")
        except OSError:
            return None

    @action
    def overwrite(self, path: str) -> None:
        """Write to a file."""
        Path(path).write_text("overwritten", encoding="utf-8")

    @action
    def link(self, path: str) -> str:
        """Where a link leads."""
        return os.readlink(path)

    @action
    def process(self) -> dict[str, Any]:
        """Of what the process is made."""
        return {
            "environ": dict(os.environ),
            "pid": os.getpid(),
            "parent": os.getppid(),
            "session": os.getsid(0),
            "user": os.getuid(),
            "cwd": os.getcwd(),
            "path": sys.path,
            "hash": hash("a word"),
        }


class NotAnApp:
    """No App at all."""
