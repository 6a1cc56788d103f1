"""Each manifest from its file: every key, what it may be, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast, get_args

import msgspec

from ...events.version import __version__
from ..authoring.app import Control
from ..authoring.verifiers import RubricCriterion
from ..job.config import JobConfig
from ..tasks.names import safe_name
from ..tasks.reader import as_list, as_table, describe
from .importing import parse_reference
from .model import (
    AgentManifest,
    AppManifest,
    EnvironmentManifest,
    Network,
    ProjectManifest,
    TaskManifest,
    VerifierManifest,
    VersionCommand,
)
from .reader import Faults, Fields, nearest, read_fields

TOTAL_REWARD = "total_reward"
PROJECT_FILE = "trialog.yaml"

_SEMANTIC = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"
    r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)
_KINDS = ("deterministic", "agent", "human")
_HOOKS = ("check", "reward", "hindsight")
_REVIEW = ("agent", "model", "image")
_INSTALLED = ("protocol", "install", "install_timeout_sec", "env", "network")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_NOT_DEFAULTS = {"tasks", "agent_env", "verifier_env"}


def read_project(file: Path, faults: Faults) -> ProjectManifest | None:
    """trialog.yaml."""
    fields = read_fields(file, file.parent, faults)
    if fields is None:
        return None
    name = fields.required("name", "it says what the project is called")
    wanted = fields.text("trialog", 'a range of versions such as ">=0.1,<0.3"')
    if wanted is not None:
        _check_range(fields, wanted)
    defaults = fields.mapping("defaults") or {}
    _check_defaults(fields, defaults)
    review = fields.mapping("review") or {}
    for key, value in review.items():
        if key not in _REVIEW:
            fields.fault(f"unknown setting; {nearest(key, _REVIEW)}", "review", key)
        elif not isinstance(value, str) or not value:
            fields.fault(f"expected text, found {describe(value)}", "review", key)
    fields.finish()
    return ProjectManifest(
        name=name or file.parent.name,
        file=file,
        lines=fields.lines,
        trialog=wanted,
        defaults=defaults,
        review=review,
    )


def _check_range(fields: Fields, wanted: str) -> None:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # slow to import

    have = __version__
    try:
        fits = SpecifierSet(wanted).contains(have, prereleases=True)
    except InvalidSpecifier:
        fields.fault(
            f'expected a range of versions such as ">=0.1,<0.3", found {wanted!r}', "trialog"
        )
        return
    if not fits:
        fields.fault(
            f"the project is for trialog {wanted}, and this is {have}; install a version of that "
            "range, or change the range",
            "trialog",
        )


def _check_defaults(fields: Fields, defaults: Mapping[str, Any]) -> None:
    known = [name for name in JobConfig.__struct_fields__ if name not in _NOT_DEFAULTS]
    for name, value in defaults.items():
        if name not in known:
            fields.fault(f"unknown setting; {nearest(name, known)}", "defaults", name)
            continue
        try:
            msgspec.convert({"tasks": [], name: value}, JobConfig)
        except msgspec.ValidationError as error:
            message = str(error).partition(" - at ")[0].replace("`", "")
            fields.fault(message[:1].lower() + message[1:], "defaults", name)


def read_environment(file: Path, root: Path, faults: Faults) -> EnvironmentManifest | None:
    """environment.yaml."""
    fields = _named(file, root, faults)
    if fields is None:
        return None
    apps = [app for each in fields.fields("apps") if (app := _app(each, root)) is not None]
    names = [app.name for app in apps]
    for index, name in enumerate(names):
        if name is not None and name in names[:index]:
            fields.fault(f"two apps have the name {name!r}", "apps", index)
    manifest = EnvironmentManifest(
        name=file.parent.name,
        file=file,
        lines=fields.lines,
        apps=apps,
        max_turns=fields.whole("max_turns"),
        max_seconds=fields.positive("max_seconds"),
        max_cost=fields.positive("max_cost"),
        image=fields.text("image"),
    )
    fields.finish()
    return manifest


def _app(fields: Fields, root: Path) -> AppManifest | None:
    python = _reference(fields, "python", root, "it says which class the app is")
    name = fields.text("name")
    if name is not None and not name.replace("-", "_").isidentifier():
        fields.fault(f"expected a name of letters, digits, '_' and '-', found {name!r}", "name")
    settings = fields.mapping("settings") or {}
    control = fields.choice("control", get_args(Control))
    fields.finish()
    if python is None:
        return None
    return AppManifest(
        python=python, name=name, settings=settings, control=cast("Control | None", control)
    )


def read_task(file: Path, root: Path, faults: Faults) -> TaskManifest | None:
    """task.yaml. What its names lead to is checked elsewhere."""
    fields = _named(file, root, faults)
    if fields is None:
        return None
    if fields.raw("instructions") is None:
        fields.fault("the key 'instructions' is missing; they are what the agent is asked to do")
    instructions = fields.take("instructions", "text (put it in quotes)", _any_text)
    verifiers: list[str] = []
    for index, name in fields.words("verifiers"):
        if name in verifiers:
            fields.fault(f"{name!r} is listed twice", "verifiers", index)
        else:
            verifiers.append(name)
    if fields.raw("verifiers") in (None, []):
        fields.fault("a task needs at least one verifier; nothing would score it", "verifiers")
    manifest = TaskManifest(
        name=file.parent.name,
        file=file,
        lines=fields.lines,
        instructions=instructions or "",
        environment=fields.text("environment"),
        verifiers=verifiers,
        expected=fields.anything("expected"),
        info=fields.mapping("info") or {},
        metadata=fields.mapping("metadata") or {},
        initial_state=fields.mapping("initial_state"),
    )
    fields.finish()
    return manifest


def _any_text(value: Any) -> str | None:
    return str(value) if isinstance(value, str) else None


def read_verifier(file: Path, root: Path, faults: Faults) -> VerifierManifest | None:
    """verifier.yaml."""
    fields = _named(file, root, faults)
    if fields is None:
        return None
    kind = fields.choice("kind", _KINDS) or "deterministic"
    weight = fields.number("weight")
    if weight is not None and weight < 0:
        fields.fault(f"expected 0 or more, found {weight:g}", "weight")
    manifest = VerifierManifest(
        name=file.parent.name,
        file=file,
        lines=fields.lines,
        version=_version(fields) or "0.1.0",
        kind=cast("Literal['deterministic', 'agent', 'human']", kind),
        weight=1.0 if weight is None else weight,
        timeout_sec=fields.positive("timeout_sec") or 60.0,
    )
    if kind == "deterministic":
        manifest = _hooks(fields, root, manifest)
    else:
        manifest = _rubric(fields, manifest)
    fields.finish()
    return manifest


def _version(fields: Fields) -> str | None:
    if not fields.has("version"):
        fields.raw("version")
        return None
    expected = "a semantic version such as 0.1.0"

    def semantic(value: Any) -> str | None:
        return value if isinstance(value, str) and _SEMANTIC.fullmatch(value) else None

    return fields.take("version", expected, semantic)


def _hooks(fields: Fields, root: Path, manifest: VerifierManifest) -> VerifierManifest:
    check = _check(fields, root)
    reward, hindsight = (_reference(fields, name, root) for name in ("reward", "hindsight"))
    if not any(fields.has(name) for name in _HOOKS):
        fields.fault("a verifier needs at least one of check, reward and hindsight")
    if check == TOTAL_REWARD and not fields.has("reward"):
        fields.fault(
            "total_reward sums up this verifier's own rewards, and it has no `reward`, so the "
            "score would always be 0",
            "check",
        )
    fields.refuse(
        ("model", "instructions", "criteria", "samples", "max_cost"),
        "only for verifiers of the kind agent or human",
    )
    return msgspec.structs.replace(manifest, check=check, reward=reward, hindsight=hindsight)


def _check(fields: Fields, root: Path) -> str | list[str] | None:
    value = fields.raw("check")
    if as_list(value) is not None:
        words = [word for _, word in fields.words("check")]
        if not words:
            fields.fault("a command needs at least one word", "check")
        elif "/" in words[0] and not (fields.file.parent / words[0]).is_file():
            fields.fault(f"there is no program {words[0]} in the verifier's folder", "check")
        return words
    if value == TOTAL_REWARD:
        return TOTAL_REWARD
    return _reference(
        fields, "check", root, expected="verify.py:function, total_reward, or a list of words"
    )


def _rubric(fields: Fields, manifest: VerifierManifest) -> VerifierManifest:
    fields.refuse(_HOOKS, "only for verifiers of the kind deterministic")
    model = None
    samples = 1
    max_cost = None
    if manifest.kind == "agent":
        model = fields.required("model", "it says which model judges")
        samples = fields.whole("samples") or 1
        max_cost = fields.positive("max_cost")
    else:
        fields.refuse(("model", "samples", "max_cost", "timeout_sec"), "not for people")
    instructions = fields.required("instructions", "they say how the work is judged")
    criteria: list[RubricCriterion] = []
    for each in fields.fields("criteria"):
        criterion = _criterion(each)
        if criterion is None:
            continue
        if criterion.name in {other.name for other in criteria}:
            each.fault(f"two criteria have the name {criterion.name!r}", "name")
        criteria.append(criterion)
    if not fields.has("criteria") or fields.raw("criteria") == []:
        fields.fault("a rubric needs at least one criterion", "criteria")
    elif criteria and all(criterion.weight == 0 for criterion in criteria):
        fields.fault("the weights of the criteria sum to 0", "criteria")
    return msgspec.structs.replace(
        manifest,
        model=model,
        instructions=instructions or "",
        criteria=criteria,
        samples=samples,
        max_cost=max_cost,
    )


def _criterion(fields: Fields) -> RubricCriterion | None:
    name = fields.required("name", "scores are kept by it")
    description = fields.required("description", "it says what each score means")
    numbers: dict[str, float] = {}
    for key, default in (("weight", 1.0), ("min_score", 0.0), ("max_score", 1.0)):
        given = fields.number(key)
        numbers[key] = default if given is None else given
    blocker = fields.boolean("blocker") or False
    if numbers["weight"] < 0:
        fields.fault(f"expected 0 or more, found {numbers['weight']:g}", "weight")
    if not numbers["min_score"] < numbers["max_score"]:
        fields.fault(
            f"the range {numbers['min_score']:g} to {numbers['max_score']:g} is empty",
            "max_score" if fields.has("max_score") else "min_score",
        )
    fields.finish()
    if name is None or description is None:
        return None
    return RubricCriterion(name=name, description=description, blocker=blocker, **numbers)


def read_agent(file: Path, root: Path, faults: Faults) -> AgentManifest | None:
    """agent.yaml."""
    fields = _named(file, root, faults)
    if fields is None:
        return None
    ways = [name for name in ("python", "model", "command") if fields.has(name)]
    if len(ways) != 1:
        found = " and ".join(ways) or "none of them"
        fields.fault(f"an agent has one of python, model and command; found {found}")
    installed = "command" in ways
    if not installed:
        kind = "in Python" if "python" in ways else "that is a model"
        fields.refuse(_INSTALLED, f"not for an agent {kind}")
    manifest = AgentManifest(
        name=file.parent.name,
        file=file,
        lines=fields.lines,
        python=_reference(fields, "python", root),
        model=fields.text("model"),
        tools=[word for _, word in fields.words("tools")],
        command=_command(fields),
        protocol=cast("Literal['acp'] | None", fields.choice("protocol", ("acp",))),
        install=fields.text("install", "lines for a shell"),
        install_timeout_sec=fields.positive("install_timeout_sec") or 600.0,
        env=_env(fields),
        network=_network(fields),
        version=_agent_version(fields, installed=installed),
    )
    if fields.has("install_timeout_sec") and installed and not fields.has("install"):
        fields.fault("there is no `install` that it could be for", "install_timeout_sec")
    fields.finish()
    return manifest


def _command(fields: Fields) -> str | list[str] | None:
    if as_list(fields.raw("command")) is None:
        return fields.text("command", "a line for a shell, or a list of words")
    words = [word for _, word in fields.words("command")]
    if not words:
        fields.fault("a command needs at least one word", "command")
    elif is_own_program(words[0]) and not (fields.file.parent / words[0]).is_file():
        fields.fault(f"there is no program {words[0]} in the agent's folder", "command")
    return words


def is_own_program(word: str) -> bool:
    """Whether the first word of a command names a file of the resource's folder."""
    return "/" in word and not word.startswith("/")


def _env(fields: Fields) -> dict[str, str]:
    env = fields.mapping("env") or {}
    for name, value in env.items():
        if not _VARIABLE.fullmatch(name):
            fields.fault("expected a name of ASCII letters, digits and '_'", "env", name)
        if not isinstance(value, str):
            fields.fault(f"expected text, found {describe(value)}; put it in quotes", "env", name)
        elif "\0" in value:
            fields.fault("a variable can't hold a NUL", "env", name)
    return {name: str(value) for name, value in env.items()}


def _network(fields: Fields) -> Network:
    def when(value: Any) -> Network | None:
        if isinstance(value, bool):
            return "open" if value else "none"
        return "install" if value == "install" else None

    wanted: Network | None = fields.take("network", "true, false or install", when)
    found: Network = wanted or "none"
    if found == "install" and not fields.has("install"):
        fields.fault("there is no `install` that it could be for", "network")
    return found


def _agent_version(fields: Fields, *, installed: bool) -> str | VersionCommand | None:
    if as_table(fields.raw("version")) is None:
        return fields.text("version", "text (put it in quotes), or `command: …` below it")
    inner = fields.below("version")
    command = inner.required("command", "it prints the version")
    if not installed:
        inner.fault("only for an agent that is installed; give a fixed text", "command")
    inner.finish()
    return None if command is None else VersionCommand(command=command)


def _named(file: Path, root: Path, faults: Faults) -> Fields | None:
    """A resource's manifest, whose name is its folder's."""
    fields = read_fields(file, root, faults)
    if fields is None:
        return None
    folder = file.parent.name
    name = fields.required("name", f"write `name: {folder}`")
    if name is not None and name != folder:
        fields.fault(f"the name {name!r} is not the folder's; it must be {folder!r}", "name")
    elif safe_name(folder) != folder:
        fields.fault(
            f"{folder!r} is no good name: use up to 80 ASCII letters, digits, '.', '_' and '-', "
            "with a letter or digit first",
            "name",
        )
    return fields


def _reference(
    fields: Fields,
    name: str,
    root: Path,
    why: str | None = None,
    *,
    expected: str = "file.py:name",
) -> str | None:
    """``file.py:name`` of a file that is there. `why`: it must be given."""
    text = fields.text(name, expected) if why is None else fields.required(name, why)
    if text is None:
        return None
    reference = parse_reference(text)
    if reference is None:
        fields.fault(f"expected {expected}, found {text!r}", name)
        return None
    place = fields.file.parent / reference.file
    if not place.resolve().is_relative_to(root.resolve()):
        fields.fault(f"{reference.file} is outside of the project", name)
        return None
    if not place.is_file():
        fields.fault(f"there is no file {reference.file} in {fields.file.parent.name}/", name)
        return None
    return text
