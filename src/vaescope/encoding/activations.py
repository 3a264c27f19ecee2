"""Activations of every layer of a model on the same items, for similarities between layers (Bonheme, section 7.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vaescope.checks import whole_number
from vaescope.data import DataLike, open_dataset
from vaescope.encoding.inputs import Decodes, Encodes, ModelInputs, index_chunks, missing_method
from vaescope.errors import ConfigurationError, unknown_name
from vaescope.models.module import evaluation_mode
from vaescope.numerics.distributions import Point
from vaescope.similarity.heatmap import MAX_ACTIVATION_BYTES

MAX_ITEMS = 5000
CHUNK_ITEMS = 256
INPUT, MEAN, VARIANCE, SAMPLED, ENCODER, DECODER = "input", "mean", "variance", "sampled", "encoder", "decoder"

Result = TypeVar("Result")


@torch.no_grad()
def activations(
    model: nn.Module,
    data: DataLike,
    layers: Sequence[str] | None = None,
    *,
    items: int | None = MAX_ITEMS,
    chunk: int = CHUNK_ITEMS,
    seed: int = 0,
    memory: int = MAX_ACTIVATION_BYTES,
    device: torch.device | str | None = None,
) -> dict[str, Float[Tensor, "items features"]]:
    """The outputs of the layers of a model, one flattened row per item, on the CPU.

    Layer names, in the order of the forward pass: 'input'; 'encoder/1', 'encoder/2', ..., one for each module with
    parameters, after its activation function; 'mean'; 'variance' (not its logarithm); 'sampled'; 'decoder/1', ..., of
    which the last is the input of the likelihood. Layers that a model does not have are missing: a deterministic code
    has no variance, a gradient origin network no encoder.

    Args:
        model: A model of this library.
        data: Anything that `open_dataset` takes; conditional models also need its labels or factors.
        layers: Names of layers, in the order of the result. Default: all.
        items: Maximum number of items, drawn by `seed` alone, so that all models see the same; None for all items.
        chunk: The number of items per forward pass; it does not change the result.
        seed: Random seed for sampling and item selection.
        memory: Maximum size of the result in bytes. If all layers need more, request a few at a time: `layer_widths`
            says how wide each is, and layers that are not requested are not stored.
        device: Where the model runs. Default: where it is.
    """
    opened = open_dataset(data)
    opened = opened if items is None else opened.draw(whole_number("items", items, 1), seed)
    inputs = ModelInputs(model, opened, seed=seed, device=device)
    with evaluation_mode(model.to(inputs.device)):
        widths = _widths(model, inputs)
        names = _chosen(layers, widths)
        _check_memory({name: widths[name] for name in names}, len(opened), inputs.dtype.itemsize, memory)
        found = {name: torch.empty(len(opened), widths[name], dtype=inputs.dtype) for name in names}
        for index in index_chunks(opened, chunk, "activations of", device=inputs.device):
            outputs = _outputs(model, inputs, index)
            start = int(index[0])
            for name in names:
                found[name][start : start + len(index)] = outputs[name].flatten(1)
    return found


@torch.no_grad()
def layer_widths(model: nn.Module, data: DataLike, *, device: torch.device | str | None = None) -> dict[str, int]:
    """The number of features of every layer by name, computed from one item."""
    inputs = ModelInputs(model, open_dataset(data), device=device)
    with evaluation_mode(model.to(inputs.device)):
        return _widths(model, inputs)


def _widths(model: nn.Module, inputs: ModelInputs) -> dict[str, int]:
    outputs = _outputs(model, inputs, torch.arange(1, device=inputs.device))
    return {name: values.flatten(1).shape[1] for name, values in outputs.items()}


def _chosen(layers: Sequence[str] | None, widths: dict[str, int]) -> tuple[str, ...]:
    if layers is None:
        return tuple(widths)
    if isinstance(layers, str) or len(layers) == 0:
        raise ConfigurationError(f"layers must be a list of names, or None for all layers, got {layers!r}.")
    for name in layers:
        if name not in widths:
            raise unknown_name("layer", name, widths)
    return tuple(dict.fromkeys(layers))


def _check_memory(widths: dict[str, int], items: int, itemsize: int, memory: int) -> None:
    needed = items * itemsize * sum(widths.values())
    if needed > memory:
        widest = max(widths, key=lambda name: widths[name])
        raise ConfigurationError(
            f"The activations of {len(widths)} layers and {items} items must fit into memory={memory} bytes, but take "
            f"{needed}; {widest!r} alone has {widths[widest]} features. Request fewer layers or items, or raise memory."
        )


def _outputs(model: nn.Module, inputs: ModelInputs, index: Int[Tensor, "batch"]) -> dict[str, Tensor]:
    """The output of every layer for the items at `index`, in the order of the forward pass."""
    if not isinstance(model, Encodes):
        raise missing_method(model, "encode")
    if not isinstance(model, Decodes):
        raise missing_method(model, "decode")
    parts = dict(model.named_children())
    x, condition = inputs.batch(index), inputs.condition(index)
    posterior, encoder = _record(parts.get(ENCODER), ENCODER, partial(model.encode, x, *condition))
    z = inputs.sample(posterior, index) * model.latent_mask
    likelihood, decoder = _record(parts.get(DECODER), DECODER, partial(model.decode, z, *condition))
    drawn = {} if isinstance(posterior, Point) else {VARIANCE: posterior.variance, SAMPLED: z}
    # A decoder that is a formula has one layer: its result.
    decoder = decoder or {f"{DECODER}/1": likelihood.mean}
    return {INPUT: x, **encoder, MEAN: posterior.mean, **drawn, **decoder}


def _record(net: nn.Module | None, title: str, call: Callable[[], Result]) -> tuple[Result, dict[str, Tensor]]:
    """The result of the call, and the outputs of the layers of `net` during it, numbered in the order of execution.

    The output of a layer is the input of the next, so that activation functions count whether or not they are modules,
    and may work in place. The output of the last layer is that of the net.
    """
    if net is None:
        return call(), {}
    inputs: list[Tensor] = []
    outputs: list[Tensor] = []
    weighted = [module for module in net.modules() if next(module.parameters(recurse=False), None) is not None]
    hooks = [module.register_forward_pre_hook(lambda _, given: inputs.append(given[0])) for module in weighted]
    hooks.append(net.register_forward_hook(lambda _, given, output: outputs.append(output)))
    try:
        result = call()
    finally:
        for hook in hooks:
            hook.remove()
    layers = [*inputs[1:], *outputs] if inputs else []
    return result, {f"{title}/{number}": layer for number, layer in enumerate(layers, 1)}
