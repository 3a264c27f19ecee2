"""Bad input raises an error of the right class, on one line, that names the offending item, value or file."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from vaescope.data import DATASETS, Dataset, Subset, open_dataset
from vaescope.data.images import resize
from vaescope.errors import ConfigurationError, DataError, UnknownNameError, VaescopeError

VECTORS = np.random.default_rng(0).random((6, 4))
PIXELS = np.random.default_rng(0).integers(0, 256, (6, 5, 5), dtype=np.uint8)


def with_value(array: np.ndarray, position: tuple[int, ...], value: float) -> np.ndarray:
    changed = array.copy()
    changed[position] = value
    return changed


class Ragged(torch.utils.data.Dataset):
    """Items that are a function of their position."""

    def __init__(self, item: Callable[[int], Any], length: int = 4) -> None:
        self.item, self.length = item, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, position: int) -> Any:
        return self.item(position)


class NoLength(torch.utils.data.Dataset):
    """Items by position, of which nobody knows the last."""

    def __getitem__(self, position: int) -> Any:
        return torch.zeros(3)


def check(error: type[VaescopeError], facts: tuple[str, ...], action: Callable[[], object]) -> None:
    with pytest.raises(error) as caught:
        action()
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith((".", "?"))
    assert not [fact for fact in facts if fact not in message], message


ARRAYS: dict[str, tuple[Any, dict[str, Any], tuple[str, ...]]] = {
    "a NaN pixel": (with_value(PIXELS / 255, (3, 1, 1), np.nan), {}, ("finite", "item 3 ")),
    "an infinity": (with_value(VECTORS, (5, 0), -np.inf), {}, ("finite", "item 5 ")),
    "too large for single precision": (with_value(VECTORS, (2, 0), 1e300), {}, ("single precision", "item 2 ")),
    "a constant set": (np.full((5, 3), 7.0), {}, ("differ", " 7")),
    "one item": (VECTORS[:1], {}, ("at least 2 items", "got 1")),
    "no items": (VECTORS[:0], {}, ("at least 2 items", "got 0")),
    "items without numbers": (np.empty((5, 0)), {}, ("(5, 0)",)),
    "one dimension": (np.arange(5.0), {}, ("items x dimensions", "(5,)")),
    "a scalar": (np.float64(3), {}, ("items x dimensions", "()")),
    "objects": (np.array([[{}], [None]], object), {}, ("numbers", "object")),
    "strings": (np.array([["a"], ["b"]]), {}, ("numbers", "<U1")),
    "dates": (np.array([["2020-01-01"], ["2021-01-01"]], "datetime64[D]"), {}, ("numbers", "datetime64")),
    "complex numbers": (VECTORS * 1j, {}, ("real", "complex128")),
    "a masked array": (np.ma.masked_less(VECTORS, 0.5), {}, ("masked",)),
    "five channels": (np.zeros((4, 8, 8, 5)), {}, ("(8, 8, 5)", "8 channels first or 5", "channels='last'")),
    "five axes": (np.zeros((4, 3, 8, 8, 8)), {}, ("with or without channels", "(3, 8, 8, 8)", "image=False")),
    "flat images": (VECTORS, {"image": True}, ("height and width", "4")),
    "float pixels above 1": (PIXELS.astype(float), {}, ("[0, 1]", "0..249", "image=False")),
    "negative pixels": (PIXELS.astype(int) - 9, {}, ("0..255", "-9..240", "image=False")),
    "pixels above 65535": (PIXELS.astype(int) * 300, {}, ("0..65535", "0..74700", "range=(0, 74700)", "image=False")),
    "float pixels below 0": (VECTORS.reshape(6, 2, 2) * 2 - 1, {}, ("[0, 1]", "range=(-1, 1)")),
    "too few labels": (VECTORS, {"labels": [0, 1]}, ("labels", "6 items", "(2,)")),
    "one-hot labels": (VECTORS, {"labels": np.eye(6)}, ("labels", "(6, 6)")),
    "fractional labels": (VECTORS, {"labels": [0, 1, 0.5, 1, 0, 1]}, ("labels", "0.5", "item 2")),
    "labels in words and numbers": (VECTORS, {"labels": [*"abcde", 6]}, ("labels", "all words", "6 for item 5")),
    "a missing label": (VECTORS, {"labels": [*"abc", None, *"de"]}, ("labels", "None for item 3", "drop the items")),
    "too few labels in words": (VECTORS, {"labels": ["a", "b"]}, ("labels", "6 items", "(2,)")),
    "two labels for each item": (VECTORS, {"labels": [["a", "b"]] * 6}, ("labels", "6 items")),
    "ragged labels": (VECTORS, {"labels": [["a", "b"], ["c"]]}, ("labels", "equal lengths")),
    "an infinite label": (VECTORS, {"labels": [np.inf] * 6}, ("labels", "inf", "item 0")),
    "too many factors": (VECTORS, {"factors": np.zeros((7, 2))}, ("factors", "6 items", "(7, 2)")),
    "negative factors": (VECTORS, {"factors": [0, 1, -1, 0, 1, 0]}, ("factors", "-1", "item 2")),
    "no factors": (VECTORS, {"factors": np.zeros((6, 0))}, ("factors", "(6, 0)")),
    "a missing factor name": (
        VECTORS,
        {"factors": np.zeros((6, 2), int), "factor_names": ("size",)},
        ("factor_names", "2 factors", "got 1", "size"),
    ),
    "a ragged list": ([[1.0, 2.0], [3.0]], {}, ("same shape",)),
    "a ragged torch Dataset": (
        Ragged(lambda position: torch.zeros(3 if position != 2 else 4)),
        {},
        ("(3,) float32", "item 2 has (4,) float32"),
    ),
    "a torch Dataset of mixed types": (
        Ragged(lambda position: torch.zeros(3, dtype=torch.uint8 if position else torch.float32)),
        {},
        ("(3,) float32", "item 1 has (3,) uint8"),
    ),
    "a torch Dataset of words in dictionaries": (Ragged(lambda _: {"x": "a"}), {}, ("item 0", "numbers")),
    "a torch Dataset of dictionaries without a usual name": (
        Ragged(lambda _: {"a": torch.rand(2), "b": torch.rand(2)}),
        {},
        ("'a', 'b'", "key=NAME"),
    ),
    "a torch Dataset with images for labels": (
        Ragged(lambda position: (torch.rand(2), torch.rand(2))),
        {},
        ("label", "integer or a word", "item 0"),
    ),
    "a torch Dataset of one item": (Ragged(lambda _: torch.zeros(3), 1), {}, ("at least 2 items", "got 1")),
    "a torch Dataset without a length": (NoLength(), {}, ("NoLength", "length", "IterableDataset")),
    "no data at all": (None, {}, ("a name, a path, an array", "NoneType")),
    "a dictionary": ({"x": VECTORS}, {}, ("a name, a path, an array", "dict")),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_a_bad_array_is_a_data_error(case: str) -> None:
    source, options, facts = ARRAYS[case]
    check(DataError, facts, lambda: open_dataset(source, **options))


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


FILES: dict[str, tuple[str, Callable[[Path], object], dict[str, Any], tuple[str, ...]]] = {
    "an empty folder": ("set", folder(lambda path: None), {}, ("images", ".png")),
    "a folder of other files": ("set", folder(lambda path: (path / "a.txt").touch()), {}, ("images", ".png")),
    "a fake png": ("set", folder(fake_picture), {}, ("b.png", "readable image")),
    "a fake png, size given": ("set", folder(fake_picture), {"size": 4, "colour": True}, ("b.png", "readable image")),
    "a cut png": ("set", folder(cut_picture), {}, ("b.png", "readable image", "truncated")),
    "mixed sizes": ("set", folder(mixed_pictures), {}, ("a.png is 4 x 6", "b.png is 5 x 7", "size=")),
    "two levels": ("set", folder(pictures_on_two_levels), {}, ("a.png", "cats/b.png")),
    "one picture": ("set", folder(lambda path: picture(path / "a.png")), {}, ("at least 2 items", "got 1")),
    "a ragged table": ("t.csv", text("1,2\n\n3,4\n5\n"), {}, ("2 cells", "line 4 has 1")),
    "a ragged table with labels": ("t.csv", text("1,2\n3,4,5\n"), {"label": 1}, ("2 cells", "line 2 has 3")),
    "a word in a table": ("t.csv", text("a,b\n1,2\n3,four\n"), {}, ("line 3, column 2", "'four'", "label=")),
    "a word in line 1": ("t.csv", text("1,two\n3,4\n"), {}, ("line 1, column 2", "'two'", "header=True")),
    "an empty cell": ("t.csv", text("1,2\n3,\n"), {}, ("missing", "column 2 (1)", "missing='mean'")),
    "a decimal comma": ("t.csv", text("1,5;2\n3,5;4\n"), {}, ("line 1, column 1", "'1,5'")),
    "an empty table": ("t.csv", text(" \n\n"), {}, ("empty",)),
    "a header alone": ("t.csv", text("a,b\n"), {}, ("header", "2 names", "no columns")),
    "a short header": ("t.csv", text("a,b\n1,2,3\n4,5,6\n"), {}, ("header", "2 names", "3 columns")),
    "a table that is no text": ("t.csv", lambda path: path.write_bytes(b"1,2\n\xff\xfe\n"), {}, ("UTF-8",)),
    "an unknown label column": ("t.csv", text("a,b\n1,2\n3,4\n"), {"label": "c"}, ("1 to 2", "(a, b)", "'c'")),
    "a label column counted from 0": ("t.csv", text("a,b\n1,2\n3,4\n"), {"label": 0}, ("1 to 2", "got 0")),
    "a NaN in a table": ("t.csv", text("1,2\n3,nan\n"), {}, ("missing", "column 2 (1)", "drop=")),
    "a truncated npy": ("a.npy", lambda path: damaged(path, np.save, VECTORS, keep=200), {}, (".npy file",)),
    "an npy cut in its header": ("a.npy", lambda path: damaged(path, np.save, VECTORS, keep=30), {}, (".npy file",)),
    "an empty npy": ("a.npy", lambda path: path.touch(), {}, (".npy file",)),
    "a pickled npy": (
        "a.npy",
        lambda path: np.save(path, np.array([{}, {}], object), allow_pickle=True),
        {},
        ("pickled", "Python objects"),
    ),
    "an npy without items": ("a.npy", lambda path: np.save(path, VECTORS[:0]), {}, ("at least 2 items", "got 0")),
    "a truncated npz": ("a.npz", lambda path: damaged(path, np.savez, VECTORS, keep=200), {}, ("zip archive",)),
    "a corrupt npz": ("a.npz", corrupt_archive, {}, ("CRC",)),
    "a pickled npz": ("a.npz", lambda path: np.savez(path, np.array([{}, {}], object)), {}, ("pickled",)),
    "an npz of two arrays": (
        "a.npz",
        lambda path: np.savez(path, train=VECTORS, test=VECTORS),
        {},
        ("train, test", "key="),
    ),
    "an npz with an unknown key": (
        "a.npz",
        lambda path: np.savez(path, train=VECTORS, test=VECTORS),
        {"key": "x"},
        ("train, test", "key='x'"),
    ),
    "an npz of labels alone": ("a.npz", lambda path: np.savez(path, y=np.arange(4)), {}, ("items", "got y")),
    "an npz without arrays": ("a.npz", lambda path: np.savez(path), {}, ("empty archive",)),
    "an npz of text": ("a.npz", archive_of_text, {}, ("numbers", "S4")),
    "an npz with two sets of labels": (
        "a.npz",
        lambda path: np.savez(path, x=VECTORS, y=np.arange(6), labels=np.arange(6)),
        {},
        ("labels", "x, y, labels", "False"),
    ),
    "an npz without the labels asked for": (
        "a.npz",
        lambda path: np.savez(path, x=VECTORS),
        {"labels": "kind"},
        ("labels", "'kind'"),
    ),
    "an unknown suffix": ("a.xlsx", text("?"), {}, (".npy, .npz, .csv, .tsv, .parquet", "'.xlsx'")),
    "no suffix": ("data", text("1,2\n3,4\n"), {}, (".npy, .npz, .csv, .tsv", "''")),
}


@pytest.mark.parametrize("case", FILES)
def test_a_bad_file_is_a_data_error_that_names_it(tmp_path: Path, case: str) -> None:
    name, write, options, facts = FILES[case]
    write(tmp_path / name)
    check(DataError, (name, *facts), lambda: open_dataset(tmp_path / name, **options))


def dataset_of_six() -> Dataset:
    return open_dataset(VECTORS)


CALLS: dict[str, tuple[type[VaescopeError], Callable[[], object], tuple[str, ...]]] = {
    "an unknown name": (UnknownNameError, lambda: open_dataset("pinweel"), ("'pinweel'", "Did you mean pinwheel")),
    "a name like no other": (UnknownNameError, lambda: open_dataset("qqqqqqqq"), ("'qqqqqqqq'", *DATASETS)),
    "a missing path": (UnknownNameError, lambda: open_dataset(Path("nowhere") / "rows.npy"), ("rows.npy", "file")),
    "an unknown option of a set": (
        ConfigurationError,
        lambda: open_dataset("synthetic-linear", size=3),
        ("size=3", "synthetic-linear", "items, seed, ratio"),
    ),
    "an unknown option of an array": (
        ConfigurationError,
        lambda: open_dataset(VECTORS, label=1),
        ("label=1", "array", "name, labels, factors, factor_names, image"),
    ),
    "an option for a data set already open": (
        ConfigurationError,
        lambda: open_dataset(dataset_of_six(), seed=1),
        ("seed=1", "no options"),
    ),
    "nothing held out": (ConfigurationError, lambda: dataset_of_six().split(0), ("held_out", "6 items", "got 0")),
    "a tiny share held out": (ConfigurationError, lambda: dataset_of_six().split(0.01), ("held_out", "got 0.01")),
    "all held out": (ConfigurationError, lambda: dataset_of_six().split(6), ("held_out", "6 items", "got 6")),
    "an empty subset": (DataError, lambda: Subset.of(dataset_of_six(), torch.arange(0)), ("'array'", "at least one")),
    "a subset beyond the end": (
        DataError,
        lambda: Subset.of(dataset_of_six(), torch.tensor([2, 6])),
        ("'array'", "0..5", "2..6"),
    ),
    "a size of nothing": (ConfigurationError, lambda: resize(PIXELS[:, None], 0), ("size", "got 0")),
    "a size of three sides": (
        ConfigurationError,
        lambda: resize(PIXELS[:, None], (4, 4, 4)),
        ("size", "got (4, 4, 4)"),
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_a_bad_request_is_an_error_that_names_it(case: str) -> None:
    error, action, facts = CALLS[case]
    check(error, facts, action)


def test_an_unknown_option_of_a_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VECTORS)
    facts = ("size=3", "a.npy", "labels, factors, factor_names, image")
    check(ConfigurationError, facts, lambda: open_dataset(tmp_path / "a.npy", size=3))
