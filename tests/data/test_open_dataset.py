"""`open_dataset` opens names, paths, arrays, tensors, torch data sets and tables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from vaescope.data import DATASETS, Dataset, open_dataset
from vaescope.data.dataset import BUILT_IN, DatasetEntry

ROWS = np.random.default_rng(0).random((6, 4))


class Squares(torch.utils.data.Dataset):
    """A map-style torch Dataset of single numbers with their class."""

    def __len__(self) -> int:
        return 5

    def __getitem__(self, position: int) -> tuple[torch.Tensor, int]:
        return torch.tensor([float(position) ** 2]), position % 2


class Wrapped:
    """An object that converts itself to an array."""

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return ROWS


@pytest.mark.parametrize(
    "source",
    [ROWS, torch.from_numpy(ROWS), ROWS.tolist(), tuple(map(tuple, ROWS)), Wrapped()],
    ids=["array", "tensor", "list", "tuple", "array-like"],
)
def test_arrays_tensors_lists_and_array_likes_are_opened(source: object) -> None:
    np.testing.assert_allclose(open_dataset(source).batch(torch.arange(6)), ROWS, rtol=1e-7)


def test_a_dataset_is_returned_unchanged() -> None:
    dataset = open_dataset(ROWS, name="mine", labels=range(6))
    assert open_dataset(dataset) is dataset
    assert dataset.name == "mine"


def test_a_torch_dataset_is_read_with_its_labels() -> None:
    dataset = open_dataset(Squares())
    assert dataset.name == "Squares"
    assert dataset.batch(torch.arange(5)).flatten().tolist() == [0, 1, 4, 9, 16]
    assert dataset.labels.tolist() == [0, 1, 0, 1, 0]


def test_a_path_is_opened_as_text_as_path_and_from_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    for home in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(home, str(tmp_path))
    prints = {open_dataset(path).fingerprint for path in (tmp_path / "rows.npy", f"{tmp_path}/rows.npy", "~/rows.npy")}
    assert prints == {open_dataset(ROWS).fingerprint}


def test_a_known_name_takes_precedence_over_a_file_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pinwheel").mkdir()
    monkeypatch.chdir(tmp_path)
    assert len(open_dataset("pinwheel")) == 400


def test_every_entry_has_a_summary_and_published_sets_have_a_source() -> None:
    assert all(entry.name == name and entry.summary for name, entry in DATASETS.items())
    unpublished = {"gaussian-manifold", "sphere-manifold", "synthetic-counts"}
    assert {name for name, entry in DATASETS.items() if not entry.source} == unpublished


def test_an_entry_says_how_to_get_missing_data() -> None:
    assert DATASETS["mnist"].how_to_get == "downloads on first use"
    assert DATASETS["celeba"].how_to_get.startswith("manual download: https://")


@pytest.mark.parametrize("entry", [entry for entry in DATASETS.values() if entry.locate() == BUILT_IN])
def test_built_in_sets_open_without_options_as_their_entries_say(entry: DatasetEntry) -> None:
    dataset = entry.open()
    factors = dataset.factor_table.names if dataset.factor_table else ()
    found = (dataset.name, len(dataset), dataset.shape, factors)
    assert found == (entry.name, entry.items, entry.shape, entry.factors)


def test_a_set_that_needs_an_option_says_so_in_its_location() -> None:
    assert DATASETS["dsprites-scream"].locate() == "built in, with background=PATH"


def test_options_reach_the_opener() -> None:
    dataset: Dataset = open_dataset("gaussian-manifold", items=30, ambient=9)
    assert (len(dataset), dataset.shape) == (30, (9,))


def test_importing_the_package_loads_no_heavy_packages_and_opening_arrays_none_for_tables() -> None:
    heavy = ("sklearn", "pooch", "pandas", "matplotlib", "plotly")
    program = (
        f"import sys, numpy as np, vaescope.data; print(set({heavy!r}) & set(sys.modules)); "
        "vaescope.data.open_dataset(np.eye(3)); vaescope.data.open_dataset([[1.0], [2.0]]); "
        "print({'narwhals', 'pandas', 'polars', 'pyarrow'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["set()", "set()"]


def test_a_table_of_a_name_and_options_is_opened() -> None:
    table = {"name": "synthetic-linear", "items": 50}
    assert len(open_dataset(table)) == 50
    assert open_dataset(table).fingerprint == open_dataset("synthetic-linear", items=50).fingerprint
