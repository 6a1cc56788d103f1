"""Tables for analysis: a Parquet file each for trials, steps, rewards and verdicts."""

# Neither pandas nor pyarrow brings types of its own.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from ...events.values import BlobRef
from ...projections.trial import TrialView
from ..exports.form import Form, TrialRead
from .tables import TABLES, Row, TableName, arrow, arrow_table, rows_of
from .trials import trial_blobs, trial_of

ROWS = 5_000
CHARACTERS = 16_000_000
"""Rows of one table, or their texts, that are gathered before they are written."""


class ParquetFiles(Form):
    """Writes the files of a folder, in groups of rows; a context manager.

    Raises ConfigError where pyarrow is not installed.
    """

    def __init__(self, folder: Path, gamma: float) -> None:
        arrow()
        self._gamma = gamma
        self._tables: dict[TableName, _File] = {
            name: _File(folder / f"{name}.parquet", name) for name in TABLES
        }

    def __enter__(self) -> ParquetFiles:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for file in self._tables.values():
            file.close()

    def blobs(self, view: TrialView) -> Iterable[BlobRef]:
        """Texts of steps and verdicts."""
        return trial_blobs(view)

    def trial(self, read: TrialRead) -> bytes:
        """Nothing for the output; rows for the files."""
        trial = trial_of(read, gamma=self._gamma)
        for name, file in self._tables.items():
            file.add(rows_of(name, trial))
        return b""

    def end(self) -> bytes:
        """Nothing; the files are complete."""
        for file in self._tables.values():
            file.flush()
            file.close()
        return b""


class _File:
    def __init__(self, path: Path, table: TableName) -> None:
        from pyarrow import parquet

        writers: Any = parquet
        self._table: TableName = table
        self._rows: list[Row] = []
        self._characters = 0
        self._writer: Any = writers.ParquetWriter(
            path, arrow_table(table, ()).schema, compression="zstd"
        )

    def add(self, rows: list[Row]) -> None:
        self._rows += rows
        self._characters += sum(
            len(value) for row in rows for value in row if isinstance(value, str)
        )
        if len(self._rows) >= ROWS or self._characters >= CHARACTERS:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            self._writer.write_table(arrow_table(self._table, self._rows))
        self._rows, self._characters = [], 0

    def close(self) -> None:
        self._writer.close()
