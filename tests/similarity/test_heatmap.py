"""Heatmaps: every cell is the mean over pairs of models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from vaescope.errors import DataError, UnknownNameError
from vaescope.similarity import group_similarity, layer_similarity, linear_cka, procrustes

ITEMS = 40
WIDTHS = {"input": 6, "mean": 3, "decoder": 5}

Tables = dict[str, np.ndarray]


def models(count: int, first: int = 0) -> list[Tables]:
    """Activations that share a signal, like those of models with different seeds."""
    signal = np.random.default_rng(99).standard_normal((ITEMS, 6))
    found = []
    for seed in range(first, first + count):
        generator = np.random.default_rng(seed)
        found.append(
            {name: signal[:, :width] + generator.standard_normal((ITEMS, width)) for name, width in WIDTHS.items()}
        )
    return found


def mean_over_pairs(left: list[Tables], right: list[Tables], row: str, column: str, measure: Any) -> float:
    """Equation 7.9 by loops, without pairs of a model with itself."""
    return float(np.mean([measure(one[row], other[column]) for one in left for other in right if one is not other]))


@pytest.mark.parametrize(("name", "measure"), [("cka", linear_cka), ("procrustes", procrustes)])
def test_cells_are_means_over_all_pairs_of_seeds(name: str, measure: Callable[..., float]) -> None:
    left, right = models(2), models(3, first=10)
    found = layer_similarity(left, right, measure=name)
    assert found.rows == found.columns == tuple(WIDTHS)
    assert (found.pairs == 6).all()
    for i, row in enumerate(WIDTHS):
        for j, column in enumerate(WIDTHS):
            expected = mean_over_pairs(left, right, row, column, measure)
            assert found.matrix[i, j] == pytest.approx(expected, abs=1e-10), (row, column)


def test_a_group_with_itself_leaves_out_pairs_of_a_model_with_itself() -> None:
    group = models(3)
    found = layer_similarity(group, layers=["mean", "decoder"])
    # For one layer both orders of a pair are the same number, which counts once.
    assert found.pairs.tolist() == [[3, 6], [6, 3]]
    assert found.matrix[0, 1] == pytest.approx(mean_over_pairs(group, group, "mean", "decoder", linear_cka), abs=1e-10)
    assert found.matrix == pytest.approx(found.matrix.T)
    again = layer_similarity(group, group, layers=["mean", "decoder"])
    assert again.matrix == pytest.approx(found.matrix, abs=1e-12)
    assert again.pairs.tolist() == found.pairs.tolist()


def test_one_model_with_itself_has_a_diagonal_of_ones() -> None:
    found = layer_similarity(models(1)[0])
    assert (found.pairs == 1).all()
    assert np.diag(found.matrix) == pytest.approx(np.ones(len(WIDTHS)))


class Computed:
    """A source of activations that counts how often they are computed."""

    def __init__(self, tables: Tables) -> None:
        self.held, self.calls = tables, 0

    def layers(self) -> list[str]:
        return list(self.held)

    def bytes(self, layers: Any) -> int:
        return sum(self.held[name].nbytes for name in layers)

    def tables(self, layers: Any) -> list[torch.Tensor]:
        self.calls += 1
        return [torch.from_numpy(self.held[name]) for name in layers]


@pytest.mark.parametrize("memory", [1, 15_000])
def test_little_memory_computes_activations_again_and_changes_no_number(memory: int) -> None:
    left, right = models(3), models(2, first=10)
    for other in (None, right):
        whole = layer_similarity(left, other)
        sources = [Computed(one) for one in left]
        others = None if other is None else [Computed(one) for one in other]
        some = layer_similarity(sources, others, memory=memory)
        assert some.matrix == pytest.approx(whole.matrix, abs=1e-12)
        assert some.pairs == pytest.approx(whole.pairs)
        assert sum(source.calls for source in (*sources, *(others or ()))) > len(left)


def test_a_layer_that_does_not_vary_is_blank_and_named() -> None:
    still = {"mean": models(1)[0]["mean"], "variance": np.ones((ITEMS, 3))}
    others = [{"mean": one["mean"], "variance": one["mean"] ** 2} for one in models(2, first=3)]
    found = layer_similarity(still, others)
    assert np.isnan(found.matrix[1]).all()
    assert not np.isnan(found.matrix[0]).any()
    assert found.constant == ("variance",)
    assert "variance" in found.summary()
    assert found.pairs.tolist() == [[2, 2], [0, 0]]
    assert np.isnan(layer_similarity({"a": np.ones((5, 2))}, {"b": np.ones((5, 2))}).matrix).all()


def test_the_table_and_the_summary_hold_the_matrix() -> None:
    found = layer_similarity(models(2), models(2, first=5), layers=["mean", "decoder"])
    rows = found.table()
    assert len(rows) == 4
    assert rows[1] == {
        "row": "mean",
        "column": "decoder",
        "cka": float(found.matrix[0, 1]),
        "deviation": float(found.deviation[0, 1]),
        "pairs": 4,
    }
    assert found.deviation.min() > 0
    assert f"{found.matrix.max():.3f}" in found.summary()


def test_groups_over_betas_average_their_seeds() -> None:
    groups = {0.5: models(2), 4.0: models(3, first=10), 8.0: models(1, first=20)}
    found = group_similarity(groups, layer="decoder")
    assert found.rows == found.columns == ("0.5", "4.0", "8.0")
    for i, left in enumerate(groups.values()):
        for j, right in enumerate(groups.values()):
            if (i, j) != (2, 2):
                expected = mean_over_pairs(left, right, "decoder", "decoder", linear_cka)
                assert found.matrix[i, j] == pytest.approx(expected, abs=1e-10)
    assert found.matrix[2, 2] == pytest.approx(1)
    assert found.pairs.tolist() == [[1, 6, 2], [6, 3, 3], [2, 3, 1]]
    others = group_similarity({"epoch 1": groups[0.5]}, {"last": groups[4.0]}, layer="decoder")
    assert others.matrix == pytest.approx(found.matrix[:1, 1:2], abs=1e-12)


def test_wrong_input_is_named() -> None:
    with pytest.raises(DataError, match="at least one model"):
        layer_similarity([])
    with pytest.raises(DataError, match="got Linear"):
        layer_similarity(torch.nn.Linear(2, 2))  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="encoder/7"):
        layer_similarity(models(1), layers=["encoder/7"])
    with pytest.raises(DataError, match="groups"):
        group_similarity(models(1))  # type: ignore[arg-type]
    broken = torch.rand(6, 2)
    broken[2, 1] = torch.nan
    with pytest.raises(DataError, match=r"mean of model 0 .* nan .* item 2, feature 1"):
        layer_similarity({"mean": broken}, {"mean": torch.rand(6, 3)})
