"""Looking for what could steer the verifier, and putting it back as the image has it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable

import msgspec

from ....events.kinds import TamperFound, WarningRaised, WorkspaceHardened
from ....events.log import BlobStore
from ...sandbox.protocol import Sandbox
from ..folders import TamperUncleared, tamper_found
from .links import may_lead
from .looking import Looking, Step
from .races import settled
from .steering import Rule, Surroundings, rule_of

MOST_NAMED = 200
"""Findings that are told one by one; more are only counted."""

MOST_LISTED = 1000
"""Paths that are listed as put back."""

_HOOKS = (b"hook", b"pre-commit", b"commit-msg", b"post-commit", b"pre-push", b"post-checkout")
_NAMED: dict[Rule, tuple[bytes, ...]] = {
    "conftest": (b"conftest.py",),
    "pytest settings": (b"pytest.ini", b"pytest.toml"),
    "shared settings": (b"pyproject.toml", b"tox.ini", b"setup.cfg"),
    "git hook": _HOOKS,
    "git settings": (b".git/config", b"git config", *_HOOKS),
    "git pointer": (b".git/config", b"git config", *_HOOKS),
    "bare git settings": (b"git config", *_HOOKS),
    "installer settings": (
        *(b"pip.conf", b"pip config", b"uv.toml", b"/etc/apt", b"sources.list"),
        *(b"npmrc", b"wgetrc", b"curlrc"),
    ),
    "cron": (b"cron",),
}
"""Words in the verifier's files that make such a file a part of what is graded."""


class Hardened(msgspec.Struct, frozen=True, kw_only=True):
    """What was done."""

    found: list[TamperFound] = []
    removed: list[str] = []
    """All paths that were put back, caches too."""
    skipped: list[str] = []
    """Steps that could not be done here."""
    kept: list[str] = []
    """Steps that were left out because the task keeps the agent's processes."""

    def events(
        self, removed: list[str], duration: float
    ) -> list[TamperFound | WarningRaised | WorkspaceHardened]:
        """What to record; `removed` are paths that went before, `duration` seconds of it all."""
        told = [
            WarningRaised(
                code="hardening_skipped",
                message=f"this was left out, since the engine can't tell what changed: {step}; run "
                "trialog as a user who may read the engine's storage (root, as a rule) to have it "
                "done, or the verifier in a sandbox of its own",
            )
            for step in self.skipped
        ]
        paths = [os.fsencode(path).decode("utf-8", "replace") for path in self.removed]
        if len(paths) > MOST_LISTED:
            paths = [*paths[:MOST_LISTED], f"… and {len(paths) - MOST_LISTED} more"]
        hardened = WorkspaceHardened(
            removed=[*removed, *paths], steps_skipped=[*self.skipped, *self.kept], duration=duration
        )
        return [*self.found, *told, hardened]


async def harden(
    sandbox: Sandbox,
    where: Surroundings,
    texts: Iterable[bytes],
    blobs: BlobStore,
    found: list[TamperFound],
) -> Hardened:
    """Put back what could steer the verifier, when nothing runs in the sandbox but what is kept.

    `texts` are the verifier's files: what they name is graded, and stays. Findings go to `found`
    as they are made. Raises TamperUncleared for what can't be put back; then nothing may be
    graded. Raises SandboxGone.
    """
    changed = await sandbox.changed(
        lambda path: rule_of(path, where) is not None,
        links=lambda target: may_lead(target, where.places),
    )
    if changed is None:
        return Hardened(skipped=["putting back what could steer the verifier"])
    if not changed:
        return Hardened()
    kept = _kept(texts)
    looking = Looking(sandbox, where)
    removed: dict[str, None] = {}
    whole: set[str] = set()
    for path in changed:
        rule = rule_of(path, where)
        if is_below(path, whole):
            continue
        try:
            step = await _settle(sandbox, looking, path, None if rule in kept else rule, removed)
        except OSError as error:
            raise TamperUncleared(path, error.strerror or str(error), told(found)) from error
        if step is None:
            continue
        if step.data is None:
            whole.add(step.path)
        removed[step.path] = None
        if step.what is not None:
            sha256 = step.seen.sha256 if step.seen else None
            found.append(await tamper_found(os.fsencode(step.path), sha256, step.what, blobs))
    return Hardened(found=told(found), removed=list(removed))


def told(found: list[TamperFound]) -> list[TamperFound]:
    """The first findings one by one, and how many more there are."""
    if len(found) <= MOST_NAMED:
        return found
    more = TamperFound(path=found[MOST_NAMED].path, what=f"{len(found) - MOST_NAMED} more")
    return [*found[:MOST_NAMED], more]


def is_below(path: str, folders: Collection[str]) -> bool:
    """Whether a path lies in one of some folders, at a cost that does not grow with them."""
    end = path.rfind("/")
    while end > 0:
        if path[:end] in folders:
            return True
        end = path.rfind("/", 0, end)
    return False


async def _settle(
    sandbox: Sandbox, looking: Looking, path: str, rule: Rule | None, removed: Collection[str]
) -> Step | None:
    """Put a path back; None where nothing had to be. Raises OSError, SandboxGone."""

    async def attempt() -> Step | None:
        step = None if rule is None else await looking.step(path, rule)
        if step is None:
            step = await looking.link(path)
        if step is None or step.path in removed:
            return None
        if step.data is None:
            await sandbox.put_back(step.path)
        else:
            await sandbox.replace(step.path, step.data)
        return step

    return await settled(attempt)


def _kept(texts: Iterable[bytes]) -> set[Rule]:
    """Rules for files that the verifier itself looks at."""
    kept: set[Rule] = set()
    for text in texts:
        kept |= {rule for rule, words in _NAMED.items() if any(word in text for word in words)}
    return kept
