"""Traversals: which codes are decoded, with which condition, in how many forward passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from vaescope.data.arrays import from_array
from vaescope.encoding import encode, traversals, traverse
from vaescope.errors import ConfigurationError, DataError
from vaescope.models import Architecture, LatentModel

ITEMS, LATENTS = 40, 4
RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (ITEMS, 1, 6, 6), dtype=np.uint8)
LABELS = np.arange(ITEMS) % 3
DATA = from_array(IMAGES, labels=LABELS)
NET = {"name": "mlp", "encoder_widths": (16,), "decoder_widths": (16,)}


def a_model(name: str = "vae", **options: Any) -> Any:
    return Architecture(name, NET, "diagonal", initialisation="torch", **options).build((1, 6, 6), LATENTS, seed=0)


class Identity(nn.Module, LatentModel):
    """A decoder that returns the codes, and counts its calls."""

    condition_width, prior = 0, None

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))
        self.register_buffer("latent_mask", torch.ones(LATENTS, dtype=torch.float64))
        self.calls, self.noise = 0, {}

    def decode(self, z: Tensor, condition: Tensor | None = None) -> Any:
        self.calls += 1
        return torch.distributions.Normal(z, 1.0)


@torch.no_grad()
def test_each_item_is_the_decoding_of_its_code() -> None:
    model, codes = a_model(), encode(a_model(), DATA)
    found = traversals(model, DATA, codes, example=5)
    for kind in (found.wide, found.usual):
        assert [one.latent for one in kind] == list(range(LATENTS))
        for one in kind:
            for value, item in zip(one.values, one.items, strict=True):
                code = codes.mean[5].clone()
                code[one.latent] = value
                torch.testing.assert_close(item, model.decode(code[None]).mean[0])


def test_the_varied_latent_takes_the_values_and_the_others_stay_fixed() -> None:
    code = torch.tensor([0.5, -1.0, 2.0, 0.25], dtype=torch.float64)
    shown = traverse(Identity(), code, 2, [-3.0, 0.0, 7.0])
    assert shown[:, 2].tolist() == [-3.0, 0.0, 7.0]
    assert torch.equal(shown[:, [0, 1, 3]], code[[0, 1, 3]].expand(3, 3))


def test_the_wide_range_is_ten_steps_from_minus_five_to_five() -> None:
    found = traversals(a_model(), DATA, encode(a_model(), DATA))
    for one in found.wide:
        assert np.allclose(one.values, np.linspace(-5, 5, 10))


def test_the_usual_range_is_nine_quantiles_of_each_latent() -> None:
    codes = encode(a_model(), DATA)
    shares = [0.02, 0.14, 0.26, 0.38, 0.5, 0.62, 0.74, 0.86, 0.98]
    for one in traversals(a_model(), DATA, codes).usual:
        assert np.allclose(one.values, np.quantile(codes.mean[:, one.latent].double().numpy(), shares))


def test_all_latents_are_decoded_in_two_forward_passes() -> None:
    model = Identity()
    found = traversals(model, DATA, encode(a_model(), DATA))
    assert (model.calls, len(found.wide)) == (2, LATENTS)


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_the_chunk_changes_nothing(chunk: int) -> None:
    codes = encode(a_model(), DATA)
    one, other = (traversals(a_model(), DATA, codes, chunk=size) for size in (chunk, 256))
    for left, right in zip(one.wide, other.wide, strict=True):
        torch.testing.assert_close(left.items, right.items)


def test_only_the_requested_latents_are_varied() -> None:
    found = traversals(a_model(), DATA, encode(a_model(), DATA), latents=[3, 1])
    assert found.latents == (3, 1)
    assert len(found.usual) == 2


def test_a_masked_latent_reaches_the_decoder_as_zero() -> None:
    model = Identity()
    model.latent_mask[3] = 0
    assert not traverse(model, torch.ones(LATENTS), 3, [-5.0, 5.0])[:, 3].any()


@torch.no_grad()
def test_a_conditional_model_gets_the_label_of_the_example() -> None:
    model = a_model("conditional", condition=3)
    codes = encode(model, DATA)
    first = traversals(model, DATA, codes, example=4, latents=[0]).wide[0]
    code = codes.mean[4].clone()
    code[0] = first.values[0]
    condition = torch.nn.functional.one_hot(torch.tensor([LABELS[4]]), 3).float()
    torch.testing.assert_close(first.items[0], model.decode(code[None], condition).mean[0])
    again = traverse(model, codes.mean[4], 0, first.values, condition[0])
    torch.testing.assert_close(again, first.items)


def test_a_model_in_training_mode_stays_in_training_mode() -> None:
    model = a_model().train()
    items = traverse(model, torch.zeros(LATENTS), 0, [0.0])
    assert model.training
    assert not items.requires_grad


def test_codes_of_other_data_are_an_error() -> None:
    with pytest.raises(DataError, match=r"40 items, got codes of 7"):
        traversals(a_model(), DATA, encode(a_model(), IMAGES[:7]))


@pytest.mark.parametrize("latent", [-1, LATENTS, 1.5])
def test_an_unknown_latent_is_an_error(latent: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"^latent .*0 to 3, got {latent}"):
        traverse(a_model(), torch.zeros(LATENTS), latent, [0.0])


def test_an_unknown_example_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match=r"^example .*0 to 39, got 40"):
        traversals(a_model(), DATA, encode(a_model(), DATA), example=ITEMS)
