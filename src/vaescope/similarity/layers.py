"""What is compared in a heatmap: models that are run on the data, or activations that are there already."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from vaescope.data import Dataset
from vaescope.encoding.activations import activations, layer_widths
from vaescope.errors import DataError, unknown_name
from vaescope.similarity.tables import table


@dataclass(frozen=True)
class Items:
    """The items that models are given, and where."""

    data: Dataset | None
    seed: int
    device: torch.device | str | None


@dataclass(frozen=True)
class Subject:
    """A model, or a mapping from layers to tables, with the layers that are compared and the bytes they will take."""

    model: Any
    layers: tuple[str, ...]
    bytes: int

    @classmethod
    def of(cls, model: Any, layers: Sequence[str] | None, items: Items) -> Subject:
        """An error names a layer that there is not."""
        if isinstance(model, Mapping):
            widths = {str(name): 0 for name in model}
        elif isinstance(model, nn.Module):
            if items.data is None:
                raise DataError("a model needs data to be compared on; pass them, or activations in place of models.")
            widths = layer_widths(model, items.data, device=items.device)
        else:
            raise DataError(
                f"what is compared must be a model or a mapping of activations, got {type(model).__name__}."
            )
        names = tuple(widths if layers is None else layers)
        for name in names:
            if name not in widths:
                raise unknown_name("layer", name, widths)
        if isinstance(model, Mapping):
            return cls(model, names, 0)
        numbers = len(items.data or ()) * sum(widths[name] for name in names)
        return cls(model, names, numbers * next(model.parameters()).element_size())

    def tables(self, items: Items) -> list[Tensor]:
        """The activations of each layer."""
        if isinstance(self.model, Mapping):
            return [table(self.model[name], name) for name in self.layers]
        found = activations(
            self.model, items.data, self.layers, items=None, seed=items.seed, memory=sys.maxsize, device=items.device
        )
        return list(found.values())


def group(models: Any) -> list[Any]:
    """One model, or several."""
    if isinstance(models, nn.Module | Mapping):
        return [models]
    if not isinstance(models, Sequence) or isinstance(models, str) or len(models) == 0:
        raise DataError(f"there must be a model or a sequence of models to compare, got {models!r}.")
    return list(models)


def runs(subjects: Sequence[Subject], memory: int) -> list[slice]:
    """Runs of subjects whose activations fit in the memory together, at least one each."""
    starts, held = [0], 0
    for place, subject in enumerate(subjects):
        held += subject.bytes
        if held > memory and place > starts[-1]:
            starts, held = [*starts, place], subject.bytes
    return [slice(start, stop) for start, stop in zip(starts, [*starts[1:], len(subjects)], strict=True)]
