"""Reading a user's file: what a reader says of a damaged one becomes a sentence that names the file."""

from __future__ import annotations

import csv
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from vaescope.errors import DataError


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Inside, an error of a reader is raised as one that says that `path` must be `what`."""
    try:
        yield
    except DataError:
        raise
    except (ValueError, EOFError, OSError, csv.Error, zipfile.BadZipFile, zlib.error) as error:
        reason = str(error).rstrip(".") or type(error).__name__
        raise DataError(
            f"{path} must be {what}, whole and without pickled objects; reading it failed: {reason}. "
            "Save or copy it again."
        ) from error


@contextmanager
def numpy_archive(path: Path) -> Iterator[Any]:
    """The arrays of an .npz file by name; one that is pickled is refused when it is asked for."""
    with reading(path, "an .npz archive of arrays"):
        # Asked first, because numpy takes what is no archive for a pickle and says so.
        if not zipfile.is_zipfile(path):
            raise ValueError("it is not a whole zip archive")
        with np.load(path, allow_pickle=False) as archive:
            yield archive
