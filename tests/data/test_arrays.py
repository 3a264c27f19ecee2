"""Arrays, tensors and torch data sets: values are kept, memory is shared."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from vaescope.data import Factors, Subset
from vaescope.data.arrays import ArrayDataset, fingerprint_of, from_array, scale_pixels
from vaescope.data.file_rows import FileRows
from vaescope.data.torch_datasets import from_torch_dataset
from vaescope.errors import DataError


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(shape)


def bytes_of(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def everything(dataset: ArrayDataset) -> np.ndarray:
    return dataset.batch(torch.arange(len(dataset))).numpy()


@pytest.mark.parametrize("kind", ["<f4", "<f8", ">f4", ">f8", "f2", "i1", "i4", "<i8", ">i2", "u1", "u2", "u8"])
def test_vectors_of_any_numeric_type_keep_their_values(kind: str) -> None:
    rows = (noise(9, 4) * 100).astype(kind)
    values = everything(from_array(rows))
    assert values.dtype == np.float32
    np.testing.assert_allclose(values, rows.astype(np.float64), rtol=1e-7)


@pytest.mark.parametrize("kind", ["<f4", "<f8", ">f8", "f2"])
def test_float_images_keep_their_values(kind: str) -> None:
    rows = noise(6, 5, 7).astype(kind)
    np.testing.assert_allclose(everything(from_array(rows))[:, 0], rows.astype(np.float64), atol=1e-7)


@pytest.mark.parametrize("kind", ["u1", "i8", ">i4", "u2"])
def test_integer_pixels_are_divided_by_255(kind: str) -> None:
    rows = bytes_of(6, 5, 7).astype(kind)
    np.testing.assert_allclose(everything(from_array(rows))[:, 0], rows / 255, atol=1e-7)


def test_integer_images_in_memory_are_stored_as_bytes() -> None:
    assert from_array(bytes_of(6, 5, 7).astype(np.int64)).items.dtype == torch.uint8


def test_booleans_are_pixels_of_zero_and_one() -> None:
    rows = bytes_of(6, 5, 7) > 127
    np.testing.assert_array_equal(everything(from_array(rows))[:, 0], rows.astype(np.float32))


def test_channels_last_and_channels_first_are_the_same_data_set() -> None:
    first = bytes_of(6, 3, 8, 10)
    a, b = from_array(first), from_array(np.moveaxis(first, 1, -1))
    assert a.shape == b.shape == (3, 8, 10)
    assert a.fingerprint == b.fingerprint
    np.testing.assert_array_equal(everything(a), everything(b))
    assert b.batch(torch.tensor([1, 2])).is_contiguous()


def test_image_false_treats_each_item_as_a_vector() -> None:
    rows = bytes_of(6, 5, 7)
    dataset = from_array(rows, image=False)
    assert dataset.shape == (35,)
    np.testing.assert_array_equal(everything(dataset), rows.reshape(6, 35))


@pytest.mark.parametrize("kind", [np.uint8, np.float32, np.float64])
def test_an_array_in_memory_is_shared_and_not_copied(kind: type) -> None:
    rows = bytes_of(6, 8).astype(kind)
    dataset = from_array(rows)
    assert isinstance(dataset.items, Tensor)
    assert dataset.items.data_ptr() == rows.ctypes.data


def test_a_read_only_array_and_a_reversed_one_are_kept_as_arrays() -> None:
    fixed = bytes_of(6, 8)
    fixed.setflags(write=False)
    for rows in (fixed, bytes_of(6, 8)[::-1]):
        dataset = from_array(rows)
        assert dataset.items is rows
        np.testing.assert_array_equal(everything(dataset), rows)


def test_tensors_of_every_float_type_are_accepted() -> None:
    values = torch.rand(6, 4, requires_grad=True)
    for kind in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        rows = values.to(kind)
        torch.testing.assert_close(from_array(rows).batch(torch.arange(6)), rows.detach().float())


def mapped(folder: Path, rows: np.ndarray) -> np.ndarray:
    np.save(folder / "rows.npy", rows)
    return np.load(folder / "rows.npy", mmap_mode="r")


@pytest.mark.parametrize(
    "rows",
    [
        noise(6, 5),
        bytes_of(6, 8, 8),
        bytes_of(6, 8, 10, 3),
        bytes_of(6, 8, 8).astype(np.int64),
        noise(6, 8, 8),
    ],
    ids=["vectors", "grey", "channels last", "int64", "float images"],
)
def test_a_memory_map_stays_a_memory_map(tmp_path: Path, rows: np.ndarray) -> None:
    dataset = from_array(mapped(tmp_path, rows))
    for held in (dataset, dataset.to("cpu")):
        assert isinstance(held.items, FileRows)
        assert isinstance(held.items.held, np.memmap)
    np.testing.assert_array_equal(everything(dataset), everything(from_array(rows)))
    assert dataset.fingerprint == from_array(rows).fingerprint


def test_a_change_of_a_mapped_file_is_noticed(tmp_path: Path) -> None:
    dataset = from_array(mapped(tmp_path, noise(6, 5))[1:])
    assert len(dataset.batch(torch.arange(5))) == 5
    os.truncate(tmp_path / "rows.npy", 130)
    with pytest.raises(DataError, match=r"rows\.npy must stay as it was"):
        dataset.batch(torch.arange(5))


def test_a_batch_of_a_memory_map_can_be_written_to(tmp_path: Path) -> None:
    rows = noise(6, 5).astype(np.float32)
    batch = from_array(mapped(tmp_path, rows)).batch(torch.tensor([2, 2, 0]))
    batch.zero_()
    np.testing.assert_array_equal(np.load(tmp_path / "rows.npy"), rows)


def test_writing_to_a_batch_does_not_change_the_data() -> None:
    rows = noise(6, 5).astype(np.float32)
    kept = rows.copy()
    from_array(rows).batch(torch.arange(6)).zero_()
    np.testing.assert_array_equal(rows, kept)


def test_a_memory_map_moves_to_a_device_as_bytes(tmp_path: Path) -> None:
    dataset = from_array(mapped(tmp_path, bytes_of(6, 8, 8).astype(np.int64))).to("meta")
    assert isinstance(dataset.items, Tensor)
    assert dataset.items.device.type == "meta"
    assert dataset.items.dtype == torch.uint8


def test_the_fingerprint_changes_with_one_number_and_not_with_the_name() -> None:
    rows = noise(6, 5)
    changed = rows.copy()
    changed[3, 2] += 1e-12
    assert from_array(rows, "one").fingerprint == from_array(rows, "other").fingerprint
    assert from_array(rows).fingerprint != from_array(changed).fingerprint
    assert from_array(rows).fingerprint != from_array(rows.reshape(5, 6)).fingerprint


def test_the_fingerprint_of_a_file_is_its_sha256(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    assert fingerprint_of(tmp_path / "file").startswith("ba7816bf8f01cfea414140de5dae2223")


def test_labels_and_factors_are_kept_with_the_items() -> None:
    codes = np.array([[0, 2], [1, 0], [0, 1], [1, 2]])
    labels = torch.tensor([3, 0, 1, 0])
    dataset = from_array(noise(4, 5), labels=labels, factors=codes, factor_names=("shape", "size"))
    assert dataset.factor_table == Factors(("shape", "size"), (2, 3))
    assert dataset.factors is not None
    assert dataset.factors.dtype == torch.int16
    np.testing.assert_array_equal(dataset.factors, codes)
    torch.testing.assert_close(dataset.labels, labels)


def test_one_column_of_factors_may_be_a_plain_list() -> None:
    dataset = from_array(noise(4, 5), factors=[0.0, 1.0, 2.0, 1.0])
    assert dataset.factor_table == Factors(("factor 0",), (3,))


def test_a_torch_dataset_gives_items_and_labels() -> None:
    items, labels = torch.rand(7, 1, 4, 4), torch.arange(7)
    dataset = from_torch_dataset(torch.utils.data.TensorDataset(items, labels), "mine")
    assert dataset.name == "mine"
    torch.testing.assert_close(dataset.batch(torch.arange(7)), items)
    torch.testing.assert_close(dataset.labels, labels)


def test_a_torch_dataset_without_labels_has_none() -> None:
    assert from_torch_dataset(torch.utils.data.TensorDataset(torch.rand(7, 3))).labels is None


@given(items=st.integers(2, 60), seed=st.integers(0, 2**40), data=st.data())
def test_a_split_is_disjoint_covers_all_items_and_depends_on_the_seed_alone(
    items: int, seed: int, data: st.DataObject
) -> None:
    held_out = data.draw(st.integers(1, items - 1))
    dataset = from_array(noise(items, 2))
    rest, held = dataset.split(held_out, seed)
    assert len(held) == held_out
    assert sorted([*rest.index.tolist(), *held.index.tolist()]) == list(range(items))
    again = from_array(noise(items, 2, seed=1)).split(held_out, seed)
    assert torch.equal(rest.index, again[0].index)
    assert torch.equal(held.index, again[1].index)


def test_different_seeds_split_differently_and_a_share_is_rounded() -> None:
    dataset = from_array(noise(100, 2))
    first, second = dataset.split(0.25, seed=0)[1], dataset.split(0.25, seed=1)[1]
    assert len(first) == len(second) == 25
    assert not torch.equal(first.index, second.index)
    assert first.fingerprint != second.fingerprint != dataset.fingerprint


def test_a_subset_carries_the_items_labels_and_factors_of_its_index() -> None:
    rows, codes = noise(8, 3), np.arange(8) % 4
    dataset = from_array(rows, labels=codes + 1, factors=codes)
    index = torch.tensor([6, 1, 3])
    subset = Subset.of(Subset.of(dataset, torch.arange(8).flip(0)), 7 - index)
    np.testing.assert_allclose(subset.batch(torch.arange(3)), rows[index], rtol=1e-7)
    np.testing.assert_array_equal(subset.labels, codes[index] + 1)
    np.testing.assert_array_equal(subset.factors, codes[index][:, None])


@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=5))
def test_index_and_codes_of_factors_are_inverse(sizes: list[int]) -> None:
    factors = Factors(tuple(f"f{column}" for column in range(len(sizes))), tuple(sizes))
    index = torch.arange(factors.cells)
    codes = factors.codes(index)
    assert torch.equal(factors.index(codes), index)
    assert len(torch.unique(codes, dim=0)) == factors.cells
    assert bool(((codes >= 0) & (codes < torch.tensor(sizes))).all())


def test_chunks_contain_all_items_in_order() -> None:
    rows = noise(10, 3)
    chunks = list(from_array(rows).chunks(4))
    assert [len(chunk) for chunk in chunks] == [4, 4, 2]
    np.testing.assert_allclose(torch.cat(chunks), rows, rtol=1e-7)


def test_pixels_scaled_as_on_an_accelerator_equal_those_of_a_division() -> None:
    pixels = torch.arange(256, dtype=torch.uint8)
    assert torch.equal((pixels.to(torch.float64) * (1 / 255)).to(torch.float32), scale_pixels(pixels))
