"""Rows read from a file equal those of the array, in any order; a change of the file is an error."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from vaescope.data import file_rows, open_dataset
from vaescope.data.file_rows import FileRows, open_rows
from vaescope.errors import DataError

ROWS = np.random.default_rng(0).integers(0, 256, (50, 6, 7, 3), dtype=np.uint8)


@pytest.fixture(params=[0, file_rows.MAX_HELD_BYTES], ids=["read from the file", "held in memory"])
def file(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(file_rows, "MAX_HELD_BYTES", request.param)
    np.save(tmp_path / "rows.npy", ROWS)
    return tmp_path / "rows.npy"


@pytest.mark.parametrize("kind", ["|u1", "<i8", ">i2", "<f4", ">f8", "|b1", "<f2"])
@pytest.mark.parametrize("index", [slice(0, 50), slice(7, 9), slice(9, 7), [3], [], [49, 0, 0, 1, 2, 9, 8], range(50)])
def test_the_rows_are_those_of_the_array(file: Path, kind: str, index: slice | list[int]) -> None:
    array = ROWS.astype(kind)
    np.save(file, array)
    rows = open_rows(file)
    assert isinstance(rows, FileRows)
    place = index if isinstance(index, slice) else np.array(index, np.int64)
    np.testing.assert_array_equal(rows[place], array[place])
    assert rows[place].dtype == array.dtype
    assert open_dataset(file, image=False).fingerprint == open_dataset(array, image=False).fingerprint


def test_rows_outside_the_file_are_an_index_error(file: Path) -> None:
    with pytest.raises(IndexError):
        open_rows(file)[np.array([0, 50])]


def test_writing_to_a_batch_does_not_change_the_items(file: Path) -> None:
    dataset, index = open_dataset(file, image=False), torch.arange(5)
    before = dataset.batch(index).clone()
    dataset.batch(index).zero_()
    assert torch.equal(dataset.batch(index), before)


def test_a_data_set_on_disk_has_the_items_and_the_fingerprint_of_the_array(file: Path) -> None:
    dataset, index = open_dataset(file), torch.tensor([4, 2, 2, 49])
    assert isinstance(dataset.items, FileRows)
    assert dataset.shape == (3, 6, 7)
    assert torch.equal(dataset.batch(index), open_dataset(ROWS).batch(index))
    assert dataset.fingerprint == open_dataset(ROWS).fingerprint


def test_a_relative_path_still_works_after_a_change_of_folder(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    dataset = open_dataset("rows.npy")
    monkeypatch.chdir("/")
    assert len(dataset.batch(torch.arange(50))) == 50


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x07")
    os.utime(path, ns=(1, 1))  # a clock that ticks every few milliseconds could show the same time


def replace(path: Path) -> None:
    status = path.stat()
    np.save(path.with_suffix(".new.npy"), ROWS)
    os.replace(path.with_suffix(".new.npy"), path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], object]] = {
    "overwritten in place": overwrite,
    "replaced by a copy": replace,
    "cut": lambda path: os.truncate(path, 500),
    "emptied": lambda path: os.truncate(path, 0),
    "longer": lambda path: os.truncate(path, path.stat().st_size + 1),
    "moved": lambda path: path.rename(path.with_suffix(".moved")),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_file_that_changed_is_an_error_that_names_it(file: Path, change: Callable[[Path], object]) -> None:
    dataset = open_dataset(file)
    dataset.batch(torch.arange(50))
    change(file)
    with pytest.raises(DataError, match=r"rows\.npy must stay as it was"):
        dataset.batch(torch.arange(3))


def test_rows_before_the_file_are_an_index_error(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_rows, "MAX_HELD_BYTES", 0)
    with pytest.raises(IndexError):
        open_rows(file)[np.array([0, -1])]


def test_a_file_that_changes_while_it_is_read_is_an_error(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_rows, "MAX_HELD_BYTES", 0)
    rows = open_rows(file)
    fill = FileRows._fill

    def interrupted(*given: object) -> None:
        fill(*given)
        overwrite(file)

    monkeypatch.setattr(FileRows, "_fill", interrupted)
    with pytest.raises(DataError, match="modification time"):
        rows[np.arange(3)]
    monkeypatch.setattr(FileRows, "_fill", lambda *given: (os.truncate(file, 200), fill(*given)))
    with pytest.raises(DataError, match="must stay as it was"):
        open_rows(file)[np.arange(20, 50)]
