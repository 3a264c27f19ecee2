"""FONDUE finds the dimension of simulated counts; benchmarks/counts.py starts where a search starts by default."""

from __future__ import annotations

import pytest

from vaescope.data import open_dataset
from vaescope.sizing import Question, SearchOptions, search_many

NET = {"name": "mlp", "encoder_widths": [128], "decoder_widths": [128]}
QUICK = {"net": NET, "learning_rate": 3e-3, "batch": 64, "period": 400, "max_periods": 1}


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [4, 8])
def test_the_size_for_cells_is_the_dimension_of_their_states(dimension: int) -> None:
    data = open_dataset("synthetic-counts", dimension=dimension, genes=60, items=2000)
    options = SearchOptions(seeds=3, runs=None, near=True, device="cpu", **QUICK)
    (found,) = search_many(data, [Question(init=dimension + 1)], options)
    assert found.settings["likelihood"]["name"] == "negative_binomial"
    assert len(found.values) == 3
    assert all(abs(value - dimension) <= 1 for value in found.values), found.curve
