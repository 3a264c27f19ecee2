"""On a GPU: models that take turns in one program are measured as on the CPU, and the search gives the same answer."""

from __future__ import annotations

import pytest

from vaescope.data import open_dataset
from vaescope.nets import MLP
from vaescope.sizing import fondue


def test_the_search_is_the_same_on_both_devices() -> None:
    data = open_dataset("gaussian-manifold", dimension=3, ambient=10, items=600)
    settings = {"net": MLP((16,), (16,)), "precision": "float64", "period": 150, "learning_rate": 3e-3, "seeds": 2}
    here, there = (
        fondue(data, init=3, largest=8, max_periods=3, runs=None, device=device, **settings)
        for device in ("cpu", "cuda")
    )
    assert there.values == here.values
    for ours, theirs in zip(here.probes, there.probes, strict=True):
        assert (theirs.value, theirs.seed, theirs.periods) == (ours.value, ours.seed, ours.periods)
        assert theirs.gap == pytest.approx(ours.gap, rel=1e-6, abs=1e-6)
