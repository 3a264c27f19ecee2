"""One's own labels and factors: tables next to images and arrays, patterns of file names, and files in the folder."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from PIL import Image

from vaescope.data import Dataset, open_dataset
from vaescope.errors import DataError, DataWarning

NAMES = ("disk_10_000", "disk_20_090", "ring_10_090", "ring_20_000")
ROWS = {"shape": ["disk", "disk", "ring", "ring"], "scale": [10, 20, 10, 20], "angle": [0, 90, 90, 0]}
CODES = [[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]]
ORDER = [2, 0, 3, 1]  # of the rows in tables that name the files
VECTORS = np.random.default_rng(0).random((4, 3))


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A folder of four images whose names say what they show."""
    draw(tmp_path / "set", NAMES)
    return tmp_path / "set"


def draw(folder: Path, names: tuple[str, ...]) -> None:
    for number, name in enumerate(names):
        path = folder / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((4, 4), 10 * number, np.uint8)).save(path)


def by_file(column: str, form: str) -> pd.DataFrame:
    """The factors, in another order than the files, with a column of file names."""
    return pd.DataFrame({column: [form.format(name) for name in NAMES], **ROWS}).iloc[ORDER]


def check(dataset: Dataset) -> None:
    assert dataset.factor_table.names == ("shape", "scale", "angle")
    assert dataset.factor_table.sizes == (2, 2, 2)
    assert dataset.factors.tolist() == CODES


@pytest.mark.parametrize("form", ["{}.png", "{}", "images/{}.png"])
@pytest.mark.parametrize("column", ["file", "filename", "image", "name", "path", "File"])
def test_a_table_names_the_files_in_any_order_with_or_without_folder_and_suffix(
    images: Path, column: str, form: str
) -> None:
    check(open_dataset(images, factors=by_file(column, form)))


def test_a_table_without_file_names_is_in_the_order_of_the_files(images: Path) -> None:
    for table in (pd.DataFrame(ROWS), pl.DataFrame(ROWS)):
        check(open_dataset(images, factors=table))


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
def test_factors_are_read_from_a_file_and_open_again(images: Path, suffix: str) -> None:
    path = images.parent / f"mine.{suffix}"
    table = by_file("file", "{}.png")
    if suffix == "parquet":
        table.to_parquet(path, index=False)
    else:
        table.to_csv(path, index=False, sep="\t" if suffix == "tsv" else ",")
    dataset = open_dataset(images, factors=path)
    check(dataset)
    check(open_dataset(json.loads(json.dumps(dataset.source))))


def test_an_index_in_a_table_of_factors_is_no_factor(images: Path) -> None:
    by_file("file", "{}").to_csv(images.parent / "mine.csv")
    with pytest.warns(DataWarning, match=r"factors: the unnamed column \(2, 0, \.\.\.\) is an index"):
        check(open_dataset(images, factors=images.parent / "mine.csv"))


def test_a_relative_path_may_start_in_the_folder_of_the_images(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_file("file", "{}").to_csv(images / "mine.csv", index=False)
    check(open_dataset(images, factors="mine.csv"))
    monkeypatch.chdir(images.parent)
    check(open_dataset("set", factors="set/mine.csv"))


def test_images_with_numbers_for_names_are_found_with_and_without_zeros(tmp_path: Path) -> None:
    draw(tmp_path, ("001", "002", "010"))
    dataset = open_dataset(tmp_path, factors=pd.DataFrame({"image": [10, 1, 2], "size": [5, 6, 7]}))
    assert dataset.factors.tolist() == [[1], [2], [0]]


@pytest.mark.parametrize("pattern", ["{shape}_{scale}_{angle}.png", "{shape}_{scale}_{angle}"])
def test_a_pattern_of_file_names_gives_factors(images: Path, pattern: str) -> None:
    dataset = open_dataset(images, factors=pattern)
    check(dataset)
    check(open_dataset(json.loads(json.dumps(dataset.source))))


def test_numbers_in_file_names_are_sorted_as_numbers(tmp_path: Path) -> None:
    draw(tmp_path, ("a5", "a10", "a-2", "a0.5"))
    # In the order of the names: a-2, a0.5, a10, a5.
    assert open_dataset(tmp_path, factors="a{x}.png").factors.tolist() == [[0], [1], [3], [2]]


def test_the_name_label_in_a_pattern_or_a_table_is_the_label(images: Path) -> None:
    for factors in ("{label}_{scale}_{angle}.png", by_file("file", "{}").rename(columns={"shape": "label"})):
        dataset = open_dataset(images, factors=factors)
        assert dataset.label_names == ("disk", "ring")
        assert dataset.labels.tolist() == [0, 0, 1, 1]
        assert dataset.factor_table.names == ("scale", "angle")
    alone = open_dataset(images, labels="{label}_{}_{}.png".replace("{}", "{x}", 1).replace("{}", "{y}", 1))
    assert alone.label_names == ("disk", "ring")
    assert alone.factor_table is None


def test_a_pattern_may_contain_folders_and_subfolders_stay_the_labels(tmp_path: Path) -> None:
    draw(tmp_path, ("cat/1_a", "cat/2_b", "dog/1_b", "dog/2_a"))
    inside = open_dataset(tmp_path, factors="{number}_{letter}.png")
    assert inside.label_names == ("cat", "dog")
    assert inside.factors.tolist() == [[0, 0], [1, 1], [0, 1], [1, 0]]
    whole = open_dataset(tmp_path, factors="{animal}/{number}_{letter}.png")
    assert whole.factors.tolist() == [[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]]


@pytest.mark.parametrize(
    "labels",
    [
        ["a", "a", "b", "a"],
        pd.DataFrame({"kind": ["a", "a", "b", "a"]}),
        pd.DataFrame({"file": [NAMES[2], NAMES[0], NAMES[3], NAMES[1]], "kind": ["b", "a", "a", "a"]}),
        pl.DataFrame({"label": ["a", "a", "b", "a"], "other": [1, 2, 3, 4]}),
    ],
    ids=["list", "column", "files", "label column"],
)
def test_labels_of_images_are_given_like_factors(images: Path, labels: Any) -> None:
    dataset = open_dataset(images, labels=labels)
    assert dataset.label_names == ("a", "b")
    assert dataset.labels.tolist() == [0, 0, 1, 0]


def test_tables_in_the_folder_are_used_with_a_warning_unless_they_are_disabled(images: Path) -> None:
    by_file("file", "{}").to_csv(images / "factors.csv", index=False)
    pd.DataFrame({"kind": list("aaba")}).to_csv(images / "labels.csv", index=False)
    with pytest.warns(DataWarning) as caught:
        dataset = open_dataset(images)
    assert sorted(str(warning.message).split(" the ")[1].split()[0] for warning in caught) == ["factors", "labels"]
    check(dataset)
    assert dataset.label_names == ("a", "b")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = open_dataset(images, labels=False, factors=False)
        check(open_dataset(images, labels=False, factors="{shape}_{scale}_{angle}.png"))
    assert plain.labels is None
    assert plain.factor_table is None


def test_arrays_and_npy_files_have_factors_from_tables_and_files(tmp_path: Path) -> None:
    pd.DataFrame(ROWS | {"label": list("aaba")}).to_csv(tmp_path / "factors.csv", index=False)
    np.save(tmp_path / "rows.npy", VECTORS)
    for source in (VECTORS, tmp_path / "rows.npy"):
        for factors in (tmp_path / "factors.csv", str(tmp_path / "factors.csv"), pd.read_csv(tmp_path / "factors.csv")):
            dataset = open_dataset(source, factors=factors)
            check(dataset)
            assert dataset.label_names == ("a", "b")
    renamed = open_dataset(VECTORS, factors=pd.DataFrame(ROWS), factor_names=("a", "b", "c"))
    assert renamed.factor_table.names == ("a", "b", "c")
    assert open_dataset(VECTORS, labels=pd.DataFrame({"k": list("aaba")})).labels.tolist() == [0, 0, 1, 0]


def test_a_table_with_factors_in_a_table_of_its_own(tmp_path: Path) -> None:
    items = pd.DataFrame({"a": [1.0, 2, 3, 5], "b": [4.0, 5, 6, 7]})
    check(open_dataset(items, factors=pd.DataFrame(ROWS)))
    items.to_csv(tmp_path / "items.csv", index=False)
    pd.DataFrame(ROWS).to_csv(tmp_path / "mine.csv", index=False)
    dataset = open_dataset(tmp_path / "items.csv", factors=tmp_path / "mine.csv")
    check(dataset)
    check(open_dataset(json.loads(json.dumps(dataset.source))))


WRONG: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "a missing file": ({"factors": "nowhere.csv"}, ("factors", "pattern", "'nowhere.csv'")),
    "a pattern that does not match": ({"factors": "{a}-{b}.png"}, ("'{a}-{b}.png'", f"'{NAMES[0]}.png'")),
    "a name twice": ({"factors": "{a}_{a}_{b}.png"}, ("each name", "once", "'{a}_{a}_{b}.png'")),
    "an image without a row": (
        {"factors": by_file("file", "{}")[:3]},
        ("factors", "row for every image", "'file'", f"'{NAMES[1]}.png'"),
    ),
    "a file twice": (
        {"factors": pd.DataFrame({"name": ["duck", "duck", "cow", "cow"], "x": [1, 2, 3, 4]})},
        ("'name'", "'duck' twice", "rename the column"),
    ),
    "a row without a file": (
        {"factors": pd.DataFrame({"file": [*NAMES[:3], None], "x": [1, 2, 3, 4]})},
        ("'file'", "every row"),
    ),
    "too few rows": ({"factors": pd.DataFrame({"x": [1, 2, 3]})}, ("factors", "4 items", "(3, 1)")),
    "a missing factor": ({"factors": pd.DataFrame({"x": [1, 2, None, 4]})}, ("factor", "'x'", "item 2")),
    "dates": ({"factors": pd.DataFrame({"x": pd.to_datetime(["2020-01-01"] * 4)})}, ("factor", "'x'", "dates")),
    "two columns of labels": ({"labels": pd.DataFrame(ROWS)}, ("labels", "shape, scale, angle")),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_table_that_does_not_fit_is_an_error_that_names_what_is_wrong(images: Path, case: str) -> None:
    options, facts = WRONG[case]
    with pytest.raises(DataError) as caught:
        open_dataset(images, **options)
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
    assert not [fact for fact in facts if fact not in message], message


def test_a_pattern_is_for_folders_only() -> None:
    with pytest.raises(DataError, match=r"no file '\{x\}\.png'"):
        open_dataset(VECTORS, factors="{x}.png")
