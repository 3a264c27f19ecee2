"""Unsupervised disentanglement ranking against plain loops, and known answers."""

from __future__ import annotations

import math
from statistics import median

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vaescope.codes import Representation
from vaescope.errors import ConfigurationError, DataError, UnknownNameError
from vaescope.metrics import udr
from vaescope.regime import collapse

Table = list[list[float]]


def plain_ranks(column: list[float]) -> list[float]:
    """Ranks: one more than the number of smaller values, plus half the number of other equal values."""
    return [
        1 + sum(other < number for other in column) + (sum(other == number for other in column) - 1) / 2
        for number in column
    ]


def plain_standard(column: list[float]) -> list[float]:
    mean = math.fsum(column) / len(column)
    spread = math.sqrt(math.fsum((number - mean) ** 2 for number in column) / len(column))
    return [(number - mean) / spread for number in column]


def plain_spearman(ours: Table, theirs: Table) -> Table:
    first, second = ([plain_standard(plain_ranks(column)) for column in part] for part in (ours, theirs))
    return [[abs(sum(a * b for a, b in zip(x, y, strict=True))) / len(x) for y in second] for x in first]


def plain_lasso(ours: Table, theirs: Table, penalty: float = 0.1) -> Table:
    """Coordinate descent on |y - Xw|^2 / 2n + penalty |w|, one target at a time."""
    first, second = ([plain_standard(column) for column in part] for part in (ours, theirs))
    count = len(first[0])
    columns = []
    for target in second:
        weights = [0.0] * len(first)
        for _ in range(500):
            change = 0.0
            for place, column in enumerate(first):
                rest = [
                    y - sum(w * x[i] for q, (w, x) in enumerate(zip(weights, first, strict=True)) if q != place)
                    for i, y in enumerate(target)
                ]
                slope = sum(a * b for a, b in zip(column, rest, strict=True)) / count
                before = weights[place]
                weights[place] = math.copysign(max(abs(slope) - penalty, 0), slope)
                change = max(change, abs(weights[place] - before))
            if change < 1e-12:
                break
        columns.append([abs(weight) for weight in weights])
    return [list(row) for row in zip(*columns, strict=True)]


def plain_strength(matrix: Table) -> float:
    def side(rows: Table) -> float:
        return sum(max(row) ** 2 / sum(row) if sum(row) else 0 for row in rows) / len(rows)

    return (side(matrix) + side([list(column) for column in zip(*matrix, strict=True)])) / 2


def plain_udr(models: list[Table], method: str) -> tuple[float, list[float]]:
    compare = {"spearman": plain_spearman, "lasso": plain_lasso}[method]
    scores = {
        (a, b): plain_strength(compare(ours, theirs))
        for a, ours in enumerate(models)
        for b, theirs in enumerate(models)
        if a != b
    }
    by_model = [median(score for (_, b), score in scores.items() if b == model) for model in range(len(models))]
    return median(scores.values()), by_model


def some_models(items: int = 60, count: int = 4, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Mixtures of the same three sources with 3 or 4 latents, all but the first with one uninformative latent."""
    generator = np.random.default_rng(seed)
    sources = generator.standard_normal((items, 3))
    models = []
    for place in range(count):
        latents = 3 + place % 2
        codes = sources @ generator.standard_normal((3, latents)) + 0.3 * generator.standard_normal((items, latents))
        rates = np.full(latents, 0.5)
        rates[place % 3] = 0.005 if place else 0.5
        models.append((codes.round(1), rates))
    return models


def columns(models: list[tuple[np.ndarray, np.ndarray]]) -> list[Table]:
    return [codes[:, rates > 0.01].T.tolist() for codes, rates in models]


@pytest.mark.parametrize(("method", "error"), [("spearman", 1e-12), ("lasso", 1e-5)])
def test_scores_are_those_of_plain_loops(method: str, error: float) -> None:
    # The lasso stops at a relative gap of 1e-8, which is about its square root in the weights.
    models = some_models(40, 3) if method == "lasso" else some_models()
    score = udr(models, method=method)
    expected, by_model = plain_udr(columns(models), method)
    assert score.score == pytest.approx(expected, abs=error)
    assert list(score.parts.values()) == pytest.approx(by_model, abs=error)
    assert 0.1 < expected < 0.95


def test_two_models_are_a_pair_in_both_directions() -> None:
    found = udr(some_models(count=2))
    assert found.parts["model_0"] == pytest.approx(found.parts["model_1"], abs=1e-12)
    assert found.score == pytest.approx(found.parts["model_0"], abs=1e-12)


@pytest.mark.parametrize(("method", "best"), [("spearman", 1.0), ("lasso", 0.9)])
def test_copies_with_other_order_sign_and_scale_score_the_most(method: str, best: float) -> None:
    generator = np.random.default_rng(0)
    # Orthogonal by design, in ranks too: no correlation by chance is left.
    grid = np.stack(np.meshgrid(*[np.arange(6.0)] * 3), axis=-1).reshape(-1, 3)
    models = [
        (grid[:, generator.permutation(3)] * generator.choice([-2.0, 0.5, 3.0], 3) + 1, np.ones(3)) for _ in range(4)
    ]
    score = udr(models, method=method)
    assert score.score == pytest.approx(best, abs=1e-6)
    assert list(score.parts.values()) == pytest.approx([best] * 4, abs=1e-6)


@pytest.mark.parametrize("method", ["spearman", "lasso"])
def test_rotated_copies_score_less(method: str) -> None:
    generator = np.random.default_rng(0)
    codes = generator.standard_normal((1000, 4))
    rotations = [np.linalg.qr(generator.standard_normal((4, 4)))[0] for _ in range(4)]
    copies, rotated = (
        [(part, np.ones(4)) for part in parts] for parts in ([codes] * 4, [codes @ r for r in rotations])
    )
    assert udr(rotated, method=method).score < 0.7 * udr(copies, method=method).score


@pytest.mark.parametrize("method", ["spearman", "lasso"])
def test_noise_scores_about_0(method: str) -> None:
    generator = np.random.default_rng(0)
    # Correlations of noise are about 1 / sqrt(1000), and the greatest of ten squared over their sum is less.
    assert udr([(generator.standard_normal((1000, 10)), np.ones(10)) for _ in range(5)], method=method).score < 0.03


def test_a_model_that_shares_no_latents_is_found() -> None:
    generator = np.random.default_rng(0)
    codes = generator.standard_normal((500, 4))
    odd = codes @ np.linalg.qr(generator.standard_normal((4, 4)))[0]
    score = udr([(part, np.ones(4)) for part in (codes, codes[:, ::-1], odd, -codes)], names=list("abcd"))
    assert min(score.parts, key=score.parts.__getitem__) == "c"


def test_latents_that_are_not_informative_are_left_out() -> None:
    models = some_models()
    only = [(codes[:, rates > 0.01], rates[rates > 0.01]) for codes, rates in models]
    assert udr(models) == udr(only)
    assert udr(models).score != udr(models, threshold=0).score


def test_the_divergence_of_a_representation_is_its_own() -> None:
    generator = np.random.default_rng(0)
    representations, given_rates = [], []
    for _ in range(3):
        mean = torch.from_numpy(generator.standard_normal((200, 3))) * torch.tensor([1.0, 0.01, 1.0])
        variance = torch.tensor([0.1, 1.0, 0.1]).double().expand(200, 3)
        representations.append(Representation(mean, variance, mean))
        given_rates.append((mean, collapse(representations[-1]).rates))
    assert udr(representations) == udr(given_rates)
    informative = [(part.mean[:, [0, 2]], np.ones(2)) for part in representations]
    assert udr(representations) == udr(informative)


def test_a_divergence_by_item_is_averaged() -> None:
    models = some_models()
    spread = np.random.default_rng(0).random((60, 1)) * 2
    by_item = [(codes, rates * spread / spread.mean()) for codes, rates in models]
    assert udr(by_item) == udr(models)


def test_a_collapsed_model_scores_0() -> None:
    models = some_models()
    models[1] = (models[1][0], np.zeros(4))
    score = udr(models)
    assert score.parts["model_1"] == 0
    assert score.parts["model_0"] > 0
    assert udr([(codes, rates * 0) for codes, rates in models]).score == 0


def test_a_constant_latent_matches_nothing() -> None:
    generator = np.random.default_rng(0)
    codes = generator.standard_normal((100, 2))
    still = np.stack((codes[:, 0], np.full(100, 0.1)), axis=1)
    for method, best in (("spearman", 1.0), ("lasso", 0.9)):
        found = udr([(still, np.ones(2)), (codes[:, :1], np.ones(1))], method=method)
        # All latents of the other model are matched, and one of the two of this one.
        assert found.score == pytest.approx((best + best / 2) / 2, abs=1e-6)


def test_some_items_are_drawn_by_the_seed() -> None:
    models = some_models(400)
    first, again, other = (udr(models, items=100, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert first.score != other.score
    assert udr(models, items=400) == udr(models)


@settings(max_examples=20, deadline=None)
@given(order=st.permutations(range(3)), powers=st.lists(st.sampled_from([-3, -1, 1, 3]), min_size=3, max_size=3))
def test_monotonic_changes_of_a_latent_do_not_matter_to_ranks(order: list[int], powers: list[int]) -> None:
    models = some_models()
    codes, rates = models[0]
    # Odd powers, and negative ones by their sign, keep or reverse the order.
    changed = np.sign(powers) * codes[:, order] ** np.abs(powers)
    after = udr([(changed, rates[order]), *models[1:]])
    assert after.score == pytest.approx(udr(models).score, abs=1e-12)


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ([(np.zeros((5, 2)), np.ones(2))], "at least 2.*got 1"),
        ([(np.zeros((5, 2)), np.ones(2)), (np.zeros((4, 2)), np.ones(2))], r"\[5, 4\]"),
        ([(np.zeros((5, 2)), np.ones(2)), np.zeros((5, 2))], "model 1.*ndarray"),
        ([(np.zeros((5, 2)), np.ones(3))] * 2, r"model 0.*\(5, 2\) and \(3,\)"),
        ([(np.full((5, 2), np.nan), np.ones(2))] * 2, "model 0.*finite"),
        ([(np.full((5, 2), "a"), np.ones(2))] * 2, "mean of model 0"),
    ],
)
def test_bad_models_are_named(models: list, message: str) -> None:
    with pytest.raises(DataError, match=message):
        udr(models)


def test_a_wrong_setting_is_named() -> None:
    models = some_models()
    with pytest.raises(UnknownNameError, match="'pearson'"):
        udr(models, method="pearson")
    with pytest.raises(ConfigurationError, match="items"):
        udr(models, items=1)
    with pytest.raises(DataError, match="4 models"):
        udr(models, names=["a", "b", "b", "c"])
