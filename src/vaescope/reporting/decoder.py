"""The decoder of a model as a small program with its weights, for a page that decodes without Python.

`assets/decoder.js` runs it. The weights are laid out as its inner loops read them, as floats of 24 bits.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vaescope.likelihoods.bernoulli import BernoulliLikelihood
from vaescope.likelihoods.gaussian import GaussianLikelihood
from vaescope.likelihoods.laplace import LaplaceLikelihood
from vaescope.models import LatentModule
from vaescope.nets.conv import ConvDecoder
from vaescope.nets.convolution import Deconvolution
from vaescope.nets.mlp import ACTIVATIONS, VectorDecoder

MOST = 6_000_000  # characters of base64 that a page carries


@dataclass(frozen=True)
class Embedded:
    """Operations with offsets into the weights, and the weights as packed bytes."""

    program: dict[str, Any]
    weights: bytes

    @property
    def size(self) -> int:
        """Characters of the weights as base64, in which each is one byte."""
        return _characters(len(self.weights) // 3)

    def plain(self) -> dict[str, Any]:
        """The table that `vaescope.decoder` in the page takes.

        `inputs` is how many numbers z has, `condition` how many come before z, `shape` that of the item.
        """
        return {**self.program, "weights": base64.b64encode(self.weights).decode("ascii")}


@dataclass(frozen=True)
class NotEmbedded:
    """Why a page cannot decode."""

    reason: str


def embedded(model: Any) -> Embedded | NotEmbedded:
    """The decoder of a model, from z (after the condition, where it takes one) to the mean of an item."""
    try:
        if not isinstance(model, LatentModule):
            raise _NotKnown(f"The page decodes models built by an architecture, and {type(model).__name__} is not.")
        condition = model.decoder_condition_width
        operations, shape = _read_decoder(model.get_submodule("decoder"))
        operations += _read_mean(model.get_submodule("likelihood"))
        operations[0] = _masked(operations[0], condition, model.latent_mask)
        _check(operations)
    except _NotKnown as unknown:
        return NotEmbedded(str(unknown))
    program = {
        "operations": _tables(operations),
        "inputs": len(model.latent_mask),
        "condition": condition,
        "shape": list(shape),
    }
    return Embedded(program, b"".join(pack(one.detach().float().cpu().numpy()) for one in _weights(operations)))


def pack(values: np.ndarray) -> bytes:
    """Floats of 32 bits, rounded to nearest, ties to even, in the upper three bytes: 15 bits of mantissa are left."""
    bits = np.ascontiguousarray(values, dtype="<f4").reshape(-1).view("<u4").astype(np.uint64)
    rounded = bits + 0x7F + ((bits >> 8) & 1)
    # The largest numbers would round to infinity; they stay the largest that there is.
    finite = np.where((rounded & 0x7F800000) == 0x7F800000, bits, rounded)
    return finite.astype("<u4").view(np.uint8).reshape(-1, 4)[:, 1:].tobytes()


class _NotKnown(Exception):
    """A part that the program has no operation for."""


@dataclass(frozen=True)
class _Operation:
    name: str
    sizes: dict[str, int] = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)


def _read_decoder(decoder: nn.Module) -> tuple[list[_Operation], tuple[int, ...]]:
    """The operations up to what the likelihood takes, and the shape of an item."""
    read = _DECODERS.get(type(decoder))
    if read is None:
        raise _NotKnown(
            f"The page has operations for the decoders of the nets affine, conv, fully_connected and mlp; "
            f"{type(decoder).__name__} is none of them."
        )
    return read(decoder)


def _read_vector(decoder: Any) -> tuple[list[_Operation], tuple[int, ...]]:
    return [_layer(layer) for layer in (*decoder.layers, decoder.output)], tuple(decoder.shape)


def _read_conv(decoder: Any) -> tuple[list[_Operation], tuple[int, ...]]:
    height, width, channels = decoder.start
    relu = _Operation("relu")
    operations = [_layer(decoder.hidden), relu, _layer(decoder.spread), relu]
    operations += [_Operation("reshape", {"height": height, "width": width, "channels": channels})]
    operations += [_layer(layer) for layer in decoder.deconvolutions]
    *_, last = (one.sizes for one in operations if one.name == "deconvolve")
    return [*operations, _Operation("channels_first")], (last["filters"], last["height"], last["width"])


_DECODERS: dict[type, Callable[[Any], tuple[list[_Operation], tuple[int, ...]]]] = {
    VectorDecoder: _read_vector,
    ConvDecoder: _read_conv,
}


def _layer(layer: Any) -> _Operation:
    """One layer as an operation."""
    if type(layer) is nn.Linear and layer.bias is not None:
        outputs, inputs = layer.weight.shape
        return _Operation(
            "linear", {"inputs": inputs, "outputs": outputs}, {"weight": layer.weight.T, "bias": layer.bias}
        )
    if type(layer) is Deconvolution:
        _, filters, kernel, _ = layer.weight.shape
        height, width = layer.size
        return _Operation(
            "deconvolve",
            {"filters": filters, "kernel": kernel, "height": height, "width": width},
            {"weight": layer.weight.permute(0, 2, 3, 1), "bias": layer.bias},
        )
    for name, activation in ACTIVATIONS.items():
        if type(layer) is activation and _options(layer) == _options(activation()):
            return _Operation(name)
    raise _NotKnown(f"The page has no operation for the layer {layer} of the decoder.")


def _options(activation: nn.Module) -> dict[str, Any]:
    """What an activation was built with, but for where it writes."""
    constants: list[str] = getattr(activation, "__constants__", [])
    return {name: getattr(activation, name) for name in constants if name != "inplace"}


def _read_mean(likelihood: nn.Module) -> list[_Operation]:
    """From what the decoder gives to the mean of the likelihood."""
    if type(likelihood) is BernoulliLikelihood:
        return [_Operation("sigmoid")]
    if type(likelihood) in (GaussianLikelihood, LaplaceLikelihood):
        return []
    raise _NotKnown(
        f"The page knows the means of the likelihoods bernoulli, gaussian and laplace; "
        f"{type(likelihood).__name__} is none of them."
    )


def _masked(first: _Operation, condition: int, mask: Tensor) -> _Operation:
    """The first layer without the latents that the model leaves out."""
    kept = torch.cat([mask.new_ones(condition), mask])
    weight = first.weights["weight"] * kept[:, None].to(first.weights["weight"].dtype)
    return _Operation(first.name, first.sizes, {**first.weights, "weight": weight})


def _check(operations: list[_Operation]) -> None:
    """Weights that a page can carry and reckon with."""
    size = _characters(sum(one.numel() for one in _weights(operations)))
    if size > MOST:
        raise _NotKnown(
            f"The decoder's weights take {size / 1e6:.1f} million characters in a page, more than the "
            f"{MOST / 1e6:.1f} million that one carries; a smaller net, or 'conv' for images, takes fewer."
        )
    if not all(bool(one.detach().float().isfinite().all()) for one in _weights(operations)):
        raise _NotKnown("Some of the decoder's weights are not finite numbers, so there is nothing to decode with.")


def _tables(operations: list[_Operation]) -> list[dict[str, Any]]:
    """The operations with the offsets of their weights, which follow one another in the same order."""
    tables, offset = [], 0
    for operation in operations:
        table: dict[str, Any] = {"name": operation.name, **operation.sizes}
        for name, values in operation.weights.items():
            table[name] = offset
            offset += values.numel()
        tables.append(table)
    return tables


def _weights(operations: list[_Operation]) -> Iterator[Tensor]:
    return (values for operation in operations for values in operation.weights.values())


def _characters(count: int) -> int:
    """Of base64 for so many weights: three bytes are four characters."""
    return 4 * count
