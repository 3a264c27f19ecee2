"""Rows written once to a .npy file, a block at a time; a name that contains their hash lets equal rows share a file."""

from __future__ import annotations

import filecmp
import hashlib
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np
from filelock import FileLock

from vaescope.errors import DataError
from vaescope.files import PART_SUFFIX, temporary_sibling, write_errors

LOCK_FILE = ".lock"
ABANDONED_SECONDS = 24 * 3600  # after which a part that nobody writes to was left by a process that was killed


def store_rows(blocks: Iterable[np.ndarray], folder: Path, stem: str) -> Path:
    """Write blocks of rows to a .npy file in `folder`, whose name ends with their SHA-256; an equal file is kept."""
    with write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(folder)
    with _written(blocks, folder / stem) as (part, digest):
        target = folder / f"{stem}-{digest}.npy"
        # A good file may be in use, even if another process has just written it; one that was cut off is replaced.
        with write_errors(target), FileLock(folder / LOCK_FILE):
            if not (target.is_file() and target.stat().st_size == part.stat().st_size):
                os.replace(part, target)
        return target


def store_rows_as(blocks: Iterable[np.ndarray], target: Path) -> Path:
    """Write blocks of rows to a .npy file that the user named; an existing file must have the same content."""
    if target.suffix != ".npy":
        raise DataError(f"cache must be the path of a .npy file, got {str(target)!r}. Add the suffix .npy.")
    with _written(blocks, target) as (part, _), write_errors(target):
        if not target.exists():
            os.replace(part, target)
        elif not filecmp.cmp(part, target, shallow=False):
            raise DataError(
                f"cache must be a new file or one with the same items, but {target} has others. Choose another name, "
                "or open this file itself."
            )
    return target


@contextmanager
def _written(blocks: Iterable[np.ndarray], target: Path) -> Iterator[tuple[Path, str]]:
    """A temporary file with all rows in the folder of `target`, and the SHA-256 of the rows."""
    part = temporary_sibling(target)
    digest, rows, first = hashlib.sha256(), 0, None
    with write_errors(target):
        file = part.open("xb")
    try:
        with file:
            for block in map(np.ascontiguousarray, blocks):
                with write_errors(target):
                    if first is None:
                        first = block[:0]
                        _write_header(file, first, rows=0)
                    file.write(block.data)
                digest.update(block.data)
                rows += len(block)
            with write_errors(target):
                if first is not None:
                    # The number of rows is known only now; numpy leaves room for it in the header.
                    file.seek(0)
                    _write_header(file, first, rows)
                file.flush()
                os.fsync(file.fileno())
        yield part, digest.hexdigest()
    finally:
        part.unlink(missing_ok=True)


def _write_header(file: BinaryIO, like: np.ndarray, rows: int) -> None:
    kind, shape = np.lib.format.dtype_to_descr(like.dtype), (rows, *like.shape[1:])
    np.lib.format.write_array_header_1_0(file, {"descr": kind, "fortran_order": False, "shape": shape})


def _remove_abandoned(folder: Path) -> None:
    for part in folder.glob(f".*{PART_SUFFIX}"):
        with suppress(FileNotFoundError):  # another process finished it
            if time.time() - part.stat().st_mtime > ABANDONED_SECONDS:
                part.unlink()
