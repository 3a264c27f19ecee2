"""Sparsity of codes: the definition item by item, its extremes, and its invariances."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import reference_sparsity
from vaescope.codes import Representation
from vaescope.errors import ConfigurationError, DataError
from vaescope.metrics.sparsity import class_activation, hoyer


def codes_of(items: int = 300, latents: int = 6, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    on = generator.random((items, latents)) < 0.4
    return generator.standard_normal((items, latents)) * np.where(on, 1.0, 0.1) * np.arange(1, latents + 1) + 0.2


def representation(codes: np.ndarray, labels: np.ndarray | None = None) -> Representation:
    mean = torch.from_numpy(codes)
    kinds = None if labels is None else torch.from_numpy(labels)
    return Representation(mean, torch.ones_like(mean), mean, labels=kinds)


def test_the_score_is_the_definition_item_by_item() -> None:
    codes = codes_of()
    assert hoyer(codes).score == pytest.approx(reference_sparsity.hoyer(codes), abs=1e-12)


def test_without_normalising_the_codes_are_taken_as_they_are() -> None:
    codes = codes_of()
    expected = np.mean([reference_sparsity.of_item(list(row)) for row in codes])
    assert hoyer(codes, normalise=False).score == pytest.approx(expected, abs=1e-12)


def test_one_latent_at_a_time_scores_1_and_all_equally_scores_0() -> None:
    one_each = np.tile(np.eye(4), (3, 1)) * np.array([1.0, 10.0, 0.1, 5.0])
    equal = np.array([[1.0, 1.0, 1.0, 1.0], [-1.0, -1.0, -1.0, -1.0]])
    assert hoyer(one_each).score == pytest.approx(1)
    assert hoyer(equal).score == pytest.approx(0)


def test_gaussian_codes_have_the_theoretical_score() -> None:
    """|z|_1 / |z|_2 is about sqrt(2 d / pi) for many latents d; the ratio spreads by less than .001 over 4000 items."""
    codes = np.random.default_rng(0).standard_normal((4000, 400))
    assert hoyer(codes).score == pytest.approx((1 - np.sqrt(2 / np.pi)) / (1 - 1 / 20), abs=2e-3)


@settings(deadline=None, max_examples=20)
@given(
    order=st.permutations(range(5)),
    factors=st.lists(st.floats(0.01, 100).flatmap(lambda size: st.sampled_from([size, -size])), min_size=5, max_size=5),
)
def test_the_order_scale_and_sign_of_latents_change_nothing(order: list[int], factors: list[float]) -> None:
    codes = codes_of(50, 5)
    assert hoyer(codes[:, order] * np.array(factors)).score == pytest.approx(hoyer(codes).score, abs=1e-9)


def test_scales_seem_sparse_only_if_codes_are_not_normalised() -> None:
    dense = np.random.default_rng(0).choice([-1.0, 1.0], (200, 8))
    stretched = dense * np.array([100.0, *[1.0] * 7])
    assert hoyer(stretched, normalise=False).score > 0.9
    assert hoyer(stretched).score == pytest.approx(hoyer(dense).score)
    assert hoyer(dense).score < 0.01


def test_sparse_codes_lose_their_sparsity_when_rotated() -> None:
    codes = codes_of(latents=10)
    rotation = np.linalg.qr(np.random.default_rng(1).standard_normal((10, 10)))[0]
    assert hoyer(codes).score > hoyer(codes @ rotation).score + 0.1


def test_latents_that_do_not_vary_are_left_out_and_counted() -> None:
    codes = codes_of()
    wide = np.insert(codes, [0, 3], [0.0, 7.0], axis=1)
    found = hoyer(wide)
    assert found.score == pytest.approx(hoyer(codes).score)
    assert found.parts["constant_latents"] == 2
    assert found.latents == (1, 2, 3, 5, 6, 7)


def test_an_item_of_zeros_is_left_out_and_counted() -> None:
    codes = np.concatenate([np.eye(3), np.zeros((2, 3))])
    found = hoyer(codes, normalise=False)
    assert found.score == pytest.approx(1)
    assert found.parts["zero_items"] == 2


def test_a_representation_a_tensor_and_an_array_score_equally() -> None:
    codes = codes_of()
    assert hoyer(representation(codes)).score == hoyer(torch.from_numpy(codes)).score == hoyer(codes).score


def test_the_interval_of_half_samples_is_about_the_standard_error_of_the_mean() -> None:
    """Between half and twice: 20 halves give the standard error to about 16%."""
    codes = codes_of(1000)
    found = hoyer(codes, half_samples=20)
    rows = np.array([reference_sparsity.of_item(row) for row in reference_sparsity.scaled(codes)])
    assert found.interval is not None
    width = (found.interval[1] - found.interval[0]) / 2 / 1.96
    assert 0.5 < width / (rows.std() / np.sqrt(len(rows))) < 2
    assert hoyer(codes).interval is None
    assert hoyer(codes, half_samples=20) == found
    with pytest.raises(ConfigurationError, match="half_samples"):
        hoyer(codes, half_samples=1)


def test_activation_by_class_is_the_mean_magnitude_of_each_latent_in_each_class() -> None:
    codes, labels = codes_of(), np.random.default_rng(2).integers(0, 4, 300)
    found = class_activation(codes, labels)
    assert found.matrix == pytest.approx(np.array(reference_sparsity.activation(codes, labels)), abs=1e-12)
    columns = [reference_sparsity.of_item(list(column)) for column in np.asarray(found.matrix).T]
    assert found.by_factor == pytest.approx(columns, abs=1e-12)
    assert found.score == pytest.approx(np.mean(columns), abs=1e-12)


def test_classes_with_latents_that_no_other_uses_score_1_and_classes_that_share_all_score_0() -> None:
    labels = np.repeat([3, 7, 9], 20)
    apart = np.eye(3)[[0, 1, 2]].repeat(20, 0)
    found = class_activation(apart, labels)
    assert found.score == pytest.approx(1)
    assert found.factors == ("class 3", "class 7", "class 9")
    assert (np.asarray(found.matrix) > 0).tolist() == np.eye(3, dtype=bool).tolist()
    equal = np.random.default_rng(0).choice([-1.0, 1.0], (60, 3))
    assert class_activation(equal, labels).score < 0.01


def test_classes_come_from_the_representation_unless_given() -> None:
    codes, labels = codes_of(), np.random.default_rng(2).integers(0, 4, 300)
    own = class_activation(representation(codes, labels))
    assert own == class_activation(codes, labels) == class_activation(codes, torch.from_numpy(labels))


def test_a_constant_latent_has_no_row_in_the_matrix() -> None:
    codes, labels = codes_of(), np.random.default_rng(2).integers(0, 4, 300)
    found = class_activation(np.insert(codes, 2, 1.0, axis=1), labels)
    assert np.asarray(found.matrix).shape == (6, 4)
    assert found.latents == (0, 1, 3, 4, 5, 6)
    assert found.parts["constant_latents"] == 1


@pytest.mark.parametrize(
    ("codes", "sentence"),
    [
        (np.zeros(5), r"\(5,\)"),
        (np.ones((5, 3)), "0 of 3"),
        (np.arange(5.0)[:, None], "1 of 1"),
        (np.full((5, 3), np.nan), "finite"),
    ],
)
def test_codes_without_sparsity_are_refused(codes: np.ndarray, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        hoyer(codes)


def test_labels_that_are_not_classes_are_refused() -> None:
    codes = codes_of(20)
    with pytest.raises(DataError, match="Pass labels"):
        class_activation(codes)
    with pytest.raises(DataError, match="Pass labels"):
        class_activation(representation(codes))
    with pytest.raises(DataError, match=r"\(20, 2\)"):
        class_activation(codes, np.ones((20, 2)))
    with pytest.raises(DataError, match="'label' is continuous"):
        class_activation(codes, np.linspace(0, 1, 20))
    with pytest.raises(DataError, match="zero"):
        class_activation(np.concatenate([codes, np.zeros((5, 6))]), np.repeat([0, 1], [20, 5]))
