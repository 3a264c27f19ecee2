"""Activations of every layer of a model on the same items, and similarities between layers (Bonheme, section 7.3)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.parametrize import ParametrizationList

from vaescope.checks import whole_number
from vaescope.data import DataLike, Dataset
from vaescope.encoding.encode import ModelInputs, index_chunks, items_per_call, open_for, recognise
from vaescope.encoding.untouched import place_of, untouched
from vaescope.encoding.wrap import HasModel, checked_model, model_of
from vaescope.encoding.wrapped import WrappedModel
from vaescope.errors import ConfigurationError, DataError, unknown_name
from vaescope.models import LatentModel, TrainableModel
from vaescope.numerics.distributions import Distribution, Point
from vaescope.similarity import SimilarityMap
from vaescope.similarity import group_similarity as group_similarity_of_activations
from vaescope.similarity import layer_similarity as layer_similarity_of_activations
from vaescope.similarity.heatmap import MAX_ACTIVATION_BYTES, Activations, as_list
from vaescope.similarity.pairs import CKA

MAX_ITEMS = 5000
CHUNK_ITEMS = 256
INPUT, MEAN, VARIANCE, SAMPLED, ENCODER, DECODER = "input", "mean", "variance", "sampled", "encoder", "decoder"

Result = TypeVar("Result")
Key = TypeVar("Key", bound=Hashable)
Model = HasModel | LatentModel | nn.Module | Callable[[Tensor], object] | Mapping[str, Tensor | np.ndarray]


@torch.no_grad()
def activations(
    model: object,
    data: DataLike,
    layers: Sequence[str] | None = None,
    *,
    items: int | None = MAX_ITEMS,
    chunk: int | None = None,
    seed: int = 0,
    memory: int = MAX_ACTIVATION_BYTES,
    device: torch.device | str | None = None,
) -> dict[str, Float[Tensor, "items features"]]:
    """The outputs of the layers of a model, one flattened row per item, on the CPU.

    Layer names, in the order of the forward pass: 'input'; 'encoder/1', 'encoder/2', ..., one for each module with
    parameters, after its activation function; 'mean'; 'variance' (not its logarithm); 'sampled'; 'decoder/1', ..., of
    which the last is the input of the likelihood. Layers that a model does not have are missing: a deterministic code
    has no variance, a gradient origin network no encoder. Layers of models of other libraries have the names of their
    modules with parameters, before any activation function: 'encoder/conv1', ..., 'decoder/linear'. If their latents
    are in groups, these are 'mean/top', 'variance/top', 'sampled/top', and so on.

    Args:
        model: A model of this library or any other, or a function of a batch; see `vaescope.wrap`.
        data: Anything that `open_dataset` takes, or one item; conditional models also need labels or factors.
        layers: Names of layers, in the order of the result. Default: all.
        items: Maximum number of items, drawn by `seed` alone, so that all models see the same; None for all items.
        chunk: The number of items per forward pass; it does not change the result. Default: 256, or the `batch_size`
            of a wrapped model.
        seed: Random seed for sampling and item selection.
        memory: Maximum size of the result in bytes. If all layers need more, request a few at a time: `layer_widths`
            says how wide each is, and layers that are not requested are not stored.
        device: Where the model runs. Default: where it is.
    """
    given = checked_model(model)
    opened = open_for(given, data)
    opened = opened if items is None else opened.draw(whole_number("items", items, 1), seed)
    recognise(given, opened)
    inputs = ModelInputs(given, opened, seed=seed, device=device)
    size = items_per_call(given, CHUNK_ITEMS) if chunk is None else chunk
    with untouched(given, device):
        widths = _widths(given, inputs)
        names = _chosen(layers, widths)
        _check_memory({name: widths[name] for name in names}, len(opened), inputs.dtype.itemsize, memory)
        found = {name: torch.empty(len(opened), widths[name], dtype=inputs.dtype) for name in names}
        for index in index_chunks(opened, size, "activations of", device=inputs.device):
            outputs = _outputs(given, inputs, index)
            start = int(index[0])
            for name in names:
                found[name][start : start + len(index)] = outputs[name].flatten(1)
    return found


@torch.no_grad()
def layer_widths(model: object, data: DataLike, *, device: torch.device | str | None = None) -> dict[str, int]:
    """The number of features of every layer by name, computed from one item."""
    given = checked_model(model)
    opened = open_for(given, data)
    recognise(given, opened)
    inputs = ModelInputs(given, opened, device=device)
    with untouched(given, device):
        return _widths(given, inputs)


def _widths(model: LatentModel, inputs: ModelInputs) -> dict[str, int]:
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


def _outputs(model: LatentModel, inputs: ModelInputs, index: Int[Tensor, "batch"]) -> dict[str, Tensor]:
    """The output of every layer for the items at `index`, in the order of the forward pass."""
    if isinstance(model, WrappedModel):
        return _outputs_of_wrapped(model, inputs, index)
    x, condition = inputs.batch(index), inputs.condition(index)
    posterior: Distribution
    parts = dict(model.named_children()) if isinstance(model, nn.Module) else {}
    posterior, encoder = _record(parts.get(ENCODER), ENCODER, partial(model.encode, x, *condition))
    z = inputs.sample(posterior, index) * model.latent_mask
    likelihood, decoder = _record(parts.get(DECODER), DECODER, partial(model.decode, z, *condition))
    # A decoder that is a formula has one layer: its result.
    decoded = decoder or {f"{DECODER}/1": likelihood.mean}
    drawn = {} if isinstance(posterior, Point) else {VARIANCE: posterior.variance, SAMPLED: z}
    items = inputs.items(index)
    given = model.inside(items) if isinstance(model, TrainableModel) else items
    return {INPUT: given, **encoder, MEAN: posterior.mean, **drawn, **decoded}


def _outputs_of_wrapped(model: WrappedModel, inputs: ModelInputs, index: Int[Tensor, "batch"]) -> dict[str, Tensor]:
    """What `_outputs` returns, for a model of another library; of several groups of latents, the codes of each."""
    x = inputs.batch(index)
    posteriors, encoder = _record_modules(model.module, ENCODER, partial(model.encode_groups, x), len(x))
    found = {INPUT: inputs.items(index), **encoder}
    for group, (posterior, _) in posteriors.items():
        z, of = inputs.sample(posterior, index), f"/{group}" if group else ""
        found |= {f"{MEAN}{of}": posterior.mean, f"{VARIANCE}{of}": posterior.variance, f"{SAMPLED}{of}": z}
    if not model.no_decoder:
        likelihood, decoder = _record_modules(model.module, DECODER, partial(model.decode, z), len(x))
        found |= {**decoder, "output": likelihood.mean}
    return found


def _record_modules(
    model: nn.Module | None, title: str, call: Callable[[], Result], items: int
) -> tuple[Result, dict[str, Tensor]]:
    """The result of the call, and what each module with parameters of its own returned last, by its name.

    Left out are outputs without one row per item, such as parametrised weights, and modules of TorchScript, which take
    no hooks.
    """
    outputs: dict[str, Tensor] = {}

    def keep(name: str, output: object) -> None:
        first = output[0] if isinstance(output, tuple) and output else output
        if isinstance(first, Tensor) and first.is_floating_point() and first.ndim > 0 and len(first) == items:
            outputs[name] = first.detach()

    hooks = [
        module.register_forward_hook(lambda _, given, output, name=name: keep(name, output))
        for name, module in ([] if model is None else model.named_modules())
        if next(module.parameters(recurse=False), None) is not None
        and not isinstance(module, ParametrizationList | torch.jit.ScriptModule)
    ]
    try:
        result = call()
    finally:
        for hook in hooks:
            hook.remove()
    return result, {f"{title}/{name.removeprefix(f'{title}.')}": output for name, output in outputs.items()}


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


def layer_similarity(
    model_a: Model | Sequence[Model],
    model_b: Model | Sequence[Model] | None = None,
    data: DataLike | None = None,
    *,
    layers: Sequence[str] | None = None,
    measure: str = CKA,
    items: int | None = MAX_ITEMS,
    seed: int = 0,
    memory: int = MAX_ACTIVATION_BYTES,
    device: torch.device | str | None = None,
    precision: str | None = None,
) -> SimilarityMap:
    """Compare every layer of one model with every layer of another, averaged over pairs of seeds (Bonheme, eq. 7.9).

    Args:
        model_a, model_b: A model or a run, or a sequence that differs in the seed; activations may stand for models.
            Default of `model_b`: `model_a`. A model is not paired with itself, unless there is no other pair.
        data: The data set that the models encode; not needed for activations.
        layers: Names as `activations` has them. Default: all.
        items: Maximum number of items, drawn by `seed`, the same for all models.
        memory: Bytes of activations that are held at once; if not all models fit, they run again for later pairs.
        measure, device, precision: As in `similarity.all_pairs`.
    """
    sources = _Sources(data, items, seed, device)
    return layer_similarity_of_activations(
        sources.of(model_a),
        None if model_b is None else sources.of(model_b),
        layers=layers,
        measure=measure,
        memory=memory,
        device=device,
        precision=precision,
    )


def group_similarity(
    groups: Mapping[Key, Model | Sequence[Model]],
    others: Mapping[Key, Model | Sequence[Model]] | None = None,
    data: DataLike | None = None,
    *,
    layer: str = "mean",
    measure: str = CKA,
    items: int | None = MAX_ITEMS,
    seed: int = 0,
    memory: int = MAX_ACTIVATION_BYTES,
    device: torch.device | str | None = None,
    precision: str | None = None,
) -> SimilarityMap:
    """Compare one layer of every group of models with that of every other group (Clapham, figures 10 to 14).

    `groups` maps a name, such as a beta, to a model or to models that differ in their seed; other arguments as in
    `layer_similarity`.
    """
    sources = _Sources(data, items, seed, device)
    return group_similarity_of_activations(
        sources.of_groups(groups),
        None if others is None else sources.of_groups(others),
        layer=layer,
        measure=measure,
        memory=memory,
        device=device,
        precision=precision,
    )


@dataclass(frozen=True, eq=False)
class ModelActivations:
    """The activations of a model on some data, computed when they are needed."""

    model: LatentModel
    data: Dataset
    seed: int
    device: torch.device | str | None

    @cached_property
    def widths(self) -> dict[str, int]:
        """The number of features of each layer."""
        return layer_widths(self.model, self.data, device=self.device)

    def layers(self) -> tuple[str, ...]:
        """Names of the layers."""
        return tuple(self.widths)

    def bytes(self, layers: Sequence[str]) -> int:
        """Memory that the activations of these layers take."""
        numbers = len(self.data) * sum(self.widths[name] for name in layers)
        return numbers * place_of(self.model)[1].itemsize

    def tables(self, layers: Sequence[str]) -> list[Tensor]:
        """Run the model; one table for each of these layers."""
        found = activations(
            self.model, self.data, layers, items=None, seed=self.seed, memory=sys.maxsize, device=self.device
        )
        return list(found.values())


class _Sources:
    """Makes models sources of activations; the same model becomes the same source."""

    def __init__(self, data: DataLike | None, items: int | None, seed: int, device: torch.device | str | None) -> None:
        self.data, self.seed, self.device = data, seed, device
        self.items = None if items is None else whole_number("items", items, 2)
        self.opened: Dataset | None = None
        self.known: dict[int, ModelActivations] = {}

    def of(self, models: Model | Sequence[Model]) -> list[Activations]:
        """One source for each model; activations are returned unchanged."""
        sources: list[Activations] = []
        for model in as_list(models):
            if isinstance(model, Mapping):
                sources.append(model)
                continue
            known = model_of(model)
            if known is None:
                raise DataError(
                    f"what is compared must be a model or a mapping of activations, got {type(model).__name__}."
                )
            own = ModelActivations(known, self._opened(known), self.seed, self.device)
            sources.append(self.known.setdefault(id(model), own))
        return sources

    def _opened(self, model: LatentModel) -> Dataset:
        """The items, which the first model opens for all."""
        if self.data is None:
            raise DataError("models are compared on data, got none. Pass data, or activations instead of models.")
        if self.opened is None:
            opened = open_for(model, self.data)
            self.opened = opened if self.items is None else opened.draw(self.items, self.seed)
        return self.opened

    def of_groups(self, groups: Mapping[Key, Model | Sequence[Model]]) -> Mapping[Key, list[Activations]]:
        """The sources of each group; what is no mapping is refused where groups are compared."""
        return {name: self.of(models) for name, models in groups.items()} if isinstance(groups, Mapping) else groups
