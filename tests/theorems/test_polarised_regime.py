"""The polarised regime over many examples (Bonheme, definition 6.3.1, propositions 6.3.1, 6.3.2, theorem 6.3.1).

Two linear VAEs, each for a half of the examples, are a VAE whose mixed latents are in use in one half alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from vaescope.numerics import gaussian, linear
from vaescope.regime import variable_types

HALF, DIMENSIONS, LATENTS = 60, 6, 4
TYPES = ("active", "mixed", "passive")
quick = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 10_000)
all_types = st.lists(st.sampled_from(TYPES), min_size=LATENTS, max_size=LATENTS)


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@dataclass(frozen=True)
class Codes:
    """Mean, variance and sampled representation, the noise, and whether the decoder uses a latent for an example."""

    mean: Tensor
    variance: Tensor
    noise: Tensor
    used: Tensor
    limit: Tensor

    @property
    def sample(self) -> Tensor:
        return gaussian.reparameterise(self.mean, self.variance.log(), self.noise)


def codes(types: list[str], gamma: float, seed: int) -> Codes:
    """The codes of the optimal encoders of two decoders; `limit` is the mean as gamma goes to 0."""
    norms = 0.5 + draw(LATENTS, seed=seed).abs()
    directions = torch.linalg.qr(draw(DIMENSIONS, DIMENSIONS, seed=seed + 1)).Q[:, :LATENTS]
    parts = []
    for half in range(2):
        used = torch.tensor([kind == "active" or (kind == "mixed" and (seed + half) % 2 == 0) for kind in types])
        x, offset = 3 * draw(HALF, DIMENSIONS, seed=seed + 2 + half), draw(DIMENSIONS, seed=seed + 4)
        loadings = directions * norms * used
        mean = linear.posterior_mean(x, loadings, offset, gamma)
        variance = linear.diagonal_posterior_variance(loadings, gamma).expand_as(mean)
        limit = (x - offset) @ directions / norms * used
        parts.append((mean, variance, draw(HALF, LATENTS, seed=seed + 5 + half), used.expand_as(mean), limit))
    return Codes(*(torch.cat(part) for part in zip(*parts, strict=True)))


@quick
@given(seeds, all_types)
def test_theorem_6_3_1_samples_are_noise_where_passive_and_means_where_active(seed: int, types: list[str]) -> None:
    for gamma in (1e-2, 1e-4, 1e-8):
        found = codes(types, gamma, seed)
        passive = ~found.used
        torch.testing.assert_close(found.sample[passive], found.noise[passive])
        # The variance is at most gamma / norm^2, and no norm is below 0.5.
        bound = 2 * gamma**0.5 * found.noise.abs()[found.used]
        assert ((found.sample - found.mean).abs()[found.used] <= bound + 1e-12).all()
    torch.testing.assert_close(found.sample[found.used], found.limit[found.used], atol=1e-3, rtol=1e-3)


@quick
@given(seeds, all_types)
def test_definition_6_3_1_finds_the_types_that_the_latents_were_given(seed: int, types: list[str]) -> None:
    found = codes(types, 1e-4, seed)
    assert variable_types((found.mean, found.variance), rule="intersection").types == tuple(types)


@quick
@given(seeds)
def test_propositions_6_3_1_and_6_3_2_the_moments_of_means_and_variances(seed: int) -> None:
    found = codes(["active", "mixed", "passive", "passive"], 1e-6, seed)
    mean_spread, variance_spread = found.mean.var(0), found.variance.var(0)
    assert (found.mean[:, 2:] == 0).all()
    assert mean_spread[0] > mean_spread[2:].max()
    torch.testing.assert_close(found.variance[:, 2:], torch.ones_like(found.variance[:, 2:]))
    assert found.variance[:, 0].max() < 1e-5
    assert variance_spread[1] > 0.2 > 1e-9 > variance_spread[[0, 2, 3]].max()


@quick
@given(seeds)
def test_corollary_6_3_1_only_mixed_and_passive_latents_differ_between_means_and_samples(seed: int) -> None:
    found = codes(["active", "mixed", "passive", "active"], 1e-10, seed)
    difference = torch.cov(found.sample.T) - torch.cov(found.mean.T)
    assert difference[[0, 3]][:, [0, 3]].abs().max() < 1e-3
    assert difference.diagonal()[[1, 2]].min() > 0.1
