"""Logs of Inspect AI: an `.eval` archive, or one `.json` file. A sample's epoch is a trial."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from .fields import Fields, parse_object
from .inspect_sample import read_sample
from .records import JobRead, Records, TrialRead

FORMATS = (1, 2)
HEADER = "header.json"
START = "_journal/start.json"
"""All that an evaluation which did not end has of its header."""
_SAMPLES = "samples/"
_WHOLE = "samples["


class InspectReader:
    """One log."""

    system = "inspect"

    def __init__(self, records: Records) -> None:
        self._records = records
        self._single = len(records.names) == 1
        """One file that is JSON; else the members of an archive."""

    @cached_property
    def _log(self) -> Fields:
        names = self._records.names
        name = (
            names[0] if self._single else next((n for n in (HEADER, START) if n in names), HEADER)
        )
        if name not in names:
            raise Fields(names[0] if names else "", "", {}).error(
                HEADER, "is not in the archive, so it is no log of Inspect AI's"
            )
        log = parse_object(self._records.read(name), name)
        version = log.whole("version")
        if version not in FORMATS:
            raise log.error(
                "version",
                f"expected {' or '.join(map(str, FORMATS))}, found {version}; read it with the "
                "Inspect AI that wrote it, and `inspect log convert` it",
            )
        return log

    @cached_property
    def _eval(self) -> Fields:
        return self._log.table("eval")

    @cached_property
    def _samples(self) -> list[Any]:
        return self._log.items("samples") if self._single else []

    def job(self) -> JobRead:
        """The evaluation."""
        stats = self._log.table("stats")
        about = Fields(self._log.file, "", dict(self._log.values))
        about.raw("samples")
        return JobRead(
            name="_".join(filter(None, (self._task, self._eval.text("task_id")))),
            version=self._eval.table("packages").text("inspect_ai"),
            started_at=stats.time("started_at") or self._eval.time("created"),
            finished_at=stats.time("completed_at"),
            data=about.rest(),
        )

    def trials(self) -> list[str]:
        """A member for each sample, or its place in the file."""
        self._eval.needed("model")
        if self._single:
            return [f"{_WHOLE}{place}]" for place in range(len(self._samples))]
        return [n for n in self._records.names if n.startswith(_SAMPLES) and "#" not in n]

    def files(self, key: str) -> list[str]:
        """The sample's own member."""
        return [] if self._single else [key]

    def trial(self, key: str, seed: str) -> TrialRead:
        """One sample's epoch."""
        if self._single:
            file = self._records.names[0]
            place = int(key.removeprefix(_WHOLE).removesuffix("]"))
            sample = Fields.of(self._samples[place], file, key)
        else:
            sample = parse_object(self._records.read(key), key)
        return read_sample(
            sample, key, seed, task=self._task, agent=self._agent, model=self._eval.needed("model")
        )

    @property
    def _task(self) -> str:
        return self._eval.needed("task")

    @cached_property
    def _agent(self) -> str:
        """The solver's name; of a chain, those of its parts."""
        if named := self._eval.text("solver"):
            return named
        steps = self._log.table("plan").tables("steps")
        return ",".join(step.needed("solver") for step in steps) or "unknown"
