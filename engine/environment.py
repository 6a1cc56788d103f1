"""Environment variables as a user gives them: a file of them, ``NAME=VALUE`` words, secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from .errors import ConfigError

__all__ = (
    "SECRET_LENGTH",
    "assignments",
    "find_secrets",
    "is_secret_name",
    "read_env_file",
)

SECRET_LENGTH = 8
"""Shorter values are not redacted: they would blank out half of any text."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LINE = re.compile(r"(?:export\s+)?(?P<name>[^=\s]+)\s*(?:=\s*(?P<value>.*))?", re.DOTALL)
_SECRET = re.compile(r".*_(KEY|TOKEN|SECRET|PASSWORD)", re.IGNORECASE)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def is_secret_name(name: str) -> bool:
    """Whether a variable's name says that its value is a secret."""
    return _SECRET.fullmatch(name) is not None


def read_env_file(path: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """A file of ``NAME=VALUE`` lines; the last one of a name holds.

    Blank lines, ``#`` comments, ``export`` and quotes are understood; nothing is expanded. A name
    alone takes its value from `environ`.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError("there is no such file", file=path) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"not UTF-8 text (byte {error.start})", file=path) from None
    except OSError as error:
        raise ConfigError(f"can't be read: {error.strerror}", file=path) from None
    values: dict[str, str] = {}
    for number, raw in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        place = f"line {number}"
        match = _LINE.fullmatch(line)
        if match is None:
            raise ConfigError(f"expected NAME=VALUE, found {_shown(line)}", file=path, key=place)
        name = _checked_name(match["name"], file=path, place=place)
        if match["value"] is None:
            if name not in environ:
                raise ConfigError(
                    f"{name} has no value, and none in the environment; write {name}=VALUE",
                    file=path,
                    key=place,
                )
            values[name] = environ[name]
        else:
            values[name] = _unquoted(match["value"], file=path, place=place)
    return values


def _unquoted(value: str, *, file: Path, place: str) -> str:
    if "\0" in value:
        raise ConfigError("a value can't hold a NUL byte", file=file, key=place)
    if value[:1] not in {'"', "'"}:
        return re.split(r"\s+#", value, maxsplit=1)[0] if not value.startswith("#") else ""
    quote = value[0]
    out: list[str] = []
    index = 1
    while index < len(value):
        character = value[index]
        if character == quote:
            rest = value[index + 1 :].strip()
            if rest and not rest.startswith("#"):
                raise ConfigError("there is text after the closing quote", file=file, key=place)
            return "".join(out)
        if character == "\\" and quote == '"' and index + 1 < len(value):
            index += 1
            character = _ESCAPES.get(value[index], value[index])
        out.append(character)
        index += 1
    raise ConfigError(f"a {quote} is opened and not closed", file=file, key=place)


def _checked_name(name: str, *, file: Path | str, place: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise ConfigError(
            f"{_shown(name)} is no name of a variable: letters, digits and _, no digit first",
            file=file,
            key=place,
        )
    return name


def _shown(text: str) -> str:
    """A word for a message; what may be a secret's value is cut."""
    return repr(text if len(text) <= 8 else text[:6] + "…")


def assignments(words: Iterable[str], option: str, environ: Mapping[str, str]) -> dict[str, str]:
    """``NAME=VALUE`` words of an option; a name alone takes its value from `environ`."""
    values: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        _checked_name(name, file=option, place=_shown(name))
        if equals:
            values[name] = value
        elif name in environ:
            values[name] = environ[name]
        else:
            raise ConfigError(
                f"{name} has no value, and none in the environment; write {name}=VALUE",
                file=option,
            )
    return values


def find_secrets(
    named: Iterable[str], environ: Mapping[str, str], given: Mapping[str, str]
) -> dict[str, str]:
    """Values to redact by their names.

    `named` are those of ``--secret``, which must have a value of at least SECRET_LENGTH characters.
    Of `environ` and of the variables `given` for the job, those whose names say so are taken; a
    short one only of the latter, where the job warns that it is not redacted.
    """
    secrets = {
        name: value
        for name, value in {**environ, **given}.items()
        if is_secret_name(name) and value and (name in given or len(value) >= SECRET_LENGTH)
    }
    for name in named:
        value = given.get(name, environ.get(name))
        if value is None:
            raise ConfigError(f"{name} is not set in the environment", key="--secret")
        if len(value) < SECRET_LENGTH:
            raise ConfigError(
                f"the value of {name} is under {SECRET_LENGTH} characters; such a short value "
                "can't be told from other text, so it would not be redacted",
                key="--secret",
            )
        secrets[name] = value
    return secrets
