"""Exports of a log, as bytes."""

from __future__ import annotations

from trialog.engine.exports.atif import Trajectories
from trialog.engine.exports.form import Form
from trialog.engine.exports.junit import TestReport
from trialog.engine.exports.otel.traces import Traces
from trialog.engine.exports.reading import select_job
from trialog.engine.exports.training import Steps
from trialog.engine.exports.writing import write_events, write_trials
from trialog.events.log import EventLog

FORMS = {
    "atif": "atif.jsonl",
    "events": "events.jsonl",
    "jsonl": "jsonl.jsonl",
    "junit": "junit.xml",
    "otel": "otel.jsonl",
}
"""The golden file of each form."""


async def exported(log: EventLog, job: str, name: str) -> tuple[bytes, list[tuple[str, str]]]:
    """A job in one form; and what was left out, with the reason."""
    selection = await select_job(log, job)
    parts: list[bytes] = []
    left_out: list[tuple[str, str]] = []

    async def write(data: bytes) -> None:
        parts.append(data)

    def tell(stream: str, error: Exception) -> None:
        left_out.append((stream, str(error)))

    if name == "events":
        await write_events(log, selection, write, tell)
    else:
        forms: dict[str, Form] = {
            "atif": Trajectories(),
            "jsonl": Steps(0.5),
            "junit": TestReport(job),
            "otel": Traces(),
        }
        await write_trials(log, selection, forms[name], write, tell)
    return b"".join(parts), left_out
