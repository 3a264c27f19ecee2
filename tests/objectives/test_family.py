"""What all objectives but beta have in common: members of ensembles, deterministic codes, unused latents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from vaescope.data.arrays import from_array
from vaescope.data.dataset import Dataset
from vaescope.likelihoods import Bernoulli
from vaescope.models import Architecture, ForwardPass
from vaescope.nets import MLP
from vaescope.numerics.distributions import DiagonalGaussian, FullGaussian, Point
from vaescope.objectives import (
    DIPI,
    DIPII,
    Annealed,
    BetaTC,
    Context,
    Decomposition,
    MaximumEntropy,
    strengths,
    with_strengths,
)
from vaescope.training import HistoryRow, Member, Plan, Trainer

# Two members each: the same objective with different strengths.
PAIRS: dict[str, tuple[Any, Any]] = {
    "annealed": (Annealed(100, 5, 20), Annealed(30, 2, 40)),
    "beta_tc": (BetaTC(4), BetaTC(0.5)),
    "beta_tc-stratified": (BetaTC(4, "stratified"), BetaTC(8, "stratified")),
    "beta_tc-plain": (BetaTC(4, "plain"), BetaTC(8, "plain")),
    "decomposition-mmd": (Decomposition(10, 1), Decomposition(1, 0.5)),
    "decomposition-kl": (Decomposition(10, 1, "kl"), Decomposition(1, 0.5, "kl")),
    "dip_i": (DIPI(5), DIPI(2, 3)),
    "dip_ii": (DIPII(5), DIPII(2, 3)),
    "maximum_entropy": (MaximumEntropy(4, warm_up=10), MaximumEntropy(0.5, free_bits=0.125)),
}
every_objective = pytest.mark.parametrize("name", PAIRS)

BATCH, LATENTS, WIDER = 6, 3, 5


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


MEAN, LOG_VARIANCE, Z, NOISE = draw(4, BATCH, WIDER, seed=0)
LOWER = draw(BATCH, WIDER, WIDER, seed=3).tril(-1)
LOGITS, X = draw(BATCH, 9, seed=1), (draw(BATCH, 9, seed=2) > 0).double()
LIKELIHOOD = Bernoulli().module(LOGITS.shape[1:])


def parts(kind: str, width: int, used: int) -> tuple[ForwardPass, Context]:
    """A forward pass with `used` latents in a model of `width`, with outputs as the posteriors return them."""
    mask = (torch.arange(width) < used).double()
    mean, log_variance = MEAN[:, :width] * mask, LOG_VARIANCE[:, :width] * mask
    posterior: Any = DiagonalGaussian(mean, log_variance)
    if kind == "full":
        lower = LOWER[:, :width, :width] * (mask[:, None] * mask)
        posterior = FullGaussian(mean, lower + torch.diag_embed((log_variance / 2).exp()))
    # One prior per item, like a conditional prior.
    prior = DiagonalGaussian(0.5 * mean.flip(0), 0.5 * log_variance.flip(0))
    result = ForwardPass(posterior, posterior.sample(Z[:, :width]) * mask, LIKELIHOOD(LOGITS), prior)
    return result, Context(torch.tensor(3), 100, mask, {"objective/prior": NOISE[:, :width]})


@pytest.mark.parametrize("kind", ["diagonal", "full"])
@every_objective
def test_latents_that_are_not_in_use_change_nothing(name: str, kind: str) -> None:
    narrow, wide = (PAIRS[name][0](X, *parts(kind, width, LATENTS)) for width in (LATENTS, WIDER))
    torch.testing.assert_close(wide.loss, narrow.loss, rtol=1e-12, atol=1e-12)
    for term, values in narrow.values.items():
        assert values.shape == (BATCH,)
        torch.testing.assert_close(wide.values[term], values, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["diagonal", "full"])
@every_objective
def test_strengths_as_tensors_give_the_same_numbers(name: str, kind: str) -> None:
    for objective in PAIRS[name]:
        tensors = {key: torch.tensor(value, dtype=torch.float64) for key, value in strengths(objective).items()}
        found = with_strengths(objective, tensors)(X, *parts(kind, WIDER, WIDER))
        expected = objective(X, *parts(kind, WIDER, WIDER))
        torch.testing.assert_close(found.means(), expected.means())


@every_objective
def test_a_deterministic_code_costs_its_reconstruction(name: str) -> None:
    _, context = parts("diagonal", WIDER, WIDER)
    result = ForwardPass(Point(MEAN), MEAN, LIKELIHOOD(LOGITS), None)
    terms = PAIRS[name][0](X, result, context)
    for term, values in terms.values.items():
        assert term == "reconstruction" or torch.equal(values, torch.zeros(BATCH, dtype=torch.float64)), term
    torch.testing.assert_close(terms.loss, -result.likelihood.log_prob(X).mean())


@every_objective
def test_weights_and_values_have_the_same_names(name: str) -> None:
    terms = PAIRS[name][0](X, *parts("diagonal", WIDER, WIDER))
    assert set(terms.values) == set(terms.weights) > {"reconstruction", "rate"}


@pytest.fixture(scope="module")
def data() -> Dataset:
    return from_array(np.random.default_rng(0).normal(size=(60, 6)))


def trained(members: tuple[Member, ...], data: Dataset) -> tuple[Trainer, list[HistoryRow]]:
    architecture = Architecture(net=MLP((12,), (12,)), likelihood="gaussian")
    plan = Plan(30, 16, precision="float64", log_every=15, evaluate_every=15, monitor_every=0)
    trainer = Trainer(architecture, members, plan, *data.split(0.4))
    rows: list[HistoryRow] = []
    while not trainer.finished:
        rows += trainer.advance()
    return trainer, rows


@every_objective
def test_a_member_of_an_ensemble_is_the_model_trained_alone(name: str, data: Dataset) -> None:
    members = tuple(
        Member(latents, objective, 1e-3, seed)
        for seed, (latents, objective) in enumerate(zip((2, 4), PAIRS[name], strict=True))
    )
    together, rows = trained(members, data)
    for position, member in enumerate(members):
        alone, own = trained((member,), data)
        theirs = together.model(position).state_dict()
        for key, value in alone.model().state_dict().items():
            torch.testing.assert_close(theirs[key], value, rtol=1e-9, atol=1e-9)
        for row, expected in zip([row for row in rows if row.member == position], own, strict=True):
            assert row.values == pytest.approx(expected.values, rel=1e-9, abs=1e-9), row.split
