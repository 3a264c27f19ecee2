"""An identifiable VAE with more latents than it needs learns in a polarised regime (Bonheme, section 5.3.1)."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from vaescope.codes import Representation
from vaescope.data import open_dataset
from vaescope.data.arrays import from_array
from vaescope.encoding import encode
from vaescope.models import Architecture
from vaescope.nets import MLP
from vaescope.regime import VariableTypes, variable_types
from vaescope.training import Member, Plan, Trainer

pytestmark = pytest.mark.slow

LATENTS = 30


@pytest.fixture(scope="module")
def found() -> list[tuple[Representation, VariableTypes]]:
    """One seed with the prior's mean fixed at 0, on the sprites at a quarter of their size."""
    sprites = open_dataset("dsprites-small")
    images = F.avg_pool2d(sprites.batch(torch.arange(len(sprites))), 4).numpy()
    assert sprites.factors is not None
    data = from_array(images, "sprites", factors=sprites.factors.numpy())
    architecture = Architecture("identifiable", MLP((128,), (128,)), condition=5)
    members = [Member(LATENTS, learning_rate=2e-3, seed=seed) for seed in (0,)]
    trainer = Trainer(architecture, members, Plan(1500, 64, log_every=1500, evaluate_every=1500, monitor_every=0), data)
    trainer.advance()
    codes = [encode(trainer.model(place), data) for place in range(len(members))]
    return [(one, variable_types(one)) for one in codes]


def test_few_latents_are_active_and_the_others_passive(found: list[tuple[Representation, VariableTypes]]) -> None:
    for _, types in found:
        assert len(types.active) >= 4, types.summary()
        assert len(types.passive) >= 15, types.summary()
        assert len(types.mixed) <= 5, types.summary()


def test_the_prior_of_an_active_latent_is_as_wide_as_its_mean_is_large(
    found: list[tuple[Representation, VariableTypes]],
) -> None:
    """Proposition 5.2.1: the posterior's variance is small, and the prior's is about the squared mean, item by item."""
    for codes, types in found:
        assert codes.prior is not None
        prior_variance = codes.prior[1]
        for latent in types.active:
            square = codes.mean[:, latent].square()
            wanted = square + codes.variance[:, latent]  # eq. 5.12
            assert codes.variance[:, latent].mean() < 0.15 * square.mean()
            assert 0.5 < float(prior_variance[:, latent].mean() / wanted.mean()) < 2
            assert float(torch.corrcoef(torch.stack([prior_variance[:, latent], square]))[0, 1]) > 0.75


def test_a_passive_latent_has_no_mean_and_the_variance_of_its_prior(
    found: list[tuple[Representation, VariableTypes]],
) -> None:
    """Proposition 5.2.2, of most items and not on average alone."""
    for codes, types in found:
        assert codes.prior is not None
        for latent in types.passive:
            unit = codes.prior[1][:, latent]
            near = (codes.mean[:, latent].square() < 0.3 * unit) & (
                (codes.variance[:, latent] / unit).log().abs() < 0.3
            )
            assert float(near.double().mean()) > 0.8
