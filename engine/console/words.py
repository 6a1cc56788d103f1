"""Options and arguments that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

__all__ = (
    "AgentEnv",
    "AsOf",
    "CallModels",
    "DefaultNetwork",
    "EnvFile",
    "ExportFormat",
    "Follow",
    "Image",
    "Job",
    "JobsDir",
    "Json",
    "JudgeMaxCost",
    "LayoutName",
    "Log",
    "MissingReward",
    "OfJob",
    "Prices",
    "ResourceName",
    "Sandbox",
    "SandboxName",
    "Secret",
    "TasksRoot",
    "Texts",
    "Trial",
    "Verbose",
    "VerifierEnv",
    "VerifierKind",
    "VerifierName",
    "VerifierSandbox",
)


class SandboxName(StrEnum):
    """Where trials run."""

    auto = "auto"
    docker = "docker"
    bubblewrap = "bubblewrap"


class ModelGateway(StrEnum):
    """Values of ``--model-gateway``."""

    auto = "auto"
    on = "on"
    off = "off"


class MissingReward(StrEnum):
    """What no usable reward means."""

    zero = "zero"
    error = "error"


class VerifierSandboxName(StrEnum):
    """Where test scripts run."""

    shared = "shared"
    separate = "separate"


class LayoutName(StrEnum):
    """How a task's folder is laid out."""

    a = "a"
    b = "b"


class VerifierKind(StrEnum):
    """Who verifies."""

    deterministic = "deterministic"
    agent = "agent"
    human = "human"


class ExportFormat(StrEnum):
    """What an export is for."""

    jsonl = "jsonl"
    trl = "trl"
    parquet = "parquet"
    atif = "atif"
    events = "events"
    otel = "otel"
    junit = "junit"


Texts: TypeAlias = list[str] | None

Job = Annotated[str, typer.Argument(metavar="JOB", help="A job's id, or the path of its folder.")]
Trial = Annotated[
    str,
    typer.Argument(metavar="TRIAL", help="A trial's name, the beginning of it, or its folder."),
]
ResourceName = Annotated[
    str, typer.Argument(metavar="NAME", help="The name, which is the folder's too.")
]
VerifierName = Annotated[str, typer.Argument(metavar="NAME", help="The verifier's name.")]
OfJob = Annotated[
    str, typer.Option("--job", metavar="JOB", help="A job's id, or the path of its folder.")
]
TasksRoot = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="The project with the verifier. Default: the one here, else the one that was run.",
    ),
]
CallModels = Annotated[
    bool,
    typer.Option("--call-models", help="Ask judges anew; else their recorded replies are read."),
]
Prices = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="What models cost: dollars per million tokens (YAML)."),
]
JudgeMaxCost = Annotated[
    float | None,
    typer.Option(
        metavar="USD", help="What model judges may cost together, in US dollars. [no limit]"
    ),
]
AsOf = Annotated[
    str | None,
    typer.Option(
        metavar="NAME@VERSION", help="As it stood when this version of a verifier was the newest."
    ),
]
Log = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="The log. Default: $TRIALOG_LOG, else the nearest jobs/trialog.db upward, else here.",
    ),
]
JobsDir = Annotated[
    str | None, typer.Option(metavar="DIR", help="The folder of jobs; its log is DIR/trialog.db.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line on standard output.")]
Verbose = Annotated[
    int,
    typer.Option(
        "-v", "--verbose", count=True, show_default=False,
        help="Say more: -v what is done, -vv everything. Also by $TRIALOG_LOG_LEVEL.",
    ),
]  # fmt: skip
Follow = Annotated[bool, typer.Option("-f", "--follow", help="Go on until the trial is finished.")]
EnvFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Variables for agents, and for ${VAR} in tasks: NAME=VALUE lines."
    ),
]
AgentEnv = Annotated[
    Texts, typer.Option(metavar="NAME=VALUE", help="A variable for agents. Repeatable.")
]
VerifierEnv = Annotated[
    Texts, typer.Option(metavar="NAME=VALUE", help="A variable for verifiers. Repeatable.")
]
Secret = Annotated[
    Texts,
    typer.Option(
        metavar="NAME", help="An environment variable whose value is never written. Repeatable."
    ),
]
Sandbox = Annotated[SandboxName, typer.Option(help="Where trials run.")]
DefaultNetwork = Annotated[
    bool | None,
    typer.Option(
        "--default-network", help="Give a network to tasks that don't say whether they have one."
    ),
]
VerifierSandbox = Annotated[
    VerifierSandboxName | None,
    typer.Option(help="Where tests run: the agent's sandbox, or one of their own. [as tasks say]"),
]
Image = Annotated[
    str | None, typer.Option(metavar="IMAGE", help="The image of tasks that name none (docker).")
]
