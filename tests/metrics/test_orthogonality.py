"""Orthogonality of decoders: every signed permutation and the paper's random decoders."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from reference import reference_orthogonality
from vaescope.errors import ConfigurationError, DataError
from vaescope.metrics import DecoderFunction
from vaescope.metrics.orthogonality import column_orthogonality, distance_to_orthogonality, random_decoder_baseline


def affine(matrix: np.ndarray) -> Callable[[Tensor], Tensor]:
    """A decoder with this Jacobian everywhere."""
    weights = torch.from_numpy(np.asarray(matrix, dtype=np.float64))
    return lambda z: z @ weights.T


def distance(matrix: np.ndarray) -> float:
    return distance_to_orthogonality(affine(matrix), np.zeros((1, np.shape(matrix)[1])), draws=1).score


def cosine(matrix: np.ndarray) -> float:
    return column_orthogonality(affine(matrix), np.zeros((1, np.shape(matrix)[1]))).score


def rotation(size: int, seed: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((size, size)))[0]


@pytest.mark.parametrize("latents", [1, 2, 3, 4, 5])
def test_the_distance_is_to_the_nearest_of_all_signed_permutations(latents: int) -> None:
    generator = np.random.default_rng(latents)
    for _ in range(6 if latents < 5 else 3):
        matrix = generator.standard_normal((8, latents)) * generator.uniform(0.1, 3, latents)
        assert distance(matrix) == pytest.approx(reference_orthogonality.distance(matrix), abs=1e-9)


def curved() -> tuple[Callable[[Tensor], Tensor], np.ndarray]:
    """A decoder whose Jacobian differs from code to code, and codes."""
    generator = np.random.default_rng(0)
    first, second = (torch.from_numpy(generator.standard_normal(shape)) for shape in ((6, 3), (7, 6)))
    return lambda z: torch.tanh(z @ first.T) @ second.T, generator.standard_normal((5, 3))


def test_the_jacobian_is_that_of_the_decoder_at_each_code() -> None:
    """Central differences are good to about 1e-9 here."""
    decoder, codes = curved()

    def one(z: np.ndarray) -> np.ndarray:
        return decoder(torch.from_numpy(z)[None])[0].numpy()

    jacobians = [reference_orthogonality.jacobian(one, code) for code in codes]
    distances = [reference_orthogonality.distance(matrix) for matrix in jacobians]
    found = distance_to_orthogonality(decoder, codes)
    assert found.score == pytest.approx(np.mean(distances), abs=1e-6)
    assert found.parts["spread"] == pytest.approx(np.std(distances), abs=1e-6)
    cosines = [reference_orthogonality.cosine(matrix) for matrix in jacobians]
    assert column_orthogonality(decoder, codes).score == pytest.approx(np.mean(cosines), abs=1e-6)


@settings(deadline=None, max_examples=30)
@given(order=st.permutations(range(4)), signs=st.tuples(*[st.sampled_from([-1, 1])] * 4), seed=st.integers(0, 99))
def test_orthogonal_columns_have_distance_0_in_any_order_and_sign(
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


def test_the_cosine_is_invariant_to_the_length_of_columns() -> None:
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
def test_orthogonal_columns_of_equal_length_have_distance_0_although_v_is_not_unique(kind: torch.dtype) -> None:
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
    with pytest.raises(DataError, match="at least 2 latents"):
        column_orthogonality(affine(np.ones((5, 1))), np.zeros((4, 1)))
    with pytest.raises(DataError, match="at least 2 latents"):
        column_orthogonality(affine(np.zeros((5, 3))), np.zeros((4, 3)))


@pytest.mark.parametrize(
    ("dimensions", "latents", "mean", "spread"),
    [(3, 2, 0.807, 0.217), (6, 2, 0.894, 0.148), (4096, 5, 1.858, 0.114), (784, 6, 2.114, 0.115)],
)
def test_random_decoders_have_the_distance_of_the_paper(
    dimensions: int, latents: int, mean: float, spread: float
) -> None:
    """Table 2; the standard error of 1000 draws is at most .007."""
    found = random_decoder_baseline(dimensions, latents, 1000, 0)
    assert found == pytest.approx((mean, spread), abs=0.02)


def test_the_baseline_has_the_size_of_the_decoder_and_depends_on_the_seed_alone() -> None:
    found = distance_to_orthogonality(affine(np.ones((30, 4)) + np.eye(30, 4)), np.zeros((3, 4)), seed=5)
    assert (found.parts["baseline"], found.parts["baseline_spread"]) == random_decoder_baseline(30, 4, 500, 5)
    assert random_decoder_baseline(30, 4, 500, 5) != random_decoder_baseline(30, 4, 500, 6)


def test_many_items_are_differentiated_few_at_a_time_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, codes = curved()
    whole = distance_to_orthogonality(decoder, codes)
    monkeypatch.setattr("vaescope.metrics.decoders.MAX_JACOBIAN_ENTRIES", 7 * 3 * 2)
    assert distance_to_orthogonality(decoder, codes).score == pytest.approx(whole.score, abs=1e-9)


def test_a_condition_is_passed_with_the_code_of_its_item() -> None:
    codes = np.random.default_rng(0).standard_normal((6, 2))
    conditions = torch.rand(6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def function(z: Tensor, condition: Tensor) -> Tensor:
        return torch.stack([z[:, 0], z[:, 0] * condition[:, 0] + z[:, 1], condition[:, 2]], 1)

    matrices = [np.array([[1, 0], [share, 1], [0, 0]]) for share in conditions[:, 0].tolist()]
    expected = [reference_orthogonality.distance(matrix) for matrix in matrices]
    decoder = DecoderFunction(function, conditions)
    assert distance_to_orthogonality(decoder, codes).score == pytest.approx(np.mean(expected), abs=1e-9)
    some = {distance_to_orthogonality(decoder, codes, items=1, seed=seed).score for seed in range(20)}
    assert sorted(some) == pytest.approx(sorted(expected), abs=1e-9)
    with pytest.raises(DataError, match="6 conditions and 5 codes"):
        distance_to_orthogonality(decoder, codes[:5])


def test_latents_that_a_decoder_does_not_use_are_left_out() -> None:
    matrix = np.random.default_rng(0).standard_normal((9, 4))
    found = distance_to_orthogonality(DecoderFunction(affine(matrix), latents=(0, 3)), np.zeros((3, 4)))
    assert found.score == pytest.approx(reference_orthogonality.distance(matrix[:, [0, 3]]), abs=1e-9)
    assert found.latents == (0, 3)


def test_a_module_is_differentiated_in_the_type_of_its_parameters() -> None:
    module = nn.Linear(3, 5)
    found = distance_to_orthogonality(module, np.zeros((2, 3)))
    matrix = module.weight.detach().double().numpy()
    assert found.score == pytest.approx(reference_orthogonality.distance(matrix), abs=1e-6)


def test_items_are_drawn_by_the_seed() -> None:
    decoder, codes = curved()
    first, again, other = (distance_to_orthogonality(decoder, codes, items=2, seed=seed).score for seed in (0, 0, 1))
    assert first == again != other
    assert "2 items" in distance_to_orthogonality(decoder, codes, items=2).estimator


def test_the_interval_is_that_of_a_mean_over_items() -> None:
    decoder, codes = curved()
    found = distance_to_orthogonality(decoder, codes)
    assert found.interval is not None
    error = found.parts["spread"] / np.sqrt(len(codes) - 1)
    assert found.interval == pytest.approx((found.score - 1.96 * error, found.score + 1.96 * error), abs=1e-9)
    assert distance_to_orthogonality(decoder, codes, items=1).interval is None


def test_decoders_that_cannot_be_differentiated_are_refused() -> None:
    codes = np.zeros((3, 2))
    with pytest.raises(DataError, match="got int"):
        distance_to_orthogonality(3, codes)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"items x latents.*\(3,\)"):
        distance_to_orthogonality(affine(np.eye(2)), codes[:, 0])
    with pytest.raises(DataError, match=r"1 codes.*\(1,\)"):
        distance_to_orthogonality(lambda z: z.sum(1), codes)
    with pytest.raises(DataError, match=r"finite.*code 0"):
        distance_to_orthogonality(lambda z: z.sqrt(), codes)
    with pytest.raises(ConfigurationError, match="items"):
        distance_to_orthogonality(affine(np.eye(2)), codes, items=0)
