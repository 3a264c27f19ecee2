"""A Representation is saved as an .npz archive and loaded from it; wrong archives are errors that name them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from vaescope.codes import Representation
from vaescope.errors import DataError

ITEMS, LATENTS = 23, 4
FIELDS = ("mean", "variance", "sample")


def some_codes() -> Representation:
    generator = torch.Generator().manual_seed(0)
    return Representation(*(torch.rand(ITEMS, LATENTS, generator=generator) for _ in FIELDS))


def same(one: Representation, other: Representation) -> bool:
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in FIELDS)


def test_saved_codes_are_loaded(tmp_path: Path) -> None:
    factors, labels = torch.arange(ITEMS)[:, None] % 4, torch.arange(ITEMS) % 5
    codes = replace(some_codes(), factors=factors, labels=labels)
    codes.save(tmp_path / "codes.npz")
    loaded = Representation.load(tmp_path / "codes.npz")
    assert same(codes, loaded)
    assert loaded.factors is not None
    assert loaded.labels is not None
    assert torch.equal(loaded.factors, factors)
    assert torch.equal(loaded.labels, labels)


def test_missing_factors_are_neither_saved_nor_loaded(tmp_path: Path) -> None:
    some_codes().save(tmp_path / "codes.npz")
    with np.load(tmp_path / "codes.npz") as file:
        assert set(file.files) == set(FIELDS)
    assert Representation.load(tmp_path / "codes.npz").factors is None


def test_a_file_is_saved_under_exactly_the_given_name(tmp_path: Path) -> None:
    codes = some_codes()
    codes.save(tmp_path / "codes")
    assert same(Representation.load(tmp_path / "codes"), codes)


def write_text(path: Path) -> None:
    path.write_text("mean,variance\n1,2\n")


def write_truncated(path: Path) -> None:
    some_codes().save(path)
    path.write_bytes(path.read_bytes()[:-100])


def write_single_array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


def write_objects(path: Path) -> None:
    np.savez(path, mean=np.array([{}], dtype=object))


def write_strings(path: Path) -> None:
    np.savez(path, mean=np.array(["a"]), variance=np.array(["a"]), sample=np.array(["a"]))


def write_empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize(
    "write",
    [write_text, write_truncated, write_single_array, write_objects, write_strings, write_empty],
)
def test_a_file_without_codes_is_an_error_that_names_it(tmp_path: Path, write: Callable[[Path], None]) -> None:
    write(tmp_path / "codes.npz")
    with pytest.raises(DataError, match=r"codes\.npz"):
        Representation.load(tmp_path / "codes.npz")


def test_loading_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.npz"):
        Representation.load(tmp_path / "nowhere.npz")


def test_missing_arrays_are_an_error(tmp_path: Path) -> None:
    np.savez(tmp_path / "codes.npz", mean=np.zeros((3, 2), np.float32))
    with pytest.raises(DataError, match=r"codes\.npz .*variance, sample"):
        Representation.load(tmp_path / "codes.npz")


def test_arrays_of_different_shapes_are_an_error(tmp_path: Path) -> None:
    zeros = np.zeros((3, 2), np.float32)
    np.savez(tmp_path / "codes.npz", mean=zeros, variance=zeros[:, :1], sample=zeros)
    with pytest.raises(DataError, match=r"mean and variance must be tables of one shape.* got \(3, 2\) and \(3, 1\)"):
        Representation.load(tmp_path / "codes.npz")
    np.savez(tmp_path / "codes.npz", mean=zeros, variance=zeros, sample=zeros, labels=np.zeros(4, np.int64))
    with pytest.raises(DataError, match=r"mean and labels must have one row per item, got \(3, 2\) and \(4,\)"):
        Representation.load(tmp_path / "codes.npz")
