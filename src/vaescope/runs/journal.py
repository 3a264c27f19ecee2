"""The history of a run: one line of JSON per row; rows are appended, and rewritten only to drop an unfinished end."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from vaescope.errors import RunError
from vaescope.files import write_atomically, write_error
from vaescope.runs.record import HISTORY_FILE, RESTORE, Table

TAIL_BYTES = 2**20  # more than a row has


def member_rows(rows: list[Table], member: int) -> list[Table]:
    """The rows of one member of an ensemble, as if it had been trained alone."""
    return [{key: value for key, value in row.items() if key != "member"} for row in rows if row["member"] == member]


class Journal:
    """Rows in the order in which they were trained."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / HISTORY_FILE

    def append(self, rows: Iterable[Table]) -> None:
        """Append rows; they are on disk when this returns."""
        try:
            with self.path.open("a", encoding="utf-8") as file:
                for row in rows:
                    file.write(json.dumps(row) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise write_error(self.path, error) from error

    def rows(self) -> list[Table]:
        """All complete rows; without a last line that a crash cut short."""
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
                    f"{error}). {RESTORE}"
                ) from error
            rows.append(row)
        return rows

    def last_step(self) -> int:
        """The step of the last complete row, read from the end of the file only; 0 before the first."""
        with suppress(FileNotFoundError), self.path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            end = file.read()
            last = end.rfind(b"\n")
            if last >= 0:
                return int(json.loads(end[end.rfind(b"\n", 0, last) + 1 : last])["step"])
        return 0

    def rewind(self, step: int) -> None:
        """Drop the rows after `step`, from which training continues."""
        kept = [row for row in self.rows() if row["step"] <= step]
        if step and (not kept or kept[-1]["step"] != step):
            raise RunError(
                f"{self.path} must reach step {step}, as the checkpoint does; it ends at "
                f"{kept[-1]['step'] if kept else 0}. {RESTORE}"
            )
        self.replace(kept)

    def replace(self, rows: Iterable[Table]) -> None:
        """Replace all rows."""
        write_atomically(self.path, "".join(json.dumps(row) + "\n" for row in rows).encode())
