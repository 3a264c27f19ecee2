"""The identifiable VAE: factors shape the posterior and the prior, not the decoder (Bonheme, chapter 5)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import Independent, Normal, kl_divergence

from vaescope.data import open_dataset
from vaescope.data.arrays import from_array
from vaescope.encoding.encode import encode
from vaescope.errors import ConfigurationError, DataError
from vaescope.likelihoods import Bernoulli
from vaescope.models import Architecture, Identifiable, Parts
from vaescope.nets import MLP, Conv
from vaescope.objectives import Beta, Context
from vaescope.posteriors import Diagonal
from vaescope.priors import ConditionalGaussian, Standard
from vaescope.regime import variable_types
from vaescope.runs import Run, fit

FACTORS, LATENTS, ITEMS = 2, 3, 6
NET = MLP((15,), (15,), "tanh", "tanh")
GENERATOR = torch.Generator().manual_seed(0)
X = torch.rand(ITEMS, 9, generator=GENERATOR, dtype=torch.float64)
U = torch.rand(ITEMS, FACTORS, generator=GENERATOR, dtype=torch.float64)
EPSILON = torch.randn(ITEMS, LATENTS, generator=GENERATOR, dtype=torch.float64)
NOISE = {"posterior": EPSILON}


def build(prior: Any = None, seed: int = 0) -> Any:
    described = Architecture("identifiable", NET, prior=prior, condition=FACTORS, initialisation="torch")
    return described.build((9,), LATENTS, seed).double()


def test_the_default_prior_is_conditional_with_mean_zero() -> None:
    assert Architecture("identifiable", condition=5).prior == ConditionalGaussian()
    prior = build()(X, NOISE, U).prior
    assert prior.mean.shape == prior.log_variance.shape == (ITEMS, LATENTS)
    assert not prior.mean.any()
    assert prior.log_variance.std(0).all()


def test_it_has_the_layers_of_the_thesis() -> None:
    """Table A.2: 256 features and 5 factors -> 2 x 30; factors 5-50-50-50-30; the decoder takes 30 latents."""
    described = Architecture("identifiable", Conv(), prior=ConditionalGaussian(learned_mean=True), condition=5)
    model: Any = described.build((1, 64, 64), 30, seed=None)
    assert model.posterior.mean.weight.shape == model.posterior.log_variance.weight.shape == (30, 261)
    for net in (model.prior.mean, model.prior.log_variance):
        widths = [(layer.in_features, layer.out_features) for layer in net if isinstance(layer, torch.nn.Linear)]
        assert widths == [(5, 50), (50, 50), (50, 50), (50, 30)]
        slopes = [layer.negative_slope for layer in net if isinstance(layer, torch.nn.LeakyReLU)]
        assert slopes == [0.1, 0.1, 0.1]
    assert model.decoder.hidden.in_features == 30


@pytest.mark.parametrize("learned_mean", [False, True])
def test_the_rate_is_the_divergence_from_the_prior_of_each_item(learned_mean: bool) -> None:
    result = build(ConditionalGaussian(learned_mean))(X, NOISE, U)
    posterior, prior = (
        Independent(Normal(one.mean, one.variance.sqrt()), 1) for one in (result.posterior, result.prior)
    )
    terms = Beta()(X, result, Context(torch.tensor(0), 100, torch.ones(LATENTS, dtype=torch.float64)))
    torch.testing.assert_close(terms.values["rate"], kl_divergence(posterior, prior))
    assert result.prior.mean.any() == learned_mean


def test_factors_reach_the_posterior_and_the_prior_but_not_the_decoder() -> None:
    model = build()
    one, other = model(X, NOISE, U), model(X, NOISE, 1 - U)
    assert not torch.isclose(one.posterior.mean, other.posterior.mean).any()
    assert not torch.isclose(one.prior.variance, other.prior.variance).any()
    assert torch.equal(model.decode(one.z, U).mean, model.decode(one.z).mean)


def test_with_a_prior_fixed_at_0_and_1_it_is_a_vae_whose_posterior_is_given_the_factors() -> None:
    """By hand: -log p(x|z) + KL(q(z|x, u) || N(0, 1)), z from q(z|x, u)."""
    parts = Parts(NET, Diagonal(), Standard(), Bernoulli(), condition_width=FACTORS)
    model: Any = Identifiable((9,), LATENTS, parts).double()
    features = torch.cat([torch.tanh(model.encoder.layers[0](X)), U], 1)
    mean, log_variance = model.posterior.mean(features), model.posterior.log_variance(features)
    z = mean + (log_variance / 2).exp() * EPSILON
    logits = model.decoder.output(torch.tanh(model.decoder.layers[0](z)))
    rate = 0.5 * (log_variance.exp() + mean**2 - 1 - log_variance).sum(1)
    reconstruction = -(X * logits - torch.nn.functional.softplus(logits)).sum(1)
    terms = Beta()(X, model(X, NOISE, U), Context(torch.tensor(0), 100, model.latent_mask))
    torch.testing.assert_close(terms.values["rate"], rate)
    torch.testing.assert_close(terms.values["reconstruction"], reconstruction)


def test_a_prior_net_of_zeros_is_the_standard_prior() -> None:
    model = build()
    torch.nn.init.zeros_(model.prior.log_variance[-1].weight)
    torch.nn.init.zeros_(model.prior.log_variance[-1].bias)
    result = model(X, NOISE, U)
    standard = Standard().module(LATENTS)(torch.ones(LATENTS, dtype=torch.float64))
    torch.testing.assert_close(result.posterior.kl(result.prior), result.posterior.kl(standard))


def test_another_prior_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'identifiable' .* Standard .* 'conditional'"):
        Architecture("identifiable", prior="standard", condition=5)
    with pytest.raises(ConfigurationError, match=r"'vae' .* ConditionalGaussian .* 'standard'"):
        Architecture("vae", prior="conditional")


def test_a_wrong_width_of_the_prior_is_named() -> None:
    with pytest.raises(ConfigurationError, match="widths must be"):
        ConditionalGaussian(widths=(50, 0))


def test_missing_factors_raise_an_error() -> None:
    with pytest.raises(DataError, match=r"factors .* 2 numbers, got none"):
        build().encode(X)


def test_data_without_factors_are_refused(tmp_path: Path) -> None:
    rows = from_array(np.random.default_rng(0).random((40, 6)), "plain", labels=np.arange(40) % 2)
    with pytest.raises(DataError, match=r"plain must have factors to condition on"):
        fit(rows, 2, model="identifiable", prior="conditional", steps=2, runs=tmp_path)


def test_a_short_fit_on_sprites_gives_codes_with_types(tmp_path: Path) -> None:
    data = open_dataset("dsprites-small")
    net = Conv(channels=(8, 8, 16, 16), hidden=32)
    run = fit(
        data,
        6,
        model="identifiable",
        prior="conditional",
        net=net,
        steps=10,
        monitor_items=64,
        evaluation_items=64,
        runs=tmp_path,
    )
    some = data.draw(200)
    codes = encode(Run.open(run.path).model, some)
    assert codes.mean.shape == (200, 6)
    types = variable_types(codes)
    assert sum(len(getattr(types, name)) for name in ("active", "mixed", "passive")) == 6
