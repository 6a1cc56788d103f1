"""Compose files: whether a task really uses the one it has."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .reader import as_list, as_table
from .words import YamlError

COMPOSE_NAMES = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")

_TOP = frozenset({"version", "name", "services"})
_PLAIN = frozenset(
    {"image", "container_name", "hostname", "init", "tty", "stdin_open", "pull_policy", "platform"}
)
_IDLE = ("sleep infinity", "tail -f /dev/null")


def compose_use(text: str) -> str | None:
    """What a compose file asks for beyond one container of the task's own image; None for nothing.

    Nothing is asked for by one service that only says what is true anyway: it is built from its
    folder, or named, or kept alive by a command that sleeps; and by values that are variables of
    the harness it was written for, such as ``${TASK_LOGS_PATH}:/logs``.
    """
    from .yaml12 import load_yaml  # slow to import, and most tasks have no such file

    try:
        values = load_yaml(text)
    except YamlError as error:
        return f"it is no YAML that can be read ({error})"
    if values is None:
        return None
    top = as_table(values)
    if top is None:
        return "it is no table"
    for name, value in top.items():
        if name not in _TOP and not name.startswith("x-") and value:
            return f"its {name!r}"
    named = as_table(top.get("services") or {})
    if named is None:
        return "its services are no table"
    if len(named) > 1:
        return "several services: " + ", ".join(map(str, named))
    for service, fields in named.items():
        inner = as_table(fields)
        if inner is None:
            return f"the service {service!r} is no table"
        for key, value in inner.items():
            if not _asks_nothing(key, value):
                return f"{key!r} of the service {service!r}"
    return None


def find_compose(folder: Path) -> Path | None:
    """The compose file of an environment folder."""
    return next((folder / name for name in COMPOSE_NAMES if (folder / name).is_file()), None)


def _asks_nothing(key: str, value: Any) -> bool:
    if value is None or key in _PLAIN or key.startswith("x-"):
        return True
    match key:
        case "build":
            return _own_build(value)
        case "command" | "entrypoint":
            text = " ".join(map(str, as_list(value) or [value]))
            return text.removeprefix("sh -c ").removeprefix("bash -c ").strip("'\"") in _IDLE
        case "environment" | "volumes" | "network_mode" | "deploy" | "cpus" | "mem_limit":
            return all("${" in str(leaf) for leaf in _leaves(value))
        case _:
            return False


def _own_build(value: Any) -> bool:
    """Built from the environment folder and its Dockerfile, with nothing more said."""
    if isinstance(value, str):
        return value in (".", "./") or value.startswith("${")
    fields = as_table(value)
    if fields is None:
        return False
    context = str(fields.get("context", "."))
    return (
        fields.keys() <= {"context", "dockerfile"}
        and (context in (".", "./") or context.startswith("${"))
        and str(fields.get("dockerfile", "Dockerfile")).removeprefix("./") == "Dockerfile"
    )


def _leaves(value: Any) -> Iterable[Any]:
    if (fields := as_table(value)) is not None:
        for item in fields.values():
            yield from _leaves(item)
    elif (items := as_list(value)) is not None:
        for item in items:
            yield from _leaves(item)
    else:
        yield value
