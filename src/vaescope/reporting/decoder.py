"""A model's decoder as a small program with packed weights, which `assets/decoder.js` runs inside a page.

The weights are stored in the order in which the inner loops read them, as floats of 24 bits, compressed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.encoding import WrappedModel
from vaescope.likelihoods.likelihood import BernoulliLikelihood, GaussianLikelihood, LaplaceLikelihood
from vaescope.likelihoods.units import ItemUnits
from vaescope.models import LatentModule
from vaescope.nets.conv import ConvDecoder
from vaescope.nets.convolution import Deconvolution
from vaescope.nets.mlp import ACTIVATIONS, VectorDecoder
from vaescope.reporting.assets import compressed_text

MAX_CHARACTERS = 6_000_000  # of base64, before compression


# The operations from the output of a decoder to the mean of each likelihood.
MEANS: dict[type[nn.Module], tuple[str, ...]] = {
    BernoulliLikelihood: ("sigmoid",),
    GaussianLikelihood: (),
    LaplaceLikelihood: (),
}


class NotExported(Exception):
    """Why a decoder cannot run in a page."""


@dataclass(frozen=True)
class ExportedDecoder:
    """A program and its packed weights.

    Attributes:
        operations: Each with its name, its sizes and the offsets of its weights.
        inputs: The number of latents.
        condition: The number of values before them.
        shape: The shape of an item.
        weights: The packed weights.
    """

    operations: list[dict[str, str | int]]
    inputs: int
    condition: int
    shape: list[int]
    weights: bytes

    def plain(self) -> dict[str, object]:
        """The JSON-compatible dictionary that `vaescope.decoder` in the page takes."""
        # Bytes of equal weight next to each other compress better.
        planes = np.frombuffer(self.weights, np.uint8).reshape(-1, 3).T
        return {**vars(self), "weights": compressed_text(planes.tobytes())}


def export_decoder(model: object) -> ExportedDecoder:
    """Export the map from z (after the condition, for a conditional decoder) to the mean of p(x|z).

    Raises:
        NotExported: The page cannot run the decoder, or its weights are too many or not finite.
    """
    if not isinstance(model, LatentModule):
        # Only for a LatentModule is `decode` certain to be the decoder followed by the likelihood.
        name = model.name if isinstance(model, WrappedModel) else type(model).__name__
        raise NotExported(f"The page can run the decoders of models that vaescope builds, but not that of {name}.")
    operations, shape = _decoder_operations(model.get_submodule("decoder"))
    likelihood = type(model.get_submodule("likelihood"))
    if likelihood not in MEANS:
        raise NotExported(
            f"The page can compute the means of the likelihoods bernoulli, gaussian and laplace, but not of "
            f"{likelihood.__name__}."
        )
    operations += [_Operation(name) for name in MEANS[likelihood]]
    if model.units is not None and model.units.standardise:
        operations.append(_to_data_units(model.units, shape))
    condition, mask = model.decoder_condition_width, model.latent_mask
    first = operations[0].weights
    # Masked latents have no effect.
    first["weight"] = first["weight"] * torch.cat([mask.new_ones(condition), mask])[:, None].to(first["weight"].dtype)
    tables, packed, count = [], [], 0
    for operation in operations:
        table: dict[str, str | int] = {"name": operation.name, **operation.sizes}
        for name, values in operation.weights.items():
            table[name] = count
            count += values.numel()
            packed.append(values.detach().float().cpu().numpy())
        tables.append(table)
    size = 4 * count  # three bytes per weight are four characters
    if size > MAX_CHARACTERS:
        raise NotExported(
            f"The decoder's weights need {size / 1e6:.1f} million characters, but a page holds at most "
            f"{MAX_CHARACTERS / 1e6:.1f} million. Use a smaller net, or 'conv' for images."
        )
    if not all(np.isfinite(values).all() for values in packed):
        raise NotExported("Some of the decoder's weights are not finite.")
    return ExportedDecoder(tables, len(mask), condition, list(shape), b"".join(map(pack, packed)))


def pack(values: Float[np.ndarray, "..."]) -> bytes:
    """The upper three bytes of each 32-bit float, rounded to nearest, ties to even; 15 bits of mantissa remain."""
    bits = np.ascontiguousarray(values, dtype="<f4").reshape(-1).view("<u4").astype(np.uint64)
    rounded = bits + 0x7F + ((bits >> 8) & 1)
    # The largest numbers would round to infinity, so they are truncated.
    finite = np.where((rounded & 0x7F800000) == 0x7F800000, bits, rounded)
    return finite.astype("<u4").view(np.uint8).reshape(-1, 4)[:, 1:].tobytes()


@dataclass(frozen=True)
class _Operation:
    name: str
    sizes: dict[str, int] = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)


def _decoder_operations(decoder: nn.Module) -> tuple[list[_Operation], Sequence[int]]:
    """The operations of a decoder, and the shape of an item."""
    # Here and below, a subclass may compute something else.
    if type(decoder) is VectorDecoder:
        return [_layer_operation(layer) for layer in (*decoder.layers, decoder.output)], decoder.shape
    if type(decoder) is not ConvDecoder:
        raise NotExported(
            f"The page can run the decoders of the nets affine, conv, fully_connected and mlp, but not "
            f"{type(decoder).__name__}."
        )
    height, width, channels = decoder.start
    relu = _Operation("relu")
    operations = [_layer_operation(decoder.hidden), relu, _layer_operation(decoder.spread), relu]
    operations += [_Operation("reshape", {"height": height, "width": width, "channels": channels})]
    operations += [_layer_operation(layer) for layer in decoder.deconvolutions]
    *_, last = (one.sizes for one in operations if one.name == "deconvolve")
    return [*operations, _Operation("channels_first")], (last["filters"], last["height"], last["width"])


def _layer_operation(layer: nn.Module) -> _Operation:
    if type(layer) is nn.Linear and layer.bias is not None:
        sizes = {"inputs": layer.in_features, "outputs": layer.out_features}
        return _Operation("linear", sizes, {"weight": layer.weight.T, "bias": layer.bias})
    if type(layer) is Deconvolution and layer.bias is not None:
        _, filters, kernel, _ = layer.weight.shape
        sizes = {"filters": filters, "kernel": kernel, "height": layer.size[0], "width": layer.size[1]}
        return _Operation("deconvolve", sizes, {"weight": layer.weight.permute(0, 2, 3, 1), "bias": layer.bias})
    for name, activation in ACTIVATIONS.items():
        if type(layer) is activation and _options(layer) == _options(activation()):
            return _Operation(name)
    raise NotExported(f"The page cannot run the decoder's layer {layer}.")


def _to_data_units(units: ItemUnits, shape: Sequence[int]) -> _Operation:
    """Shift and scale of each number; the shift in two parts, as it may be large compared with the scale."""
    shift, scale = (part.detach().float().expand(*shape).reshape(-1) for part in (units.shift, units.scale))
    top = (shift.view(torch.int32) & ~0xFF).view(torch.float32)  # which `pack` keeps whole
    return _Operation("affine", {}, {"scale": scale, "shift": top, "rest": shift - top})


def _options(activation: nn.Module) -> str:
    """The arguments of an activation; `inplace` does not affect its values."""
    return activation.extra_repr().removesuffix("inplace=True").removesuffix(", ")
