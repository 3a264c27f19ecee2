"""Codes of a data set: those of the model, whatever the chunk, kept in files and read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import vaescope as vs
from vaescope.codes import Representation
from vaescope.data.arrays import from_array
from vaescope.encoding import encode
from vaescope.errors import ConfigurationError, DataError
from vaescope.models import Architecture
from vaescope.numerics import counter

ITEMS, LATENTS = 23, 4
IMAGES = np.random.default_rng(0).integers(0, 256, (ITEMS, 1, 6, 6), dtype=np.uint8)
FIELDS = ("mean", "variance", "sample")


def a_model(name: str = "vae", dtype: torch.dtype = torch.float32) -> Any:
    posterior = "deterministic" if name == "autoencoder" else "diagonal"
    net = {"name": "mlp", "encoder_widths": (16,), "decoder_widths": (16,)}
    return Architecture(name, net, posterior, initialisation="torch").build((1, 6, 6), LATENTS, seed=0).to(dtype)


def items(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.from_numpy(IMAGES).to(dtype) / 255


def same(one: Representation, other: Representation, tolerance: float = 0.0) -> bool:
    pairs = [(getattr(one, name), getattr(other, name)) for name in FIELDS]
    return all(torch.allclose(left, right, rtol=0, atol=tolerance) for left, right in pairs)


def test_the_codes_are_those_of_a_direct_call() -> None:
    model = a_model()
    codes, posterior = encode(model, IMAGES), model.encode(items())
    torch.testing.assert_close(codes.mean, posterior.mean.detach())
    torch.testing.assert_close(codes.variance, posterior.log_variance.detach().exp())
    assert (len(codes), codes.latents) == (ITEMS, LATENTS)
    assert not codes.mean.requires_grad


def test_the_variance_is_the_square_of_what_the_noise_is_scaled_by() -> None:
    codes = encode(a_model(), IMAGES, seed=5)
    noise = counter.normal(torch.tensor(5), "encode", torch.tensor(0), torch.arange(ITEMS), LATENTS).float()
    torch.testing.assert_close(codes.sample, codes.mean + codes.variance.sqrt() * noise)


@pytest.mark.parametrize("chunk", [1, 7, 22, 23, 1000])
def test_the_chunk_changes_nothing(chunk: int) -> None:
    model = a_model(dtype=torch.float64)
    assert same(encode(model, IMAGES, chunk=chunk, seed=3), encode(model, IMAGES, seed=3), tolerance=1e-12)


def test_the_sample_of_an_item_depends_on_seed_and_place_alone() -> None:
    model = a_model(dtype=torch.float64)
    whole, some = encode(model, IMAGES, seed=1), encode(model, IMAGES[:9], seed=1, chunk=4)
    torch.testing.assert_close(some.sample, whole.sample[:9])


def test_the_seed_decides_the_sample_and_nothing_else() -> None:
    model = a_model()
    one, again, other = (encode(model, IMAGES, seed=seed) for seed in (1, 1, 2))
    assert same(one, again)
    assert torch.equal(one.mean, other.mean)
    assert torch.equal(one.variance, other.variance)
    assert not torch.isclose(one.sample, other.sample).all()


def test_global_random_state_is_neither_read_nor_moved() -> None:
    model = a_model()
    first = encode(model, IMAGES)
    torch.manual_seed(99)
    before = torch.get_rng_state()
    assert same(encode(model, IMAGES), first)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_codes_are_as_precise_as_the_model() -> None:
    codes = encode(a_model(dtype=torch.float64), IMAGES)
    assert {getattr(codes, name).dtype for name in FIELDS} == {torch.float64}


def test_a_deterministic_code_has_no_variance_and_is_its_own_sample() -> None:
    codes = encode(a_model("autoencoder"), IMAGES)
    assert torch.equal(codes.sample, codes.mean)
    assert not codes.variance.any()


def test_factors_and_labels_come_along() -> None:
    factors = np.stack([np.arange(ITEMS) % 2, np.arange(ITEMS) % 3], axis=1)
    labels = np.arange(ITEMS) % 5
    data = from_array(IMAGES, factors=factors, labels=labels)
    codes = encode(a_model(), data, chunk=6)
    assert np.array_equal(codes.factors, factors)
    assert np.array_equal(codes.labels, labels)
    held_out = data.split(5, seed=0)[1]
    part = encode(a_model(), held_out)
    assert np.array_equal(part.factors, factors[held_out.index])
    assert np.array_equal(part.labels, labels[held_out.index])


def test_without_factors_and_labels_there_are_none() -> None:
    codes = encode(a_model(), IMAGES)
    assert codes.factors is None
    assert codes.labels is None


def test_the_public_name_is_this_function() -> None:
    assert vs.encode is encode
    assert vs.Representation is Representation


@pytest.mark.parametrize("chunk", [0, -3])
def test_a_chunk_below_one_is_named(chunk: int) -> None:
    with pytest.raises(ConfigurationError, match=f"chunk must be at least 1, got {chunk}"):
        encode(a_model(), IMAGES, chunk=chunk)


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    data = from_array(IMAGES, factors=np.arange(ITEMS)[:, None] % 4, labels=np.arange(ITEMS) % 5)
    codes = encode(a_model(), data)
    codes.save(tmp_path / "codes.npz")
    loaded = Representation.load(tmp_path / "codes.npz")
    assert same(codes, loaded)
    assert torch.equal(loaded.factors, codes.factors)
    assert torch.equal(loaded.labels, codes.labels)


def test_what_is_not_there_is_neither_saved_nor_loaded(tmp_path: Path) -> None:
    encode(a_model(), IMAGES).save(tmp_path / "codes.npz")
    with np.load(tmp_path / "codes.npz") as file:
        assert set(file.files) == set(FIELDS)
    assert Representation.load(tmp_path / "codes.npz").factors is None


def test_a_file_is_saved_under_the_name_that_was_given(tmp_path: Path) -> None:
    codes = encode(a_model(), IMAGES)
    codes.save(tmp_path / "codes")
    assert same(Representation.load(tmp_path / "codes"), codes)


def write_text(path: Path) -> None:
    path.write_text("mean,variance\n1,2\n")


def write_truncated(path: Path) -> None:
    encode(a_model(), IMAGES).save(path)
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
def test_a_file_that_holds_no_codes_is_named(tmp_path: Path, write: Any) -> None:
    write(tmp_path / "codes.npz")
    with pytest.raises(DataError, match=r"codes\.npz(: mean)? must "):
        Representation.load(tmp_path / "codes.npz")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.npz must be an \.npz archive of arrays"):
        Representation.load(tmp_path / "nowhere.npz")


def test_missing_arrays_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "codes.npz", mean=np.zeros((3, 2), np.float32))
    with pytest.raises(
        DataError, match=r"codes\.npz must hold the arrays mean, variance, sample; variance, sample is missing"
    ):
        Representation.load(tmp_path / "codes.npz")


def test_arrays_that_do_not_match_are_named(tmp_path: Path) -> None:
    zeros = np.zeros((3, 2), np.float32)
    np.savez(tmp_path / "codes.npz", mean=zeros, variance=zeros[:, :1], sample=zeros)
    with pytest.raises(DataError, match=r"mean and variance must be of one shape.* got \(3, 2\) and \(3, 1\)"):
        Representation.load(tmp_path / "codes.npz")
    np.savez(tmp_path / "codes.npz", mean=zeros, variance=zeros, sample=zeros, labels=np.zeros(4, np.int64))
    with pytest.raises(DataError, match=r"mean and labels must have one row per item, got \(3, 2\) and \(4,\)"):
        Representation.load(tmp_path / "codes.npz")
