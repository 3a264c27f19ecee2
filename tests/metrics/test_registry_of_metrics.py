"""Several metrics at once: what each needs of the data is known before there are codes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vaescope.codes import Representation
from vaescope.data.arrays import from_array
from vaescope.errors import DataError
from vaescope.metrics.registry import METRICS, OF_FACTORS, OF_SEVERAL, check_metrics, measure_all

ITEMS = 240
MEANS = torch.from_numpy(np.random.default_rng(0).normal(size=(ITEMS, 3)))
LABELS = torch.arange(ITEMS) % 3


def codes(labels: torch.Tensor | None) -> Representation:
    return Representation(MEANS, torch.ones_like(MEANS), MEANS, None, labels)


@pytest.mark.parametrize("name", sorted(OF_FACTORS))
def test_metrics_of_several_factors_are_those_that_refuse_one(name: str) -> None:
    if name in OF_SEVERAL:
        with pytest.raises(DataError, match=r"at least 2"):
            measure_all([name], codes(LABELS))
    else:
        assert measure_all([name], codes(LABELS)).scores[0].metric == name


@pytest.mark.parametrize("name", sorted(METRICS))
@pytest.mark.parametrize("labels", [None, LABELS, torch.zeros(ITEMS, dtype=torch.int64)])
def test_data_are_refused_for_metrics_that_they_cannot_have(name: str, labels: torch.Tensor | None) -> None:
    data = from_array(MEANS.float(), labels=labels)
    possible = name not in OF_FACTORS or (labels is LABELS and name not in OF_SEVERAL)
    if possible:
        check_metrics([name], data)
    else:
        with pytest.raises(DataError, match=rf"^array must have .* for the metric {name}, it has (none|1)\. Leave"):
            check_metrics([name], data)
