"""Reading a task folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from ...events.errors import said
from ...events.values import without_surrogates
from ..errors import TaskError
from .build import find_build
from .digest import digest
from .document import find_prompt, split_document
from .files import (
    SETTINGS_NAMES,
    SOLUTION_NAMES,
    VERIFIER_NAMES,
    Bounds,
    Entry,
    chunks,
    present,
    read_text,
    real_folder,
    walk,
)
from .model import Task, TaskSettings, TaskWarning
from .names import safe_name
from .raw import raw_settings
from .scripts import check_script, interpreter, shell_of
from .settings import parse_settings
from .shell import first_fetch
from .verifier_document import check_document

Layout = Literal["a", "b"]


NETWORK_UNSAID = "task_network_unsaid"
"""The warning that a job which gives such tasks a network has no use for."""

OLDER_LAYOUT = (
    "which is Terminal-Bench's first layout and is not read; it needs a task.toml, an "
    "instruction.md, and a tests/test.sh that writes the reward (docs/tasks.md shows which part "
    "goes where)"
)
"""What is said of such tasks, and what to do."""


class Parts(NamedTuple):
    """What is read of a task folder apart from its environment."""

    layout: Layout
    settings_file: Path
    prompt: str
    settings: TaskSettings
    verifier: Path
    solution: Path | None


def load_task(path: Path | str, *, dataset: Path | None = None) -> Task:
    """Read a task folder in either layout; everything that is wrong with it is a TaskError.

    `dataset` is the folder inside which symbolic links may lead; without it, that is the task's
    parent if it holds other tasks, but for hidden folders. Reads and hashes every file: not to be
    called on the event loop.
    """
    given = Path(os.path.abspath(path))
    folder = _folder(given)
    bounds = Bounds(folder, dataset.resolve() if dataset is not None else None)
    name = safe_name(given.name)
    warnings: list[TaskWarning] = []
    parts = read_parts(folder, name=name, bounds=bounds, warnings=warnings)
    entries = walk(folder, bounds, follows(parts))
    _check_names(entries, parts.verifier)
    dockerfile, context = find_build(folder, parts.settings, name, bounds, warnings)
    context_digest = None
    if context is not None:
        context_digest = digest(walk(context, bounds, lambda _: False))
    return Task(
        name=name,
        path=given,
        dataset=bounds.dataset,
        layout=parts.layout,
        digest=digest(entries),
        prompt=parts.prompt,
        settings=parts.settings,
        settings_file=parts.settings_file,
        verifier=parts.verifier,
        solution=parts.solution,
        dockerfile=dockerfile,
        context=context,
        environment_digest=context_digest,
        warnings=warnings,
    )


def is_task_folder(path: Path) -> bool:
    """Whether a folder has a settings file."""
    return any(present(path / name) for name in SETTINGS_NAMES)


def is_older_layout(path: Path) -> bool:
    """Whether a folder is a task in Terminal-Bench's first layout."""
    return all(present(path / name) for name in ("task.yaml", "run-tests.sh"))


def task_entries(task: Task) -> list[Entry]:
    """All files of a task's folder, as its digest counts them."""
    folder = task.path.resolve()
    parts = Parts(
        task.layout, task.settings_file, task.prompt, task.settings, task.verifier, task.solution
    )
    return walk(folder, Bounds(folder, task.dataset), follows(parts))


def follows(parts: Parts) -> Callable[[str], bool]:
    """Which links of a task folder are followed: those that are, or are in, a part that is read."""
    whole = {parts.settings_file.name, "instruction.md", "environment", "environment/Dockerfile"}
    below = [parts.verifier.name] + ([parts.solution.name] if parts.solution else [])

    def follow(path: str) -> bool:
        return path in whole or path.split("/", 1)[0] in below

    return follow


def read_parts(folder: Path, *, name: str, bounds: Bounds, warnings: list[TaskWarning]) -> Parts:
    """Settings, prompt, verifier and solution of a folder; warnings are added to the list."""
    found = [one for one in SETTINGS_NAMES if present(folder / one)]
    if not found:
        raise TaskError(f"no task folder: {_why_no_task(folder)}", file=folder)
    settings_file = folder / found[0]
    layout: Layout = "a" if found[0] == "task.md" else "b"
    if len(found) == 2:
        warnings.append(
            TaskWarning(
                "task_two_settings",
                "it has task.md and task.toml; task.md holds, task.toml is not read",
            )
        )
    text = read_text(settings_file, bounds, what=found[0])
    values = raw_settings(text, settings_file)
    # First, since a task of a kind that is refused may well have its parts elsewhere.
    settings = parse_settings(values, file=settings_file, task=name, warnings=warnings)
    if layout == "a":
        prompt = _prompt_a(text, settings_file, warnings)
    else:
        prompt = _prompt_b(settings_file, bounds)
    verifier = _verifier(folder, layout, name, bounds, warnings)
    if settings.verifier.sandbox_mode == "separate" and present(verifier / "Dockerfile"):
        raise TaskError(
            f"task {name} is refused: its test has a sandbox of its own with an image of its own, "
            "which is not supported; install what the test needs in environment/Dockerfile, and "
            f"remove {verifier.name}/Dockerfile",
            file=verifier / "Dockerfile",
        )
    if not settings.sandbox.network_said:
        warnings.extend(_fetching(verifier))
    solution = _solution(folder, layout, bounds, warnings)
    return Parts(layout, settings_file, prompt, settings, verifier, solution)


def _folder(given: Path) -> Path:
    try:
        if given.is_dir():
            return given.resolve(strict=True)
        exists = present(given)
    except (OSError, ValueError, RuntimeError) as error:
        raise TaskError(f"can't be looked at: {said(error)}", file=given) from None
    if not exists:
        raise TaskError("no such folder", file=given)
    hint = f"; give its folder, {given.parent}" if given.name in SETTINGS_NAMES else ""
    raise TaskError(f"a task is a folder, and this is none{hint}", file=given)


def _why_no_task(folder: Path) -> str:
    if is_older_layout(folder):
        return f"it has a task.yaml and a run-tests.sh, {OLDER_LAYOUT}"
    try:
        inner = sorted(item.name for item in folder.iterdir() if is_task_folder(item))
    except OSError as error:
        return f"can't be listed: {error.strerror}"
    if inner:
        return f"it has no task.md and no task.toml, but it holds task folders, such as {inner[0]}"
    return "it has no task.md and no task.toml"


def _prompt_a(text: str, file: Path, warnings: list[TaskWarning]) -> str:
    document = split_document(text)
    if document.front_matter is None:
        warnings.append(
            TaskWarning(
                "task_no_front_matter",
                f"{file.name} does not begin with settings between two lines of three dashes, "
                "so every setting has its default",
            )
        )
    prompt = find_prompt(document.body)
    if prompt.repeated:
        raise TaskError("two sections are named '## prompt'; keep one", file=file)
    if prompt.other_sections:
        warnings.append(
            TaskWarning(
                "task_section_unused",
                f"{file.name}: the section {prompt.other_sections[0]!r} is for several agents or "
                "a simulated user and is not used",
            )
        )
    if not prompt.text.strip():
        raise TaskError(
            "no prompt: there is no text under '## prompt', nor below the settings", file=file
        )
    return prompt.text


def _prompt_b(file: Path, bounds: Bounds) -> str:
    instruction = file.with_name("instruction.md")
    if not present(instruction):
        raise TaskError("no prompt: there is no instruction.md beside task.toml", file=instruction)
    prompt = read_text(instruction, bounds, what="the prompt")
    if not prompt.strip():
        raise TaskError("no prompt: the file is empty", file=instruction)
    return prompt


def _check_names(entries: Iterable[Entry], verifier: Path) -> None:
    """Refuse what the job's first event could not name: it lists the verifier's files by path."""
    for entry in entries:
        raw = without_surrogates(entry.path)[1]
        if raw is not None and entry.path.split("/", 1)[0] == verifier.name:
            raise TaskError(
                f"a name that is not UTF-8: {raw.decode(errors='backslashreplace')}; the log could "
                "not record this file of the verifier's, so rename it",
                file=verifier,
            )


def _verifier(
    folder: Path, layout: Layout, task: str, bounds: Bounds, warnings: list[TaskWarning]
) -> Path:
    names = _in_order(VERIFIER_NAMES, layout)
    there = [name for name in names if present(folder / name)]
    with_test = [name for name in there if present(folder / name / "test.sh")]
    if not there:
        raise TaskError(
            f"no verifier: there is neither {names[0]}/test.sh nor {names[1]}/test.sh", file=folder
        )
    chosen = folder / (with_test or there)[0]
    real_folder(chosen, bounds, what="the verifier")
    check_document(chosen, bounds, task)
    test = chosen / "test.sh"
    if not present(test):
        raise TaskError(
            "no verifier: the folder has no test.sh, which is what writes the reward", file=chosen
        )
    if not check_script(test, bounds, what="test.sh").strip():
        raise TaskError("test.sh is empty, so no reward would ever be written", file=test)
    if len(with_test) > 1:
        warnings.append(
            TaskWarning(
                "task_two_verifiers",
                f"it has {names[0]}/test.sh and {names[1]}/test.sh; "
                f"{names[0]}/test.sh is the one that runs",
            )
        )
    return chosen


def _fetching(verifier: Path) -> Iterator[TaskWarning]:
    """Whether the test of a task that says nothing of a network needs one."""
    test = verifier / "test.sh"
    if shell_of(interpreter(test)) is None:
        return
    found = first_fetch(b"".join(chunks(test)).decode("utf-8", "replace"))
    if found is not None:
        number, step = found
        yield TaskWarning(
            NETWORK_UNSAID,
            f"{verifier.name}/test.sh, line {number}: {step!r} needs the network, and the task has "
            "none, since it does not say so (allow_internet); give it one with --default-network",
        )


def _solution(
    folder: Path, layout: Layout, bounds: Bounds, warnings: list[TaskWarning]
) -> Path | None:
    names = _in_order(SOLUTION_NAMES, layout)
    there = [name for name in names if present(folder / name)]
    with_script = [name for name in there if present(folder / name / "solve.sh")]
    if not there:
        return None
    chosen = folder / (with_script or there)[0]
    real_folder(chosen, bounds, what="the reference solution")
    if not with_script:
        warnings.append(
            TaskWarning(
                "task_no_solution",
                f"{chosen.name} has no solve.sh, so the oracle agent can't run it",
            )
        )
        return None
    check_script(chosen / "solve.sh", bounds, what="solve.sh")
    return chosen


def _in_order(names: Sequence[str], layout: Layout) -> tuple[str, str]:
    """The layout's own name first."""
    own, other = names if layout == "a" else reversed(names)
    return own, other
