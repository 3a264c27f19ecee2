"""Similarity of the layers of models: their activations are computed from data as memory allows."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from vaescope.checks import whole_number
from vaescope.data import DataLike, Dataset, open_dataset
from vaescope.encoding.activations import MAX_ITEMS, activations, layer_widths
from vaescope.errors import DataError
from vaescope.similarity import SimilarityMap
from vaescope.similarity import group_similarity as group_similarity_of_activations
from vaescope.similarity import layer_similarity as layer_similarity_of_activations
from vaescope.similarity.heatmap import MAX_ACTIVATION_BYTES, Activations, as_list
from vaescope.similarity.pairs import CKA

Key = TypeVar("Key", bound=Hashable)
Model = nn.Module | Mapping[str, Tensor | np.ndarray]


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
        model_a, model_b: A model, or a sequence of models that differ in their seed; activations may stand for models.
            Default of `model_b`: `model_a`. A model is not paired with itself, unless there is no other pair.
        data: The data set that the models encode; not needed for activations.
        layers: Names as `activations` has them. Default: all.
        items: Maximum number of items, drawn by `seed`, the same for all models.
        memory: Bytes of activations that are held at once; if not all models fit, they run again for later pairs.
        measure, device, precision: As in `similarity.all_pairs`.
    """
    wrap = _Wrapper(data, items, seed, device)
    left, right = wrap.all(model_a), None if model_b is None else wrap.all(model_b)
    return layer_similarity_of_activations(
        left, right, layers=layers, measure=measure, memory=memory, device=device, precision=precision
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
    wrap = _Wrapper(data, items, seed, device)
    return group_similarity_of_activations(
        wrap.groups(groups),
        None if others is None else wrap.groups(others),
        layer=layer,
        measure=measure,
        memory=memory,
        device=device,
        precision=precision,
    )


@dataclass(frozen=True, eq=False)
class ModelActivations:
    """The activations of a model on some data, computed when they are needed."""

    model: nn.Module
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
        return numbers * next(self.model.parameters()).element_size()

    def tables(self, layers: Sequence[str]) -> list[Tensor]:
        """Run the model; one table for each of these layers."""
        found = activations(
            self.model, self.data, layers, items=None, seed=self.seed, memory=sys.maxsize, device=self.device
        )
        return list(found.values())


class _Wrapper:
    """Wraps models as sources of activations; the same model becomes the same source."""

    def __init__(self, data: DataLike | None, items: int | None, seed: int, device: torch.device | str | None) -> None:
        opened = None if data is None else open_dataset(data)
        if opened is not None and items is not None:
            opened = opened.draw(whole_number("items", items, 2), seed)
        self.data, self.seed, self.device = opened, seed, device
        self.known: dict[int, ModelActivations] = {}

    def one(self, model: object) -> Activations:
        if isinstance(model, Mapping):
            return model
        if not isinstance(model, nn.Module):
            raise DataError(
                f"what is compared must be a model or a mapping of activations, got {type(model).__name__}."
            )
        if self.data is None:
            raise DataError("models are compared on data, got none. Pass data, or activations instead of models.")
        return self.known.setdefault(id(model), ModelActivations(model, self.data, self.seed, self.device))

    def all(self, models: Model | Sequence[Model]) -> list[Activations]:
        return [self.one(model) for model in as_list(models)]

    def groups(self, groups: Mapping[Key, Model | Sequence[Model]]) -> Mapping[Key, list[Activations]]:
        return {name: self.all(models) for name, models in groups.items()} if isinstance(groups, Mapping) else groups
