"""Whether a file is a review: every criterion answered, in the contract's words.

This module is also the verifier of a reviewer's run: with the one that it imports it is copied into
the sandbox and run by whatever python3 there is, so it uses the standard library alone and nothing
newer than 3.8. It judges form, never the reviewed work.
"""

from __future__ import annotations

import json
import os
from typing import Any, Sequence, cast  # noqa: UP035 - for Python 3.8

from ..json_in_text import Unfit, named, only_object

RESULT_FILE = "review-result.json"
OUTCOMES = ("pass", "fail", "not_applicable")
CAP = 1024 * 1024
"""Bytes of a reviewer's answer."""
MOST_FAULTS = 10


def faults(data: bytes, names: Sequence[str]) -> list[str]:
    """What is wrong with an answer, one sentence each; none for a well-formed review."""
    found = read_answer(data, names)
    return found if isinstance(found, list) else []


def read_answer(data: bytes, names: Sequence[str]) -> dict[str, Any] | list[str]:
    """A well-formed review, or what is wrong with it, one sentence each.

    The object may be in a fence or in prose, if it is the only one.
    """
    try:
        top = only_object(data.decode("utf-8"), RESULT_FILE)
    except UnicodeDecodeError as error:
        return [f"{RESULT_FILE} is not UTF-8 (byte {error.start})"]
    except Unfit as unfit:
        return [str(unfit)]
    except RecursionError:
        return [f"{RESULT_FILE} is JSON nested too deep"]
    found = [f"unknown key {named(key)}" for key in top if key not in ("summary", "checks")]
    if not _is_text(top.get("summary")):
        found.append("summary: expected a text that is not empty")
    if not isinstance(top.get("checks"), dict):
        return [*found, "checks: expected an object with one entry for each criterion"]
    checks = cast("dict[str, Any]", top["checks"])
    found += [f"checks: unknown criterion {named(name)}" for name in checks if name not in names]
    for name in names:
        found += _wrong(f"checks.{name[:60]}", name in checks, checks.get(name))
    return found or top


def _wrong(where: str, present: bool, value: Any) -> list[str]:
    if not isinstance(value, dict):
        return [f"{where}: {'expected an object' if present else 'missing'}"]
    check = cast("dict[str, Any]", value)
    found: list[str] = []
    if check.get("outcome") not in OUTCOMES:
        found.append(f"{where}.outcome: expected one of {', '.join(OUTCOMES)}")
    if not _is_text(check.get("explanation")):
        found.append(f"{where}.explanation: expected a text that is not empty")
    extra = [key for key in check if key not in ("outcome", "explanation")]
    return found + [f"{where}: unknown key {named(key)}" for key in extra]


def _is_text(value: Any) -> bool:
    if not isinstance(value, str) or not value.strip():
        return False
    return not any("\ud800" <= letter <= "\udfff" for letter in value)


def _read(path: str) -> tuple[bytes, str]:
    """The bytes of a plain file, or why there are none. A link or a pipe is never waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(CAP + 1) or b""
    except OSError as error:
        return b"", f"no {RESULT_FILE} that could be read in the workspace: {error.strerror}"
    if len(data) > CAP:
        return b"", f"{RESULT_FILE} is over {CAP} bytes"
    return data, ""


def main(reward: str, criteria: str) -> None:
    """Check the answer in the current folder and write the reward, 1 or 0."""
    with open(criteria, encoding="utf-8") as file:
        names: list[str] = json.load(file)
    data, missing = _read(RESULT_FILE)
    found = [missing] if missing else faults(data, names)
    for fault in found[:MOST_FAULTS]:
        print(fault)  # noqa: T201 - what a verifier prints is its console output
    if len(found) > MOST_FAULTS:
        print(f"and {len(found) - MOST_FAULTS} more")  # noqa: T201
    with open(reward, "w", encoding="utf-8") as file:
        file.write("0" if found else "1")
