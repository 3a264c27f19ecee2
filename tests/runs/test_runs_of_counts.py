"""Training on counts: what is refused, what is warned about, and the units of what is decoded."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import vaescope as vs
from vaescope.errors import DataError, LikelihoodWarning

NET = {"name": "mlp", "encoder_widths": [16], "decoder_widths": [16]}


@pytest.fixture(scope="module")
def counts() -> np.ndarray:
    draw = np.random.default_rng(0)
    rates = np.exp(0.3 * draw.standard_normal((400, 2)) @ draw.standard_normal((2, 12)))
    return draw.poisson(100 * rates).astype(np.float32)


@pytest.mark.parametrize(
    "likelihood", ["poisson", "negative_binomial", {"name": "poisson", "total": "decoded"}], ids=str
)
def test_decoded_means_are_counts(counts: np.ndarray, tmp_path: Path, likelihood: str) -> None:
    run = vs.fit(counts, 2, likelihood=likelihood, net=NET, steps=500, learning_rate=2e-2, runs=tmp_path)
    decoded = vs.load(run.id, runs=tmp_path).reconstruct(counts).numpy()
    total = counts.sum(1).mean()
    assert abs(decoded.sum(1).mean() / total - 1) < 0.2
    # Far closer than the mean of all items; where shares are decoded, the means are those of an item of mean total.
    wanted = (
        counts
        if likelihood == {"name": "poisson", "total": "decoded"}
        else counts / counts.sum(1, keepdims=True) * total
    )
    assert ((decoded - wanted) ** 2).mean() < 0.3 * ((wanted - wanted.mean(0)) ** 2).mean()


def test_models_that_train_together_keep_the_mean_total_of_their_items(counts: np.ndarray, tmp_path: Path) -> None:
    options = vs.FitOptions(likelihood="poisson", net=NET, steps=2, runs=tmp_path, held_out=0)
    for run in vs.fit_many(counts, [vs.Member(2), vs.Member(3)], options):
        total = run.model.likelihood.reference_total
        assert float(total) == pytest.approx(counts.sum(1).mean(dtype=np.float64))


@pytest.mark.parametrize("value", [-1.0, 0.5], ids=["negative", "a fraction"])
def test_what_is_not_a_count_is_refused(counts: np.ndarray, tmp_path: Path, value: float) -> None:
    wrong = counts.copy()
    wrong[-1, 3] = value
    with pytest.raises(DataError, match="whole numbers of at least 0"):
        vs.fit(wrong, 2, likelihood="poisson", net=NET, steps=1, runs=tmp_path)
    assert not list(tmp_path.iterdir())


def test_images_are_not_counts(tmp_path: Path) -> None:
    images = torch.rand(20, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    with pytest.raises(DataError, match="whole numbers of at least 0"):
        vs.fit(images, 2, likelihood="poisson", net=NET, steps=1, runs=tmp_path)


def test_counts_under_a_gaussian_are_warned_about(counts: np.ndarray, tmp_path: Path) -> None:
    with pytest.warns(LikelihoodWarning, match="negative_binomial"):
        vs.fit(counts % 7, 2, net=NET, steps=1, runs=tmp_path)


@pytest.mark.parametrize("shift", [0.5, -1.0], ids=["fractions", "negative numbers"])
def test_other_numbers_are_not_warned_about(counts: np.ndarray, tmp_path: Path, shift: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", LikelihoodWarning)
        run = vs.fit(counts % 7 + np.float32(shift), 2, net=NET, steps=1, runs=tmp_path)
    assert run.status == "complete"
