"""The registry of metrics: requirements are declared in advance, and a new metric works everywhere."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Unpack

import numpy as np
import pytest
import torch

from vaescope.codes import Representation
from vaescope.errors import ConfigurationError, DataError, UnknownNameError
from vaescope.metrics import (
    METRICS,
    DecoderFunction,
    MetricInputs,
    MetricOptions,
    RawScore,
    Score,
    evaluate,
    measure_all,
)
from vaescope.metrics.score import check_metrics

ITEMS = 240
MEANS = torch.from_numpy(np.random.default_rng(0).normal(size=(ITEMS, 3)))
LABELS = torch.arange(ITEMS) % 3
DECODER = DecoderFunction(lambda z: z @ torch.ones(3, 5, dtype=torch.float64))


def codes(labels: torch.Tensor | None) -> Representation:
    return Representation(MEANS, torch.ones_like(MEANS), MEANS, None, labels)


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_needs_the_factors_that_it_declares(name: str) -> None:
    """None, then one: those that declare more refuse both the data and the codes."""
    needed = METRICS.entry(name).factors
    for found, labels in ((0, None), (1, LABELS)):
        if needed > found:
            with pytest.raises(DataError, match=f"{name}.*data"):
                check_metrics([name], found, "data")
            with pytest.raises(DataError):
                measure_all([name], codes(labels), decoder=DECODER)
        else:
            check_metrics([name], found, "data")
            assert measure_all([name], codes(labels), decoder=DECODER).scores[0].metric == name


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_declares_whether_it_needs_a_decoder(name: str) -> None:
    if METRICS.entry(name).decoder:
        with pytest.raises(ConfigurationError, match=f"{name} needs a decoder"):
            measure_all([name], codes(LABELS))
    elif METRICS.entry(name).factors < 2:
        assert measure_all([name], codes(LABELS)).scores[0].metric == name


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_has_a_description_and_shows_its_keywords(name: str) -> None:
    entry = METRICS.entry(name)
    assert entry.summary
    assert entry.source
    keywords = inspect.signature(entry.variant).parameters
    assert all(one.kind is not one.VAR_KEYWORD for one in keywords.values())
    if entry.factors:
        assert set(MetricOptions.__annotations__) <= set(keywords)


@pytest.fixture
def spread() -> Iterator[str]:
    """A metric that is registered at run time."""

    @METRICS.register("spread", summary="the spread of the codes", factors=2)
    def spread(codes: Representation, factors: None = None, **options: Unpack[MetricOptions]) -> Score:
        def measure(data: MetricInputs, seed: int) -> RawScore:
            return RawScore(float(data.codes.std()))

        return evaluate("spread", "standard deviation", measure, codes, factors, **options)

    yield "spread"
    METRICS.unregister("spread")


def test_a_metric_registered_at_run_time_works_like_any_other(spread: str) -> None:
    assert spread in METRICS
    (found,) = measure_all(spread, codes(LABELS)).scores
    assert found.score == pytest.approx(float(MEANS.std(correction=0)))
    assert found.random is not None
    with pytest.raises(DataError, match=r"spread.*2 varying"):
        check_metrics([spread], 1, "data")
    assert spread in {score.metric for score in measure_all("all", codes(LABELS)).scores}


def test_all_metrics_leave_out_those_that_cannot_be_computed() -> None:
    found = measure_all("all", codes(LABELS))
    assert {*(score.metric for score in found.scores), *found.left_out} == set(METRICS)
    assert {"distance_to_orthogonality", "modularity"} <= set(found.left_out)


def test_an_unknown_metric_is_named() -> None:
    with pytest.raises(UnknownNameError, match="'gap'"):
        measure_all(["gap"], codes(LABELS))
