"""Items that a model makes: reconstructions, samples from every prior, and interpolations between two items."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from vaescope.data import Subset
from vaescope.data.arrays import from_array
from vaescope.encoding import decode, encode, interpolate, reconstruct, sample
from vaescope.errors import ConfigurationError, DataError
from vaescope.models import Architecture
from vaescope.priors import PRIORS

ITEMS, LATENTS, CLASSES = 30, 3, 4
IMAGES = np.random.default_rng(0).integers(0, 256, (ITEMS, 1, 6, 6), dtype=np.uint8)
LABELS = np.arange(ITEMS) % CLASSES
DATA = from_array(IMAGES, labels=LABELS)
NET = {"name": "mlp", "encoder_widths": (16,), "decoder_widths": (16,)}


def a_model(name: str = "vae", **options: Any) -> Any:
    model = Architecture(name, NET, initialisation="torch", **options).build((1, 6, 6), LATENTS, seed=0)
    for prior in [] if model.prior is None else [model.prior]:
        for parameter in prior.parameters():
            torch.nn.init.normal_(parameter, std=0.1, generator=torch.Generator().manual_seed(1))
    return model


def one(position: int) -> Subset:
    return Subset.of(DATA, torch.tensor([position]))


@torch.no_grad()
@pytest.mark.parametrize("name", ["vae", "vgon"])
def test_a_reconstruction_decodes_the_mean_code(name: str) -> None:
    model = a_model(name, posterior="diagonal")
    x = torch.from_numpy(IMAGES).float() / 255
    found = reconstruct(model, DATA, chunk=7)
    torch.testing.assert_close(found, model.decode(model.encode(x).mean).mean)
    assert found.shape == (ITEMS, 1, 6, 6)


@torch.no_grad()
def test_a_conditional_reconstruction_takes_the_labels_of_the_data() -> None:
    model = a_model("conditional", condition=CLASSES)
    condition = torch.nn.functional.one_hot(torch.from_numpy(LABELS), CLASSES).float()
    expected = model.decode(encode(model, DATA).mean, condition).mean
    torch.testing.assert_close(reconstruct(model, DATA), expected)


@pytest.mark.parametrize("name", sorted(PRIORS))
def test_codes_are_drawn_from_every_prior(name: str) -> None:
    conditional = PRIORS[name].conditional
    model = a_model("identifiable" if conditional else "vae", prior=name, condition=2 if conditional else 0)
    condition = torch.rand(2000, 2, generator=torch.Generator().manual_seed(2)) if conditional else None
    codes = []
    model.decoder.register_forward_hook(lambda module, inputs, output: codes.append(inputs[0]))
    found = sample(model, 2000, seed=3, conditions=condition)
    assert found.shape == (2000, 1, 6, 6)
    prior, drawn = model.prior(model.latent_mask, condition), torch.cat(codes).detach()
    deviations = ((drawn - prior.mean) / prior.variance.sqrt()).detach()
    assert deviations.mean(0).abs().max() < 0.15
    assert (deviations.std(0) - 1).abs().max() < 0.15


def test_an_item_depends_only_on_the_seed_and_its_number() -> None:
    model = a_model()
    many, few, other = sample(model, 9, seed=1), sample(model, 4, seed=1, chunk=3), sample(model, 4, seed=2)
    torch.testing.assert_close(many[:4], few)
    assert not torch.allclose(few, other)


@pytest.mark.parametrize("count", [0, -1, 2.5])
def test_an_invalid_count_is_an_error(count: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"^count .*got {count}"):
        sample(a_model(), count)


def test_an_autoencoder_has_no_prior_to_sample_from() -> None:
    with pytest.raises(ConfigurationError, match=r"prior .*autoencoder has none.*'vae'"):
        sample(a_model("autoencoder", posterior="deterministic"))


@torch.no_grad()
def test_an_interpolation_starts_and_ends_at_the_reconstructions() -> None:
    model = a_model()
    line = interpolate(model, one(2), one(5), steps=5)
    ends = reconstruct(model, Subset.of(DATA, torch.tensor([2, 5])))
    torch.testing.assert_close(line[[0, -1]], ends)
    means = encode(model, DATA).mean
    torch.testing.assert_close(line[2], decode(model, (means[2] + means[5])[None] / 2)[0])


@torch.no_grad()
def test_the_condition_is_interpolated_too() -> None:
    model = a_model("conditional", condition=CLASSES)
    line = interpolate(model, one(1), one(2), steps=3)
    code = (encode(model, one(1)).mean + encode(model, one(2)).mean) / 2
    torch.testing.assert_close(line[1], decode(model, code, torch.tensor([0.0, 0.5, 0.5, 0.0]))[0])


def test_an_interpolation_needs_one_item_at_each_end_and_two_steps() -> None:
    with pytest.raises(DataError, match=r"one item to interpolate .*got 30 items"):
        interpolate(a_model(), DATA, one(0))
    with pytest.raises(ConfigurationError, match=r"^steps .*got 1"):
        interpolate(a_model(), one(0), one(1), steps=1)


def test_a_model_in_training_mode_stays_in_training_mode() -> None:
    model = a_model().train()
    for found in (reconstruct(model, DATA), sample(model), interpolate(model, one(0), one(1))):
        assert not found.requires_grad
    assert model.training
