"""What can be told of a task's test without running it: faults that make a score mean nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ..verifier.protected.asking import asked_by
from .files import Bounds, Entry, chunks, read_text, walk
from .model import Task, TaskWarning
from .raw import raw_settings
from .reader import as_table
from .scripts import interpreter, is_crlf, shell_of
from .shell import COMMAND, INTO_SHELL, LOCAL_SCRIPT, Line, fetched, shell_lines

_PYTHON = re.compile(COMMAND + r"(?:\S*/)?python(?:3(?:\.\d+)?)?((?:\s+-[-A-Za-z]+)*)(?=\s|$|<)")
_PYTEST = re.compile(COMMAND + r"(?:\S*/)?(?:python\S*\s+(?:-\S+\s+)*-m\s+)?(?:pytest|py\.test)\b")
_IGNORED = re.compile(r"\|\|\s*(?:true|:)(?=\s|$|[;)])")
_GUARDED = re.compile(r"\|\|\s*(?:exit|return|\{|die|fail)")
_ERREXIT = re.compile(r"\bset\s+-\S*e|\bset\s+-o\s+errexit")
_PIPEFAIL = re.compile(r"\bset\s.*\bpipefail\b")
_REWARD = re.compile(r"reward\.(?:txt|json)")
_WRITES = re.compile(r">\s*[\"']?[^\s;&|]*reward\.(?:txt|json)|\btee\s+[^;&|]*reward\.(?:txt|json)")
_ONE = re.compile(r"\b(?:echo|printf)\s+(?:-n\s+)?[\"']?1(?:\.0*)?(?:\\n)?[\"']?\s*(?:>|\|\s*tee)")
_SCRIPT_CAP = 1024 * 1024


def advise(task: Task) -> list[TaskWarning]:
    """Advice on a task's files; an empty list is no promise that the test is good.

    Beside `task.warnings`, which name what was noticed when it was read. Raises TaskError when its
    files can't be read any more.
    """
    bounds = Bounds(task.path.resolve(), task.dataset)
    advice = [*_timeouts(task, bounds), *_solution(task)]
    place = bounds.follow(task.verifier)
    mentions_reward = False
    texts: list[bytes] = []
    for entry in walk(place, bounds, lambda _: True):
        if entry.kind != "file" or entry.place.stat().st_size > _SCRIPT_CAP:
            continue
        data = b"".join(chunks(entry.place))
        text = data.decode("utf-8", "replace")
        texts.append(data)
        mentions_reward = mentions_reward or _REWARD.search(text) is not None
        name = f"{task.verifier.name}/{entry.path}"
        if entry.path == "test.sh":
            advice.extend(_shebang(entry, name))
        if _is_shell(entry):
            if entry.path != "test.sh" and is_crlf(data):
                advice.append(_warning("check_crlf", name, None, "has CRLF line ends"))
            lines = list(shell_lines(text))
            advice.extend(_python(lines, name))
            advice.extend(_set_up(lines, name, network=task.settings.sandbox.network))
            if entry.path == "test.sh":
                advice.extend(_one_path(lines, name))
    if not mentions_reward:
        advice.append(
            _warning(
                "check_reward_never_written",
                f"{task.verifier.name}/test.sh",
                None,
                "no file of the verifier names reward.txt or reward.json",
            )
        )
    asked = asked_by(texts, task.settings.verifier.env.values())
    if asked.protected and asked.isolated:
        advice.append(
            _warning(
                "check_guard_kept_out",
                f"{task.verifier.name}/test.sh",
                None,
                "it asks for $TRIALOG_PYTEST but runs another pytest under python3 -I, which keeps "
                "the guard out, so every trial ends unscored",
            )
        )
    return advice


def _warning(code: str, file: str, line: int | None, message: str) -> TaskWarning:
    place = file if line is None else f"{file}, line {line}"
    return TaskWarning(code, f"{place}: {message}")


def _timeouts(task: Task, bounds: Bounds) -> Iterator[TaskWarning]:
    text = read_text(task.settings_file, bounds, what=task.settings_file.name)
    values = raw_settings(text, task.settings_file)
    for name in ("agent", "verifier"):
        if (as_table(values.get(name)) or {}).get("timeout_sec") is None:
            yield _warning(
                "check_no_timeout",
                task.settings_file.name,
                None,
                f"{name}.timeout_sec is not set, so it is 600 seconds",
            )


def _solution(task: Task) -> Iterator[TaskWarning]:
    if task.solution is None:
        yield _warning(
            "check_no_solution",
            task.path.name,
            None,
            "there is no reference solution (oracle/solve.sh or solution/solve.sh), so nothing "
            "shows that the task can be done",
        )
        return
    if not b"".join(chunks(task.solution / "solve.sh")).strip():
        name = f"{task.solution.name}/solve.sh"
        yield _warning("check_no_solution", name, None, "the reference solution is empty")


def _shebang(entry: Entry, name: str) -> Iterator[TaskWarning]:
    command = interpreter(entry.place)
    words = [Path(word).name for word in command]
    python = next((word for word in words if re.fullmatch(r"python[\d.]*", word)), None)
    if python and not any(re.fullmatch(r"-[A-Za-z]*I[A-Za-z]*", word) for word in command):
        yield _warning(
            "check_python_not_isolated",
            name,
            1,
            f"{python} without -I can import what the agent left; begin with "
            f"#!/usr/bin/env -S {python} -I",
        )


def _is_shell(entry: Entry) -> bool:
    if entry.path.endswith((".py", ".md", ".json", ".txt", ".csv", ".tsv")):
        return False
    first = next(chunks(entry.place), b"")[:2]
    if first == b"#!":
        return shell_of(interpreter(entry.place)) is not None
    return entry.path.endswith((".sh", ".bash"))


def _python(lines: list[Line], name: str) -> Iterator[TaskWarning]:
    for line in lines:
        for match in _PYTHON.finditer(line.text):
            flags = match[1].split()
            rest = line.text[match.end() :].strip()
            if any(re.fullmatch(r"-[A-Za-z]*I[A-Za-z]*", flag) for flag in flags):
                continue
            if {"--version", "-V"} & set(flags) or rest.startswith(("pip ", "venv ")):
                continue
            yield _warning(
                "check_python_not_isolated",
                name,
                line.number,
                "python3 without -I can import modules that the agent left in the workspace; "
                "add -I",
            )
            break


def _set_up(lines: list[Line], name: str, *, network: bool) -> Iterator[TaskWarning]:
    """Steps that can fail for reasons that are not the agent's."""
    errexit = pipefail = False
    for line in lines:
        errexit = errexit or _ERREXIT.search(line.text) is not None
        pipefail = pipefail or _PIPEFAIL.search(line.text) is not None
        step = fetched(line.text)
        ignored = _IGNORED.search(line.text) is not None
        # A shell that is piped nothing ends well, whatever became of the download before it.
        checked = errexit or _GUARDED.search(line.text) is not None
        checked = checked and (pipefail or INTO_SHELL.search(line.text) is None)
        if step is not None and not network and step != LOCAL_SCRIPT:
            yield _warning(
                "check_setup_needs_network",
                name,
                line.number,
                f"{step!r} needs the network, which this task does not allow; put what it "
                "fetches into the image or the verifier's folder",
            )
        elif step is not None and (ignored or not checked):
            yield _warning(
                "check_setup_unchecked",
                name,
                line.number,
                f"when {step!r} fails, the test goes on and may score 0 for it; end the script "
                "there without a reward, or put what it fetches into the image",
            )
        elif ignored and (_PYTEST.search(line.text) or _PYTHON.search(line.text)):
            yield _warning(
                "check_failure_ignored",
                name,
                line.number,
                "'|| true' hides whether the check passed, failed or could not run",
            )


def _one_path(lines: list[Line], name: str) -> Iterator[TaskWarning]:
    """The only reward that the script writes is a 1, and only if nothing stops it before."""
    writes = [line for line in lines if _WRITES.search(line.text)]
    if len(writes) != 1 or not _ONE.search(writes[0].text):
        return
    write = writes[0]
    before = [line for line in lines if line.number < write.number]
    depth = sum(
        len(re.findall(r"(?:^|[;&|]\s*)\s*if\b", line.text))
        - len(re.findall(r"(?:^|[;&|]\s*)\s*fi\b", line.text))
        for line in before
    )
    conditional = depth > 0 or re.search(r"(?:&&|\bif\b).*reward\.", write.text)
    alternative = re.search(r"reward\.\S*.*\|\|", write.text)
    if (conditional and not alternative) or any(_ERREXIT.search(line.text) for line in before):
        yield _warning(
            "check_reward_on_one_path",
            name,
            write.number,
            "a reward is written only when the check passes; write a 0 first, so that a failure "
            "is the verifier's own",
        )
