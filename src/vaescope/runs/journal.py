"""The history of a run: one line of JSON per row; rows are appended, and rewritten only to drop an unfinished end.

A checkpoint keeps the SHA-256 of the history up to its step, and run.json that of a finished history: a history that
was changed is noticed before training resumes from it and before it is shown.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vaescope.errors import RunError
from vaescope.files import write_atomically, write_error
from vaescope.runs.folders import Ownership
from vaescope.runs.record import HISTORY_FILE, STATE_FILE, Table
from vaescope.runs.sealed import DAMAGE, NO_MATCH, RESTORE, naming

if TYPE_CHECKING:
    from hashlib import _Hash

TAIL_BYTES = 2**20  # more than a row has
HISTORY_NOTE, STEP_NOTE = HISTORY_FILE, "step"  # of a checkpoint
MAX_HEADER_BYTES = 2**26


def member_rows(rows: list[Table], member: int) -> list[Table]:
    """The rows of one member of an ensemble, as if it had been trained alone."""
    return [{key: value for key, value in row.items() if key != "member"} for row in rows if row["member"] == member]


class Journal:
    """Rows in the order in which they were trained.

    Args:
        folder: The folder of the run.
        owned: Checked before rows are written; default: nothing else writes here.
    """

    def __init__(self, folder: Path, owned: Ownership | None = None) -> None:
        self.path, self._owned = folder / HISTORY_FILE, owned

    def append(self, rows: Iterable[Table]) -> None:
        """Append rows; they are on disk when this returns."""
        if self._owned is not None:
            self._owned.check()
        content, digest = _lines(rows), self._digest
        try:
            with self.path.open("ab") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise write_error(self.path, error) from error
        digest.update(content)

    @cached_property
    def _digest(self) -> _Hash:
        """Continues with every row, so that a checkpoint need not read the history again."""
        return hashlib.sha256(self.content())

    @property
    def checksum(self) -> str:
        """The SHA-256 of all complete rows."""
        return self._digest.hexdigest()

    def content(self, checksum: str | None = None) -> bytes:
        """All complete lines; if `checksum` is given, it must be theirs."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            content = b""
        content = content[: content.rfind(b"\n") + 1]
        if checksum is not None and checksum != hashlib.sha256(content).hexdigest():
            raise self._changed()
        return content

    def rows(self, checksum: str | None = None) -> list[Table]:
        """All complete rows; without a last line that a crash cut short.

        All of them must have the `checksum`; by default, those up to the checkpoint must have the checkpoint's.
        """
        # First: rows reach the disk before the checkpoint that includes them.
        checkpoint = read_checkpoint(self.path.parent) if checksum is None else None
        with naming(self.path):
            lines = self.content(checksum).split(b"\n")[:-1]
        rows = []
        for number, line in enumerate(lines, 1):
            with naming(f"{self.path}, line {number},"):
                row = json.loads(line)
                _ = row["step"] + 0, row["split"] + ""
            rows.append(row)
        if checkpoint is not None:
            step, checksum = checkpoint
            if hashlib.sha256(_lines(self._up_to(step, rows))).hexdigest() != checksum:
                raise self._changed()
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
        self.replace(self._up_to(step, self.rows()))

    def replace(self, rows: Iterable[Table]) -> None:
        """Replace all rows."""
        content = _lines(rows)
        write_atomically(self.path, content)
        self._digest = hashlib.sha256(content)

    def _up_to(self, step: int, rows: Sequence[Table]) -> list[Table]:
        """The rows up to the step of a checkpoint, which must be there."""
        kept = [row for row in rows if row["step"] <= step]
        if step and (not kept or kept[-1]["step"] != step):
            raise RunError(
                f"{self.path} must reach step {step}, as the checkpoint does; it ends at "
                f"{kept[-1]['step'] if kept else 0}. {RESTORE}"
            )
        return kept

    def _changed(self) -> RunError:
        return RunError(f"{self.path} is damaged ({NO_MATCH}). {RESTORE}")


def _lines(rows: Iterable[Table]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def read_checkpoint(folder: Path) -> tuple[int, str] | None:
    """The step of the checkpoint in a folder, and the checksum of the rows up to it; None if there is none.

    A damaged checkpoint has none, too: it is named when training resumes from it.
    """
    try:
        notes = read_notes(folder / STATE_FILE)
        return int(notes[STEP_NOTE]), notes[HISTORY_NOTE]
    except (OSError, *DAMAGE):
        return None


def read_notes(file: Path) -> dict[str, str]:
    """The notes of a safetensors file, from its header alone and without torch."""
    with file.open("rb") as opened:
        size = int.from_bytes(opened.read(8), "little")
        header = json.loads(opened.read(min(size, MAX_HEADER_BYTES)))
    notes: dict[str, str] = header.get("__metadata__", {})
    return notes
