"""Initial weights as a function of (scheme, seed, name), independent of the global random state."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from vaescope.numerics.counter import derived_seed
from vaescope.registry import lookup


def glorot(weight: Tensor) -> tuple[float, float]:
    """Keras' default: weights uniform within sqrt(6 / (fan in + fan out)), zero biases."""
    receptive = math.prod(weight.shape[2:])
    return math.sqrt(6 / ((weight.shape[0] + weight.shape[1]) * receptive)), 0.0


def torch_default(weight: Tensor) -> tuple[float, float]:
    """PyTorch's default: weights and biases uniform within 1 / sqrt(fan in)."""
    bound = 1 / math.sqrt(weight.shape[1] * math.prod(weight.shape[2:]))
    return bound, bound


INITIALISATIONS = {"glorot": glorot, "torch": torch_default}


def initialise(module: nn.Module, scheme: str, seed: int) -> None:
    """Draw the weight and bias of every layer; other parameters keep the values of their constructors.

    The seed of a tensor includes the path of its layer in the module, so a renamed attribute has other weights.
    """
    bounds = lookup(INITIALISATIONS, scheme, "initialisation")
    with torch.no_grad():
        for name, layer in module.named_modules():
            weight, bias = getattr(layer, "weight", None), getattr(layer, "bias", None)
            if not isinstance(weight, nn.Parameter) or weight.ndim < 2:
                continue
            weight_bound, bias_bound = bounds(weight)
            weight.copy_(_uniform(weight, weight_bound, derived_seed(seed, f"{name}.weight")))
            if isinstance(bias, nn.Parameter):
                bias.copy_(_uniform(bias, bias_bound, derived_seed(seed, f"{name}.bias")))


def _uniform(like: Tensor, bound: float, seed: int) -> Tensor:
    # Always drawn in float32 on the CPU, so that the weights do not depend on device or precision.
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(like.shape, generator=generator, dtype=torch.float32) * 2 - 1) * bound
