"""Tables of any library or file become the same data set; columns that cannot be items are refused by name."""

from __future__ import annotations

import datetime
import io
import json
import sys
import warnings
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

import vaescope as vs
from vaescope.data import Dataset, open_dataset, open_scaled
from vaescope.data.pixel_scale import PixelScale
from vaescope.errors import ConfigurationError, DataError, DataWarning, VaescopeError

COLUMNS: dict[str, list[Any]] = {
    "weight": [1.5, 2.5, 0.5, 4.0, 3.0, 2.0],
    "age": [3, 1, 2, 5, 4, 9],
    "indoor": [True, False, True, True, False, False],
    "species": ["dog", "cat", "dog", "ant", "cat", "dog"],
    "angle": [0.0, 22.5, 45.0, 0.0, 22.5, 45.0],
    "site": ["north", "south", "south", "north", "north", "south"],
}
ITEMS = np.array([COLUMNS["weight"], COLUMNS["age"], COLUMNS["indoor"]], float).T
ROLES: dict[str, Any] = {"label": "species", "factors": ["angle", "site"]}
FRAMES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "pandas with categories": lambda columns: pd.DataFrame(columns).astype(
        {name: "category" for name in ("species", "angle", "site") if name in columns}
    ),
    "pandas with nullable types": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "polars": lambda columns: pl.DataFrame(columns, strict=False),
    "polars, lazy": lambda columns: pl.LazyFrame(columns, strict=False),
    "pyarrow": pa.table,
}


def everything(dataset: Dataset) -> np.ndarray:
    return dataset.batch(torch.arange(len(dataset))).numpy()


def without(*names: str) -> dict[str, list[Any]]:
    return {name: values for name, values in COLUMNS.items() if name not in names}


def csv(path: Path, columns: dict[str, list[Any]]) -> Path:
    lines = [columns, *zip(*columns.values(), strict=True)]
    path.write_text("".join(",".join(map(str, line)) + "\n" for line in lines), encoding="utf-8")
    return path


def check(dataset: Dataset) -> None:
    np.testing.assert_array_equal(everything(dataset), ITEMS)
    assert dataset.label_names == ("ant", "cat", "dog")
    assert dataset.labels.tolist() == [2, 1, 2, 0, 1, 2]
    assert dataset.factor_table.names == ("angle", "site")
    assert dataset.factor_table.sizes == (3, 2)
    assert dataset.factors.tolist() == [[0, 0], [1, 1], [2, 1], [0, 0], [1, 0], [2, 1]]


@pytest.mark.parametrize("library", FRAMES)
def test_frames_of_all_libraries_are_the_same_data_set(library: str) -> None:
    dataset = open_dataset(FRAMES[library](COLUMNS), **ROLES)
    check(dataset)
    assert dataset.fingerprint == open_dataset(ITEMS).fingerprint
    assert dataset.source is None


def test_csv_and_parquet_files_are_the_same_data_set_and_open_again(tmp_path: Path) -> None:
    numbers = COLUMNS | {"indoor": [int(value) for value in COLUMNS["indoor"]]}
    csv(tmp_path / "t.csv", numbers)
    pd.DataFrame(COLUMNS).to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        dataset = open_dataset(tmp_path / name, **ROLES)
        check(dataset)
        check(open_dataset(json.loads(json.dumps(dataset.source))))
    assert dataset.fingerprint == open_dataset(tmp_path / "t.csv", **ROLES).fingerprint


def test_the_shards_of_a_folder_are_one_table(tmp_path: Path) -> None:
    frame = pd.DataFrame(COLUMNS)
    for shard in (1, 0):
        frame[3 * shard : 3 * shard + 3].to_parquet(tmp_path / f"train-{shard:05}.parquet", index=False)
    check(open_dataset(tmp_path, **ROLES))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_frame_of_numbers_needs_no_options_and_keeps_its_type(library: str) -> None:
    numbers = {"a": np.float32([1, 2, 3]), "b": np.float32([4, 5, 6])}
    dataset = open_dataset(FRAMES[library](numbers))
    assert dataset.name == "array"  # part of the id of runs that exist
    assert dataset.fingerprint == open_dataset(np.float32([[1, 4], [2, 5], [3, 6]])).fingerprint


def test_columns_are_chosen_in_the_given_order_and_dropped_by_name_or_number(tmp_path: Path) -> None:
    path = csv(tmp_path / "t.csv", without("indoor"))
    for source in (path, pd.DataFrame(COLUMNS)):
        np.testing.assert_array_equal(everything(open_dataset(source, columns=["age", "weight"])), ITEMS[:, [1, 0]])
        np.testing.assert_array_equal(everything(open_dataset(source, columns="age", label="site")), ITEMS[:, [1]])
    dropped = open_dataset(path, drop=["species", 5], label="age", factors="angle")
    np.testing.assert_array_equal(everything(dropped), ITEMS[:, [0]])
    assert dropped.labels.tolist() == COLUMNS["age"]
    assert dropped.factor_table.names == ("angle",)


def test_dropped_columns_may_contain_anything(tmp_path: Path) -> None:
    path = csv(tmp_path / "t.csv", {"a": [1, 2], "note": ['"x, y"', ""], "b": [3, 4]})
    np.testing.assert_array_equal(everything(open_dataset(path, drop="note")), [[1, 3], [2, 4]])
    np.testing.assert_array_equal(everything(open_dataset(path, columns=["b", "a"])), [[3, 1], [4, 2]])


@pytest.mark.parametrize(
    ("values", "numbers", "names"),
    [
        ([3, 0, 3], [3, 0, 3], None),
        ([1.0, 2.0, 1.0], [1, 2, 1], None),
        ([-1, 1, -1], [0, 1, 0], ("-1", "1")),
        ([0.5, 0.1, 0.5], [1, 0, 1], ("0.1", "0.5")),
        ([True, False, True], [1, 0, 1], ("False", "True")),
        ([Decimal("1"), Decimal("0"), Decimal("1")], [1, 0, 1], None),
        (pd.Categorical(["b", "a", "b"], categories=["b", "c", "a"]), [1, 0, 1], ("a", "b")),
        (pd.Categorical([3, 1, 3]), [3, 1, 3], None),
    ],
    ids=str,
)
def test_a_label_column_may_have_any_type(values: Any, numbers: list[int], names: tuple[str, ...] | None) -> None:
    dataset = open_dataset(pd.DataFrame({"x": [1.0, 2.0, 4.0], "kind": values}), label="kind")
    assert dataset.labels.tolist() == numbers
    assert dataset.label_names == names


def test_factors_that_are_all_combinations_in_order_are_coded_by_sorted_values() -> None:
    frame = pl.DataFrame({"x": [1.0, 2, 3, 4], "tone": ["b", "b", "a", "a"], "year": [2001, 1999, 2001, 1999]})
    dataset = open_dataset(frame, factors=["tone", "year"])
    assert dataset.factors.tolist() == [[1, 1], [1, 0], [0, 1], [0, 0]]
    assert dataset.factor_table.sizes == (2, 2)


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "__index_level_0__"])
@pytest.mark.parametrize("index", [[0, 1, 2], [1, 2, 3], [7, 2, 5], ["Ann", "Bob", "Eve"]], ids=str)
def test_an_unnamed_index_is_left_out_with_a_warning(name: str, index: list[Any], tmp_path: Path) -> None:
    columns = {name: index, "a": [5.0, 6.0, 8.0]}
    for source in (pa.table(columns), csv(tmp_path / "t.csv", columns)):
        with pytest.warns(DataWarning, match=rf"unnamed column \({index[0]}, {index[1]}, \.\.\.\)"):
            dataset = open_dataset(source)
        np.testing.assert_array_equal(everything(dataset), [[5], [6], [8]])
        assert open_dataset(source, label=1, columns="a").shape == (1,)


def test_an_unnamed_column_that_is_no_index_stays(tmp_path: Path) -> None:
    path = csv(tmp_path / "t.csv", {"": [0, 0, 1], "a": [5.0, 6.0, 8.0]})
    assert open_dataset(path).shape == (2,)
    (tmp_path / "u.csv").write_text("a,a,\n1,2,3.5\n4,5,6\n")
    assert open_dataset(tmp_path / "u.csv").shape == (3,)


def test_pandas_writes_its_index_and_it_is_left_out(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0, 4.0], "b": [1, 5, 6]}).iloc[[2, 0, 1]]
    frame.to_csv(tmp_path / "t.csv")
    frame.to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        with pytest.warns(DataWarning, match="index"):
            assert open_dataset(tmp_path / name).shape == (2,)


@pytest.mark.parametrize("library", ["pandas", "pandas with nullable types", "polars", "pyarrow"])
def test_missing_values_are_counted_or_replaced_by_the_mean(library: str, tmp_path: Path) -> None:
    columns = {"a": [1.0, None, 4.0, None], "b": [1, 2, None, 3], "c": [1.0, 2.0, 3.0, 4.0]}
    path = csv(tmp_path / "t.csv", {name: ["" if v is None else v for v in values] for name, values in columns.items()})
    for source in (FRAMES[library](columns), path):
        with pytest.raises(DataError, match=r"missing, but they are in a \(2\), b \(1\)\. .*drop=\['a', 'b'\].*'mean'"):
            open_dataset(source)
        filled = everything(open_dataset(source, missing="mean"))
        np.testing.assert_array_equal(filled, [[1, 1, 1], [2.5, 2, 2], [4, 2, 3], [2.5, 3, 4]])
        masked = open_dataset(source, missing="mask", standardise=True)
        assert (masked.missing, masked.standardise) == ("mask", True)
        assert np.isnan(everything(masked)).sum() == 3


@pytest.mark.parametrize("cell", ["NA", "nan", "NaN", "N/A", "null"])
def test_words_for_missing_values_are_understood_in_a_csv(cell: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"a,b,kind\n1,2,x\n{cell},4,y\n3,5,x\n")
    data = open_dataset(tmp_path / "t.csv", label="kind", missing="mean")
    np.testing.assert_array_equal(everything(data), [[1, 2], [2, 4], [3, 5]])
    assert data.source["missing"] == "mean"


NOT_A_NUMBER = [datetime.date(2020, 1, day) for day in (1, 2, 3)]
X = [1.0, 2.0, 4.0]
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]] = {
    "a column of words": (
        {"x": X, "city": ["Rome", "Bonn", "Rome"]},
        {},
        ("'city'", "'Rome'", "drop=['city']", "label="),
    ),
    "two columns of words": (
        {"x": X, "city": list("abc"), "who": list("def")},
        {},
        ("'city'", "who", "drop=['city', 'who']", "them out"),
    ),
    "a column of dates": ({"x": X, "day": NOT_A_NUMBER}, {}, ("'day'", "dates", "drop=['day']")),
    "dates as the label": ({"x": X, "day": NOT_A_NUMBER}, {"label": "day"}, ("label", "'day'", "dates")),
    "an unknown label": ({"x": X}, {"label": "kind"}, ("label", "(x)", "1 to 1", "'kind'")),
    "an unknown factor": ({"x": X}, {"factors": ["kind"]}, ("factors", "(x)", "'kind'")),
    "an unknown column to drop": ({"x": X}, {"drop": "kind"}, ("drop", "(x)", "'kind'")),
    "an unknown column": ({"x": X}, {"columns": ["x", "y"]}, ("columns", "(x)", "'y'")),
    "a label that is missing": (
        {"x": X, "k": ["a", None, "b"]},
        {"label": "k"},
        ("label", "'k'", "1 missing", "item 1"),
    ),
    "a factor that is missing": ({"x": X, "k": [1.5, 2.5, None]}, {"factors": "k"}, ("factor", "'k'", "item 2")),
    "a column without any value": ({"x": X, "k": [None] * 3}, {}, ("k (3)", "drop=['k']")),
    "a column without any value to fill in": ({"x": X, "k": [None] * 3}, {"missing": "mean"}, ("k (3)", "drop=['k']")),
    "no column for the items": ({"x": X}, {"label": "x"}, ("at least one column", "x")),
    "all columns left out": ({"x": X}, {"drop": ["x"]}, ("at least one column",)),
    "a column with two roles": ({"x": X, "y": X}, {"label": "x", "columns": ["x", "y"]}, ("x in both",)),
    "another way to fill in": ({"x": X}, {"missing": "median"}, ("missing", "'mean'", "'median'")),
    "two columns of arrays": (
        {"x": [[1.0], [2.0], [3.0]], "y": [[1.0], [2.0], [3.0]]},
        {},
        ("one column", "x, y", "columns='x'"),
    ),
    "no rows": ({"x": [], "k": []}, {"label": "k"}, ("row for each item", "none")),
    "a label with many fractions": (
        {"x": np.arange(200.0), "k": np.arange(200) / 7},
        {"label": "k"},
        ("labels", "whole numbers", "0.142857", "item 1"),
    ),
    "a factor with many fractions": (
        {"x": np.arange(200.0), "k": np.arange(200) / 7},
        {"factors": "k"},
        ("'k'", "200 fractional", "bin them"),
    ),
}


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("case", REFUSED)
def test_a_table_that_cannot_be_opened_is_an_error_that_names_the_column(case: str, library: str) -> None:
    columns, options, facts = REFUSED[case]
    with pytest.raises(VaescopeError) as caught:
        open_dataset(FRAMES[library](columns), **options)
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
    assert not [fact for fact in facts if fact not in message], message


def test_columns_with_one_name_and_objects_that_are_no_items_are_refused() -> None:
    with pytest.raises(DataError, match="different names"):
        open_dataset(pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]))
    with pytest.raises(DataError, match=r"'p' contains values of type Period"):
        open_dataset(pd.DataFrame({"x": [1, 2], "p": pd.period_range("2020-01", periods=2, freq="M")}))


def test_names_of_columns_may_be_numbers_or_tuples() -> None:
    dataset = open_dataset(pd.DataFrame({7: [1.5, 2.0], 8: [3, 1], ("a", 1): [4, 5]}), label=8)
    np.testing.assert_array_equal(everything(dataset), [[1.5, 4], [2, 5]])
    assert dataset.labels.tolist() == [3, 1]


def test_a_model_of_another_library_is_diagnosed_on_a_frame() -> None:
    frame = pl.DataFrame({"a": np.linspace(-2, 2, 50), "b": np.linspace(3, 5, 50)})
    found = vs.diagnose(lambda x: (x[:, :1], torch.full_like(x[:, :1], 0.01)), frame)
    assert found.types is not None


def test_an_unknown_option_of_a_table_names_those_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r"^key .*label, factors, columns, drop, missing.*key='x'"):
        open_dataset(pd.DataFrame(COLUMNS), key="x")


def encoded(pixels: np.ndarray, kind: str = "PNG") -> bytes:
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, format=kind)
    return content.getvalue()


PIXELS = np.random.default_rng(0).integers(0, 256, (4, 6, 5), dtype=np.uint8)
CONTENTS = [encoded(pixels) for pixels in PIXELS]
STRUCTS = [{"bytes": content, "path": f"{item}.png"} for item, content in enumerate(CONTENTS)]
CLASSES = {
    "info": {"features": {"image": {"_type": "Image"}, "label": {"names": ["cat", "ant"], "_type": "ClassLabel"}}}
}


@pytest.mark.parametrize("images", [CONTENTS, STRUCTS], ids=["bytes", "structs"])
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_column_of_encoded_images_becomes_images(images: list[Any], library: str, tmp_path: Path) -> None:
    frame = FRAMES[library]({"image": images, "label": [1, 0, 1, 1]})
    pq.write_table(pa.table({"image": images, "label": [1, 0, 1, 1]}), tmp_path / "t.parquet")
    for source in (frame, tmp_path / "t.parquet"):
        dataset = open_dataset(source)
        assert dataset.shape == (1, 6, 5)
        np.testing.assert_allclose(everything(dataset)[:, 0], PIXELS / 255, atol=1e-7)
        assert dataset.labels.tolist() == [1, 0, 1, 1]
        assert open_dataset(source, size=4, colour=True).shape == (3, 4, 4)


def test_names_of_classes_are_read_from_parquet_files_of_the_library_datasets(tmp_path: Path) -> None:
    table = pa.table({"image": STRUCTS, "label": [1, 0, 1, 1]})
    described = table.replace_schema_metadata({"huggingface": json.dumps(CLASSES)})
    pq.write_table(described, tmp_path / "t.parquet")
    dataset = open_dataset(tmp_path / "t.parquet")
    assert dataset.labels.tolist() == [1, 0, 1, 1]
    assert dataset.label_names == ("cat", "ant")


class HuggingFace:
    """The part of a Dataset of the library datasets that is used, on a table of pyarrow."""

    def __init__(self, table: pa.Table, format: str | None = None) -> None:
        self.table, self.format = table, format
        self.column_names = table.column_names

    def __len__(self) -> int:
        return len(self.table)

    def with_format(self, type: str) -> HuggingFace:
        return HuggingFace(self.table, type)

    def __getitem__(self, rows: slice) -> pa.Table:
        assert self.format == "arrow"
        return self.table[rows]


class HuggingFaceParts(dict):
    """A DatasetDict of the library datasets."""

    column_names: dict[str, list[str]] = {"train": ["image"], "test": ["image"]}  # noqa: RUF012

    def with_format(self, type: str) -> HuggingFaceParts:
        return self


HuggingFace.__module__ = HuggingFaceParts.__module__ = "datasets.arrow_dataset"


def test_a_dataset_of_the_library_datasets_is_opened_and_a_dictionary_of_them_is_refused() -> None:
    table = pa.table({"image": STRUCTS, "label": [1, 0, 1, 1]})
    dataset = open_dataset(HuggingFace(table.replace_schema_metadata({"huggingface": json.dumps(CLASSES)})))
    assert dataset.shape == (1, 6, 5)
    assert dataset.label_names == ("cat", "ant")
    with pytest.raises(DataError, match=r"'train', 'test'\. Pass one"):
        open_dataset(HuggingFaceParts())


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("shape", [(3,), (4, 5), (3, 4, 5)], ids=str)
def test_a_column_of_arrays_becomes_items_of_their_shape(shape: tuple[int, ...], library: str) -> None:
    arrays = np.random.default_rng(0).random((4, *shape))
    dataset = open_dataset(FRAMES[library]({"pixels": arrays.tolist(), "y": list("abca")}), label="y")
    assert dataset.shape == ((1, *shape) if len(shape) == 2 else shape)
    np.testing.assert_allclose(everything(dataset).reshape(4, *shape), arrays, rtol=1e-6)


def test_images_in_a_table_open_for_a_run_on_images_with_a_range_of_their_own() -> None:
    opened = open_scaled(pd.DataFrame({"image": CONTENTS}), PixelScale(-1.0, 1.0))
    assert torch.equal(
        opened.batch(torch.arange(2)), open_dataset(pd.DataFrame({"image": CONTENTS})).batch(torch.arange(2))
    )


def test_columns_next_to_images_are_left_out_with_a_warning_unless_they_have_a_role() -> None:
    columns = {"id": [5, 6, 7, 8], "image": CONTENTS, "caption": list("abcd")}
    with pytest.warns(DataWarning, match="'image'; id, caption are left out"):
        assert open_dataset(pa.table(columns)).labels is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_dataset(pa.table(columns), columns="image").shape == (1, 6, 5)
        assert open_dataset(pa.table(columns), factors="id", drop="caption").factor_table.names == ("id",)


CELLS: dict[str, tuple[list[Any], tuple[str, ...]]] = {
    "images of two sizes": ([*CONTENTS[:3], encoded(PIXELS[0, :4])], ("item 3 is 4 x 5", "item 0 is 6 x 5", "size=64")),
    "an image that is none": ([*CONTENTS[:3], b"GIF89a"], ("item 3", "PNG or JPEG")),
    "an image of another format": ([*CONTENTS[:3], encoded(PIXELS[0], "GIF")], ("item 3", "PNG or JPEG")),
    "a path": ([*STRUCTS[:3], {"bytes": None, "path": "/etc/hostname"}], ("'x'", "item 3", "path of a file")),
    "no image": ([*CONTENTS[:3], None], ("'x'", "item 3", "empty")),
    "arrays of two shapes": ([[1.0, 2.0], [1.0], [2.0], [3.0]], ("'x'", "item 0 is (2,)", "item 1 is (1,)")),
    "arrays of words": ([["a"], ["b"], ["c"], ["d"]], ("'x'", "arrays of numbers")),
}


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("case", CELLS)
def test_bad_cells_are_named(case: str, library: str) -> None:
    cells, facts = CELLS[case]
    with pytest.raises(DataError) as caught:
        open_dataset(FRAMES[library]({"x": cells}))
    message = str(caught.value)
    assert not [fact for fact in facts if fact not in message], message


@pytest.mark.parametrize("keep", [0, 10, 200])
def test_a_damaged_parquet_file_is_an_error_that_names_it(keep: int, tmp_path: Path) -> None:
    pd.DataFrame(COLUMNS).to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.parquet").write_bytes((tmp_path / "t.parquet").read_bytes()[:keep])
    with pytest.raises(DataError, match=r"t\.parquet must be a whole parquet file"):
        open_dataset(tmp_path / "t.parquet")


def test_shards_with_other_columns_are_an_error(tmp_path: Path) -> None:
    for name, columns in (("a", {"x": X}), ("b", {"y": X})):
        pd.DataFrame(columns).to_parquet(tmp_path / f"{name}.parquet")
    with pytest.raises(DataError, match="same columns"):
        open_dataset(tmp_path)


def test_without_pyarrow_a_parquet_file_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pd.DataFrame(COLUMNS).to_parquet(tmp_path / "t.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"t\.parquet: .*pyarrow.*pip install 'vaescope\[tables\]'\.?$"):
        open_dataset(tmp_path / "t.parquet")


def test_a_run_on_a_table_opens_its_data_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    columns = {"a": np.random.default_rng(0).normal(size=40), "b": np.random.default_rng(1).normal(size=40)}
    words = {"species": ["cat", "dog"] * 20, "note": ["x", "y", "z", "w"] * 10}
    csv(tmp_path / "t.csv", columns | words)
    run = vs.fit({"name": "t.csv", "label": "species", "factors": ["note"]}, latents=2, steps=1, runs=tmp_path / "runs")
    diagnosis = vs.diagnose(vs.Run.open(run.path))
    assert diagnosis.summary()
