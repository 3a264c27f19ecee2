"""The layers that a heatmap compares: tables of activations in memory, or a source that computes them when needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from vaescope.errors import DataError, unknown_name
from vaescope.similarity.tables import activation_table


@runtime_checkable
class ActivationSource(Protocol):
    """Activations of one model that are computed when they are needed, so that many models fit in little memory."""

    def layers(self) -> Sequence[str]:
        """Names of the layers."""

    def bytes(self, layers: Sequence[str]) -> int:
        """Memory that the activations of these layers take."""

    def tables(self, layers: Sequence[str]) -> Sequence[Tensor]:
        """One table for each of these layers, items x features."""


Activations = Mapping[str, Tensor | np.ndarray] | ActivationSource


@dataclass(frozen=True)
class SelectedLayers:
    """The layers of one model that are compared, and the bytes that their activations take when computed."""

    activations: Activations
    layers: tuple[str, ...]
    bytes: int

    @classmethod
    def of(cls, activations: object, layers: Sequence[str] | None) -> SelectedLayers:
        """Select layers by name; None selects all."""
        if not isinstance(activations, Mapping | ActivationSource):
            raise DataError(
                "activations must be a mapping from layers to tables, items x features, got "
                f"{type(activations).__name__}. Compare models with vaescope.encoding.layer_similarity."
            )
        known = tuple(activations if isinstance(activations, Mapping) else activations.layers())
        names = known if layers is None else tuple(layers)
        for name in names:
            if name not in known:
                raise unknown_name("layer", name, known)
        return cls(activations, names, 0 if isinstance(activations, Mapping) else activations.bytes(names))

    def tables(self) -> list[Tensor]:
        """The activations of each layer."""
        if isinstance(self.activations, Mapping):
            return [activation_table(self.activations[name], name) for name in self.layers]
        return list(self.activations.tables(self.layers))


def as_list(models: object) -> list[object]:
    """One model, or several, as a list."""
    if not isinstance(models, Sequence):
        return [models]
    if isinstance(models, str) or len(models) == 0:
        raise DataError(f"there must be at least one model to compare, got {models!r}.")
    return list(models)


def batches(models: Sequence[SelectedLayers], memory: int) -> list[slice]:
    """Consecutive models whose activations fit in the memory together, at least one each."""
    starts, held = [0], 0
    for place, model in enumerate(models):
        held += model.bytes
        if held > memory and place > starts[-1]:
            starts, held = [*starts, place], model.bytes
    return [slice(start, stop) for start, stop in zip(starts, [*starts[1:], len(models)], strict=True)]
