"""Fully connected pairs: widths, activations, images as vectors, and an affine pair that is affine."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from vaescope.errors import ConfigurationError, UnknownNameError
from vaescope.nets import ACTIVATIONS, MLP, Affine, FullyConnected, initialise


def widths(module: nn.Module) -> list[tuple[int, int]]:
    return [(part.in_features, part.out_features) for part in module.modules() if isinstance(part, nn.Linear)]


def kinds(module: nn.Module) -> list[type[nn.Module]]:
    return [type(part) for part in module.modules() if type(part) in ACTIVATIONS.values()]


def test_an_mlp_has_the_widths_it_is_given() -> None:
    net = MLP((7, 5), (3, 4, 6))
    assert widths(net.encoder((12,))) == [(12, 7), (7, 5)]
    assert net.encoder((12,)).features == 5
    assert widths(net.decoder(2, (12,))) == [(2, 3), (3, 4), (4, 6), (6, 12)]


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_each_hidden_layer_has_the_activation_of_its_side(name: str) -> None:
    net = MLP((7, 5), (3,), encoder_activation=name, decoder_activation="tanh")
    assert kinds(net.encoder((12,))) == [ACTIVATIONS[name]] * 2
    assert kinds(net.decoder(2, (12,))) == [nn.Tanh]


def test_the_net_of_the_studies_is_two_relu_layers_and_three_tanh_layers_of_1200() -> None:
    encoder, decoder = FullyConnected().encoder((1, 8, 8)), FullyConnected().decoder(10, (1, 8, 8))
    assert widths(encoder) == [(64, 1200), (1200, 1200)]
    assert kinds(encoder) == [nn.ReLU] * 2
    assert widths(decoder) == [(10, 1200), (1200, 1200), (1200, 1200), (1200, 64)]
    assert kinds(decoder) == [nn.Tanh] * 3


def test_an_option_gives_the_decoder_of_the_thesis_table() -> None:
    decoder = FullyConnected(decoder_widths=(256, 1200, 1200)).decoder(10, (4,))
    assert widths(decoder) == [(10, 256), (256, 1200), (1200, 1200), (1200, 4)]


@pytest.mark.parametrize("net", [MLP(), FullyConnected(), Affine()])
@pytest.mark.parametrize("shape", [(12,), (3, 4, 5)])
def test_images_are_flattened_and_reshaped_back(net: Any, shape: tuple[int, ...]) -> None:
    encoder, decoder = net.encoder(shape), net.decoder(2, shape)
    x = torch.rand(6, *shape)
    assert torch.equal(encoder(x), encoder(x.flatten(1)))
    assert encoder(x).shape == (6, encoder.features)
    assert decoder(torch.randn(6, 2)).shape == (6, *shape)


def test_an_affine_pair_has_no_hidden_layer() -> None:
    assert widths(Affine().encoder((3, 4, 5))) == []
    assert Affine().encoder((3, 4, 5)).features == 60
    assert widths(Affine().decoder(2, (3, 4, 5))) == [(2, 60)]


def test_an_affine_pair_is_affine() -> None:
    encoder, decoder = Affine().encoder((1, 3, 3)).double(), Affine().decoder(4, (1, 3, 3)).double()
    initialise(decoder, "torch", seed=0)
    generator = torch.Generator().manual_seed(0)
    for function, shape in ((encoder, (1, 3, 3)), (decoder, (4,))):
        one, other = torch.randn(2, 5, *shape, generator=generator, dtype=torch.float64)
        mixed = function(0.3 * one - 1.7 * other)
        zero = function(torch.zeros_like(one))
        torch.testing.assert_close(mixed - zero, 0.3 * (function(one) - zero) - 1.7 * (function(other) - zero))


def test_an_mlp_is_not_affine() -> None:
    decoder = MLP().decoder(4, (9,))
    initialise(decoder, "torch", seed=0)
    z = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    assert not torch.allclose(decoder(2 * z) - decoder(z), decoder(z) - decoder(0 * z), atol=1e-3)


@pytest.mark.parametrize("side", ["encoder_widths", "decoder_widths"])
@pytest.mark.parametrize("bad", [(0,), (5, -1)])
def test_a_layer_without_units_is_refused(side: str, bad: tuple[int, ...]) -> None:
    with pytest.raises(ConfigurationError, match="widths must be whole numbers of at least 1, got"):
        MLP(**{side: bad})


@pytest.mark.parametrize("side", ["encoder_activation", "decoder_activation"])
def test_an_unknown_activation_lists_the_known_ones(side: str) -> None:
    with pytest.raises(UnknownNameError, match=r"activation .*elu, gelu.*'relu'"):
        MLP(**{side: "rellu"})
