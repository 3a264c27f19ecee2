"""The convolutional pair of signals: any length, and convolutions that move with the signal."""

from __future__ import annotations

import pytest
import torch

from vaescope.errors import ConfigurationError
from vaescope.nets import Conv1d, initialise


@pytest.mark.parametrize("shape", [(1, 128), (2, 100), (3, 17), (1, 1)])
@pytest.mark.parametrize("net", [Conv1d(), Conv1d((4, 6), 2, 7), Conv1d((5,), 6, 3)])
def test_the_decoder_returns_the_shape_that_the_encoder_took(net: Conv1d, shape: tuple[int, int]) -> None:
    encoder, decoder = net.encoder(shape), net.decoder(5, shape)
    assert encoder(torch.rand(2, *shape)).shape == (2, net.hidden) == (2, encoder.features)
    assert decoder(torch.randn(2, 5)).shape == (2, *shape)


def test_shifting_a_signal_by_two_shifts_the_first_features_by_one() -> None:
    encoder = Conv1d((4,), 4, 8).encoder((1, 32))
    initialise(encoder, "glorot", 0)
    signal = torch.zeros(1, 1, 32)
    signal[..., 10:14] = torch.tensor([1.0, -2.0, 3.0, 0.5])
    found, moved = (encoder.convolutions(one) for one in (signal, signal.roll(2, -1)))
    torch.testing.assert_close(found.roll(1, -1), moved)
    assert found.abs().sum() > 0


def test_wrong_options_and_items_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="even"):
        Conv1d(kernel=3)
    with pytest.raises(ConfigurationError, match="length of at least 1"):
        Conv1d(())
    with pytest.raises(ConfigurationError, match="Use net 'conv'"):
        Conv1d().encoder((1, 8, 8))
    with pytest.raises(ConfigurationError, match="Use net 'mlp'"):
        Conv1d().encoder((8,))
