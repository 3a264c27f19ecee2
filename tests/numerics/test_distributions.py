"""Distributions over codes against torch.distributions."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch.distributions import Independent, Normal, kl_divergence

from vaescope.numerics.distributions import DiagonalGaussian, Point, full_precision

GENERATOR = torch.Generator().manual_seed(0)
MEAN, LOG_VARIANCE, OTHER_MEAN, OTHER_LOG_VARIANCE, NOISE = torch.randn(
    5, 4, 3, generator=GENERATOR, dtype=torch.float64
)
ONE, OTHER = DiagonalGaussian(MEAN, LOG_VARIANCE), DiagonalGaussian(OTHER_MEAN, OTHER_LOG_VARIANCE)


def reference(distribution: DiagonalGaussian) -> Independent:
    return Independent(Normal(distribution.mean, distribution.variance.sqrt()), 1)


def test_the_variance_is_a_variance() -> None:
    torch.testing.assert_close(ONE.variance, LOG_VARIANCE.exp())
    torch.testing.assert_close(ONE.variance, reference(ONE).variance)


def test_log_prob_equals_torch() -> None:
    torch.testing.assert_close(ONE.log_prob(NOISE), reference(ONE).log_prob(NOISE))


def test_kl_equals_torch() -> None:
    torch.testing.assert_close(ONE.kl(OTHER), kl_divergence(reference(ONE), reference(OTHER)))


def test_latent_kl_adds_up_to_kl() -> None:
    assert ONE.latent_kl(OTHER).shape == (4, 3)
    torch.testing.assert_close(ONE.latent_kl(OTHER).sum(-1), ONE.kl(OTHER))


def test_one_prior_broadcasts_over_a_batch() -> None:
    prior = DiagonalGaussian(torch.zeros(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64))
    standard = Independent(Normal(torch.zeros(4, 3, dtype=torch.float64), 1.0), 1)
    torch.testing.assert_close(ONE.kl(prior), kl_divergence(reference(ONE), standard))


def test_a_sample_is_scaled_and_shifted_noise() -> None:
    sample = ONE.sample(NOISE)
    torch.testing.assert_close((sample - MEAN) / ONE.variance.sqrt(), NOISE)
    assert torch.equal(ONE.sample(torch.zeros_like(NOISE)), MEAN)


def test_a_point_is_its_mean_without_variance() -> None:
    point = Point(MEAN)
    assert torch.equal(point.sample(), MEAN)
    assert torch.equal(point.sample(NOISE), MEAN)
    assert torch.equal(point.variance, torch.zeros_like(MEAN))


@pytest.mark.parametrize("distribution", [ONE, Point(MEAN)])
def test_distributions_cannot_be_changed(distribution: DiagonalGaussian | Point) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        distribution.mean = NOISE


@pytest.mark.parametrize(
    ("given", "computed"),
    [
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_only_16_bit_types_are_converted(given: torch.dtype, computed: torch.dtype) -> None:
    assert full_precision(torch.ones(2, dtype=given)).dtype == computed
