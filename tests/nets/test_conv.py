"""The convolutional pair: shapes of any image, and the sizes of the thesis' Tables C.3 and D.2."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from vaescope.errors import ConfigurationError
from vaescope.nets import Conv, initialise
from vaescope.nets.convolution import Convolution, Deconvolution


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def layers(module: nn.Module) -> list[tuple[int, ...]]:
    return [tuple(part.weight.shape) for part in module.modules() if hasattr(part, "weight")]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(28, 28), (32, 32), (64, 64), (20, 44), (17, 1), (16, 16)])
@pytest.mark.parametrize("net", [Conv(), Conv(kernels=(4, 4, 4, 4)), Conv((2, 4), (6, 5), 7)])
def test_the_decoder_returns_the_shape_that_the_encoder_took(net: Conv, size: tuple[int, int], channels: int) -> None:
    shape = (channels, *size)
    encoder, decoder = net.encoder(shape), net.decoder(5, shape)
    features = encoder(torch.rand(2, *shape))
    assert features.shape == (2, encoder.features) == (2, net.hidden)
    assert decoder(torch.randn(2, 5)).shape == (2, *shape)


def test_the_layers_are_those_of_the_table() -> None:
    encoder, decoder = Conv().encoder((1, 64, 64)), Conv().decoder(10, (1, 64, 64))
    assert layers(encoder) == [(32, 1, 4, 4), (32, 32, 4, 4), (64, 32, 2, 2), (64, 64, 2, 2), (256, 1024)]
    # A deconvolution keeps its inputs first, as torch does.
    assert layers(decoder) == [
        (256, 10),
        (1024, 256),
        (64, 64, 4, 4),
        (64, 32, 4, 4),
        (32, 32, 4, 4),
        (32, 1, 4, 4),
    ]


@pytest.mark.parametrize("latents", [1, 10, 32])
@pytest.mark.parametrize("channels", [1, 3])
def test_the_numbers_of_parameters_are_those_of_the_table(channels: int, latents: int) -> None:
    shape = (channels, 64, 64)
    convolutions = (4 * 4 * channels + 1) * 32 + (4 * 4 * 32 + 1) * 32 + (2 * 2 * 32 + 1) * 64 + (2 * 2 * 64 + 1) * 64
    assert parameters(Conv().encoder(shape)) == convolutions + (1024 + 1) * 256
    deconvolutions = (4 * 4 * 64 + 1) * 64 + (4 * 4 * 64 + 1) * 32 + (4 * 4 * 32 + 1) * 32 + (4 * 4 * 32 + 1) * channels
    dense = (latents + 1) * 256 + (256 + 1) * 1024
    assert parameters(Conv().decoder(latents, shape)) == dense + deconvolutions


def test_an_option_gives_the_kernels_of_the_thesis_table() -> None:
    encoder = Conv(kernels=(4, 4, 4, 4)).encoder((1, 64, 64))
    assert layers(encoder)[:4] == [(32, 1, 4, 4), (32, 32, 4, 4), (64, 32, 4, 4), (64, 64, 4, 4)]


def test_all_layers_but_the_output_are_followed_by_relu() -> None:
    encoder, decoder = Conv().encoder((1, 32, 32)), Conv().decoder(4, (1, 32, 32))
    assert [type(layer) for layer in encoder.convolutions] == [Convolution, nn.ReLU] * 4
    assert [type(layer) for layer in decoder.deconvolutions] == [Deconvolution, nn.ReLU] * 3 + [Deconvolution]
    initialise(encoder, "torch", seed=0)
    assert encoder(torch.randn(8, 1, 32, 32, generator=torch.Generator().manual_seed(0))).min() >= 0
    nn.init.constant_(decoder.deconvolutions[-1].bias, -2.0)
    assert (decoder(torch.zeros(1, 4)) == -2).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kernels": (4, 4)}, r"same length of at least 1, got \(4, 4\) and \(32, 32, 64, 64\)"),
        ({"kernels": (), "channels": ()}, "same length"),
        ({"kernels": (4, 4, 3, 2)}, r"kernels must be even, got \(4, 4, 3, 2\)"),
        ({"kernels": (4, 4, 0, 2)}, "kernels must be whole numbers of at least 1"),
        ({"kernels": (4, 4, -2, 2)}, "kernels must be whole numbers of at least 1"),
        ({"channels": (32, 0, 64, 64)}, "channels must be whole numbers of at least 1"),
        ({"hidden": 0}, r"hidden must be whole numbers of at least 1, got \(0,\)"),
    ],
)
def test_a_bad_option_is_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Conv(**options)


@pytest.mark.parametrize("shape", [(12,), (8, 8), (1, 2, 8, 8)])
def test_items_that_are_not_images_raise_an_error_with_a_remedy(shape: tuple[int, ...]) -> None:
    for build in (Conv().encoder, lambda shape: Conv().decoder(3, shape)):
        with pytest.raises(ConfigurationError, match=r"images.* shape .*'mlp'"):
            build(shape)
