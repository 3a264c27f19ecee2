"""A trained linear iVAE finds the closed form of section 5.2 of Bonheme's thesis."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

from vaescope.models import Architecture
from vaescope.numerics import linear_identifiable as identifiable

GAMMA = 0.05
# The variances of the data along four orthogonal directions under each of two conditions.
SPECTRA = torch.tensor([[4.0, 1.0, 0.04, 0.03], [1.0, 3.0, 0.04, 0.03]], dtype=torch.float64)


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def conditioned_data(directions: Tensor, items: int = 100) -> tuple[Tensor, Tensor]:
    """Items with exactly these variances under each condition, and their conditions."""
    parts = []
    for condition, spectrum in enumerate(SPECTRA):
        noise = draw(items, 4, seed=condition)
        white = torch.linalg.qr(noise - noise.mean(0)).Q * math.sqrt(items)
        parts.append(white * spectrum.sqrt() @ directions.T)
    return torch.cat(parts), torch.arange(2).repeat_interleave(items).unsqueeze(1).double()


def trained(x: Tensor, u: Tensor, elbo_of: Any) -> Any:
    """An affine identifiable VAE with three latents, trained on its exact ELBO."""
    prior = {"name": "conditional", "widths": []}
    likelihood = {"name": "gaussian", "variance": GAMMA}
    described = Architecture("identifiable", "affine", prior=prior, likelihood=likelihood, condition=1)
    model: Any = described.build((4,), 3, 0).double()
    optimiser = torch.optim.LBFGS(model.parameters(), max_iter=250, history_size=20, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = -elbo_of(model, x, u)
        loss.backward()
        return loss

    optimiser.step(closure)
    return model


def model_elbo(model: Any, x: Tensor, u: Tensor) -> Tensor:
    posterior, prior, output = model.encode(x, u), model.prior(model.latent_mask, u), model.decoder.output
    moments = (posterior.mean, posterior.variance, prior.mean, prior.variance)
    return identifiable.elbo(x, output.weight, output.bias, GAMMA, *moments).mean()


def test_a_trained_linear_ivae_has_the_thresholded_priors_of_the_closed_form() -> None:
    """Two directions vary by more than gamma: two latents are active and the third equals its prior (theorem 5.2.2)."""
    directions = torch.linalg.qr(draw(4, 4, seed=5)).Q  # orthogonal
    x, u = conditioned_data(directions)
    model = trained(x, u, model_elbo)
    with torch.no_grad():
        found = float(model_elbo(model, x, u))
        posterior, prior = model.encode(x, u), model.prior(model.latent_mask, u)
    zeros = torch.zeros(4, dtype=torch.float64)
    moments = identifiable.second_moment(x, directions, zeros).unflatten(0, (2, -1)).mean(1)
    torch.testing.assert_close(moments, SPECTRA)
    best_prior = identifiable.thresholded_prior_variance(moments, directions, GAMMA)
    marginals = directions * best_prior.unsqueeze(1) @ directions.T + GAMMA * torch.eye(4, dtype=torch.float64)
    by_condition = zip(marginals, x.unflatten(0, (2, -1)), strict=True)
    best = float(
        torch.cat([MultivariateNormal(zeros, marginal).log_prob(rows) for marginal, rows in by_condition]).mean()
    )
    # The encoder is affine, but the best one has another gain under each condition.
    assert best - 0.02 < found < best
    spread = (prior.variance * model.decoder.output.weight.detach().square().sum(0))[[0, -1]]
    order = spread.sum(0).argsort(descending=True)
    torch.testing.assert_close(spread[:, order], best_prior[:, [0, 1, 2]], rtol=0.1, atol=1e-3)
    share = (posterior.variance / prior.variance)[[0, -1]][:, order]
    torch.testing.assert_close(share, (GAMMA / SPECTRA[:, [0, 1, 2]]).clamp(max=1), rtol=0.1, atol=1e-3)
