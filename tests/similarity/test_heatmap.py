"""Heatmaps: every cell is the mean over pairs of models, whatever is held in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from vaescope.encoding.activations import activations
from vaescope.errors import DataError, UnknownNameError
from vaescope.models import Architecture, Linear
from vaescope.similarity import group_similarity, layer_similarity, linear_cka, procrustes

ITEMS = 40
IMAGES = np.random.default_rng(0).integers(0, 256, (ITEMS, 1, 6, 6), dtype=np.uint8)
MLP = {"name": "mlp", "encoder_widths": (9,), "decoder_widths": (8,)}
NAMES = ("input", "encoder/1", "mean", "variance", "sampled", "decoder/1", "decoder/2")


def models(count: int, first: int = 0, latents: int = 3) -> list[Any]:
    architecture = Architecture("vae", MLP, initialisation="torch")
    return [architecture.build((1, 6, 6), latents, seed=first + number).double() for number in range(count)]


def mean_over_pairs(left: list[Any], right: list[Any], row: str, column: str, measure: Any) -> float:
    """Equation 7.9 by loops, without pairs of a model with itself."""
    scores = []
    for one in left:
        for other in right:
            if one is not other:
                scores.append(measure(activations(one, IMAGES)[row], activations(other, IMAGES)[column]))
    return float(np.mean(scores))


@pytest.mark.parametrize(("name", "measure"), [("cka", linear_cka), ("procrustes", procrustes)])
def test_cells_are_means_over_all_pairs_of_seeds(name: str, measure: Any) -> None:
    left, right = models(2), models(3, first=10)
    found = layer_similarity(left, right, IMAGES, measure=name)
    assert found.rows == found.columns == NAMES
    assert (found.pairs == 6).all()
    for i, row in enumerate(NAMES):
        for j, column in enumerate(NAMES):
            expected = mean_over_pairs(left, right, row, column, measure)
            assert found.matrix[i, j] == pytest.approx(expected, abs=1e-10), (row, column)


def test_a_group_with_itself_leaves_out_pairs_of_a_model_with_itself() -> None:
    group = models(3)
    found = layer_similarity(group, data=IMAGES, layers=["mean", "decoder/1"])
    # Of one layer, both orders of a pair are the same number, which counts once.
    assert found.pairs.tolist() == [[3, 6], [6, 3]]
    assert found.matrix[0, 1] == pytest.approx(
        mean_over_pairs(group, group, "mean", "decoder/1", linear_cka), abs=1e-10
    )
    assert found.matrix == pytest.approx(found.matrix.T)
    again = layer_similarity(group, group, IMAGES, layers=["mean", "decoder/1"])
    assert again.matrix == pytest.approx(found.matrix, abs=1e-12)
    assert again.pairs.tolist() == found.pairs.tolist()


def test_one_model_with_itself_has_a_diagonal_of_ones() -> None:
    found = layer_similarity(models(1)[0], data=IMAGES)
    assert (found.pairs == 1).all()
    assert np.diag(found.matrix) == pytest.approx(np.ones(len(NAMES)))


@pytest.mark.parametrize("memory", [1, 60_000])
def test_little_memory_changes_nothing(memory: int) -> None:
    left, right = models(3), models(2, first=10)
    for other in (None, right):
        whole = layer_similarity(left, other, IMAGES)
        some = layer_similarity(left, other, IMAGES, memory=memory)
        assert some.matrix == pytest.approx(whole.matrix, abs=1e-12)
        assert some.pairs == pytest.approx(whole.pairs)


def test_activations_may_stand_for_models() -> None:
    left, right = models(1)[0], models(1, first=7)[0]
    given = layer_similarity(activations(left, IMAGES), [activations(right, IMAGES)])
    assert given.matrix == pytest.approx(layer_similarity(left, right, IMAGES).matrix, abs=1e-12)


def test_a_layer_that_does_not_vary_is_blank_and_named() -> None:
    found = layer_similarity(Linear.fit(IMAGES, 3, gamma=0.05), models(2), IMAGES, layers=["mean", "variance"])
    assert np.isnan(found.matrix[1]).all()
    assert not np.isnan(found.matrix[0]).any()
    assert found.constant == ("variance",)
    assert "without variation: variance" in found.summary()
    assert found.pairs.tolist() == [[2, 2], [0, 0]]
    still = layer_similarity({"a": np.ones((5, 2))}, {"b": np.ones((5, 2))})
    assert "none of them varies" in still.summary()


def test_the_table_and_the_summary_say_what_the_matrix_holds() -> None:
    found = layer_similarity(models(2), models(2, first=5), IMAGES, layers=["mean", "sampled"])
    rows = found.table()
    assert len(rows) == 4
    assert rows[1] == {
        "row": "mean",
        "column": "sampled",
        "cka": float(found.matrix[0, 1]),
        "deviation": float(found.deviation[0, 1]),
        "pairs": 4,
    }
    assert found.deviation.min() > 0
    assert f"{found.matrix.max():.3f}" in found.summary()


def test_groups_over_betas_average_their_seeds() -> None:
    groups = {0.5: models(2), 4.0: models(3, first=10), 8.0: models(1, first=20)}
    found = group_similarity(groups, data=IMAGES, layer="variance")
    assert found.rows == found.columns == ("0.5", "4.0", "8.0")
    for i, left in enumerate(groups.values()):
        for j, right in enumerate(groups.values()):
            if (i, j) != (2, 2):
                expected = mean_over_pairs(left, right, "variance", "variance", linear_cka)
                assert found.matrix[i, j] == pytest.approx(expected, abs=1e-10)
    assert found.matrix[2, 2] == pytest.approx(1)
    assert found.pairs.tolist() == [[1, 6, 2], [6, 3, 3], [2, 3, 1]]
    others = group_similarity({"epoch 1": groups[0.5]}, {"last": groups[4.0]}, IMAGES, layer="variance")
    assert others.matrix == pytest.approx(found.matrix[:1, 1:2], abs=1e-12)


def test_wrong_input_is_named() -> None:
    with pytest.raises(DataError, match="a model needs data"):
        layer_similarity(models(1))
    with pytest.raises(DataError, match="a model or a sequence of models"):
        layer_similarity([], data=IMAGES)
    with pytest.raises(DataError, match="a model or a mapping of activations, got int"):
        layer_similarity([1], data=IMAGES)
    with pytest.raises(UnknownNameError, match="layer must be one of"):
        layer_similarity(models(1), data=IMAGES, layers=["encoder/7"])
    with pytest.raises(DataError, match="groups must map names to models"):
        group_similarity(models(1), data=IMAGES)  # type: ignore[arg-type]
    broken = torch.rand(6, 2)
    broken[2, 1] = torch.nan
    with pytest.raises(DataError, match="mean of model 0 must hold finite numbers, got nan for item 2, feature 1"):
        layer_similarity({"mean": broken}, {"mean": torch.rand(6, 3)})
