"""Heatmaps of models equal those of their activations, whatever fits in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vaescope import similarity
from vaescope.encoding import activations, group_similarity, layer_similarity
from vaescope.errors import DataError, UnknownNameError
from vaescope.models import Architecture

IMAGES = np.random.default_rng(0).integers(0, 256, (40, 1, 6, 6), dtype=np.uint8)
MLP = {"name": "mlp", "encoder_widths": (9,), "decoder_widths": (8,)}
NAMES = ("input", "encoder/1", "mean", "variance", "sampled", "decoder/1", "decoder/2")


def models(count: int, first: int = 0) -> list[Any]:
    architecture = Architecture("vae", MLP, initialisation="torch")
    return [architecture.build((1, 6, 6), 3, seed=first + number).double() for number in range(count)]


@pytest.mark.parametrize("memory", [1, 60_000, 2**30])
def test_layers_of_models_are_compared_by_their_activations(memory: int) -> None:
    left, right = models(3), models(2, first=10)
    known = {id(model): activations(model, IMAGES) for model in (*left, *right)}
    for other in (None, left, right):
        found = layer_similarity(left, other, IMAGES, memory=memory)
        given = None if other is None else [known[id(model)] for model in other]
        expected = similarity.layer_similarity([known[id(model)] for model in left], given)
        assert found.rows == found.columns == NAMES
        assert found.matrix == pytest.approx(expected.matrix, abs=1e-12)
        assert found.pairs.tolist() == expected.pairs.tolist()


def test_activations_can_be_passed_instead_of_models() -> None:
    left, right = models(1)[0], models(1, first=7)[0]
    given = layer_similarity(activations(left, IMAGES), [right], IMAGES)
    assert given.matrix == pytest.approx(layer_similarity(left, right, IMAGES).matrix, abs=1e-12)


def test_items_are_drawn_by_the_seed() -> None:
    model = models(1)[0]
    found = layer_similarity(model, data=IMAGES, items=20, seed=3)
    expected = similarity.layer_similarity(activations(model, IMAGES, items=20, seed=3))
    assert found.matrix == pytest.approx(expected.matrix, abs=1e-12)


def test_groups_of_models_are_compared_by_their_activations() -> None:
    groups = {0.5: models(2), 4.0: models(1, first=10)[0]}
    found = group_similarity(groups, data=IMAGES, layer="variance")
    tables = {0.5: [activations(one, IMAGES) for one in groups[0.5]], 4.0: activations(groups[4.0], IMAGES)}
    assert found.matrix == pytest.approx(similarity.group_similarity(tables, layer="variance").matrix, abs=1e-12)
    others = group_similarity({"epoch 1": groups[0.5]}, {"last": groups[4.0]}, IMAGES, layer="variance")
    assert others.matrix == pytest.approx(found.matrix[:1, 1:], abs=1e-12)


def test_wrong_input_is_named() -> None:
    with pytest.raises(DataError, match="data"):
        layer_similarity(models(1))
    with pytest.raises(DataError, match="got int"):
        layer_similarity([1], data=IMAGES)  # type: ignore[list-item]
    with pytest.raises(UnknownNameError, match="encoder/7"):
        layer_similarity(models(1), data=IMAGES, layers=["encoder/7"])
    with pytest.raises(DataError, match="groups"):
        group_similarity(models(1), data=IMAGES)  # type: ignore[arg-type]
