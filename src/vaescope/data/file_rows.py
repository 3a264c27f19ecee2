"""Rows of an array that stay in its file, read by position as long as the file does not change."""

from __future__ import annotations

import io
import math
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Int

from vaescope.codes.arrays import as_array
from vaescope.codes.reading import reading
from vaescope.errors import DataError

NPY_MAGIC = b"\x93NUMPY"
MAX_HELD_BYTES = 2**28  # of a file that is read at once, because reading row by row costs 2 microseconds each

Version: TypeAlias = tuple[int, int, int]
"""Size, inode and time of modification of a file."""


@dataclass(frozen=True)
class FileRows:
    """The rows of an array in a file, read when they are indexed.

    A memory map would end the process by SIGBUS if the file shrank, and would read other items if it was overwritten;
    here both are a `DataError`.

    Attributes:
        path: The file.
        version: The state in which it was opened.
        offset: The position of the first row, in bytes.
        stored: The shape of a row in the file.
        shape: The shape of all rows, as `arrange` returns them.
        arrange: Applied to the rows that are read.
        held: All rows as stored, if the file is small or the user mapped it; None to read them from the file.
    """

    path: Path
    version: Version
    offset: int
    stored: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    arrange: Callable[[np.ndarray], np.ndarray] = np.asarray
    held: np.ndarray | None = field(default=None, repr=False)

    def arranged(self, arrange: Callable[[np.ndarray], np.ndarray]) -> FileRows:
        """The same rows, with `arrange` applied to every batch."""
        one = arrange(np.empty((1, *self.stored), self.dtype))
        return replace(self, shape=(len(self), *one.shape[1:]), arrange=arrange)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: slice | Int[np.ndarray, "rows"]) -> np.ndarray:
        try:
            if self.held is None:
                return self.arrange(self._read(index))
            self._check(os.stat(self.path))
        except OSError as error:
            raise self._changed(error.strerror or str(error)) from error
        return self.arrange(self.held[index])

    def will_read(self, index: Int[np.ndarray, "rows"]) -> None:
        """Let the system read these rows from the disk while the program does something else."""
        if self.held is None and len(index):
            with suppress(OSError), self.path.open("rb", buffering=0) as file:  # reading them raises the error
                self._request(file, self._runs(index))

    def _request(self, file: io.FileIO, runs: list[tuple[int, int]]) -> None:
        """Ask for all runs at once: a disk serves many requests together several times faster than one by one."""
        if sys.platform == "linux" and len(runs) > 1:
            size = self.dtype.itemsize * math.prod(self.stored)
            for first, count in runs:
                os.posix_fadvise(file.fileno(), self.offset + first * size, count * size, os.POSIX_FADV_WILLNEED)

    def _read(self, index: slice | Int[np.ndarray, "rows"]) -> np.ndarray:
        runs = self._runs(index)
        total, size = sum(count for _, count in runs), self.dtype.itemsize * math.prod(self.stored)
        content = np.empty(total * size, np.uint8)
        rest = content.data
        with self.path.open("rb", buffering=0) as file:
            self._check(os.fstat(file.fileno()))
            self._request(file, runs)
            for first, count in runs:
                file.seek(self.offset + first * size)
                self._fill(rest[: count * size], file)
                rest = rest[count * size :]
            # Again, because the rows may have been overwritten while they were read.
            self._check(os.fstat(file.fileno()))
        return content.view(self.dtype).reshape(total, *self.stored)

    def _runs(self, index: slice | Int[np.ndarray, "rows"]) -> list[tuple[int, int]]:
        """The first row and the length of each run of consecutive rows."""
        if isinstance(index, slice):
            start, stop, _ = index.indices(len(self))
            return [(start, max(0, stop - start))]
        if len(index) and not (index.min() >= 0 and index.max() < len(self)):
            raise IndexError(f"rows must lie in 0..{len(self) - 1}, got {index.min()}..{index.max()}")
        cuts = [0, *(np.flatnonzero(np.diff(index) != 1) + 1).tolist(), len(index)]
        return [(int(index[start]), stop - start) for start, stop in pairwise(cuts) if start < stop]

    def _fill(self, rest: memoryview, file: io.FileIO) -> None:
        while rest:
            count = file.readinto(rest)
            if not count:
                raise self._changed("it is shorter")
            rest = rest[count:]

    def _check(self, status: os.stat_result) -> None:
        if _version(status) != self.version:
            raise self._changed("its size, inode or modification time differs")

    def _changed(self, how: str) -> DataError:
        return DataError(
            f"{self.path} must stay as it was when it was opened, but {how}. Restore the file and repeat the command; "
            "an interrupted run resumes."
        )


Rows: TypeAlias = np.ndarray | FileRows


def watched(rows: np.ndarray) -> Rows:
    """A read-only memory map as rows of its file, so that changes are noticed; other arrays unchanged."""
    if not (isinstance(rows, np.memmap) and rows.mode == "r" and rows.filename is not None):
        return rows
    path = Path(str(rows.filename))
    with reading(path, "the file of a memory map"):
        return FileRows(path, _version(path.stat()), 0, rows.shape[1:], rows.shape, rows.dtype, held=rows)


def open_rows(path: Path) -> Rows:
    """The rows of a .npy file; in memory if it is in Fortran order, which spreads a row over the whole file."""
    with reading(path, "a whole .npy file of numbers, not of pickled objects"):
        with path.open("rb") as file:
            if file.read(len(NPY_MAGIC)) != NPY_MAGIC:
                raise ValueError("it does not start like one")
            version = _version(os.fstat(file.fileno()))
        rows: np.memmap = np.load(path, mmap_mode="r", allow_pickle=False)
        as_array(rows[:0] if rows.ndim else rows, str(path))
        if not (rows.ndim and rows.flags.c_contiguous):
            return np.asarray(np.load(path, allow_pickle=False))
        found = FileRows(path.absolute(), version, rows.offset, rows.shape[1:], rows.shape, rows.dtype)
        if rows.nbytes > MAX_HELD_BYTES:
            return found
        held = found[:]
        held.setflags(write=False)
        return replace(found, held=held)


def _version(status: os.stat_result) -> Version:
    return status.st_size, status.st_ino, status.st_mtime_ns
