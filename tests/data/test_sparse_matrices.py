"""Sparse matrices are data sets of the same numbers as their dense arrays."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse
from torch.fx.experimental.proxy_tensor import make_fx

import vaescope as vs
from vaescope.data import Dataset, open_dataset
from vaescope.data.dataset import MAX_CHUNK_NUMBERS
from vaescope.errors import ConfigurationError, DataError, LikelihoodWarning

FORMATS = ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")
NET = {"name": "mlp", "encoder_widths": [8], "decoder_widths": [8]}


def counts(items: int = 60, columns: int = 9, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).poisson(0.6, (items, columns)).astype(np.float32)


def rows(data: Dataset) -> np.ndarray:
    return data.batch(torch.arange(len(data))).numpy()


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix])
def test_every_format_has_the_same_items_and_fingerprint(kind: str, container: type) -> None:
    dense = counts()
    data = open_dataset(container(dense).asformat(kind))
    assert (len(data), data.shape) == (60, (9,))
    np.testing.assert_array_equal(rows(data), dense)
    index = torch.tensor([7, 0, 7, 59])
    np.testing.assert_array_equal(data.batch(index).numpy(), dense[index])
    assert data.fingerprint == open_dataset(sparse.csr_array(dense)).fingerprint
    assert data.fingerprint != open_dataset(sparse.csr_array(dense + np.eye(*dense.shape))).fingerprint


@pytest.mark.parametrize("dtype", ["bool", "uint8", "uint16", "int32", "int64", "float32", "float64", "longdouble"])
def test_any_real_numbers_become_float32(dtype: str) -> None:
    dense = counts().astype(dtype)
    found = rows(open_dataset(sparse.csr_array(dense)))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, dense.astype(np.float32))


def test_compressed_rows_are_shared_and_not_changed() -> None:
    matrix = sparse.csr_array(counts())
    data = open_dataset(matrix)
    assert data.values.data_ptr() == matrix.data.ctypes.data
    # Columns in another order, with duplicates.
    messy = sparse.csr_array((np.ones(4), [2, 0, 2, 1], [0, 3, 4]), shape=(2, 3))
    np.testing.assert_array_equal(rows(open_dataset(messy)), [[1, 0, 2], [0, 1, 0]])
    np.testing.assert_array_equal(messy.indices, [2, 0, 2, 1])


def test_rows_and_columns_may_be_empty() -> None:
    dense = counts()
    dense[[0, 5, -1]] = 0
    dense[:, [0, 3, -1]] = 0
    np.testing.assert_array_equal(rows(open_dataset(sparse.csr_array(dense))), dense)


def test_splits_and_labels_are_those_of_the_dense_array() -> None:
    dense, classes = counts(), np.array(["a", "b", "c"] * 20)
    options = {"labels": classes, "factors": np.arange(60) % 4, "factor_names": ("batch",)}
    one, other = open_dataset(sparse.csr_array(dense), **options), open_dataset(dense, **options)
    for ours, theirs in zip(one.split(0.3, 1), other.split(0.3, 1), strict=True):
        np.testing.assert_array_equal(rows(ours), rows(theirs))
        assert torch.equal(ours.labels, theirs.labels)
        assert torch.equal(ours.factors, theirs.factors)
        assert ours.label_names == ("a", "b", "c")
        assert ours.holds_counts


def test_chunks_of_wide_items_hold_few_items() -> None:
    data = open_dataset(sparse.csr_array(([2.0, 1.0], ([0, 2], [0, 5])), shape=(3, MAX_CHUNK_NUMBERS // 2)))
    assert [len(chunk) for chunk in data.chunks(100)] == [2, 1]


@pytest.mark.parametrize(
    ("change", "known"),
    [(lambda x: x, True), (lambda x: x - 1, False), (lambda x: x / 2, False), (lambda x: x > 0, False)],
    ids=["counts", "negative", "fractions", "zeros and ones"],
)
def test_counts_are_recognised(change: object, known: bool) -> None:
    assert open_dataset(sparse.csr_array(change(counts()))).holds_counts is known


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e39])
def test_a_number_that_is_not_finite_is_named_by_its_item(value: float) -> None:
    dense = counts().astype(np.float64)
    dense[17, 3] = value
    with pytest.raises(DataError, match="item 17 contains"):
        open_dataset(sparse.csr_array(dense))


def broken() -> sparse.csr_array:
    matrix = sparse.csr_array(counts())
    matrix.indices[3] = 1000
    return matrix


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        (sparse.csr_array(counts(items=1)), "at least 2 items"),
        (sparse.csr_array((5, 0)), "at least one number"),
        (sparse.csr_array((5, 4)), "all numbers are 0"),
        (sparse.csr_array(np.ones((5, 4))), "all numbers are 1"),
        (sparse.csr_array(counts() * 1j), "real numbers, got type complex"),
        (sparse.coo_array(np.array([1.0, 0, 2])), "items x dimensions"),
        (broken(), "columns within its shape"),
    ],
)
def test_what_cannot_be_trained_on_is_one_sentence(matrix: object, said: str) -> None:
    with pytest.raises(DataError, match=said):
        open_dataset(matrix)


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(ConfigurationError, match="layer is not an option of matrix"):
        open_dataset(sparse.csr_array(counts()), layer="counts")


def test_counts_in_a_sparse_matrix_are_negative_binomial_by_default(tmp_path: Path) -> None:
    matrix = sparse.csr_array(counts())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = vs.fit(matrix, 2, net=NET, steps=2, runs=tmp_path)
    assert run.configuration.plain()["architecture"]["likelihood"]["name"] == "negative_binomial"
    with pytest.warns(LikelihoodWarning, match="negative_binomial"):
        vs.fit(matrix, 2, net=NET, likelihood="gaussian", steps=2, runs=tmp_path)
    other = vs.fit(matrix * 0.5, 2, net=NET, steps=2, runs=tmp_path)
    assert other.configuration.plain()["architecture"]["likelihood"]["name"] == "gaussian"


def test_a_run_on_a_sparse_matrix_is_that_on_its_dense_array(tmp_path: Path) -> None:
    dense, parts = counts(), {"net": NET, "likelihood": "negative_binomial", "steps": 20}
    one = vs.fit(sparse.csr_array(dense), 2, runs=tmp_path / "sparse", **parts)
    other = vs.fit(dense, 2, runs=tmp_path / "dense", **parts)
    for name, tensor in one.model.state_dict().items():
        torch.testing.assert_close(tensor, other.model.state_dict()[name], rtol=0, atol=1e-6)


def test_a_run_finds_its_matrix_and_encodes_others(tmp_path: Path) -> None:
    matrix = sparse.csr_array(counts())
    run = vs.fit(matrix, 2, net=NET, steps=2, runs=tmp_path)
    codes = vs.encode(run, matrix)
    assert torch.equal(vs.load(run.id, runs=tmp_path).encode().mean, codes.mean)
    torch.testing.assert_close(vs.encode(run, matrix[:1]).mean, codes.mean[:1])
    assert torch.equal(vs.encode(run, matrix.toarray()).mean, codes.mean)
    assert len(vs.encode(run, sparse.csr_array((3, 9))).mean) == 3
    with pytest.raises(DataError, match="shape"):
        vs.encode(run, matrix[:, :4])
    matrix.data[0] += 1
    with pytest.raises(DataError, match="changed since"):
        run.encode()


def test_a_batch_is_a_program_of_fixed_shapes_as_accelerators_need() -> None:
    dense = counts()
    data = open_dataset(sparse.csr_array(dense))
    program = make_fx(lambda index: data.batch(index))(torch.tensor([0, 1, 2]))
    np.testing.assert_array_equal(program(torch.tensor([50, 3, 17])).numpy(), dense[[50, 3, 17]])
