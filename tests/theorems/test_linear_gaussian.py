"""The linear VAE reaches the closed-form optimum of probabilistic PCA (Tipping and Bishop, 1999)."""

from __future__ import annotations

import math

import numpy as np
import torch

from vaescope.data.arrays import from_array
from vaescope.models import Architecture
from vaescope.objectives import Beta
from vaescope.training import Member, Plan, Trainer

ITEMS, DIMENSIONS, LATENTS = 1000, 8, 3


def optimum(rows: np.ndarray) -> float:
    """The largest mean log-likelihood over loadings, offset and noise variance."""
    covariance = np.cov(rows.T, bias=True)
    values = np.sort(np.linalg.eigvalsh(covariance))[::-1]
    noise = values[LATENTS:].mean()
    log_det = np.log(values[:LATENTS]).sum() + (DIMENSIONS - LATENTS) * math.log(noise)
    return -0.5 * (DIMENSIONS * math.log(2 * math.pi) + log_det + DIMENSIONS)


def test_the_elbo_reaches_the_optimum_of_probabilistic_pca_within_one_percent() -> None:
    generator = np.random.default_rng(0)
    basis = np.linalg.qr(generator.normal(size=(DIMENSIONS, DIMENSIONS)))[0][:, :LATENTS]
    codes = generator.normal(size=(ITEMS, LATENTS)) * [2.0, 1.3, 0.8]
    rows = codes @ basis.T + 0.3 * generator.normal(size=(ITEMS, DIMENSIONS)) + 0.5
    architecture = Architecture(net="affine", likelihood={"name": "gaussian", "learned": True})
    plan = Plan(1200, ITEMS, precision="float64", log_every=1200, evaluate_every=1200, evaluation_items=ITEMS)
    data = from_array(rows)
    trainer = Trainer(architecture, [Member(LATENTS, Beta(1.0), 1e-2)], plan, data, data)
    trainer.advance()
    elbo = -exact_loss(trainer, rows)
    best = optimum(rows.astype(np.float32).astype(np.float64))
    assert best - 0.01 * abs(best) <= elbo <= best + 1e-6


def exact_loss(trainer: Trainer, rows: np.ndarray) -> float:
    """The negative ELBO with the expectation over z in closed form: an affine decoder needs no sampling."""
    model = trainer.model()
    x = torch.from_numpy(rows.astype(np.float32)).double()
    with torch.no_grad():
        posterior = model.encode(x)
        likelihood = model.decode(posterior.mean)
        loadings = model.decoder.output.weight
        spread = (posterior.variance @ loadings.square().T).sum(1) / (2 * torch.exp(likelihood.log_variance))
        return float((spread - likelihood.log_prob(x) + posterior.kl(model.prior(model.latent_mask))).mean())
