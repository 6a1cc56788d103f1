"""What engines that died left behind: containers, networks, processes, folders."""

from __future__ import annotations

from anyio import to_thread

from ..errors import SandboxError, SandboxUnavailable
from ..sandbox.choose import choose
from ..scratch import sweep
from .failure import EXIT_FAILED, EXIT_OK
from .session import Request, place_of
from .text import escaped, plural

__all__ = ("clean_up",)


async def clean_up(request: Request, *, sandbox: str) -> int:
    """``trialog clean``; gives the exit code."""
    terminal = request.terminal
    gone: list[tuple[str, str]] = []
    code = EXIT_OK
    for name in ("docker", "bubblewrap") if sandbox == "auto" else (sandbox,):
        try:
            backend = await choose(name)
        except SandboxUnavailable as error:
            if sandbox != "auto":
                raise
            terminal.message(f"note: {name}: {escaped(error)}")
            continue
        try:
            gone += [(name, thing) for thing in await backend.reap()]
        except SandboxError as error:
            terminal.message(f"error: {name}: {escaped(error)}")
            code = EXIT_FAILED
        finally:
            await backend.aclose()
    place = await to_thread.run_sync(place_of, request, None)
    gone += [("folder", name) for name in await to_thread.run_sync(sweep, place.folder)]
    for kind, thing in gone:
        if terminal.json:
            terminal.data({"kind": kind, "removed": thing})
        else:
            terminal.line(f"removed ({kind}): {escaped(thing)}")
    if not terminal.json:
        terminal.line(f"{plural(len(gone), 'thing')} removed" if gone else "nothing was left")
    return code
