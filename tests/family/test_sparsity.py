"""Codes are sparse because the prior is, and sparser with larger alpha (Mathieu et al., section 6.3, figure 4)."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kstest, norm
from torch import Tensor

from vaescope.data import open_dataset
from vaescope.encoding import encode
from vaescope.likelihoods import Laplace
from vaescope.metrics.sparsity import hoyer
from vaescope.models import Architecture
from vaescope.nets import MLP
from vaescope.objectives import Decomposition
from vaescope.priors import Sparse
from vaescope.training import AMSGrad, Member, Plan, Trainer

pytestmark = pytest.mark.slow

REAL_DATA = os.environ.get("VAESCOPE_DATA")
SEEDS = range(1)
ALPHAS = {0.0: (0.0, 30.0), 0.8: (0.0, 3.0, 30.0)}  # by gamma, the share of a latent's values that are off
LATENTS, STEPS, VARIANCE = 16, 500, 0.05


@dataclass(frozen=True)
class Measurement:
    """The numbers behind figure 4 for one trained network."""

    sparsity: float
    reconstruction: float  # -log p(x|z) of held-out images, nats
    mismatch: float  # Kolmogorov's distance of a latent's codes to the prior, averaged over latents


Measurements = dict[tuple[float, float], list[Measurement]]


def mismatch(codes: Tensor, gamma: float) -> float:
    def below(z: np.ndarray) -> np.ndarray:
        return gamma * norm.cdf(z / math.sqrt(VARIANCE)) + (1 - gamma) * norm.cdf(z)

    return float(np.mean([kstest(latent, below).statistic for latent in codes.double().T.numpy()]))


@pytest.fixture(scope="module")
def measurements() -> Measurements:
    """By (gamma, alpha), one measurement for each seed; the networks of one prior train as one ensemble."""
    if not REAL_DATA or not (Path(REAL_DATA) / "fashion-mnist").is_dir():
        pytest.skip("set VAESCOPE_DATA to a folder that holds fashion-mnist/ to train on the real images")
    training = open_dataset("fashion-mnist", part="train").draw(8000)
    held_out = open_dataset("fashion-mnist", part="test").draw(2000)
    found: Measurements = {}
    for gamma, alphas in ALPHAS.items():
        architecture = Architecture(net=MLP((100,), (100,)), prior=Sparse(gamma, VARIANCE), likelihood=Laplace(0.1))
        places = [(alpha, seed) for alpha in alphas for seed in SEEDS]
        members = [Member(LATENTS, Decomposition(alpha, 1.0, "mmd"), 1e-3, seed) for alpha, seed in places]
        plan = Plan(STEPS, 32, AMSGrad(), log_every=STEPS, evaluate_every=STEPS, monitor_every=0)
        trainer = Trainer(architecture, members, plan, training, held_out)
        rows = {row.member: row.values for row in trainer.advance() if row.split == "test"}
        for number, (alpha, _) in enumerate(places):
            codes = encode(trainer.model(number), held_out)
            own = Measurement(hoyer(codes).score, rows[number]["reconstruction"], mismatch(codes.sample, gamma))
            found.setdefault((gamma, alpha), []).append(own)
    return found


def test_a_sparse_prior_with_alpha_makes_codes_sparser_than_a_gaussian_prior_with_any(
    measurements: Measurements,
) -> None:
    gaussian = [one.sparsity for alpha in ALPHAS[0.0] for one in measurements[0.0, alpha]]
    sparse = [one.sparsity for alpha in ALPHAS[0.8][1:] for one in measurements[0.8, alpha]]
    assert min(sparse) > max(gaussian) + 0.06, (gaussian, sparse)


def test_sparsity_rises_with_alpha_under_the_sparse_prior_only(measurements: Measurements) -> None:
    for none, some, much in zip(*(measurements[0.8, alpha] for alpha in ALPHAS[0.8]), strict=True):
        assert some.sparsity > none.sparsity + 0.02, (none, some)
        assert much.sparsity > none.sparsity + 0.03, (none, much)
    for none, much in zip(*(measurements[0.0, alpha] for alpha in ALPHAS[0.0]), strict=True):
        assert abs(much.sparsity - none.sparsity) < 0.05, (none, much)


def test_the_codes_follow_the_prior_more_closely_with_larger_alpha(measurements: Measurements) -> None:
    """Figure 4, right, with a distance that is not part of the loss."""
    for gamma, alphas in ALPHAS.items():
        for own in zip(*(measurements[gamma, alpha] for alpha in alphas), strict=True):
            distances = [one.mismatch for one in own]
            assert distances == sorted(distances, reverse=True), (gamma, own)
            assert distances[-1] < 0.6 * distances[0], (gamma, own)


def test_the_sparse_prior_costs_little_reconstruction(measurements: Measurements) -> None:
    """Figure 4, centre: about as good as with the Gaussian prior, and slightly worse at a large alpha."""
    for gaussian, none, much in zip(
        measurements[0.0, 0.0], measurements[0.8, 0.0], measurements[0.8, 30.0], strict=True
    ):
        assert none.reconstruction < gaussian.reconstruction + 30, (gaussian, none)
        assert none.reconstruction < much.reconstruction < none.reconstruction + 100, (none, much)
