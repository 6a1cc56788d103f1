"""Variables given on the command line: what of them is recorded, and where secrets come from."""

from __future__ import annotations

from collections.abc import Mapping

from ..environment import is_secret_name
from ..errors import ConfigError


def seal(given: Mapping[str, str], secrets: Mapping[str, str]) -> dict[str, str]:
    """The variables as they are recorded: secret values as ``${NAME}``, all others as they are."""
    values = set(secrets.values())
    return {
        name: f"${{{name}}}" if is_secret_name(name) or value in values else value
        for name, value in given.items()
    }


def unseal(
    recorded: Mapping[str, str], given: Mapping[str, str], environ: Mapping[str, str], option: str
) -> dict[str, str]:
    """The values to use: recorded ones, and secret ones as given now or from the environment.

    Raises ConfigError naming a secret that is in neither.
    """
    values: dict[str, str] = {}
    for name, value in recorded.items():
        if value != f"${{{name}}}":
            values[name] = value
        elif name in given:
            values[name] = given[name]
        elif name in environ:
            values[name] = environ[name]
        else:
            raise ConfigError(
                f"the job was started with a secret value for {name}, which is not recorded; "
                f"set {name} in the environment",
                key=option,
            )
    return values
