"""What every layer of a model makes of the same items, for similarities between layers (Bonheme, section 7.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.checks import whole_number
from vaescope.data import Dataset, open_dataset
from vaescope.data.conditions import conditions_of
from vaescope.encoding.encode import LONG_ITEMS
from vaescope.errors import ConfigurationError, unknown_name
from vaescope.numerics import counter
from vaescope.numerics.distributions import Point
from vaescope.progress import track

ITEMS = 5000
CHUNK = 256
MEMORY = 4 * 2**30
INPUT, MEAN, VARIANCE, SAMPLED, ENCODER, DECODER = "input", "mean", "variance", "sampled", "encoder", "decoder"

Forward = Callable[[Tensor], dict[str, Tensor]]


@torch.no_grad()
def activations(
    model: Any,
    data: Any,
    layers: Sequence[str] | None = None,
    *,
    items: int | None = ITEMS,
    chunk: int = CHUNK,
    seed: int = 0,
    memory: int = MEMORY,
    device: torch.device | str | None = None,
) -> dict[str, Float[Tensor, "items features"]]:
    """The output of every layer, or of the named ones, flattened to one row an item, on the CPU.

    Layers are called, in the order in which an item passes them: 'input'; 'encoder/1', 'encoder/2', ..., one for each
    module with weights of its own, after its activation function; 'mean'; 'variance' (a variance, not its logarithm);
    'sampled'; 'decoder/1', ..., the last being what the likelihood takes. What a model lacks is left out: a
    deterministic code has no variance, a gradient origin network no encoder. The order of features is free where
    similarities do not depend on it.

    Args:
        model: one of our models.
        data: anything `open_dataset` takes; conditional models are told what belongs to each item.
        layers: names, in the order wanted; None for all.
        items: at most so many, drawn by `seed` alone, hence the same for every model; None for all.
        chunk: items in one pass. The sample of an item does not depend on it.
        memory: bytes that the result may take. Where all layers together take more, ask for a few at a time:
            `layer_widths` says how wide each is, and what was not asked for is dropped as it comes.
        device: where the model runs; by default where it is.
    """
    whole_number("chunk", chunk, 1)
    opened = open_dataset(data)
    opened = opened if items is None else opened.draw(whole_number("items", items, 1), seed)
    first = next(model.parameters())
    place = first.device if device is None else torch.device(device)
    with _still(model.to(place)):
        widths = _widths(model, opened, place, seed)
        names = _chosen(layers, widths)
        _check_memory({name: widths[name] for name in names}, len(opened), first.element_size(), memory)
        found = {name: torch.empty(len(opened), widths[name], dtype=first.dtype) for name in names}
        starts = range(0, len(opened), chunk)
        forward = _forward(model, opened, place, seed)
        for start in track(starts, f"activations of {opened.name}", len(starts), long=len(opened) >= LONG_ITEMS):
            index = torch.arange(start, min(start + chunk, len(opened)), device=place)
            outputs = forward(index)
            for name in names:
                found[name][start : start + len(index)] = outputs[name].flatten(1)
    return found


@torch.no_grad()
def layer_widths(model: Any, data: Any, *, device: torch.device | str | None = None) -> dict[str, int]:
    """The number of features of every layer, by name, from one item."""
    place = next(model.parameters()).device if device is None else torch.device(device)
    with _still(model.to(place)):
        return _widths(model, open_dataset(data), place, 0)


def _widths(model: Any, data: Dataset, device: torch.device, seed: int) -> dict[str, int]:
    outputs = _forward(model, data, device, seed)(torch.arange(1, device=device))
    return {name: values.flatten(1).shape[1] for name, values in outputs.items()}


def _chosen(layers: Sequence[str] | None, widths: dict[str, int]) -> tuple[str, ...]:
    if layers is None:
        return tuple(widths)
    if isinstance(layers, str) or len(layers) == 0:
        raise ConfigurationError(f"layers must be a list of names, got {layers!r}. Leave it out for all of them.")
    for name in layers:
        if name not in widths:
            raise unknown_name("layer", name, widths)
    return tuple(dict.fromkeys(layers))


def _check_memory(widths: dict[str, int], items: int, itemsize: int, memory: int) -> None:
    needed = items * itemsize * sum(widths.values())
    if needed > memory:
        widest = max(widths, key=lambda name: widths[name])
        raise ConfigurationError(
            f"the activations of {len(widths)} layers and {items} items must fit in memory={memory} bytes, they take "
            f"{needed}; {widest!r} alone has {widths[widest]} features. Name fewer layers at a time, take fewer items, "
            "or allow more."
        )


def _forward(model: Any, data: Dataset, device: torch.device, seed: int) -> Forward:
    """From the places of items to what every layer makes of them, in the order in which they pass."""
    told = conditions_of(model, data, device)
    dtype = next(model.parameters()).dtype

    def forward(index: Tensor) -> dict[str, Tensor]:
        condition = () if told is None else (told[index].to(dtype),)
        x = data.batch(index).to(dtype)
        posterior, within = _layers(getattr(model, "encoder", None), ENCODER, partial(model.encode, x, *condition))
        noise = counter.normal(
            torch.tensor(seed, device=device), "encode", torch.tensor(0), index, posterior.mean.shape[1]
        )
        z = posterior.sample(noise.to(posterior.mean.dtype)) * model.latent_mask
        likelihood, after = _layers(getattr(model, "decoder", None), DECODER, partial(model.decode, z, *condition))
        drawn = {} if isinstance(posterior, Point) else {VARIANCE: posterior.variance, SAMPLED: z}
        # A model whose decoder is a formula has one layer there: what the formula gives.
        after = after or {f"{DECODER}/1": likelihood.mean}
        return {INPUT: x, **within, MEAN: posterior.mean, **drawn, **after}

    return forward


def _layers(net: nn.Module | None, title: str, call: Callable[[], Any]) -> tuple[Any, dict[str, Tensor]]:
    """What the call returns, and the outputs of the layers of a net in it, numbered as they run.

    The output of a layer is what the next one takes in, so that an activation function counts whether it is a module
    or not, and one that works in place does no harm. The last one's is that of the net.
    """
    if net is None:
        return call(), {}
    taken: list[Tensor] = []
    made: list[Tensor] = []
    weighted = [module for module in net.modules() if next(module.parameters(recurse=False), None) is not None]
    hooks = [module.register_forward_pre_hook(lambda _, inputs: taken.append(inputs[0])) for module in weighted]
    hooks.append(net.register_forward_hook(lambda _, inputs, output: made.append(output)))
    try:
        result = call()
    finally:
        for hook in hooks:
            hook.remove()
    outputs = [*taken[1:], *made] if taken else []
    return result, {f"{title}/{number}": output for number, output in enumerate(outputs, 1)}


@contextmanager
def _still(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, for as long as it lasts: one code for each item, and nothing learned from looking."""
    before = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(before)
