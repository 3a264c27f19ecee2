"""One function opens whatever stands for a data set."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from vaescope.data import DATASETS, Dataset, open_dataset
from vaescope.data.source import BUILT_IN, Source
from vaescope.data.synthetic import SOURCES

ROWS = np.random.default_rng(0).random((6, 4))


class Squares(torch.utils.data.Dataset):
    """A map-style torch Dataset of single numbers with their class."""

    def __len__(self) -> int:
        return 5

    def __getitem__(self, position: int) -> tuple[torch.Tensor, int]:
        return torch.tensor([float(position) ** 2]), position % 2


class Wrapped:
    """Something that is no array and offers itself as one."""

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return ROWS


@pytest.mark.parametrize(
    "source",
    [ROWS, torch.from_numpy(ROWS), ROWS.tolist(), tuple(map(tuple, ROWS)), Wrapped()],
    ids=["array", "tensor", "list", "tuple", "array-like"],
)
def test_whatever_holds_numbers_is_opened(source: object) -> None:
    np.testing.assert_allclose(open_dataset(source).batch(torch.arange(6)), ROWS, rtol=1e-7)


def test_a_dataset_comes_back_as_it_is() -> None:
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
    monkeypatch.setenv("HOME", str(tmp_path))
    prints = {open_dataset(path).fingerprint for path in (tmp_path / "rows.npy", f"{tmp_path}/rows.npy", "~/rows.npy")}
    assert prints == {open_dataset(ROWS).fingerprint}


def test_a_known_name_goes_before_a_file_of_the_same_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pinwheel").mkdir()
    monkeypatch.chdir(tmp_path)
    assert len(open_dataset("pinwheel")) == 400


def test_every_source_is_known_by_its_own_name() -> None:
    assert {source.name for source in SOURCES} <= set(DATASETS)
    assert all(isinstance(source, Source) and source.name == name for name, source in DATASETS.items())


@pytest.mark.parametrize("source", [source for source in DATASETS.values() if source.locate() == BUILT_IN])
def test_what_is_built_in_opens_without_options_and_is_what_its_source_says(source: Source) -> None:
    dataset = source.open()
    factors = dataset.factor_table.names if dataset.factor_table else ()
    assert (dataset.name, len(dataset), dataset.shape, factors) == (
        source.name,
        source.items,
        source.shape,
        source.factors,
    )


def test_a_set_that_needs_an_option_says_so_where_it_lies() -> None:
    assert DATASETS["dsprites-scream"].locate() == "built in, with background=PATH"


def test_options_reach_the_opener() -> None:
    dataset: Dataset = open_dataset("gaussian-manifold", items=30, ambient=9)
    assert (len(dataset), dataset.shape) == (30, (9,))


def test_importing_the_package_does_not_load_heavy_packages() -> None:
    heavy = ("sklearn", "pooch", "pandas", "matplotlib", "plotly")
    program = f"import sys, vaescope.data; print(set({heavy!r}) & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"


def test_a_table_of_a_name_and_options_stands_for_both() -> None:
    table = {"name": "synthetic-linear", "items": 50}
    assert len(open_dataset(table)) == 50
    assert open_dataset(table).fingerprint == open_dataset("synthetic-linear", items=50).fingerprint
