"""Files that a command writes: checked at the start, so that hours of work do not end in an error."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from vaescope.errors import ConfigurationError


def check_file(path: str | None) -> None:
    """Raise an error if the file cannot be written; leaves nothing behind."""
    if path is None:
        return
    file = Path(path)
    try:
        if not file.absolute().parent.is_dir():
            raise ConfigurationError(f"{path!r} must be in an existing folder. Create the folder first.")
        if not os.path.lexists(file):
            file.open("xb").close()
            file.unlink()
        elif file.is_file() or file.is_dir():
            # Other kinds, such as pipes, would take opening and closing for their whole content.
            file.open("ab").close()
    except OSError as error:
        raise unwritable(file, error) from error


def write_csv(rows: Sequence[Mapping[str, object]], names: Sequence[str], file: Path) -> None:
    """Write the named columns of the rows to a CSV file."""
    from vaescope.tables import csv_text

    try:
        file.write_text(csv_text(rows, names), encoding="utf-8")
    except OSError as error:
        raise unwritable(file, error) from error


def unwritable(file: Path, error: OSError) -> ConfigurationError:
    """The error for a file that cannot be written."""
    return ConfigurationError(f"{str(file)!r} cannot be written ({error.strerror}). Choose another file.")
