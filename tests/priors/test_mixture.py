"""The mixture prior against torch.distributions."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal, kl_divergence

from vaescope.errors import ConfigurationError
from vaescope.numerics.distributions import DiagonalGaussian, divide, latent_rate
from vaescope.priors import Mixture

UNEVEN = Mixture(means=((0.0, 2.0, 1.0), (-1.0, 0.5, 0.0)), variances=(0.25, 2.0), weights=(0.3, 0.7))


def prior_of(spec: Mixture, latents: int, used: int | None = None) -> Any:
    mask = (torch.arange(latents) < (latents if used is None else used)).double()
    return spec.module(latents).double()(mask)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def reference(spec: Mixture, latents: int) -> MixtureSameFamily:
    """The mixture over the latents that it places, followed by standard ones."""
    components, placed = len(spec.means), min(latents, len(spec.means[0]))
    means, deviations = torch.zeros(components, latents).double(), torch.ones(components, latents).double()
    means[:, :placed] = torch.tensor(spec.means).double()[:, :placed]
    deviations[:, :placed] = torch.tensor(spec.variances).double().expand(components).sqrt()[:, None]
    weights = torch.ones(components) if spec.weights is None else torch.tensor(spec.weights)
    return MixtureSameFamily(Categorical(weights.double()), Independent(Normal(means, deviations), 1))


@pytest.mark.parametrize("latents", [1, 2, 3, 5])
@pytest.mark.parametrize("spec", [Mixture(), UNEVEN], ids=["pinwheel", "uneven"])
def test_its_density_and_moments_are_those_of_torch(spec: Mixture, latents: int) -> None:
    ours, theirs, z = prior_of(spec, latents), reference(spec, latents), draw(40, latents)
    torch.testing.assert_close(ours.log_prob(z), theirs.log_prob(z), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours.mean, theirs.mean, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(ours.variance, theirs.variance, rtol=1e-6, atol=1e-6)


def test_without_options_it_has_four_clusters_on_the_axes() -> None:
    prior = prior_of(Mixture(), 2)
    peaks = torch.tensor([[0.0, 1.0], [0.0, -1.0], [1.0, 0.0], [-1.0, 0.0]]).double()
    # At the centre of a cluster of weight 1/4 the others contribute almost nothing: 1/4 / (2 pi .03).
    torch.testing.assert_close(prior.log_prob(peaks).exp(), torch.full((4,), 0.25 / (2 * math.pi * 0.03)).double())
    assert prior.log_prob(torch.zeros(1, 2).double()) < prior.log_prob(peaks).min() - 10


def test_samples_fall_to_the_components_by_their_weights_and_have_their_moments() -> None:
    prior = prior_of(UNEVEN, 4)
    noise = draw(200_000, 4)
    component, rest = divide(noise[:, 0], prior.log_weights)
    sample = prior.sample(noise)
    for index, (weight, variance) in enumerate([(0.3, 0.25), (0.7, 2.0)]):
        chosen, left = sample[component == index], rest[component == index]
        assert len(chosen) / len(noise) == pytest.approx(weight, abs=0.005)
        assert abs(left.mean()) < 0.02
        assert left.var().item() == pytest.approx(1, abs=0.02)
        expected = torch.tensor([*UNEVEN.means[index], 0.0]).double()
        torch.testing.assert_close(chosen.mean(0), expected, rtol=0, atol=0.03)
        spread = torch.tensor([variance] * 3 + [1.0]).double()
        torch.testing.assert_close(torch.cov(chosen.T), spread.diag(), rtol=0, atol=0.04)


@pytest.mark.parametrize("noise", [-40.0, 40.0, 0.0, -0.6744897501960817])
def test_extreme_noise_and_the_edge_between_components_give_finite_codes(noise: float) -> None:
    sample = Mixture().module(2)(torch.ones(2)).sample(torch.full((1, 2), noise))
    assert torch.isfinite(sample).all()


def test_one_component_is_a_gaussian_with_its_divergence_in_closed_form() -> None:
    prior = prior_of(Mixture(means=((1.0, -2.0),), variances=0.5), 3)
    mean, log_variance = draw(4, 3), draw(4, 3, seed=1)
    posterior = DiagonalGaussian(mean, log_variance)
    centre, deviation = torch.tensor([1.0, -2.0, 0.0]).double(), torch.tensor([0.5, 0.5, 1.0]).double().sqrt()
    expected = kl_divergence(
        Independent(Normal(mean, posterior.variance.sqrt()), 1), Independent(Normal(centre, deviation), 1)
    )
    torch.testing.assert_close(latent_rate(posterior, prior, mean).sum(1), expected, rtol=1e-6, atol=1e-6)


def test_equal_components_equal_one_component() -> None:
    twice, once = Mixture(means=((1.0,), (1.0,)), variances=0.5), Mixture(means=((1.0,),), variances=0.5)
    z = draw(10, 2)
    torch.testing.assert_close(prior_of(twice, 2).log_prob(z), prior_of(once, 2).log_prob(z))


def test_latents_out_of_use_are_standard_and_independent() -> None:
    z = draw(10, 4)
    expected = prior_of(UNEVEN, 2).log_prob(z[:, :2]) + Normal(0.0, 1.0).log_prob(z[:, 2:]).sum(1)
    torch.testing.assert_close(prior_of(UNEVEN, 4, used=2).log_prob(z), expected)
    torch.testing.assert_close(prior_of(UNEVEN, 4, used=2).sample(z)[:, :2], prior_of(UNEVEN, 2).sample(z[:, :2]))
    assert torch.equal(prior_of(UNEVEN, 4, used=2).sample(z)[:, 2:], z[:, 2:])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"means": ()}, "means of a mixture prior must be one row for each component"),
        ({"means": ((1.0,), (1.0, 2.0))}, "all of the same length of at least 1"),
        ({"means": ((),)}, "all of the same length of at least 1"),
        ({"means": ((math.nan,),)}, "a mean of a mixture prior must be a finite number, got nan"),
        ({"variances": 0.0}, "a variance of a mixture prior must be a finite number above 0, got 0.0"),
        ({"variances": (1.0, 2.0)}, "the variances of a mixture prior must be one for each of its 4 means, got 2"),
        ({"weights": (0.5, 0.5)}, "the weights of a mixture prior must be one for each of its 4 means, got 2"),
        ({"weights": (0.5, 0.5, 0.5, 0.5)}, "must sum to 1, got .* which sum to 2"),
        ({"weights": (1.0, 0.0, 0.0, 0.0)}, "a weight of a mixture prior must be a finite number above 0, got 0.0"),
    ],
)
def test_a_bad_setting_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Mixture(**options)
