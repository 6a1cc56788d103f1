"""Verifiers written on the spot, an episode for them, and the two ways to run hooks."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from trialog.engine.hooks.inline import InlineHooks
from trialog.engine.hooks.pool import HookPool
from trialog.engine.hooks.protocol import Hooks, HookSource

Make = Callable[..., HookSource]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Writes a verifier: its ``verify.py`` (line 1 is the first line given) and other files."""

    def write(code: str = "", *, name: str = "v", **given: Any) -> HookSource:
        root = given.pop("root", tmp_path / "project")
        folder = root / "verifiers" / name
        folder.mkdir(parents=True, exist_ok=True)
        files: dict[str, str] = given.pop("files", {})
        digest = hashlib.sha256(code.encode())
        for file, text in {"verify.py": code, **files}.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text).lstrip("\n"), "utf-8")
            digest.update(text.encode())
        text = dedent(code)
        for hook in ("check", "reward", "hindsight"):
            if f"def {hook}(" in text:
                given.setdefault(hook, f"verify.py:{hook}")
        fields = {"version": "0.1.0", "weight": 1.0, "timeout_sec": 30.0} | given
        return HookSource(
            name=name, digest=f"sha256:{digest.hexdigest()}", folder=folder, root=root, **fields
        )

    return write


@pytest.fixture(params=["inline", "pool"])
async def hooks(request: pytest.FixtureRequest) -> AsyncIterator[Hooks]:
    """Both ways; what they agree on is tested with each."""
    if request.param == "inline":
        yield InlineHooks()
    else:
        async with HookPool(size=1) as pool:
            yield pool


@pytest.fixture
async def pool() -> AsyncIterator[HookPool]:
    """A pool of two processes."""
    async with HookPool() as pool:
        yield pool
