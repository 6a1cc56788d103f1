"""From words to a JobConfig: defaults, a sweep file or an earlier job, then the command line."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, cast

import msgspec

from ..events.codes import CATEGORIES
from .agents import agent_name
from .errors import ConfigError
from .job.config import JobConfig
from .models.prices import wrong

__all__ = (
    "check_dollars",
    "check_only",
    "is_sweep",
    "parameter_rows",
    "read_sweep",
    "resolve",
    "split_tasks",
)

SWEEP_KEYS = tuple(
    name for name in JobConfig.__struct_fields__ if name not in {"agent_env", "verifier_env"}
)
_PLURALS = {
    "agent": "agents",
    "model": "models",
    "task": "tasks",
    "k": "attempts",
    "n": "concurrency",
}


def is_sweep(word: str) -> bool:
    """Whether an argument of ``run`` names a sweep file, by its ending."""
    return word.lower().endswith((".yaml", ".yml"))


def split_tasks(words: Sequence[str]) -> tuple[list[str], str | None]:
    """The arguments of ``run``: paths of tasks, and the one sweep file among them, if any."""
    sweeps = [word for word in words if is_sweep(word)]
    if len(sweeps) > 1:
        raise ConfigError(f"one sweep file at a time; found {', '.join(sweeps)}")
    return [word for word in words if not is_sweep(word)], sweeps[0] if sweeps else None


def read_sweep(path: Path) -> dict[str, Any]:
    """The settings in a sweep file; its tasks' paths start at the file's folder."""
    import yaml

    try:
        loaded: object = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"can't be read: {error.strerror}", file=path) from None
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}" if error.problem_mark else None
        raise ConfigError(f"not valid YAML: {error.problem}", file=path, key=line) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"not valid YAML: {error}", file=path) from None
    if not isinstance(loaded, dict):
        raise ConfigError(
            f"expected settings such as `tasks:` and `agents:`, found {_kind(loaded)}", file=path
        )
    settings: dict[str, Any] = {}
    for key, value in cast("dict[object, Any]", loaded).items():
        settings[_known_key(key, path)] = value
    for key in ("tasks", "agents", "models", "include", "exclude", "retry_on"):
        if isinstance(settings.get(key), str):
            settings[key] = [settings[key]]
    if isinstance(settings.get("parameters"), dict):
        settings["parameters"] = _product(cast("dict[str, Any]", settings["parameters"]))
    _converted(settings | ({} if "tasks" in settings else {"tasks": []}), file=path)
    if "tasks" in settings:
        settings["tasks"] = [str(path.parent / task) for task in settings["tasks"]]
    return settings


def _known_key(key: object, path: Path) -> str:
    if key in SWEEP_KEYS:
        return str(key)
    near = _PLURALS.get(str(key)) or _nearest(str(key), SWEEP_KEYS)
    advice = f"did you mean {near}?" if near else f"known are {', '.join(SWEEP_KEYS)}"
    if key in {"agent_env", "verifier_env"}:
        advice = "give environment variables by --env-file, --agent-env or --verifier-env"
    raise ConfigError(f"unknown setting; {advice}", file=path, key=str(key))


def _product(columns: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of a matrix from lists of values by name."""
    lists: list[list[Any]] = [
        values if isinstance(values, list) else [values] for values in columns.values()
    ]
    return [dict(zip(columns, row, strict=True)) for row in product(*lists)]


def parameter_rows(words: Iterable[str]) -> list[dict[str, Any]]:
    """``NAME=VALUE`` words as rows of the matrix; a name given again adds a value to it.

    A value that is JSON is taken as that, anything else as text.
    """
    columns: dict[str, list[Any]] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise ConfigError(f"expected NAME=VALUE, found {word!r}", key="--param")
        columns.setdefault(name, []).append(_value(text))
    return _product(cast("dict[str, Any]", columns)) if columns else []


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def resolve(
    given: Mapping[str, Any],
    *,
    sweep: tuple[Path, Mapping[str, Any]] | None = None,
    base: JobConfig | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> JobConfig:
    """The configuration: what was `given` (None: not given) over the sweep's, over the base job's,
    over the project's `defaults`."""
    merged: dict[str, Any] = dict(defaults or {})
    if base is not None:
        merged.update(msgspec.to_builtins(base))
    if sweep is not None:
        merged.update(sweep[1])
    merged.update({key: value for key, value in given.items() if value not in (None, [], {})})
    if not merged.get("tasks"):
        raise ConfigError("no task was given; name a task folder or a folder of tasks")
    config = _converted(merged, file=sweep[0] if sweep else None)
    # Before duplicates are looked for: two spellings of one path are one agent.
    names = [agent_name(agent) for agent in config.agents]
    config = msgspec.structs.replace(config, agents=names)
    _check_ranges(config)
    for agent in config.agents:
        if not _is_policy(agent, config.tasks):
            _check_agent(agent, _policies(config.tasks))
    for category in config.retry_on or ():
        check_category(category, "--retry-on")
    return config


def _converted(settings: Mapping[str, Any], *, file: Path | None) -> JobConfig:
    try:
        return msgspec.convert(dict(settings), JobConfig)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$.")
        key = place.rstrip("`") or None
        found = settings.get((key or "").split("[")[0])
        shown = f", found {found!r}" if key else ""
        message = message[:1].lower() + message[1:]
        raise ConfigError(message.replace("`", "") + shown, file=file, key=key) from None


def _check_ranges(config: JobConfig) -> None:
    positive = (
        "attempts", "concurrency", "verifiers", "limit", "workspace_cap_mb", "memory_mb",
        "max_turns", "max_tokens",
    )  # fmt: skip
    for name in positive:
        value: int | None = getattr(config, name)
        if value is not None and value < 1:
            raise ConfigError(f"must be at least 1, found {value}", key=name)
    if config.retries < 0:
        raise ConfigError(f"must be at least 0, found {config.retries}", key="retries")
    ratios = (
        "timeout_multiplier", "cpus", "judge_max_cost", "max_seconds", "max_cost",
        "model_timeout_sec",
    )  # fmt: skip
    for name in ratios:
        ratio: float | None = getattr(config, name)
        if ratio is not None and not (0 < ratio < math.inf):
            raise ConfigError(f"must be above 0, found {ratio:g}", key=name)
    for model, price in config.prices.items():
        if problem := wrong(price):
            raise ConfigError(problem, key=f"prices.{model}")
    for name in ("agents", "models"):
        values: list[str] = getattr(config, name)
        twice = next((value for value in values if values.count(value) > 1), None)
        if twice is not None:
            raise ConfigError(f"{twice!r} is given twice; -k runs it several times", key=name)


def _is_policy(agent: str, tasks: Iterable[str]) -> bool:
    """Whether a project around here, or around one of the tasks, has an agent of this name."""
    if ":" in agent or "/" in agent:
        return False
    from .projects.project import projects_around

    return any((root / "agents" / agent).is_dir() for root in projects_around(tasks))


def _policies(tasks: Iterable[str]) -> list[str]:
    """The agents of those projects."""
    from .projects.project import names_in, projects_around

    return sorted({name for root in projects_around(tasks) for name in names_in(root, "agent")})


def _check_agent(agent: str, policies: Sequence[str]) -> None:
    if agent in {"oracle", "nop", "chat"}:
        return
    name, colon, path = agent.partition(":")
    if colon and name == "command":
        if not path or not Path(path).is_file():
            raise ConfigError(f"there is no program {path!r}", key=f"--agent {agent}")
        return
    if colon and name in {"agent", "acp"}:
        return
    known = (*policies, "oracle", "nop", "chat")
    near = _nearest(agent, known)
    advice = f"known are {', '.join(known)}, command:PATH, agent:PATH and acp:COMMAND"
    if near:
        advice = f"did you mean {near}?" + (f" {advice}" if policies else "")
    if not colon and Path(agent).is_file():
        advice = f"to run a program, write command:{agent}"
    raise ConfigError(f"unknown agent {agent!r}; {advice}", key="--agent")


def check_category(category: str, option: str, also: Sequence[str] = ()) -> None:
    """Refuse a word that is no category of errors (nor one of `also`)."""
    known = (*also, *CATEGORIES)
    if category not in known:
        near = _nearest(category, known)
        advice = f"did you mean {near}?" if near else "`trialog explain` lists them"
        raise ConfigError(f"unknown category {category!r}; {advice}", key=option)


def check_only(word: str | None) -> None:
    """Check the value of ``resume --only``."""
    if word is not None:
        check_category(word, "--only", ("unscored", "errored"))


def check_dollars(limit: float | None) -> None:
    """Check the value of ``--judge-max-cost``."""
    if limit is not None and not 0 < limit < math.inf:
        raise ConfigError(f"must be above 0, found {limit:g}", key="--judge-max-cost")


def _nearest(word: str, known: Sequence[str]) -> str | None:
    near = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.6)
    return near[0] if near else None


def _kind(value: object) -> str:
    names = {"NoneType": "nothing", "list": "a list", "str": "text", "bool": "a boolean"}
    return names.get(type(value).__name__, "a number")
