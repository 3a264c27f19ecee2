"""Reading files of users: errors of readers become a `DataError` that names the file."""

from __future__ import annotations

import csv
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.lib.npyio import NpzFile

from vaescope.errors import DataError


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn errors of readers inside the block into a `DataError` that says that `path` must be `what`."""
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
def numpy_archive(path: Path) -> Iterator[NpzFile]:
    """The arrays of an .npz file by name; pickled arrays are refused on access."""
    with reading(path, "an .npz archive of arrays"):
        # Checked first, because the error of numpy for other files is about pickles.
        if not zipfile.is_zipfile(path):
            raise ValueError("it is not a whole zip archive")
        with np.load(path, allow_pickle=False) as archive:
            yield archive
