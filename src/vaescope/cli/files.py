"""Files that a command is told to write: refused at the beginning, not after hours of work at the end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vaescope.errors import ConfigurationError


def check_file(path: str | None) -> None:
    """A file that can be made or written over, in a folder that is there; nothing is left of trying."""
    if path is None:
        return
    file = Path(path)
    try:
        if not file.absolute().parent.is_dir():
            raise ConfigurationError(
                f"{path!r} must lie in a folder that is there to be written. Make the folder first."
            )
        if not os.path.lexists(file):
            file.open("xb").close()
            file.unlink()
        elif file.is_file() or file.is_dir():
            # Others, such as pipes, would take an opening for all that there is, and say at the end what they refuse.
            file.open("ab").close()
    except OSError as error:
        raise unwritable(file, error) from error


def write_csv(rows: Sequence[dict[str, Any]], names: Sequence[str], file: Path) -> None:
    """The columns of the rows as a CSV file."""
    from vaescope.tables import csv_text

    try:
        file.write_text(csv_text(rows, names), encoding="utf-8")
    except OSError as error:
        raise unwritable(file, error) from error


def unwritable(file: Path, error: OSError) -> ConfigurationError:
    """The error for a file that the system refuses to write."""
    return ConfigurationError(
        f"{str(file)!r} must be a file that can be written, it cannot ({error.strerror}). Name another file."
    )
