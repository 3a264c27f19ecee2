"""Each bad input gets one sentence that names the offending thing and what must hold or what to do."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from vaescope.data import Subset, open_dataset
from vaescope.data.images import resize
from vaescope.errors import ConfigurationError, DataError, UnknownNameError, VaescopeError

VECTORS = np.random.default_rng(0).random((6, 4))
PIXELS = np.random.default_rng(0).integers(0, 256, (6, 5, 5), dtype=np.uint8)


def with_value(array: np.ndarray, position: tuple[int, ...], value: float) -> np.ndarray:
    changed = array.copy()
    changed[position] = value
    return changed


class Ragged(torch.utils.data.Dataset):
    """Items, each given by a function of its position."""

    def __init__(self, item: Callable[[int], Any], length: int = 4) -> None:
        self.item, self.length = item, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, position: int) -> Any:
        return self.item(position)


class Stream(torch.utils.data.IterableDataset):
    """Items without a length."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


def check(error: type[VaescopeError], sentence: str, action: Callable[[], object]) -> None:
    with pytest.raises(error, match=sentence) as caught:
        action()
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith((".", "?"))


ARRAYS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "a NaN pixel": (
        with_value(PIXELS / 255, (3, 1, 1), np.nan),
        {},
        "every number must be finite.*item 3 holds a NaN.*Drop such items",
    ),
    "an infinity": (
        with_value(VECTORS, (5, 0), -np.inf),
        {},
        "finite.*item 5 holds .*an infinity.*fill them in",
    ),
    "too large for single precision": (
        with_value(VECTORS, (2, 0), 1e300),
        {},
        "item 2 holds .*more than 3e38",
    ),
    "a constant set": (
        np.full((5, 3), 7.0),
        {},
        "the items must differ, all are 7. Check how they were read",
    ),
    "one item": (VECTORS[:1], {}, "at least 2 items are needed.*got 1"),
    "no items": (VECTORS[:0], {}, "at least 2 items are needed.*got 0"),
    "items without numbers": (np.empty((5, 0)), {}, r"at least one number, got an array of shape \(5, 0\)"),
    "one dimension": (np.arange(5.0), {}, r"items x dimensions or items x image, got shape \(5,\). Reshape"),
    "a scalar": (np.float64(3), {}, r"items x dimensions or items x image, got shape \(\)"),
    "objects": (np.array([[{}], [None]], object), {}, "must be numbers, got type object. Convert"),
    "strings": (np.array([["a"], ["b"]]), {}, "must be numbers, got type <U1. Convert"),
    "dates": (
        np.array([["2020-01-01"], ["2021-01-01"]], "datetime64[D]"),
        {},
        "must be numbers, got type datetime64",
    ),
    "complex numbers": (VECTORS * 1j, {}, "must be real numbers, got complex128. Take the real part"),
    "a masked array": (
        np.ma.masked_less(VECTORS, 0.5),
        {},
        "must be known numbers, got a masked array. Fill in",
    ),
    "five channels": (
        np.zeros((4, 8, 8, 5)),
        {},
        r"1 or 3 channels.*got items of shape \(8, 8, 5\).*image=False",
    ),
    "five axes": (np.zeros((4, 3, 8, 8, 8)), {}, r"1 or 3 channels.*got items of shape \(3, 8, 8, 8\)"),
    "flat images": (VECTORS, {"image": True}, "images need height and width, got rows of 4. Reshape"),
    "float pixels above 1": (
        PIXELS.astype(float),
        {},
        r"must lie in \[0, 1\], got 0..249. Divide by .*image=False",
    ),
    "negative pixels": (PIXELS.astype(int) - 9, {}, r"must lie in 0..255, got -9..240. Rescale them or pass"),
    "pixels above 255": (
        PIXELS.astype(int) * 2,
        {},
        r"must lie in 0..255, got 0..498. Rescale them or pass",
    ),
    "too few labels": (
        VECTORS,
        {"labels": [0, 1]},
        r"labels must have one row for each of the 6 items, got .*\(2,\)",
    ),
    "one-hot labels": (VECTORS, {"labels": np.eye(6)}, r"labels must have one row .* got shape \(6, 6\)"),
    "fractional labels": (
        VECTORS,
        {"labels": [0, 1, 0.5, 1, 0, 1]},
        "labels must be whole.*got 0.5 for item 2.*bin",
    ),
    "labels in words": (
        VECTORS,
        {"labels": list("abcdef")},
        "labels must be numbers, got type <U1. Number them",
    ),
    "an infinite label": (
        VECTORS,
        {"labels": [np.inf] * 6},
        "labels must be whole numbers.*got inf for item 0",
    ),
    "too many factors": (
        VECTORS,
        {"factors": np.zeros((7, 2))},
        r"factors must have one row for each of the 6 items",
    ),
    "negative factors": (
        VECTORS,
        {"factors": [0, 1, -1, 0, 1, 0]},
        "whole numbers from 0, got -1 for item 2",
    ),
    "no factors": (
        VECTORS,
        {"factors": np.zeros((6, 0))},
        r"factors must have one row .* got shape \(6, 0\)",
    ),
    "a missing factor name": (
        VECTORS,
        {"factors": np.zeros((6, 2), int), "factor_names": ("size",)},
        r"a name for each of 2 factors, got 1: \('size',\). Pass as many factor_names",
    ),
    "a ragged list": (
        [[1.0, 2.0], [3.0]],
        {},
        "a list of items must make a full array, got rows that do not match",
    ),
    "a ragged torch Dataset": (
        Ragged(lambda position: torch.zeros(3 if position != 2 else 4)),
        {},
        r"shape and type of the first, \(3,\) float32; item 2 has \(4,\) float32. Bring them to one size",
    ),
    "a torch Dataset of mixed types": (
        Ragged(lambda position: torch.zeros(3, dtype=torch.uint8 if position else torch.float32)),
        {},
        r"shape and type of the first, \(3,\) float32; item 1 has \(3,\) uint8",
    ),
    "a torch Dataset of dictionaries": (Ragged(lambda _: {"x": 1}), {}, "item 0: items must be numbers"),
    "a torch Dataset with images for labels": (
        Ragged(lambda position: (torch.rand(2), torch.rand(2))),
        {},
        r"a label must be one whole number, got tensor.* for item 0. Return \(item, class number\)",
    ),
    "a torch Dataset of one item": (Ragged(lambda _: torch.zeros(3), 1), {}, "at least 2 items .* got 1"),
    "a stream": (Stream(), {}, "Stream: a torch Dataset must have a length; collect a stream in an array"),
    "no data at all": (None, {}, "must be a name, a path, an array.*; got NoneType"),
    "a dictionary": ({"x": VECTORS}, {}, "must be a name, a path, an array.*; got dict"),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_a_bad_array_is_refused_in_one_sentence(case: str) -> None:
    source, options, sentence = ARRAYS[case]
    check(DataError, sentence, lambda: open_dataset(source, **options))


def picture(path: Path, height: int = 4, width: int = 4) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width), dtype=np.uint8)).save(path)


def fake_picture(folder: Path) -> None:
    picture(folder / "a.png")
    (folder / "b.png").write_bytes(b"GIF, perhaps")


def cut_picture(folder: Path) -> None:
    picture(folder / "a.png", 64, 64)
    (folder / "b.png").write_bytes((folder / "a.png").read_bytes()[:2000])


def mixed_pictures(folder: Path) -> None:
    picture(folder / "a.png", 4, 6)
    picture(folder / "b.png", 5, 7)


def pictures_on_two_levels(folder: Path) -> None:
    picture(folder / "a.png")
    picture(folder / "cats" / "b.png")


def damaged(path: Path, save: Callable[..., None], *arrays: np.ndarray, keep: int) -> None:
    save(path, *arrays)
    path.write_bytes(path.read_bytes()[:keep])


def corrupt_archive(path: Path) -> None:
    np.savez(path, VECTORS)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def archive_of_text(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "text")


def text(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(content)


def folder(fill: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda path: (path.mkdir(), fill(path))


FILES: dict[str, tuple[str, Callable[[Path], object], dict[str, Any], str]] = {
    "an empty folder": (
        "set",
        folder(lambda path: None),
        {},
        "set: a folder of data must hold images.*got none",
    ),
    "a folder of other files": (
        "set",
        folder(lambda path: (path / "a.txt").touch()),
        {},
        "must hold images.*got none",
    ),
    "a fake png": ("set", folder(fake_picture), {}, "b.png must be a readable image, got.*Replace the file"),
    "a fake png, size given": (
        "set",
        folder(fake_picture),
        {"size": 4, "colour": True},
        "b.png must be a readable",
    ),
    "a cut png": (
        "set",
        folder(cut_picture),
        {},
        "b.png must be a readable image, got.*truncated.*remove it",
    ),
    "mixed sizes": ("set", folder(mixed_pictures), {}, "a.png is 4 x 6 and b.png is 5 x 7 .*Pass size="),
    "two levels": ("set", folder(pictures_on_two_levels), {}, "got both: a.png and cats/b.png. Move one"),
    "one picture": (
        "set",
        folder(lambda path: picture(path / "a.png")),
        {},
        "at least 2 items are needed.*got 1",
    ),
    "a ragged table": (
        "t.csv",
        text("1,2\n\n3,4\n5\n"),
        {},
        "t.csv: .*as the first, 2; line 4 has 1. Complete",
    ),
    "a ragged table with labels": ("t.csv", text("1,2\n3,4,5\n"), {"label": 1}, "the first, 2; line 2 has 3"),
    "a word in a table": (
        "t.csv",
        text("a,b\n1,2\n3,four\n"),
        {},
        "line 3, column 2 is 'four'. Mend it, pass label=",
    ),
    "a word in line 1": ("t.csv", text("1,two\n3,4\n"), {}, "line 1, column 2 is 'two'.*header=True"),
    "an empty cell": ("t.csv", text("1,2\n3,\n"), {}, "line 2, column 2 is ''"),
    "a decimal comma": ("t.csv", text("1,5;2\n3,5;4\n"), {}, "line 1, column 1 is '1,5'"),
    "an empty table": ("t.csv", text(" \n\n"), {}, "t.csv must hold a line for each item, got an empty file"),
    "a header alone": ("t.csv", text("a,b\n"), {}, "a header must be followed.*2 names, then no cells. Mend"),
    "a short header": ("t.csv", text("a,b\n1,2,3\n4,5,6\n"), {}, "2 names, then 3 cells. Mend the header"),
    "a table that is no text": (
        "t.csv",
        lambda path: path.write_bytes(b"1,2\n\xff\xfe\n"),
        {},
        "t.csv must be a table",
    ),
    "an unknown label column": (
        "t.csv",
        text("a,b\n1,2\n3,4\n"),
        {"label": "c"},
        r"1 to 2 or .*\(a, b\); got 'c'",
    ),
    "a label column counted from 0": ("t.csv", text("a,b\n1,2\n3,4\n"), {"label": 0}, "from 1 to 2.*got 0"),
    "a NaN in a table": ("t.csv", text("1,2\n3,nan\n"), {}, "every number must be finite.*item 1 holds"),
    "a truncated npy": (
        "a.npy",
        lambda path: damaged(path, np.save, VECTORS, keep=200),
        {},
        "a.npy must be a .npy file of numbers, whole.*Save or copy it again",
    ),
    "an npy cut in its header": (
        "a.npy",
        lambda path: damaged(path, np.save, VECTORS, keep=30),
        {},
        "a.npy must be a",
    ),
    "an empty npy": ("a.npy", lambda path: path.touch(), {}, "a.npy must be .*it does not begin like one"),
    "a pickled npy": (
        "a.npy",
        lambda path: np.save(path, np.array([{}, {}], object), allow_pickle=True),
        {},
        "a.npy must be .*without pickled objects; .*Python objects",
    ),
    "an npy without items": (
        "a.npy",
        lambda path: np.save(path, VECTORS[:0]),
        {},
        "at least 2 items .* got 0",
    ),
    "a truncated npz": (
        "a.npz",
        lambda path: damaged(path, np.savez, VECTORS, keep=200),
        {},
        "a.npz must be .*not a whole zip archive. Save or copy",
    ),
    "a corrupt npz": ("a.npz", corrupt_archive, {}, "a.npz must be .*CRC.*Save or copy it again"),
    "a pickled npz": (
        "a.npz",
        lambda path: np.savez(path, np.array([{}, {}], object)),
        {},
        "a.npz must be .*without pickled objects",
    ),
    "an npz of two arrays": (
        "a.npz",
        lambda path: np.savez(path, train=VECTORS, test=VECTORS),
        {},
        "must hold the items, got train, test. Name the one with key=",
    ),
    "an npz with an unknown key": (
        "a.npz",
        lambda path: np.savez(path, train=VECTORS, test=VECTORS),
        {"key": "x"},
        "got train, test and key='x'. Name the one with key=",
    ),
    "an npz of labels alone": (
        "a.npz",
        lambda path: np.savez(path, y=np.arange(4)),
        {},
        "hold the items, got y. Name",
    ),
    "an npz without arrays": (
        "a.npz",
        lambda path: np.savez(path),
        {},
        "must hold the items, got an empty archive",
    ),
    "an npz of text": (
        "a.npz",
        archive_of_text,
        {},
        "a.npz: items must be numbers, got type .S4",
    ),
    "an npz with two sets of labels": (
        "a.npz",
        lambda path: np.savez(path, x=VECTORS, y=np.arange(6), labels=np.arange(6)),
        {},
        "labels= must be one of its arrays x, y, labels, or False for none; got None",
    ),
    "an npz without the labels asked for": (
        "a.npz",
        lambda path: np.savez(path, x=VECTORS),
        {"labels": "kind"},
        "labels= must be one of its arrays x, or False for none; got 'kind'",
    ),
    "an unknown suffix": (
        "a.parquet",
        text("?"),
        {},
        "a.parquet must be .*type .npy, .npz, .csv, .tsv; got '.parquet'",
    ),
    "no suffix": (
        "data",
        text("1,2\n3,4\n"),
        {},
        "data must be a folder of images or a file of type .*; got ''",
    ),
}


@pytest.mark.parametrize("case", FILES)
def test_a_bad_file_is_refused_in_one_sentence_that_names_it(tmp_path: Path, case: str) -> None:
    name, write, options, sentence = FILES[case]
    write(tmp_path / name)
    check(DataError, sentence, lambda: open_dataset(tmp_path / name, **options))


def dataset_of_six() -> Any:
    return open_dataset(VECTORS)


CALLS: dict[str, tuple[type[VaescopeError], Callable[[], object], str]] = {
    "an unknown name": (
        UnknownNameError,
        lambda: open_dataset("pinweel"),
        "'pinweel' is neither a known data set nor an existing file or folder. Did you mean pinwheel",
    ),
    "a name like no other": (
        UnknownNameError,
        lambda: open_dataset("qqqqqqqq"),
        "'qqqqqqqq' is neither .*Known are .*pinwheel.*synthetic-linear",
    ),
    "a missing path": (
        UnknownNameError,
        lambda: open_dataset(Path("nowhere") / "rows.npy"),
        "'nowhere/rows.npy' is neither a known data set nor an existing file",
    ),
    "an unknown option of a set": (
        ConfigurationError,
        lambda: open_dataset("synthetic-linear", size=3),
        "size is not an option of synthetic-linear, which takes items, seed, ratio. Remove size=3",
    ),
    "an unknown option of an array": (
        ConfigurationError,
        lambda: open_dataset(VECTORS, label=1),
        "label is not an option of array, which takes name, labels, factors, factor_names, image",
    ),
    "an option for a data set already open": (
        ConfigurationError,
        lambda: open_dataset(dataset_of_six(), seed=1),
        "seed is not an option of array, which takes none",
    ),
    "nothing held out": (
        ConfigurationError,
        lambda: dataset_of_six().split(0),
        "held_out must leave .*got 0",
    ),
    "a tiny share held out": (
        ConfigurationError,
        lambda: dataset_of_six().split(0.01),
        "held_out .*got 0.01",
    ),
    "all held out": (
        ConfigurationError,
        lambda: dataset_of_six().split(6),
        "of 6 items, got 6. Pass a share",
    ),
    "an empty subset": (
        DataError,
        lambda: Subset.of(dataset_of_six(), torch.arange(0)),
        "a subset needs at least one item, got an empty index into 'array'",
    ),
    "a subset beyond the end": (
        DataError,
        lambda: Subset.of(dataset_of_six(), torch.tensor([2, 6])),
        r"must lie in 0..5 \(the items of 'array'\), got 2..6",
    ),
    "a size of nothing": (
        ConfigurationError,
        lambda: resize(PIXELS[:, None], 0),
        r"size must be a number of pixels above 0 or \(height, width\), got 0",
    ),
    "a size of three sides": (
        ConfigurationError,
        lambda: resize(PIXELS[:, None], (4, 4, 4)),
        r"size must be .*got \(4, 4, 4\)",
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_a_bad_request_is_refused_in_one_sentence(case: str) -> None:
    error, action, sentence = CALLS[case]
    check(error, sentence, action)


def test_an_option_that_a_file_does_not_take_is_named(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VECTORS)
    sentence = "size is not an option of .*a.npy, which takes labels, factors, factor_names, image"
    check(ConfigurationError, sentence, lambda: open_dataset(tmp_path / "a.npy", size=3))
