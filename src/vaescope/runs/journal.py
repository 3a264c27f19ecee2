"""The history of a run: one line of JSON for each row, appended, never rewritten but to drop an unfinished tail."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from vaescope.errors import RunError
from vaescope.runs.record import HISTORY_FILE as FILE

TAIL = 2**20  # bytes; more than a row has


def own_rows(rows: list[dict[str, Any]], member: int) -> list[dict[str, Any]]:
    """The rows of one member of those that train together, as they are when it trains alone."""
    return [{key: value for key, value in row.items() if key != "member"} for row in rows if row["member"] == member]


class Journal:
    """Rows in the order they were trained."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE

    def append(self, rows: Iterable[dict[str, Any]]) -> None:
        """Add rows at the end, on disk before this returns."""
        try:
            with self.path.open("a", encoding="utf-8") as file:
                for row in rows:
                    file.write(json.dumps(row) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise RunError(
                f"{self.path} could not be written ({error.strerror}). Free some space, then run the same command "
                "again: it resumes at the last checkpoint."
            ) from error

    def rows(self) -> list[dict[str, Any]]:
        """All whole rows; a last line that a crash cut short is not one."""
        if not self.path.is_file():
            return []
        lines = self.path.read_bytes().split(b"\n")
        complete = lines[:-1]
        rows = []
        for number, line in enumerate(complete, 1):
            try:
                row = json.loads(line)
                _ = row["step"] + 0, row["split"] + ""
            except (ValueError, TypeError, KeyError) as error:
                raise RunError(
                    f"{self.path} is damaged: line {number} is not a row of a history ({type(error).__name__}: "
                    f"{error}). Delete the run's folder to train it again."
                ) from error
            rows.append(row)
        return rows

    def last_step(self) -> int:
        """The step of the last whole row, by the end of the file alone; 0 before the first."""
        with suppress(FileNotFoundError), self.path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            end = file.read()
            last = end.rfind(b"\n")
            if last >= 0:
                return int(json.loads(end[end.rfind(b"\n", 0, last) + 1 : last])["step"])
        return 0

    def rewind(self, step: int) -> None:
        """Drop what was written after `step`: training goes on from there."""
        kept = [row for row in self.rows() if row["step"] <= step]
        if step and (not kept or kept[-1]["step"] != step):
            raise RunError(
                f"{self.path} must reach step {step}, where the checkpoint stands; it ends at "
                f"{kept[-1]['step'] if kept else 0}. Delete the run's folder to train it again."
            )
        self.replace(kept)

    def replace(self, rows: Iterable[dict[str, Any]]) -> None:
        """Write these rows in place of all."""
        from vaescope.training.checkpoint import write_atomically  # loads torch, which reading does without

        write_atomically(self.path, "".join(json.dumps(row) + "\n" for row in rows).encode())
