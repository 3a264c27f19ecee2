"""The evidence lower bound: against the exact likelihood of a linear model, and against the terms of training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from vaescope.data import open_dataset
from vaescope.data.arrays import from_array
from vaescope.encoding import lower_bound
from vaescope.errors import ConfigurationError
from vaescope.models import MODELS, Architecture, Linear
from vaescope.models.module import evaluation_mode
from vaescope.training import Member, Plan, Trainer

RANDOM = np.random.default_rng(0)
TABLE = (RANDOM.standard_normal((3000, 2)) @ RANDOM.standard_normal((2, 5))).astype(np.float32)
TABLE += 0.3 * RANDOM.standard_normal(TABLE.shape).astype(np.float32)
IMAGES = RANDOM.integers(0, 256, (20, 1, 4, 4), dtype=np.uint8)
NET = {"name": "mlp", "encoder_widths": (8,), "decoder_widths": (8,)}


def test_the_bound_of_the_best_linear_model_is_its_log_likelihood() -> None:
    model = Linear.fit(TABLE, 2)
    exact = model.log_likelihood(torch.from_numpy(TABLE).double())
    found = lower_bound(model, TABLE)
    assert found.shape == (len(TABLE),)
    # One sample of z for each item: the mean over many items is close.
    assert float(found.mean()) == pytest.approx(float(exact.mean()), abs=4 * float(found.std()) / len(TABLE) ** 0.5)
    assert float(found.mean()) == pytest.approx(float(exact.mean()), abs=0.15)


@pytest.mark.parametrize("name", ["vae", "autoencoder", "vgon"])
def test_the_bound_is_the_negative_loss_of_held_out_items(name: str) -> None:
    data = from_array(IMAGES)
    plan = Plan(2, 20, precision="float64", log_every=2, evaluate_every=2)
    posterior = MODELS[name].default_posterior
    trainer = Trainer(Architecture(name, NET, posterior), [Member(2, seed=3)], plan, data, data)
    test = next(row for row in trainer.advance() if row.split == "test")
    found = lower_bound(trainer.model(), data, seed=3)
    assert float(found.mean()) == pytest.approx(-test.values["loss"], rel=1e-9)


@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_the_chunk_changes_nothing(chunk: int) -> None:
    model = Architecture(net=NET).build((1, 4, 4), 2, seed=0).double()
    torch.testing.assert_close(lower_bound(model, IMAGES, chunk=chunk), lower_bound(model, IMAGES), rtol=1e-12, atol=0)


def test_another_seed_draws_other_codes() -> None:
    model = Architecture(net=NET).build((1, 4, 4), 2, seed=0)
    assert torch.equal(lower_bound(model, IMAGES, seed=1), lower_bound(model, IMAGES, seed=1))
    assert not torch.equal(lower_bound(model, IMAGES, seed=1), lower_bound(model, IMAGES, seed=2))


def test_a_conditional_model_is_given_its_labels() -> None:
    model: Any = Architecture("conditional", NET, condition=10).build((1, 8, 8), 2, seed=0)
    digits = open_dataset("digits").draw(30)
    with evaluation_mode(model):
        assert lower_bound(model, digits).shape == (30,)


def test_a_model_of_another_library_has_no_likelihood_and_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"model of vaescope.* got Linear"):
        lower_bound(nn.Linear(16, 2), IMAGES)
