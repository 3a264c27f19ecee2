"""The residual pair: shapes of any image, blocks that start close to the identity, running statistics."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from vaescope.errors import ConfigurationError, UnknownNameError
from vaescope.models import Architecture
from vaescope.nets import NORMALISATIONS, ResNet, initialise
from vaescope.nets.resnet import ResidualBlock

SMALL = ResNet(width=4, widest=8)


@pytest.mark.parametrize("size", [(32, 32), (64, 64), (28, 28), (20, 45), (5, 3)])
@pytest.mark.parametrize("normalisation", sorted(NORMALISATIONS))
def test_the_decoder_returns_the_shape_that_the_encoder_took(size: tuple[int, int], normalisation: str) -> None:
    net = ResNet(width=4, widest=8, normalisation=normalisation)
    encoder, decoder = net.encoder((3, *size)), net.decoder(5, (3, *size))
    features = encoder(torch.rand(2, 3, *size))
    assert features.shape == (2, encoder.features)
    assert decoder(torch.randn(2, 5)).shape == (2, 3, *size)


@pytest.mark.parametrize(("side", "halvings"), [(32, 3), (64, 4), (128, 5), (256, 6), (4, 1)])
def test_images_are_halved_until_they_are_small(side: int, halvings: int) -> None:
    filters = ResNet().filters((1, side, side))
    assert filters == [32, 64, 128, 256, 256, 256][:halvings]


def test_blocks_start_close_to_the_identity() -> None:
    block = ResidualBlock(SMALL, 4)
    initialise(block, "glorot", 0)
    x = torch.randn(3, 4, 6, 6)
    begin = block(x) - x
    assert 0 < float(begin.detach().norm()) < 0.2 * float(x.norm())
    nn.init.zeros_(block.gate)
    assert torch.equal(block(x), x)
    nn.init.ones_(block.gate)
    torch.testing.assert_close(block(x) - x, 10 * begin, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_depth_is_the_number_of_blocks_at_each_size(depth: int) -> None:
    net = ResNet(depth=depth, width=4, widest=8)
    for half in (net.encoder((1, 32, 32)), net.decoder(2, (1, 32, 32))):
        assert sum(isinstance(module, ResidualBlock) for module in half.modules()) == 3 * depth


def test_every_parameter_has_a_gradient() -> None:
    """Biases before batch normalisation are excluded: their only gradient is rounding."""
    model = Architecture(net=SMALL, likelihood="gaussian").build((1, 16, 16), 3, seed=0).double()
    x = torch.rand(8, 1, 16, 16, dtype=torch.float64)
    result = model(x, {"posterior": torch.randn(8, 3, dtype=torch.float64)})
    result.likelihood.log_prob(x).sum().backward()
    names = [name for name, parameter in model.named_parameters() if float(parameter.grad.abs().max()) < 1e-9]
    assert names == ["likelihood.log_variance"] or not names


def test_evaluation_uses_the_running_statistics() -> None:
    encoder = SMALL.encoder((1, 16, 16))
    initialise(encoder, "glorot", 0)
    x = torch.rand(6, 1, 16, 16)
    encoder(x)
    encoder.eval()
    together, alone = encoder(x), torch.cat([encoder(one[None]) for one in x])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)
    encoder.train()
    assert not torch.allclose(encoder(x), together, atol=1e-3)


def test_wrong_options_and_items_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="batch, group, none"):
        ResNet(normalisation="layer")
    with pytest.raises(ConfigurationError, match="depth"):
        ResNet(depth=-1)
    with pytest.raises(ConfigurationError, match="width"):
        ResNet(width=0)
    with pytest.raises(ConfigurationError, match="'resnet' takes images"):
        ResNet().encoder((9,))
