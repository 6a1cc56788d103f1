"""What a container is made of."""

from __future__ import annotations

from typing import Any

from ..protocol import SandboxSpec
from .labels import WAY, trial_labels
from .phase import CONTROL
from .ways import COMMAND, KEEP_ALIVE

HOSTNAME = "sandbox"
HOSTS = "hosts"
HOSTS_TEXT = f"""\
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
127.0.1.1\t{HOSTNAME}
"""


def runs_by_exec(spec: SandboxSpec) -> bool:
    """Whether phases run beside the container's main process, and not as it."""
    return spec.image.entrypoint or spec.separate_users or spec.keeps_processes


def container_config(
    spec: SandboxSpec, limits: dict[str, Any], network: str | None
) -> dict[str, Any]:
    """The request that makes a sandbox's container. No network: none at all."""
    by_exec = runs_by_exec(spec)
    scratch = spec.scratch.absolute()
    mounts = [_bind(str(scratch / "control"), CONTROL, readonly=True)]
    mounts += [
        _bind(str(mount.source.absolute()), mount.target, readonly=mount.readonly)
        for mount in spec.mounts
    ]
    host: dict[str, Any] = {
        **limits,
        "Mounts": mounts,
        "Init": False,
        "NetworkMode": network or "none",
        # An entrypoint's own words are needed when it fails; a phase's are read as they come.
        "LogConfig": {"Type": "json-file", "Config": {"max-size": "1m"}}
        if by_exec
        else {"Type": "none"},
    }
    if spec.keeps_processes:
        # No program with a set-id bit makes another user of a process that stays.
        host["SecurityOpt"] = ["no-new-privileges"]
    config: dict[str, Any] = {
        "Image": spec.image.digest,
        "Hostname": HOSTNAME,
        "Labels": {**trial_labels(spec), WAY: "exec" if by_exec else "direct"},
        "Cmd": KEEP_ALIVE if by_exec else COMMAND,
        "HostConfig": host,
    }
    if by_exec:
        config["Env"] = [f"{name}={value}" for name, value in spec.env.items()]
    else:
        config["WorkingDir"] = "/"
        config["AttachStdout"] = True
    if network is None:
        # The engine's network layer is left out wholly, which halves the time of a start; the
        # container has a namespace with a loopback all the same. Names are then ours to give.
        config["NetworkDisabled"] = not spec.lends_network
        mounts.append(_bind(str(scratch / HOSTS), "/etc/hosts", readonly=False))
    return config


def add_volume(config: dict[str, Any], name: str, spec: SandboxSpec) -> None:
    """Put a fresh volume where the workspace is, without the image's files."""
    config["HostConfig"]["Mounts"].append(
        {
            "Type": "volume",
            "Source": name,
            "Target": spec.workdir,
            "VolumeOptions": {"NoCopy": True, "Labels": trial_labels(spec)},
        }
    )


def same_user(one: str | None, other: str | None) -> bool:
    """Whether two ways to name a user surely mean the same."""
    return _plain_user(one) == _plain_user(other)


def _plain_user(user: str | None) -> str:
    name = user or "root"
    return "root" if name in ("0", "0:0", "root:root", "root:0", "0:root") else name


def _bind(source: str, target: str, *, readonly: bool) -> dict[str, Any]:
    return {"Type": "bind", "Source": source, "Target": target, "ReadOnly": readonly}
