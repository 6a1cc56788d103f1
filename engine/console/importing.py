"""Jobs of other systems, read into the log."""

from __future__ import annotations

from pathlib import Path

import msgspec
from anyio import to_thread

from ...events.clock import RandomIds, SystemClock
from ..environment import find_secrets
from ..importing.fields import RecordsError
from ..importing.run import Imported, Place, import_job
from ..importing.systems import sources_in
from ..redact import Redactor
from ..redacting_log import redacting
from .failure import EXIT_FAILED, EXIT_OK
from .session import Request, Session, opened
from .text import escaped, plural

__all__ = ("import_jobs",)

_SHOWN = 10
"""Of what was left out; all of it is in the log."""


async def import_jobs(request: Request, path: str) -> int:
    """``trialog import``; gives the exit code. One job that can't be read stops no other."""
    terminal = request.terminal
    secrets = find_secrets((), request.environ, {})
    terminal.hide(secrets)
    terminal.patient = True
    sources = await to_thread.run_sync(sources_in, Path(request.here, path))
    refused = 0
    left_out = 0
    async with opened(request, readonly=False, create=True) as session:
        redactor = Redactor(secrets)
        log = redacting(session.log, redactor)
        clock, ids = SystemClock(), RandomIds()
        place = Place(log, session.log.blobs, session.place.folder, clock, ids, redactor)
        for source in sources:
            try:
                found = await import_job(place, source)
            except RecordsError as error:
                if len(sources) == 1:
                    raise
                terminal.message(f"error: {escaped(error)}")
                refused += 1
                continue
            _tell(session, found)
            left_out += len([one for one in found.left_out if one.failed])
    return EXIT_FAILED if refused or left_out else EXIT_OK


def _tell(session: Session, found: Imported) -> None:
    terminal, shown = session.terminal, session.shown(found.folder)
    for one in found.left_out[:_SHOWN]:
        terminal.message(f"warning: left out {escaped(one.path)}: {escaped(one.reason)}")
    if len(found.left_out) > _SHOWN:
        more = len(found.left_out) - _SHOWN
        terminal.message(f"warning: and {more} more; `trialog show {found.job}` lists them")
    for name in found.secrets:
        terminal.message(
            f"warning: {escaped(name)} holds the value of a secret of this shell; events have it "
            "redacted, and the file was kept as it is"
        )
    for earlier in found.earlier:
        terminal.message(
            f"note: the same place was imported as {escaped(earlier)} when its content was "
            "another; that job stays as it is"
        )
    if terminal.json:
        terminal.data(
            {
                "job": found.job,
                "folder": str(found.folder),
                "system": found.system,
                "trials": found.trials,
                "added": found.added,
                "left_out": msgspec.to_builtins(found.left_out),
                "earlier": found.earlier,
            }
        )
        return
    count = plural(found.added or found.trials, "trial")
    what = "imported" if found.added else "in the log already, nothing is new"
    terminal.line(f"Job {escaped(found.job)}: {count} of {found.system} {what}")
    terminal.line(f"Job folder: {escaped(shown)}")
