"""Orthogonality of decoders: every signed permutation, the paper's random decoders, and all of our models."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from reference import reference_orthogonality
from vaescope.data import Dataset, open_dataset
from vaescope.data.arrays import from_array
from vaescope.encoding import encode
from vaescope.errors import ConfigurationError, DataError, UnknownNameError
from vaescope.likelihoods import Gaussian
from vaescope.metrics.orthogonality import column_orthogonality, distance_to_orthogonality, random_decoder_baseline
from vaescope.models import MODELS, Architecture, Linear
from vaescope.nets import MLP, Conv

SMALL = MLP((8,), (8,), decoder_activation="tanh")


def affine(matrix: np.ndarray) -> Any:
    """A decoder with this Jacobian everywhere."""
    weights = torch.from_numpy(np.asarray(matrix, dtype=np.float64))
    return lambda z: z @ weights.T


def distance(matrix: np.ndarray) -> float:
    return distance_to_orthogonality(affine(matrix), np.zeros((1, np.shape(matrix)[1])), draws=1).score


def cosine(matrix: np.ndarray) -> float:
    return column_orthogonality(affine(matrix), np.zeros((1, np.shape(matrix)[1]))).score


def rotation(size: int, seed: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((size, size)))[0]


def images(items: int = 40) -> Dataset:
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 256, (items, 1, 8, 8), dtype=np.uint8)
    return from_array(pixels, labels=generator.integers(0, 3, items), factors=generator.integers(0, 4, (items, 2)))


@pytest.mark.parametrize("latents", [1, 2, 3, 4, 5])
def test_the_distance_is_to_the_nearest_of_all_signed_permutations(latents: int) -> None:
    generator = np.random.default_rng(latents)
    for _ in range(6 if latents < 5 else 3):
        matrix = generator.standard_normal((8, latents)) * generator.uniform(0.1, 3, latents)
        assert distance(matrix) == pytest.approx(reference_orthogonality.distance(matrix), abs=1e-9)


def test_the_jacobian_is_that_of_the_decoder_at_each_code() -> None:
    """Central differences are good to about 1e-9 here."""
    generator = np.random.default_rng(0)
    first, second = (torch.from_numpy(generator.standard_normal(shape)) for shape in ((6, 3), (7, 6)))
    codes = generator.standard_normal((5, 3))

    def decoder(z: Tensor) -> Tensor:
        return torch.tanh(z @ first.T) @ second.T

    def one(z: np.ndarray) -> np.ndarray:
        return np.tanh(first.numpy() @ z) @ second.numpy().T

    jacobians = [reference_orthogonality.jacobian(one, code) for code in codes]
    distances = [reference_orthogonality.distance(matrix) for matrix in jacobians]
    found = distance_to_orthogonality(decoder, codes)
    assert found.score == pytest.approx(np.mean(distances), abs=1e-6)
    assert found.parts["spread"] == pytest.approx(np.std(distances), abs=1e-6)
    cosines = [reference_orthogonality.cosine(matrix) for matrix in jacobians]
    assert column_orthogonality(decoder, codes).score == pytest.approx(np.mean(cosines), abs=1e-6)


@settings(deadline=None, max_examples=30)
@given(order=st.permutations(range(4)), signs=st.tuples(*[st.sampled_from([-1, 1])] * 4), seed=st.integers(0, 99))
def test_orthogonal_columns_are_at_no_distance_in_any_order_and_sign(
    order: list[int], signs: tuple[int, ...], seed: int
) -> None:
    columns = rotation(6, seed)[:, :4] * np.array([3.0, 1.0, 0.5, 0.01])
    matrix = (columns * np.array(signs))[:, order]
    assert distance(matrix) == pytest.approx(0, abs=1e-9)
    assert cosine(matrix) == pytest.approx(0, abs=1e-9)


@settings(deadline=None, max_examples=30)
@given(order=st.permutations(range(4)), signs=st.tuples(*[st.sampled_from([-1, 1])] * 4), seed=st.integers(0, 99))
def test_the_order_and_sign_of_latents_and_a_rotation_of_the_items_change_nothing(
    order: list[int], signs: tuple[int, ...], seed: int
) -> None:
    matrix = np.random.default_rng(seed).standard_normal((6, 4))
    other = rotation(6, seed + 1) @ (matrix * np.array(signs))[:, order]
    assert distance(other) == pytest.approx(distance(matrix), abs=1e-7)
    assert cosine(other) == pytest.approx(cosine(matrix), abs=1e-9)


def test_the_cosine_does_not_see_the_length_of_columns() -> None:
    matrix = np.random.default_rng(0).standard_normal((6, 3))
    assert cosine(matrix * np.array([100.0, -1.0, 0.01])) == pytest.approx(cosine(matrix), abs=1e-12)


def test_a_rotation_of_the_latents_moves_a_decoder_away() -> None:
    columns = rotation(6, 0)[:, :2] * np.array([2.0, 1.0])
    quarter = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2)
    # Rotated by 45 degrees: every entry of V is sqrt(1/2), each of them 1 - sqrt(1/2) or sqrt(1/2) away.
    expected = np.sqrt(2 * (1 - np.sqrt(0.5)) ** 2 + 2 * 0.5)
    assert distance(columns @ quarter) == pytest.approx(expected, abs=1e-9)
    assert cosine(columns @ quarter) == pytest.approx(3 / 5, abs=1e-9)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_orthogonal_columns_of_one_length_are_at_no_distance_although_v_is_not_unique(kind: torch.dtype) -> None:
    columns = torch.from_numpy(rotation(50, 0)[:, :6]).to(kind)
    found = distance_to_orthogonality(lambda z: z @ columns.T, torch.zeros(3, 6, dtype=kind))
    assert found.score == pytest.approx(0, abs=1e-9)


def test_columns_of_zeros_add_no_distance() -> None:
    matrix = np.random.default_rng(0).standard_normal((9, 3))
    wide = np.insert(matrix, [0, 1, 1, 3], 0.0, axis=1)
    assert distance(wide) == pytest.approx(distance(matrix), abs=1e-9)
    assert distance(np.zeros((5, 3))) == 0


def test_columns_of_zeros_are_left_out_of_the_cosine_and_counted() -> None:
    matrix = np.random.default_rng(0).standard_normal((9, 3))
    found = column_orthogonality(affine(np.insert(matrix, [0, 1, 1], 0.0, axis=1)), np.zeros((4, 6)))
    assert found.score == pytest.approx(reference_orthogonality.cosine(matrix), abs=1e-12)
    assert found.parts["passive"] == 3
    assert found.latents == (1, 4, 5)
    tiny = matrix * np.array([1.0, 1.0, 1e-4])
    assert column_orthogonality(affine(tiny), np.zeros((4, 3))).parts["passive"] == 0
    assert column_orthogonality(affine(tiny), np.zeros((4, 3)), least=1e-2).parts["passive"] == 1


def test_a_decoder_of_one_latent_has_no_columns_to_compare() -> None:
    assert distance(np.ones((5, 1))) == 0
    with pytest.raises(DataError, match="two latents that the decoder uses"):
        column_orthogonality(affine(np.ones((5, 1))), np.zeros((4, 1)))
    with pytest.raises(DataError, match="two latents that the decoder uses"):
        column_orthogonality(affine(np.zeros((5, 3))), np.zeros((4, 3)))


@pytest.mark.parametrize(
    ("dimensions", "latents", "mean", "spread"),
    [(3, 2, 0.807, 0.217), (6, 2, 0.894, 0.148), (4096, 5, 1.858, 0.114), (784, 6, 2.114, 0.115)],
)
def test_random_decoders_are_as_far_as_in_the_paper(dimensions: int, latents: int, mean: float, spread: float) -> None:
    """Table 2; the standard error of 1000 draws is at most .007."""
    found = random_decoder_baseline(dimensions, latents, 1000, 0)
    assert found == pytest.approx((mean, spread), abs=0.02)


def test_the_baseline_has_the_size_of_the_decoder_and_depends_on_the_seed_alone() -> None:
    found = distance_to_orthogonality(affine(np.ones((30, 4)) + np.eye(30, 4)), np.zeros((3, 4)), seed=5)
    assert (found.parts["baseline"], found.parts["baseline_spread"]) == random_decoder_baseline(30, 4, 500, 5)
    assert random_decoder_baseline(30, 4, 500, 5) != random_decoder_baseline(30, 4, 500, 6)


def test_a_thousand_items_of_784_dimensions_take_seconds() -> None:
    model = Architecture(net=MLP((400,), (500, 500), "relu", "tanh")).build((1, 28, 28), 6, 0)
    data = open_dataset(np.random.default_rng(0).integers(0, 256, (1200, 1, 28, 28), dtype=np.uint8))
    began = time.perf_counter()
    found = distance_to_orthogonality(model, data)
    assert time.perf_counter() - began < 10
    assert "1000 items" in found.estimator
    assert 1 < found.score < found.parts["baseline"]


def test_many_items_are_differentiated_few_at_a_time_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    data = images()
    model = Architecture(net=SMALL).build((1, 8, 8), 3, 0)
    whole = distance_to_orthogonality(model, data)
    monkeypatch.setattr("vaescope.metrics.orthogonality.NUMBERS", 64 * 3 * 7)
    assert distance_to_orthogonality(model, data).score == pytest.approx(whole.score, abs=1e-6)


def described(name: str, net: Any = SMALL, **parts: Any) -> Architecture:
    posterior = "deterministic" if name == "autoencoder" else "diagonal"
    return Architecture(name, net, posterior, condition={"conditional": 3, "identifiable": 2}.get(name, 0), **parts)


@pytest.mark.parametrize("net", [SMALL, Conv((4, 2), (4, 8), 16)], ids=["mlp", "conv"])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_model_is_differentiated_at_its_means_told_what_it_must_be(name: str, net: Any) -> None:
    """Against the Jacobian that reverse mode finds, item by item."""
    model: Any = described(name, net).build((1, 8, 8), 4, 0).double()
    data = images(6)
    codes = encode(model, data)
    told = nn.functional.one_hot(codes.labels.long(), 3).double() if name == "conditional" else None
    expected = []
    for place, mean in enumerate(codes.mean):
        given = () if told is None else (told[place, None],)
        matrix = torch.autograd.functional.jacobian(
            lambda z, given=given: model.decode(z[None], *given).mean.flatten(), mean
        )
        expected.append(reference_orthogonality.distance(matrix.detach().numpy()))
    assert distance_to_orthogonality(model, data).score == pytest.approx(np.mean(expected), abs=1e-7)
    assert distance_to_orthogonality(model, codes).score == pytest.approx(np.mean(expected), abs=1e-7)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_label_changes_the_jacobian_of_a_conditional_model() -> None:
    model = described("conditional").build((1, 8, 8), 4, 0)
    codes = encode(model, images())
    other = replace(codes, labels=(codes.labels + 1) % 3)
    assert distance_to_orthogonality(model, codes).score != distance_to_orthogonality(model, other).score
    with pytest.raises(DataError, match="a label below 3 for every item, it has none"):
        distance_to_orthogonality(model, replace(codes, labels=None))
    with pytest.raises(DataError, match="a label below 3 for every item, got 3"):
        distance_to_orthogonality(model, replace(codes, labels=codes.labels + 1))


def test_the_jacobian_of_the_logits_is_another() -> None:
    model: Any = described("vae").build((1, 8, 8), 4, 0)
    data = images()
    codes = encode(model, data)
    found = {of: distance_to_orthogonality(model, data, of=of) for of in ("mean", "logits")}
    assert found["mean"].score != pytest.approx(found["logits"].score, abs=1e-3)
    assert found["logits"].score == pytest.approx(distance_to_orthogonality(model.decoder, codes).score, abs=1e-6)
    assert "logits" in found["logits"].estimator


def test_latents_that_are_masked_out_are_not_the_models() -> None:
    model: Any = described("vae").build((1, 8, 8), 4, 0).double()
    model.latent_mask[2:] = 0
    codes = encode(model, images(5))
    jacobians = [
        torch.autograd.functional.jacobian(lambda z: model.decode(z[None]).mean.flatten(), mean)[:, :2]
        for mean in codes.mean
    ]
    found = distance_to_orthogonality(model, codes)
    expected = np.mean([reference_orthogonality.distance(matrix.detach().numpy()) for matrix in jacobians])
    assert found.score == pytest.approx(expected, abs=1e-7)
    assert found.latents == (0, 1)


def test_a_linear_vae_in_closed_form_is_orthogonal() -> None:
    x = np.random.default_rng(0).standard_normal((300, 8)) * np.arange(1, 9) @ rotation(8, 1)
    for latents in (3, 8):
        model = Linear.fit(x, latents, gamma=5.0)
        assert distance_to_orthogonality(model, x).score == pytest.approx(0, abs=1e-9)
        assert column_orthogonality(model, x).score == pytest.approx(0, abs=1e-9)
    assert column_orthogonality(model, x).parts["passive"] == float((~model.active).sum()) > 0


def test_items_are_drawn_by_the_seed() -> None:
    model = described("vae").build((1, 8, 8), 4, 0)
    data = images()
    first, again, other = (distance_to_orthogonality(model, data, items=5, seed=seed).score for seed in (0, 0, 1))
    assert first == again != other
    codes = encode(model, data)
    assert distance_to_orthogonality(model, codes, items=5).score != distance_to_orthogonality(model, codes).score


def test_the_interval_is_that_of_a_mean_over_items() -> None:
    model = described("vae").build((1, 8, 8), 4, 0)
    found = distance_to_orthogonality(model, images())
    assert found.interval is not None
    error = found.parts["spread"] / np.sqrt(39)
    assert found.interval == pytest.approx((found.score - 1.96 * error, found.score + 1.96 * error), abs=1e-9)
    assert distance_to_orthogonality(model, images(), items=1).interval is None


def test_what_cannot_be_differentiated_is_refused() -> None:
    model = described("vae", likelihood=Gaussian()).build((1, 8, 8), 4, 0)
    data = images()
    codes = np.zeros((3, 2))
    with pytest.raises(ConfigurationError, match="of 'logits' is for a Bernoulli likelihood"):
        distance_to_orthogonality(model, data, of="logits")
    with pytest.raises(UnknownNameError, match="of must be one of logits, mean; got 'means'"):
        distance_to_orthogonality(model, data, of="means")
    with pytest.raises(ConfigurationError, match="of 'logits' is for our models"):
        column_orthogonality(affine(np.eye(2)), codes, of="logits")
    with pytest.raises(DataError, match=r"the 4 latents of the model, got shape \(40, 3\)"):
        distance_to_orthogonality(model, encode(described("vae").build((1, 8, 8), 3, 0), data))
    with pytest.raises(DataError, match="a function from codes to items, got int"):
        distance_to_orthogonality(3, codes)
    with pytest.raises(DataError, match=r"items x latents, got the shape \(3,\)"):
        distance_to_orthogonality(affine(np.eye(2)), codes[:, 0])
    with pytest.raises(DataError, match=r"one row for each of 1 codes, got the shape \(1,\)"):
        distance_to_orthogonality(lambda z: z.sum(1), codes)
    with pytest.raises(DataError, match="must be finite, that of code 0 is not"):
        distance_to_orthogonality(lambda z: z.sqrt(), codes)
    with pytest.raises(ConfigurationError, match="items must be a whole number"):
        distance_to_orthogonality(affine(np.eye(2)), codes, items=0)
