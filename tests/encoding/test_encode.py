"""Codes of a data set under a model: values, samples, factors and labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from vaescope.codes import Representation
from vaescope.data.arrays import from_array
from vaescope.encoding import (
    activations,
    adapt,
    distance_to_orthogonality,
    encode,
    layer_similarity,
    layer_widths,
    reconstruct,
    sample,
    traversals,
    traverse,
)
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


def test_samples_are_the_mean_plus_scaled_noise() -> None:
    codes = encode(a_model(), IMAGES, seed=5)
    noise = counter.normal(torch.tensor(5), "encode", torch.tensor(0), torch.arange(ITEMS), LATENTS).float()
    torch.testing.assert_close(codes.sample, codes.mean + codes.variance.sqrt() * noise)


@pytest.mark.parametrize("chunk", [1, 7, 22, 23, 1000])
def test_the_chunk_changes_nothing(chunk: int) -> None:
    model = a_model(dtype=torch.float64)
    assert same(encode(model, IMAGES, chunk=chunk, seed=3), encode(model, IMAGES, seed=3), tolerance=1e-12)


def test_the_sample_of_an_item_depends_only_on_seed_and_index() -> None:
    model = a_model(dtype=torch.float64)
    whole, some = encode(model, IMAGES, seed=1), encode(model, IMAGES[:9], seed=1, chunk=4)
    torch.testing.assert_close(some.sample, whole.sample[:9])


def test_the_seed_changes_only_the_sample() -> None:
    model = a_model()
    one, again, other = (encode(model, IMAGES, seed=seed) for seed in (1, 1, 2))
    assert same(one, again)
    assert torch.equal(one.mean, other.mean)
    assert torch.equal(one.variance, other.variance)
    assert not torch.isclose(one.sample, other.sample).all()


def test_the_global_random_state_is_neither_used_nor_changed() -> None:
    model = a_model()
    first = encode(model, IMAGES)
    torch.manual_seed(99)
    before = torch.get_rng_state()
    assert same(encode(model, IMAGES), first)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_codes_are_as_precise_as_the_model() -> None:
    codes = encode(a_model(dtype=torch.float64), IMAGES)
    assert {getattr(codes, name).dtype for name in FIELDS} == {torch.float64}


def test_a_deterministic_code_has_no_variance_and_equals_its_sample() -> None:
    codes = encode(a_model("autoencoder"), IMAGES)
    assert torch.equal(codes.sample, codes.mean)
    assert not codes.variance.any()


def test_factors_and_labels_are_those_of_the_data() -> None:
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


def test_data_without_factors_and_labels_give_codes_without_them() -> None:
    codes = encode(a_model(), IMAGES)
    assert codes.factors is None
    assert codes.labels is None


@pytest.mark.parametrize("chunk", [0, -3])
def test_a_chunk_below_one_is_an_error(chunk: int) -> None:
    with pytest.raises(ConfigurationError, match=f"^chunk .* got {chunk}"):
        encode(a_model(), IMAGES, chunk=chunk)


def test_a_model_in_training_mode_is_encoded_in_evaluation_mode_and_restored() -> None:
    model = a_model().train()
    modes = []
    model.encoder.register_forward_hook(lambda module, inputs, output: modes.append(module.training))
    encode(model, IMAGES)
    assert modes == [False]
    assert model.training


def test_a_model_without_encode_is_an_error_that_names_it() -> None:
    with pytest.raises(ConfigurationError, match=r"Linear .*encode"):
        encode(torch.nn.Linear(36, 4), IMAGES)


@dataclass(frozen=True)
class Holder:
    """An object with a model, like a run."""

    model: Any


@pytest.mark.parametrize("wrap", [Holder, lambda model: model], ids=["run", "model"])
def test_items_of_another_shape_are_refused(wrap: Any) -> None:
    for wrong in (np.zeros((5, 8, 8)), np.random.default_rng(0).random((5, 7, 7)), from_array(IMAGES[:, :, :5])):
        for function in (encode, activations, reconstruct, layer_widths):
            with pytest.raises(DataError, match=r"shape \(1, 6, 6\).*got"):
                function(wrap(a_model()), wrong)


def test_one_image_and_a_blank_one_are_encoded() -> None:
    model, codes = a_model(), encode(a_model(), IMAGES)
    for image in (IMAGES[3], IMAGES[3, 0], items()[3], items()[3, 0].numpy()):
        torch.testing.assert_close(encode(model, image).mean, codes.mean[3:4])
    blank = encode(model, np.zeros((6, 6), np.uint8))
    torch.testing.assert_close(blank.mean, model.encode(torch.zeros(1, 1, 6, 6)).mean.detach())


def test_an_object_with_a_model_can_be_passed_in_its_place() -> None:
    data, model = from_array(IMAGES, factors=np.arange(ITEMS) % 2), a_model()
    holder, codes = Holder(model), encode(model, data)
    assert same(encode(holder, data), codes)
    assert same(adapt(holder, data), codes)
    assert torch.equal(activations(holder, data)["mean"], activations(model, data)["mean"])
    assert layer_widths(holder, data) == layer_widths(model, data)
    matrices = [layer_similarity(one, Holder(a_model()), data).matrix for one in (holder, model)]
    np.testing.assert_allclose(*matrices)
    assert torch.equal(traversals(holder, data, codes).wide[0].items, traversals(model, data, codes).wide[0].items)
    assert torch.equal(traverse(holder, codes.mean[0], 1, [2.0]), traverse(model, codes.mean[0], 1, [2.0]))
    assert distance_to_orthogonality(holder, data).score == distance_to_orthogonality(model, data).score
    assert torch.equal(reconstruct(holder, data), reconstruct(model, data))
    assert torch.equal(sample(holder), sample(model))
