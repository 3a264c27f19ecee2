"""The posterior with a full covariance against torch.distributions and against the diagonal one."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Independent, MultivariateNormal, Normal, kl_divergence

from vaescope.data.arrays import from_array
from vaescope.models import Architecture
from vaescope.nets import MLP, initialise
from vaescope.numerics.distributions import DiagonalGaussian, FullGaussian, latent_rate
from vaescope.objectives import Beta
from vaescope.posteriors import Diagonal, Full
from vaescope.priors import Anisotropic, Sparse, Standard
from vaescope.training import Member, Plan, Trainer

ITEMS, LATENTS, FEATURES = 5, 4, 6
ALL = torch.ones(LATENTS, dtype=torch.float64)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def head_of(latents: int = LATENTS, seed: int = 0) -> torch.nn.Module:
    head = Full().head(FEATURES, latents)
    initialise(head, "torch", seed)
    return head.double()


@pytest.fixture
def posterior() -> FullGaussian:
    return head_of()(draw(ITEMS, FEATURES), ALL)


def reference(posterior: FullGaussian) -> MultivariateNormal:
    return MultivariateNormal(posterior.mean, scale_tril=posterior.cholesky)


def test_the_factor_is_lower_triangular_with_a_positive_diagonal(posterior: FullGaussian) -> None:
    assert torch.equal(posterior.cholesky, posterior.cholesky.tril())
    assert (posterior.cholesky.diagonal(dim1=-2, dim2=-1) > 0).all()
    assert posterior.cholesky.tril(-1)[:, *torch.tril_indices(LATENTS, LATENTS, -1)].all()


def test_density_and_moments_are_those_of_torch(posterior: FullGaussian) -> None:
    z, theirs = draw(ITEMS, LATENTS, seed=1), reference(posterior)
    torch.testing.assert_close(posterior.log_prob(z), theirs.log_prob(z))
    torch.testing.assert_close(posterior.variance, theirs.variance)
    torch.testing.assert_close(posterior.covariance, theirs.covariance_matrix)
    torch.testing.assert_close(posterior.marginals.variance, theirs.variance)


def test_samples_have_its_covariance(posterior: FullGaussian) -> None:
    count = 100_000
    many = FullGaussian(posterior.mean[:1].expand(count, -1), posterior.cholesky[:1].expand(count, -1, -1))
    sample = many.sample(draw(count, LATENTS, seed=2))
    torch.testing.assert_close(torch.cov(sample.T), posterior.covariance[0], rtol=0, atol=0.03)
    torch.testing.assert_close(sample.mean(0), posterior.mean[0], rtol=0, atol=0.02)


@pytest.mark.parametrize("prior", [Standard(), Anisotropic("fixed", (1.0, 0.0, -2.0, 0.5), 0.7)], ids=repr)
def test_its_divergence_from_a_diagonal_prior_is_that_of_torch(
    posterior: FullGaussian, prior: Standard | Anisotropic
) -> None:
    there = prior.module(LATENTS).double()(ALL)
    expected = kl_divergence(reference(posterior), MultivariateNormal(there.mean, torch.diag(there.variance)))
    found = latent_rate(posterior, there, posterior.mean)
    assert found.shape == (ITEMS, 1)
    torch.testing.assert_close(found[:, 0], expected)


def test_its_divergence_from_another_prior_is_estimated_at_the_sample(posterior: FullGaussian) -> None:
    prior, z = Sparse().module(LATENTS).double()(ALL), draw(ITEMS, LATENTS, seed=1)
    assert posterior.kl_to(prior) is None
    expected = reference(posterior).log_prob(z) - prior.log_prob(z)
    torch.testing.assert_close(latent_rate(posterior, prior, z)[:, 0], expected)


def test_the_closed_form_is_the_mean_of_the_estimate(posterior: FullGaussian) -> None:
    count, prior = 50_000, DiagonalGaussian(torch.zeros_like(ALL), torch.zeros_like(ALL))
    many = FullGaussian(posterior.mean[:1].expand(count, -1), posterior.cholesky[:1].expand(count, -1, -1))
    z = many.sample(draw(count, LATENTS, seed=3))
    estimates = many.log_prob(z) - prior.log_prob(z)
    assert abs(estimates.mean() - posterior.kl_to(prior)[0]) < 4 * estimates.std() / math.sqrt(count)


def test_without_the_part_below_the_diagonal_it_is_the_diagonal_posterior() -> None:
    full, diagonal, features = head_of(), Diagonal().head(FEATURES, LATENTS).double(), draw(ITEMS, FEATURES)
    torch.nn.init.zeros_(full.lower.weight)
    torch.nn.init.zeros_(full.lower.bias)
    diagonal.load_state_dict({name: value for name, value in full.state_dict().items() if "lower" not in name})
    ours, theirs = full(features, ALL), diagonal(features, ALL)
    prior, z = DiagonalGaussian(0.3 * ALL, -0.5 * ALL), draw(ITEMS, LATENTS, seed=1)
    torch.testing.assert_close(ours.mean, theirs.mean)
    torch.testing.assert_close(ours.variance, theirs.variance)
    torch.testing.assert_close(ours.log_prob(z), theirs.log_prob(z))
    torch.testing.assert_close(ours.sample(z), theirs.sample(z))
    torch.testing.assert_close(ours.kl_to(prior), theirs.kl(prior))


def test_latents_out_of_use_are_standard_and_independent() -> None:
    mask = torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.float64)
    masked = head_of()(draw(ITEMS, FEATURES), mask)
    assert not masked.mean[:, 2:].any()
    assert torch.equal(masked.cholesky[:, 2:, 2:], torch.eye(2).double().expand(ITEMS, -1, -1))
    assert not masked.cholesky[:, 2:, :2].any()
    z = draw(ITEMS, LATENTS, seed=1)
    small = MultivariateNormal(masked.mean[:, :2], scale_tril=masked.cholesky[:, :2, :2])
    rest = Independent(Normal(torch.zeros(ITEMS, 2).double(), 1.0), 1)
    torch.testing.assert_close(masked.log_prob(z), small.log_prob(z[:, :2]) + rest.log_prob(z[:, 2:]))


@pytest.mark.parametrize("latents", [2, 20, 200])
@pytest.mark.parametrize("scheme", ["glorot", "torch"])
def test_initial_variances_do_not_grow_with_the_number_of_latents(scheme: str, latents: int) -> None:
    head = Full().head(64, latents)
    initialise(head, scheme, 0)
    variance = head(draw(50, 64).float(), torch.ones(latents)).variance
    assert 0.5 < variance.mean() < 4


def test_members_of_an_ensemble_equal_the_models_trained_alone() -> None:
    data = from_array(np.random.default_rng(0).normal(size=(120, 6)).astype(np.float32))
    architecture = Architecture(net=MLP((8,), (8,)), posterior="full", likelihood="gaussian")
    plan = Plan(steps=30, batch=16, precision="float64", log_every=15, evaluate_every=15)

    def trained(*members: Member) -> Trainer:
        trainer = Trainer(architecture, members, plan, *data.split(0.2))
        while not trainer.finished:
            trainer.advance()
        return trainer

    members = (Member(2, Beta(1.0), 1e-3, seed=0), Member(4, Beta(0.1), 1e-2, seed=1))
    together = trained(*members)
    for position, member in enumerate(members):
        ours, theirs = together.model(position).state_dict(), trained(member).model().state_dict()
        for name, value in theirs.items():
            assert float((ours[name] - value).norm() / value.norm().clamp_min(1e-300)) <= 1e-9, name
