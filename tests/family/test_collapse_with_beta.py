"""Passive latents rise with beta equally with and without an encoder (Clapham and Grzes, figures 3, 4 and 5)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vaescope.data import Dataset, open_dataset
from vaescope.encoding import encode
from vaescope.models import Architecture
from vaescope.nets import MLP
from vaescope.objectives import Beta
from vaescope.regime import Collapse, collapse, point_of_total_collapse
from vaescope.training import Member, Plan, Trainer

pytestmark = pytest.mark.slow

LATENTS, BETAS, STEPS = 10, (0.5, 5.0, 30.0), 600
REAL_DATA = os.environ.get("VAESCOPE_DATA")


def mnist(part: str, items: int) -> Dataset:
    if not REAL_DATA or not (Path(REAL_DATA) / "mnist").is_dir():
        pytest.skip("set VAESCOPE_DATA to a folder that holds mnist/ to train on it")
    return open_dataset("mnist", part=part).draw(items)


def sweep(model: str, seed: int) -> list[Collapse]:
    """Collapse of the latents at each beta, on test images.

    VGON applies its heads twice (to compute r and to encode it), so the log-variance grows with the square of their
    weights: with Glorot's scheme three times larger than with PyTorch's, which the authors of VGON use.
    """
    net = MLP((64,), (64,), "elu", "elu")
    members = [Member(LATENTS, Beta(beta), 1e-3, seed) for beta in BETAS]
    plan = Plan(STEPS, 64, log_every=STEPS, evaluate_every=STEPS, monitor_every=0)
    trainer = Trainer(Architecture(model, net, initialisation="torch"), members, plan, mnist("train", 10_000))
    trainer.advance()
    return [collapse(encode(trainer.model(place), mnist("test", 2000))) for place in range(len(BETAS))]


@pytest.mark.parametrize("model", ["vae", "vgon"])
def test_passive_latents_rise_with_beta_to_total_collapse(model: str) -> None:
    found = sweep(model, seed=0)
    passive = [len(one.types.passive) for one in found]
    rates = [one.rate for one in found]
    assert passive == sorted(passive), passive
    assert passive[0] == 0, passive
    assert point_of_total_collapse(BETAS, passive, LATENTS).beta == BETAS[-1], passive
    assert rates[0] > 2 * rates[1] > 4 * rates[2], rates
