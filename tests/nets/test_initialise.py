"""Initial weights: the bounds of Keras and PyTorch, and a function of scheme, seed and name alone."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from vaescope.errors import UnknownNameError
from vaescope.nets import INITIALISATIONS, initialise
from vaescope.nets.convolution import Convolution, Deconvolution


class Layers(nn.Module):
    """One layer of each kind, and a parameter that no scheme should touch."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(60, 90)
        self.twin = nn.Linear(60, 90)
        self.convolution = Convolution(12, 20, 4)
        self.deconvolution = Deconvolution(12, 20, 4, (8, 8))
        self.log_variance = nn.Parameter(torch.tensor(-1.5))


NAMES = ("dense", "twin", "convolution", "deconvolution")


def drawn(scheme: str = "glorot", seed: int = 0, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    layers = Layers().to(dtype)
    initialise(layers, scheme, seed)
    return {name: parameter.detach() for name, parameter in layers.named_parameters()}


def keras_limit(kernel: tuple[int, ...]) -> float:
    """`GlorotUniform` on a kernel in Keras' order: (inputs, outputs), or (height, width, inputs, outputs)."""
    field = math.prod(kernel[:-2])
    fan_in, fan_out = kernel[-2] * field, kernel[-1] * field
    return math.sqrt(3 * 1.0 / ((fan_in + fan_out) / 2))


def fills(values: Tensor, bound: float) -> bool:
    """Uniform within the bound: reaches it, does not pass it, and has the variance bound^2 / 3."""
    reaches = 0.99 * bound < values.abs().max().item() <= bound * (1 + 1e-6)
    return reaches and abs(values.var().item() / (bound**2 / 3) - 1) < 0.1


@pytest.mark.parametrize(
    ("name", "kernel"),
    [("dense", (60, 90)), ("convolution", (4, 4, 12, 20)), ("deconvolution", (4, 4, 20, 12))],
)
def test_glorot_weights_have_the_limit_of_keras_and_zero_biases(name: str, kernel: tuple[int, ...]) -> None:
    weights = drawn("glorot")
    assert fills(weights[f"{name}.weight"], keras_limit(kernel))
    assert not weights[f"{name}.bias"].any()


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("dense", nn.Linear(60, 90)),
        ("convolution", nn.Conv2d(12, 20, 4)),
        ("deconvolution", nn.ConvTranspose2d(12, 20, 4)),
    ],
)
def test_torch_weights_and_biases_have_the_bound_of_torch_layers(name: str, layer: nn.Module) -> None:
    weights = drawn("torch")
    fan_in, _ = nn.init._calculate_fan_in_and_fan_out(layer.weight)
    bound = 1 / math.sqrt(fan_in)
    assert fills(layer.weight.detach(), bound)
    assert weights[f"{name}.weight"].shape == layer.weight.shape
    assert fills(weights[f"{name}.weight"], bound)
    assert 0.5 * bound < weights[f"{name}.bias"].abs().max() <= bound


@pytest.mark.parametrize("scheme", sorted(INITIALISATIONS))
def test_the_same_seed_draws_the_same_weights(scheme: str) -> None:
    one, other = drawn(scheme, 3), drawn(scheme, 3)
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("scheme", sorted(INITIALISATIONS))
def test_the_global_random_state_is_not_used(scheme: str) -> None:
    layers = [Layers(), Layers()]
    for position, module in enumerate(layers):
        torch.manual_seed(position)
        before = torch.get_rng_state()
        initialise(module, scheme, seed=0)
        assert torch.equal(torch.get_rng_state(), before)
    for one, other in zip(layers[0].parameters(), layers[1].parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("scheme", sorted(INITIALISATIONS))
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_weights_do_not_depend_on_the_precision(scheme: str, dtype: torch.dtype) -> None:
    single, other = drawn(scheme), drawn(scheme, dtype=dtype)
    assert all(torch.equal(single[name].to(dtype), other[name]) for name in single)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_weights_do_not_depend_on_the_device() -> None:
    layers = Layers().to("cuda")
    initialise(layers, "torch", 0)
    assert all(torch.equal(value.cpu(), drawn("torch")[name]) for name, value in layers.named_parameters())


def test_different_seeds_and_different_layers_draw_different_weights() -> None:
    one, other = drawn("torch", 0), drawn("torch", 1)
    for name in NAMES:
        assert not torch.isclose(one[f"{name}.weight"], other[f"{name}.weight"]).all()
    for part in ("weight", "bias"):
        correlation = torch.corrcoef(torch.stack([one[f"dense.{part}"].flatten(), one[f"twin.{part}"].flatten()]))
        assert correlation[0, 1].abs() < 4 / one[f"dense.{part}"].numel() ** 0.5


def test_parameters_that_belong_to_no_layer_keep_their_value() -> None:
    assert drawn("torch")["log_variance"] == -1.5


def test_an_unknown_scheme_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"glorot, torch.* 'he'"):
        initialise(Layers(), "he", 0)
