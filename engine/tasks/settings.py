"""The settings of a task: what is honoured, what is known and asks for nothing, what is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Literal, cast

from msgspec.structs import replace

from ..errors import TaskError
from .model import (
    AgentSettings,
    DeclaredArtifact,
    SandboxSettings,
    TaskSettings,
    TaskWarning,
    VerifierSettings,
)
from .plain import plain
from .reader import Table, as_list, as_number, as_table, as_text, describe

NETWORK_MODES = ("public", "no-network", "allowlist")
RESERVED = ("/verifier", "/tests", "/logs/verifier", "/proc", "/sys", "/dev")
"""Where a workspace can't be."""

_SIZE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([KMGT])(?:I?B)?", re.IGNORECASE)
_MEBIBYTES = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0 * 1024}
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")


def parse_settings(
    values: Mapping[str, Any], *, file: Path, task: str, warnings: list[TaskWarning]
) -> TaskSettings:
    """Settings from a settings file's values; warnings are added to the list.

    Raises TaskError for a wrong type or value, and for what changes how the task is run or graded
    and is not supported.
    """
    return _Parser(Table(file, "", values, warnings), task).parse()


class _Parser:
    def __init__(self, top: Table, task: str) -> None:
        self.top = top
        self.task = task

    def parse(self) -> TaskSettings:
        top = self.top
        top.known(
            *("schema_version", "version", "task", "source", "reward", "name", "description"),
            *("author", "authors", "author_name", "author_email", "keywords", "difficulty"),
            *(
                "category",
                "tags",
                "license",
                "id",
                "canary",
                "created_at",
                "multi_step_reward_strategy",
            ),
            *("profile", "profiles", "references"),
        )
        self.refuse_if(top, "steps", "several steps")
        self.document_keys()
        sandbox = self.with_phases(self.sandbox())
        settings = TaskSettings(
            agent=self.agent(network=sandbox.network),
            verifier=self.verifier(network=sandbox.network),
            sandbox=sandbox,
            artifacts=self.artifacts(),
            verifiers=self.verifiers(),
            solution_env=self.solution_env(),
            metadata=plain(top.take("metadata", "a table", as_table) or {}),
        )
        top.finish()
        return settings

    def refuse(self, table: Table, name: str, what: str) -> TaskError:
        return table.error(
            name,
            f"task {self.task} is refused: it asks for {what}, which changes how it is run and is "
            "not supported",
        )

    def refuse_if(self, table: Table, *names_and_what: str) -> None:
        """Refuse a setting that asks for something: any value but null, 0, false or empty."""
        *names, what = names_and_what
        for name in names:
            if table.raw(name):
                raise self.refuse(table, name, what)

    def one_of(self, first: str, second: str) -> Table:
        """A table that has two names; where both are given, the first one's settings hold."""
        one, other = self.top.table(first), self.top.table(second)
        if not self.top.has(second):
            return one
        if not self.top.has(first):
            return other
        self.top.warn(
            "task_setting_twice", first, f"{second} is given too; {first} holds where they differ"
        )
        return Table(one.file, first, {**other.peek(), **one.peek()}, one.warnings)

    def document_keys(self) -> None:
        """Keys of task.md files that run several agents, or services beside the sandbox."""
        top = self.top
        self.refuse_if(top, "user", "a simulated user")
        scenes = top.raw("scenes")
        if len(as_list(scenes) or []) > 1:
            raise self.refuse(top, "scenes", "a task of several scenes")
        roles = as_table((as_table(top.raw("agents")) or {}).get("roles")) or {}
        if len(roles) > 1:
            raise self.refuse(top, "agents.roles", "a task for several agents")
        own = as_table(top.raw("benchflow")) or {}
        if own.get("environment"):
            raise self.refuse(top, "benchflow.environment", "an environment of services")

    def agent(self, *, network: bool) -> AgentSettings:
        table = self.top.table("agent")
        table.known("name", "model")
        self.refuse_if(table, "prompt_prefix", "a prefix to the prompt")
        self.phase_network(table, network=network, may_have_more=False)
        settings = AgentSettings(
            timeout_sec=_or(table.seconds("timeout_sec"), AgentSettings().timeout_sec),
            idle_timeout_sec=table.seconds("idle_timeout_sec"),
            user=self.user(table),
        )
        table.finish()
        return settings

    def verifier(self, *, network: bool) -> VerifierSettings:
        raw = self.top.raw("verifier")
        table = Table(self.top.file, "verifier", {}, self.top.warnings)
        if not self.is_folder(raw, ("verifier", "tests")):
            table = self.top.table("verifier")
        kind = table.raw("type")
        if kind is not None and kind not in ("test-script", "test_script", "script"):
            raise self.refuse(table, "type", f"a verifier of the type {describe(kind)}")
        service = table.raw("service")
        if service not in (None, "", "main"):
            raise self.refuse(table, "service", "a verifier in another service")
        self.refuse_if(table, "collect", "commands that collect after the agent")
        self.refuse_if(table, "environment", "sandbox", "a sandbox specified for the verifier")
        self.phase_network(table, network=network, may_have_more=True)
        self.not_honoured(table, "pytest_plugins")
        table.known("judge", "memory", "hardening", "name")
        if (as_table(table.raw("hardening")) or {}).get("cleanup_conftests") is False:
            table.warn(
                "task_setting_not_honoured",
                "hardening",
                "the agent's conftest.py files never count",
            )
        low, high = self.reward_range(table)
        aliases = [name for name in ("sandbox_mode", "environment_mode") if table.has(name)]
        modes = [table.choice(name, ("shared", "separate")) for name in aliases]
        table.known("sandbox_mode", "environment_mode")
        settings = VerifierSettings(
            timeout_sec=_or(table.seconds("timeout_sec"), VerifierSettings().timeout_sec),
            env=table.env("env"),
            reward_low=low,
            reward_high=high,
            sandbox_mode=cast("Literal['shared', 'separate']", modes[0]) if modes else "shared",
            user=self.user(table),
            keep_processes=table.boolean("keep_processes") or False,
            aggregate=table.text("aggregate"),
        )
        table.finish()
        return settings

    def reward_range(self, table: Table) -> tuple[float, float]:
        value = table.raw("reward_range")
        if value is None:
            return 0.0, 1.0
        numbers = [as_number(item) for item in as_list(value) or []]
        match numbers:
            case [float() as low, float() as high]:
                pass
            case _:
                found = describe(value) if not numbers else f"[{', '.join(map(str, value))}]"
                raise table.error(
                    "reward_range", f"expected two finite numbers [low, high], found {found}"
                )
        if low > 0 or high < 1:
            raise table.error(
                "reward_range",
                f"[{low}, {high}] narrows the range; it must hold 0 and 1, as [-1, 1] does",
            )
        return low, high

    def sandbox(self) -> SandboxSettings:
        table = self.one_of("sandbox", "environment")
        table.known("type", "name", "bugswarm_image_tag")
        for name in ("os", "platform"):
            value = table.raw(name)
            if value is not None and str(value).lower().split("/")[0] != "linux":
                raise self.refuse(table, name, f"{describe(value)} in place of linux")
        gpus = table.raw("gpus")
        if gpus is not None and as_number(gpus) != 0:
            raise self.refuse(table, "gpus", f"a GPU ({describe(gpus)})")
        self.refuse_if(table, "gpu_types", "a GPU")
        self.refuse_if(table, "tpu", "a TPU")
        self.refuse_if(table, "mcp_servers", "an MCP server")
        self.refuse_if(table, "healthcheck", "a health check before the agent starts")
        self.refuse_if(table, "setup_commands", "a command before the agent starts")
        self.not_honoured(table, "skills_dir")
        settings = SandboxSettings(
            docker_image=self.image(table),
            cpus=table.positive("cpus"),
            memory_mb=self.size(table, "memory_mb", "memory"),
            storage_mb=self.size(table, "storage_mb", "storage"),
            build_timeout_sec=_or(
                table.seconds("build_timeout_sec"), SandboxSettings().build_timeout_sec
            ),
            network=self.network(table),
            network_said=table.has("network_mode") or table.has("allow_internet"),
            workdir=self.workdir(table),
            env=table.env("env"),
        )
        table.finish()
        return settings

    def image(self, table: Table) -> str | None:
        """`docker_image`, or the short form `image` at the top."""
        own, short = table.text("docker_image"), self.top.text("image")
        name = own or short
        if name is not None and re.search(r"\s", name.strip()):
            raise table.error("docker_image", f"{name!r} is no image reference: it has blanks")
        return name.strip() if name is not None else None

    def size(self, table: Table, name: str, older: str) -> int | None:
        """Mebibytes, from `memory_mb = 4096` or the older `memory = "4G"`."""
        value = table.whole(name)
        text = table.take(older, 'a size as text, for example "4G" or "512M"', _size)
        if value is not None and text is not None and value != text:
            table.warn("task_setting_twice", older, f"differs from {name} = {value}, which holds")
        return value if value is not None else text

    def network(self, table: Table) -> bool:
        mode = table.choice("network_mode", NETWORK_MODES)
        allowed = table.boolean("allow_internet")
        self.no_lists(table)
        if mode == "allowlist":
            raise self.refuse(table, "network_mode", "a network allow-list")
        if mode is not None and allowed is not None and allowed != (mode == "public"):
            table.warn(
                "task_setting_twice",
                "allow_internet",
                f"contradicts network_mode = {mode!r}, which holds",
            )
        return mode == "public" if mode is not None else bool(allowed)

    def with_phases(self, sandbox: SandboxSettings) -> SandboxSettings:
        """Where the sandbox's table says nothing of a network, what the phases' tables say."""
        if sandbox.network_said:
            return sandbox
        agent, verifier = (
            (as_table(self.top.raw(name)) or {}).get("network_mode")
            for name in ("agent", "verifier")
        )
        if agent is None and verifier is None:
            return sandbox
        return replace(sandbox, network=agent == "public", network_said=True)

    def no_lists(self, table: Table) -> None:
        self.refuse_if(table, "allowed_hosts", "a network allow-list")
        self.refuse_if(table, "blocked_urls", "blocked_hosts", "a network block-list")

    def phase_network(self, table: Table, *, network: bool, may_have_more: bool) -> None:
        """A phase's own `network_mode`, which must be the sandbox's or not matter."""
        mode = table.choice("network_mode", NETWORK_MODES)
        self.no_lists(table)
        if mode is None or (mode != "allowlist" and (mode == "public") == network):
            return
        if mode == "no-network" and may_have_more:
            table.warn(
                "task_setting_not_honoured", "network_mode", "this phase has the sandbox's network"
            )
            return
        raise self.refuse(table, "network_mode", f"a network ({mode}) that is not the sandbox's")

    def workdir(self, table: Table) -> str | None:
        value = table.text("workdir")
        if value is None:
            return None
        path = PurePosixPath(value)
        if not path.is_absolute() or ".." in path.parts:
            raise table.error("workdir", f"expected an absolute path without .., found {value!r}")
        text = "/" + str(path).lstrip("/")
        if any(text == place or text.startswith(f"{place}/") for place in RESERVED):
            raise table.error("workdir", f"the workspace can't be {text}, which has another use")
        return text

    def user(self, table: Table) -> str | None:
        value = table.raw("user")
        if value is None:
            return None
        text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
        if not _USER.fullmatch(text):
            raise table.error("user", f"expected a user's name or number, found {describe(value)}")
        return text

    def artifacts(self) -> list[DeclaredArtifact]:
        value = self.top.raw("artifacts")
        if value is None:
            return []
        items = as_list(value)
        if items is None:
            raise self.top.error("artifacts", f"expected a list, found {describe(value)}")
        return [self.artifact(f"artifacts[{n}]", item) for n, item in enumerate(items)]

    def artifact(self, name: str, item: Any) -> DeclaredArtifact:
        fields = {"source": item} if isinstance(item, str) else as_table(item)
        if fields is None:
            raise self.top.error(
                name, f"expected a path or {{source, destination}}, found {describe(item)}"
            )
        table = Table(self.top.file, name, fields, self.top.warnings)
        source, destination = table.text("source"), table.text("destination")
        if source is None:
            raise table.error("source", "expected a path in the sandbox, found nothing")
        if table.raw("service") not in (None, "", "main"):
            raise self.refuse(table, "service", "a file of another service")
        self.not_honoured(table, "exclude")
        if ".." in PurePosixPath(source).parts:
            raise table.error("source", f"expected a path without .., found {source!r}")
        if destination is not None:
            path = PurePosixPath(destination)
            if path.is_absolute() or ".." in path.parts or not path.parts:
                raise table.error(
                    "destination", f"expected a relative path without .., found {destination!r}"
                )
        table.finish()
        return DeclaredArtifact(source=source, destination=destination)

    def verifiers(self) -> list[str]:
        names = self.top.strings("verifiers") or []
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise self.top.error("verifiers", f"{twice!r} is given twice")
        return names

    def solution_env(self) -> dict[str, str]:
        """`oracle.env` or `solution.env`; variables right under `solution` are the older form."""
        if self.is_folder(self.top.raw("oracle"), ("oracle", "solution")):
            return self.top.table("solution").env("env")
        table = self.one_of("oracle", "solution")
        self.not_honoured(table, "timeout_sec")
        env = table.env("env")
        for name, value in dict(table.peek()).items():
            if _VARIABLE.fullmatch(name) and isinstance(value, str):
                table.known(name)
                env.setdefault(name, value)
        table.finish()
        return env

    def is_folder(self, value: Any, names: tuple[str, ...]) -> bool:
        """Whether a setting is the short form that names the folder, one that is read anyway."""
        return (
            as_text(value) is not None and str(value).strip().removeprefix("./").strip("/") in names
        )

    def not_honoured(self, table: Table, name: str) -> None:
        if table.raw(name):
            table.warn("task_setting_not_honoured", name, "known, but it has no effect here")


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def _size(value: Any) -> int | None:
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return None
    mebibytes = float(match[1]) * _MEBIBYTES[match[2].upper()]
    return max(1, int(mebibytes)) if 0 < mebibytes < 2**53 else None
