"""A model's decoder as a small program with packed weights, which `assets/decoder.js` runs inside a page.

The weights are stored in the order in which the inner loops read them, as floats of 24 bits.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.likelihoods.bernoulli import BernoulliLikelihood
from vaescope.likelihoods.gaussian import GaussianLikelihood
from vaescope.likelihoods.laplace import LaplaceLikelihood
from vaescope.models import LatentModule
from vaescope.nets.conv import ConvDecoder
from vaescope.nets.convolution import Deconvolution
from vaescope.nets.mlp import ACTIVATIONS, VectorDecoder

MAX_CHARACTERS = 6_000_000  # of base64 in a page


class Program(TypedDict):
    """The operations, each with its name, its sizes and the offsets of its weights.

    `inputs` is the number of latents, `condition` the number of values before them, `shape` the shape of an item.
    """

    operations: list[dict[str, str | int]]
    inputs: int
    condition: int
    shape: list[int]


@dataclass(frozen=True)
class ExportedDecoder:
    """A program and its packed weights."""

    program: Program
    weights: bytes

    @property
    def size(self) -> int:
        """The length of the weights in base64."""
        return _base64_length(len(self.weights) // 3)

    def plain(self) -> dict[str, object]:
        """The JSON-compatible dictionary that `vaescope.decoder` in the page takes."""
        return {**self.program, "weights": base64.b64encode(self.weights).decode("ascii")}


@dataclass(frozen=True)
class NotExported:
    """Why a decoder cannot run in a page."""

    reason: str


def export_decoder(model: object) -> ExportedDecoder | NotExported:
    """Export the map from z (after the condition, for a conditional decoder) to the mean of p(x|z)."""
    if not isinstance(model, LatentModule):
        # Only the `decode` of a LatentModule is known to be its decoder and its likelihood.
        return NotExported(f"The page can run models that vaescope builds, but not {type(model).__name__}.")
    try:
        operations, shape = _decoder_operations(model.get_submodule("decoder"))
        operations += _mean_operations(model.get_submodule("likelihood"))
        _check_weights(operations)
    except _Unsupported as unsupported:
        return NotExported(str(unsupported))
    condition, mask = model.decoder_condition_width, model.latent_mask
    operations[0] = _mask_inputs(operations[0], condition, mask)
    program = Program(operations=_tables(operations), inputs=len(mask), condition=condition, shape=list(shape))
    return ExportedDecoder(program, b"".join(pack(one.detach().float().cpu().numpy()) for one in _weights(operations)))


def pack(values: Float[np.ndarray, "..."]) -> bytes:
    """The upper three bytes of each 32-bit float, rounded to nearest, ties to even; 15 bits of mantissa remain."""
    bits = np.ascontiguousarray(values, dtype="<f4").reshape(-1).view("<u4").astype(np.uint64)
    rounded = bits + 0x7F + ((bits >> 8) & 1)
    # The largest numbers would round to infinity, so they are truncated.
    finite = np.where((rounded & 0x7F800000) == 0x7F800000, bits, rounded)
    return finite.astype("<u4").view(np.uint8).reshape(-1, 4)[:, 1:].tobytes()


class _Unsupported(Exception):
    """A part of a model that the page cannot run."""


@dataclass(frozen=True)
class _Operation:
    name: str
    sizes: dict[str, int] = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)


_Operations = tuple[list[_Operation], Sequence[int]]  # with the shape of an item


def _vector_operations(decoder: VectorDecoder) -> _Operations:
    return [_layer_operation(layer) for layer in (*decoder.layers, decoder.output)], decoder.shape


def _conv_operations(decoder: ConvDecoder) -> _Operations:
    height, width, channels = decoder.start
    relu = _Operation("relu")
    operations = [_layer_operation(decoder.hidden), relu, _layer_operation(decoder.spread), relu]
    operations += [_Operation("reshape", {"height": height, "width": width, "channels": channels})]
    operations += [_layer_operation(layer) for layer in decoder.deconvolutions]
    *_, last = (one.sizes for one in operations if one.name == "deconvolve")
    return [*operations, _Operation("channels_first")], (last["filters"], last["height"], last["width"])


# Dispatch is on the exact class here and below: a subclass may compute something else.
_DECODERS: dict[type[nn.Module], Callable[..., _Operations]] = {
    VectorDecoder: _vector_operations,
    ConvDecoder: _conv_operations,
}
_MEANS: dict[type[nn.Module], tuple[str, ...]] = {
    BernoulliLikelihood: ("sigmoid",),
    GaussianLikelihood: (),
    LaplaceLikelihood: (),
}


def _decoder_operations(decoder: nn.Module) -> _Operations:
    if type(decoder) not in _DECODERS:
        raise _Unsupported(
            f"The page can run the decoders of the nets affine, conv, fully_connected and mlp, but not "
            f"{type(decoder).__name__}."
        )
    return _DECODERS[type(decoder)](decoder)


def _mean_operations(likelihood: nn.Module) -> list[_Operation]:
    """From the output of the decoder to the mean of the likelihood."""
    if type(likelihood) not in _MEANS:
        raise _Unsupported(
            f"The page can compute the means of the likelihoods bernoulli, gaussian and laplace, but not of "
            f"{type(likelihood).__name__}."
        )
    return [_Operation(name) for name in _MEANS[type(likelihood)]]


def _layer_operation(layer: nn.Module) -> _Operation:
    if type(layer) is nn.Linear and layer.bias is not None:
        sizes = {"inputs": layer.in_features, "outputs": layer.out_features}
        return _Operation("linear", sizes, {"weight": layer.weight.T, "bias": layer.bias})
    if type(layer) is Deconvolution:
        _, filters, kernel, _ = layer.weight.shape
        sizes = {"filters": filters, "kernel": kernel, "height": layer.size[0], "width": layer.size[1]}
        return _Operation("deconvolve", sizes, {"weight": layer.weight.permute(0, 2, 3, 1), "bias": layer.bias})
    for name, activation in ACTIVATIONS.items():
        if type(layer) is activation and _options(layer) == _options(activation()):
            return _Operation(name)
    raise _Unsupported(f"The page cannot run the decoder's layer {layer}.")


def _options(activation: nn.Module) -> str:
    """What an activation was built with; `inplace` makes no difference to its values."""
    return activation.extra_repr().removesuffix("inplace=True").removesuffix(", ")


def _check_weights(operations: Sequence[_Operation]) -> None:
    """The weights must be finite and fit into a page."""
    size = _base64_length(sum(one.numel() for one in _weights(operations)))
    if size > MAX_CHARACTERS:
        raise _Unsupported(
            f"The decoder's weights need {size / 1e6:.1f} million characters, but a page holds at most "
            f"{MAX_CHARACTERS / 1e6:.1f} million. Use a smaller net, or 'conv' for images."
        )
    if not all(bool(one.detach().float().isfinite().all()) for one in _weights(operations)):
        raise _Unsupported("Some of the decoder's weights are not finite.")


def _mask_inputs(first: _Operation, condition: int, mask: Tensor) -> _Operation:
    """The first layer with zero weights for masked latents."""
    kept = torch.cat([mask.new_ones(condition), mask])
    weight = first.weights["weight"] * kept[:, None].to(first.weights["weight"].dtype)
    return _Operation(first.name, first.sizes, {**first.weights, "weight": weight})


def _tables(operations: Sequence[_Operation]) -> list[dict[str, str | int]]:
    """The operations with the offsets of their weights, which are packed in the same order."""
    tables, offset = [], 0
    for operation in operations:
        table: dict[str, str | int] = {"name": operation.name, **operation.sizes}
        for name, values in operation.weights.items():
            table[name] = offset
            offset += values.numel()
        tables.append(table)
    return tables


def _weights(operations: Sequence[_Operation]) -> Iterator[Tensor]:
    return (values for operation in operations for values in operation.weights.values())


def _base64_length(count: int) -> int:
    """Three bytes per weight are four characters."""
    return 4 * count
