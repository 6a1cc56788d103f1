"""``${VAR}`` and ``${VAR:-default}`` in the values of an `env` setting."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from .model import TaskWarning

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class ResolvedEnv(NamedTuple):
    """An `env` setting with its references filled in."""

    values: dict[str, str]
    secrets: dict[str, str]
    """Variables of the host's environment that were used, with their values; never a default."""
    warnings: list[TaskWarning]


def resolve_env(mapping: Mapping[str, str], environ: Mapping[str, str]) -> ResolvedEnv:
    """Fill in the references in each value, wherever in it they stand.

    ``${VAR:-default}`` is the default when VAR is unset or empty. ``${VAR}`` is empty when VAR is
    unset, with a warning. Anything else with a ``$`` stays as it is.
    """
    secrets: dict[str, str] = {}
    warnings: list[TaskWarning] = []

    def fill(name: str, value: str) -> str:
        def one(match: re.Match[str]) -> str:
            variable, default = match[1], match[2]
            found = environ.get(variable)
            if found:
                secrets[variable] = found
                return found
            if default is not None:
                return default
            if found is None:
                warnings.append(
                    TaskWarning(
                        "env_variable_unset",
                        f"env.{name}: {variable} is not set here, so it is empty; set it, or "
                        f"give a default: ${{{variable}:-…}}",
                    )
                )
            return ""

        return _REFERENCE.sub(one, value)

    values = {name: fill(name, value) for name, value in mapping.items()}
    return ResolvedEnv(values, secrets, warnings)
