"""The anisotropic prior: variances that average to one number, given by the data or learned."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Independent, Normal, kl_divergence

from vaescope.data.arrays import from_array
from vaescope.data.dataset import Dataset
from vaescope.errors import ConfigurationError, DataError, LatentError
from vaescope.models import Architecture
from vaescope.nets import MLP
from vaescope.numerics.distributions import DiagonalGaussian, latent_rate
from vaescope.objectives import Beta
from vaescope.priors import Anisotropic, principal_log_variances
from vaescope.training import Member, Plan, Trainer

LOGS = (2.0, 0.5, -1.0, -3.0)


def prior_of(spec: Anisotropic, mask: list[float]) -> DiagonalGaussian:
    return spec.module(len(mask)).double()(torch.tensor(mask, dtype=torch.float64))


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_the_variances_are_shares_of_a_softmax_and_average_to_the_scale(scale: float) -> None:
    prior = prior_of(Anisotropic("fixed", LOGS, scale), [1.0] * 4)
    torch.testing.assert_close(prior.variance, scale * 4 * torch.tensor(LOGS, dtype=torch.float64).softmax(0))
    assert prior.variance.mean().item() == pytest.approx(scale)
    assert not prior.mean.any()


def test_shares_are_over_the_latents_in_use_and_the_others_are_standard() -> None:
    masked = prior_of(Anisotropic("fixed", LOGS, 2.0), [1.0, 1.0, 0.0, 0.0])
    alone = prior_of(Anisotropic("fixed", LOGS, 2.0), [1.0, 1.0])
    torch.testing.assert_close(masked.variance[:2], alone.variance)
    assert torch.equal(masked.variance[2:], torch.ones(2, dtype=torch.float64))


def test_an_isotropic_one_of_scale_one_is_the_standard_prior() -> None:
    torch.testing.assert_close(prior_of(Anisotropic("isotropic"), [1.0] * 3).log_variance, torch.zeros(3).double())


def test_its_divergence_is_that_of_torch() -> None:
    prior = prior_of(Anisotropic("fixed", LOGS), [1.0] * 4)
    mean, log_variance = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    posterior = DiagonalGaussian(mean, log_variance)
    ours = latent_rate(posterior, prior, mean).sum(1)
    theirs = kl_divergence(
        Independent(Normal(mean, posterior.variance.sqrt()), 1), Independent(Normal(0.0, prior.variance.sqrt()), 1)
    )
    torch.testing.assert_close(ours, theirs)


def test_one_prior_is_sampled_for_any_number_of_rows() -> None:
    prior = prior_of(Anisotropic("fixed", LOGS), [1.0] * 4)
    noise = torch.randn(40_000, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(prior.sample(noise).var(0) / prior.variance, torch.ones(4).double(), atol=0.03, rtol=0)


def test_only_a_learned_prior_has_parameters_and_they_start_as_given() -> None:
    assert list(Anisotropic("fixed", LOGS).module(4).parameters()) == []
    assert Anisotropic("fixed", LOGS).module(4).state_dict() == {}
    learned = Anisotropic("learned", LOGS).module(3)
    assert isinstance(learned.log_variance, nn.Parameter)
    assert learned.log_variance.tolist() == list(LOGS[:3])
    assert not Anisotropic("learned").module(3).log_variance.any()


@pytest.fixture(scope="module")
def data() -> Dataset:
    generator = np.random.default_rng(0)
    codes = generator.normal(size=(400, 4)) * [3.0, 2.0, 1.0, 0.5]
    return from_array((codes @ generator.normal(size=(4, 10)) + 1.5).astype(np.float32))


def test_principal_values_are_the_squared_singular_values_of_the_centred_data(data: Dataset) -> None:
    rows = data.batch(torch.arange(len(data))).double()
    singular = torch.linalg.svdvals(rows - rows.mean(0))[:3]
    expected = (singular.square() / len(data)).log()
    torch.testing.assert_close(torch.tensor(principal_log_variances(data, 3)).double(), expected, rtol=1e-6, atol=1e-6)


def test_data_that_vary_in_fewer_directions_are_named() -> None:
    flat = np.outer(np.arange(10.0), np.ones(5))
    with pytest.raises(DataError, match=r"2 latents .* got 1"):
        principal_log_variances(from_array(flat), 2)


def train(data: Dataset, members: tuple[Member, ...], prior: Anisotropic) -> Trainer:
    architecture = Architecture(net=MLP((8,), (8,)), prior=prior, likelihood="gaussian")
    plan = Plan(steps=40, batch=16, precision="float64", log_every=20, evaluate_every=20)
    trainer = Trainer(architecture, members, plan, *data.split(0.2))
    while not trainer.finished:
        trainer.advance()
    return trainer


def test_a_learned_prior_trains_and_each_member_of_an_ensemble_has_its_own(data: Dataset) -> None:
    members = (Member(2, Beta(1.0), 1e-2, seed=0), Member(4, Beta(4.0), 1e-2, seed=1))
    prior = Anisotropic("learned", principal_log_variances(data, 4))
    together = train(data, members, prior)
    for position, member in enumerate(members):
        ours = together.model(position).state_dict()
        theirs = train(data, (member,), prior).model().state_dict()
        for name, value in theirs.items():
            assert float((ours[name] - value).norm() / value.norm()) <= 1e-9, name
        start = torch.tensor(prior.log_variance[: member.latents])
        assert (ours["prior.log_variance"] - start).abs().max() > 0.05


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "round"}, "kind of an anisotropic prior must be one of isotropic, fixed, learned, got 'round'"),
        ({"kind": "fixed"}, "kind 'fixed' must have a log_variance for each latent, got none"),
        ({"kind": "isotropic", "log_variance": (1.0,)}, "kind 'isotropic' must have no log_variance"),
        ({"log_variance": (1.0, math.inf)}, "a log_variance of an anisotropic prior must be a finite number, got inf"),
        ({"scale": 0.0}, "the scale of an anisotropic prior must be a finite number above 0, got 0.0"),
    ],
)
def test_a_bad_setting_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Anisotropic(**options)


def test_too_few_log_variances_are_named() -> None:
    with pytest.raises(LatentError, match=r"for each of the 5 latents, got 4\. Pass more"):
        Anisotropic("fixed", LOGS).module(5)


def test_half_precision_parameters_are_widened() -> None:
    prior = Anisotropic("learned", LOGS).module(4).to(torch.bfloat16)(torch.ones(4, dtype=torch.bfloat16))
    assert isinstance(prior.log_variance, Tensor)
    assert prior.log_variance.dtype == torch.float32
