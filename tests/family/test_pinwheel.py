"""Overlap by beta and match to a clustered prior by alpha on the pinwheel (Mathieu et al., section 6.2, figure 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

from vaescope.codes import Representation
from vaescope.data import open_dataset
from vaescope.encoding import encode
from vaescope.likelihoods import Gaussian
from vaescope.models import Architecture
from vaescope.nets import MLP
from vaescope.objectives import Decomposition
from vaescope.priors import Mixture
from vaescope.regime import mutual_information_bound
from vaescope.training import AMSGrad, Member, Plan, Trainer

pytestmark = pytest.mark.slow

SEEDS = range(1)
BY_BETA = tuple((0.0, beta) for beta in (0.01, 0.5, 2.0))
BY_ALPHA = tuple((alpha, 0.0) for alpha in (0.0, 0.1, 1.0, 8.0))
BOTH = ((0.0, 1.0), (3.0, 1.0))


@dataclass(frozen=True)
class Measurement:
    """The numbers behind figure 3 for one trained model."""

    missed: float  # KL(p(z) || q(z)): prior mass that no code covers
    strayed: float  # KL(q(z) || p(z)): codes where the prior has none
    information: float
    spread: float  # mean standard deviation of q(z|x)


def gaussians(means: Tensor, variances: Tensor) -> MixtureSameFamily:
    return MixtureSameFamily(Categorical(torch.ones(len(means))), Independent(Normal(means, variances.sqrt()), 1))


def measure(codes: Representation) -> Measurement:
    """The divergences are of the whole aggregate posterior, by PyTorch's own densities at draws of each side."""
    torch.manual_seed(0)
    centres = torch.tensor(Mixture().means, dtype=torch.float64)
    prior = gaussians(centres, torch.full_like(centres, 0.03))
    aggregate = gaussians(codes.mean.double(), codes.variance.double())
    z, own = prior.sample((4000,)), aggregate.sample((4000,))
    return Measurement(
        missed=float((prior.log_prob(z) - aggregate.log_prob(z)).mean()),
        strayed=float((aggregate.log_prob(own) - prior.log_prob(own)).mean()),
        information=mutual_information_bound(codes.mean, codes.variance, codes.sample).information,
        spread=float(codes.variance.sqrt().mean()),
    )


@pytest.fixture(scope="module")
def measurements() -> dict[tuple[float, float], list[Measurement]]:
    """By (alpha, beta), one measurement for each seed; all models train as one ensemble."""
    data = open_dataset("pinwheel")
    architecture = Architecture(net=MLP((100,), (100,)), prior="mixture", likelihood=Gaussian(1.0, learned=True))
    places = [(pair, seed) for pair in (*BY_BETA, *BY_ALPHA, *BOTH) for seed in SEEDS]
    members = [Member(2, Decomposition(*pair, "kl"), 1e-3, seed) for pair, seed in places]
    # Quarters of the data: the cost of KL(p || q) is quadratic in the batch, and the measurements are over all items.
    plan = Plan(1000, 100, AMSGrad(), log_every=1000, evaluate_every=1000, monitor_every=0)
    trainer = Trainer(architecture, members, plan, data)
    trainer.advance()
    found: dict[tuple[float, float], list[Measurement]] = {}
    for number, (pair, _) in enumerate(places):
        found.setdefault(pair, []).append(measure(encode(trainer.model(number), data)))
    return found


def test_codes_overlap_more_with_larger_beta_until_they_carry_no_information(
    measurements: dict[tuple[float, float], list[Measurement]],
) -> None:
    """Figure 3, top: the posteriors widen and the information falls to zero."""
    for narrow, medium, wide in zip(*(measurements[pair] for pair in BY_BETA), strict=True):
        assert narrow.spread < 0.08 < medium.spread < 0.25 < 0.5 < wide.spread, (narrow, medium, wide)
        assert narrow.information > 3 > 2.2 > medium.information > 1 > 0.3 > wide.information, (narrow, medium, wide)


def test_the_match_to_the_prior_improves_with_alpha(measurements: dict[tuple[float, float], list[Measurement]]) -> None:
    """Figure 3, bottom: without alpha the codes are anywhere, with alpha of 1 or more they are the four clusters."""
    for none, little, one, much in zip(*(measurements[pair] for pair in BY_ALPHA), strict=True):
        assert none.missed > 5, none
        assert 0.18 < little.missed < 0.4, little
        assert one.missed < 0.14, one
        assert much.missed < 0.16, much
        assert none.strayed > 20 > 1.2 > little.strayed > 0.5 > max(one.strayed, much.strayed), (
            none,
            little,
            one,
            much,
        )


def test_a_large_alpha_widens_the_codes_only_until_neighbours_overlap(
    measurements: dict[tuple[float, float], list[Measurement]],
) -> None:
    """Section 6.2: overlap grows with alpha, too, but large values do not make the codes collapse to a mode."""
    clusters, width = math.log(4), math.sqrt(0.03)
    for none, little, one, much in zip(*(measurements[pair] for pair in BY_ALPHA), strict=True):
        assert none.spread < little.spread < one.spread < 1.1 * width, (none, little, one)
        assert much.spread < 1.1 * width, much
        assert much.information > 1.1 * clusters, much


def test_a_large_beta_mismatches_the_prior_where_alpha_does_not(
    measurements: dict[tuple[float, float], list[Measurement]],
) -> None:
    """Figure 3, top right: one Gaussian cannot be the prior; alpha at the same beta of 1 restores the match."""
    for collapsed in measurements[BY_BETA[-1]]:
        assert collapsed.strayed > 3, collapsed
        assert collapsed.missed > 1, collapsed
    for without, with_alpha in zip(*(measurements[pair] for pair in BOTH), strict=True):
        assert with_alpha.missed < 0.6 * without.missed, (without, with_alpha)
    assert fmean(one.strayed for one in measurements[BOTH[1]]) < 0.5, measurements[BOTH[1]]
