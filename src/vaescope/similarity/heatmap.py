"""Heatmaps of similarities between the layers of models, averaged over seeds (Bonheme, eq. 7.9; Clapham, figure 10)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vaescope.errors import DataError, unknown_name
from vaescope.markup import element
from vaescope.notebook import render_view
from vaescope.similarity.pairs import CKA, all_pairs
from vaescope.similarity.tables import activation_table
from vaescope.tables import Row

MAX_ACTIVATION_BYTES = 4 * 2**30

NamedTables = list[tuple[str, Tensor]]
Key = TypeVar("Key", bound=Hashable)


@runtime_checkable
class ActivationSource(Protocol):
    """Activations of one model that are computed on demand, to save memory with many models."""

    def layers(self) -> Sequence[str]:
        """Names of the layers."""

    def bytes(self, layers: Sequence[str]) -> int:
        """Memory for the activations of these layers, in bytes."""

    def tables(self, layers: Sequence[str]) -> Sequence[Tensor]:
        """One table for each of these layers, items x features."""


Activations = Mapping[str, Tensor | np.ndarray] | ActivationSource


@dataclass(frozen=True)
class SelectedLayers:
    """The layers of one model that are compared, their rows in the map, and the memory for computing them in bytes."""

    activations: Activations
    layers: tuple[str, ...]
    rows: tuple[str, ...]
    bytes: int

    @classmethod
    def of(cls, activations: object, layers: Sequence[str] | None, row: str | None = None) -> SelectedLayers:
        """Select layers by name (default: all); their rows have the names of the layers, or all are called `row`."""
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
        held = 0 if isinstance(activations, Mapping) else activations.bytes(names)
        return cls(activations, names, names if row is None else (row,) * len(names), held)

    def tables(self) -> list[Tensor]:
        """The activations of each layer."""
        if isinstance(self.activations, Mapping):
            return [activation_table(self.activations[name], name) for name in self.layers]
        return list(self.activations.tables(self.layers))


@dataclass(frozen=True)
class SimilarityMap:
    """A similarity for every row and column, averaged over pairs of models.

    Attributes:
        measure: 'cka' or 'procrustes'.
        rows, columns: Names of the layers, or of the groups, of each side.
        matrix: The mean over pairs of models; NaN if one of the two never varied over the items.
        deviation: The standard deviation over the same pairs.
        pairs: The number of pairs of models in each cell.
        constant: Rows and columns that did not vary in some model; those pairs are left out.
    """

    measure: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    matrix: Float[np.ndarray, "rows columns"] = field(repr=False, compare=False)
    deviation: Float[np.ndarray, "rows columns"] = field(repr=False, compare=False)
    pairs: Int[np.ndarray, "rows columns"] = field(repr=False, compare=False)
    constant: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        return element("div", element("p", element("strong", self.summary())), render_view(self))

    def table(self) -> list[Row]:
        """One row for each cell."""
        return [
            {
                "row": row,
                "column": column,
                self.measure: float(self.matrix[i, j]),
                "deviation": float(self.deviation[i, j]),
                "pairs": int(self.pairs[i, j]),
            }
            for i, row in enumerate(self.rows)
            for j, column in enumerate(self.columns)
        ]

    def summary(self) -> str:
        """The range of the similarities in one line."""
        text = f"{self.measure} of {len(self.rows)} x {len(self.columns)}"
        if np.isnan(self.matrix).all():
            return f"{text}: none of them varies over the items"
        ends = []
        for word, place in (("lowest", np.nanargmin(self.matrix)), ("highest", np.nanargmax(self.matrix))):
            i, j = np.unravel_index(place, self.matrix.shape)
            ends.append(f"{word} {self.matrix[i, j]:.3f} ({self.rows[i]}, {self.columns[j]})")
        left = f"; constant: {', '.join(self.constant)}" if self.constant else ""
        most = int(self.pairs.max())
        over = "" if most == 1 else f", mean over up to {most} pairs of models"
        return f"{text}{over}: {', '.join(ends)}{left}"


def layer_similarity(
    a: Activations | Sequence[Activations],
    b: Activations | Sequence[Activations] | None = None,
    *,
    layers: Sequence[str] | None = None,
    measure: str = CKA,
    memory: int = MAX_ACTIVATION_BYTES,
    device: torch.device | str | None = None,
    precision: str | None = None,
) -> SimilarityMap:
    """Compare every layer of model `a` with every layer of model `b`, averaged over pairs of seeds (eq. 7.9).

    Args:
        a, b: The activations of a model, a mapping from layers to tables of the same items (as `vs.activations`
            returns), or a sequence of them for models that differ in their seed. Without `b`, `a` is compared with
            itself. A model is not paired with itself, unless there is no other pair.
        layers: Names of the layers to compare. Default: all.
        memory: Bytes of computed activations that are held at once, where `a` and `b` are `ActivationSource`s; if not
            all models fit, activations are computed again for later pairs.
        measure, device, precision: As in `all_pairs`.
    """
    left = [SelectedLayers.of(one, layers) for one in as_list(a)]
    right = None if b is None else [SelectedLayers.of(one, layers) for one in as_list(b)]
    return _similarity_map(left, right, measure, memory, device, precision)


def group_similarity(
    groups: Mapping[Key, Activations | Sequence[Activations]],
    others: Mapping[Key, Activations | Sequence[Activations]] | None = None,
    *,
    layer: str = "mean",
    measure: str = CKA,
    memory: int = MAX_ACTIVATION_BYTES,
    device: torch.device | str | None = None,
    precision: str | None = None,
) -> SimilarityMap:
    """Compare one layer of every group of models with that of every other group: over betas, epochs or objectives.

    `groups` maps a name, such as a beta, to the activations of a model or of models that differ in their seed, as in
    `layer_similarity`. A cell is the mean over all pairs of two groups' models, without pairs of a model with itself
    unless there is no other (Clapham, figures 10 to 14).
    """
    left = _models_of_groups(groups, layer)
    right = None if others is None else _models_of_groups(others, layer)
    return _similarity_map(left, right, measure, memory, device, precision)


def _models_of_groups(groups: Mapping[Key, Activations | Sequence[Activations]], layer: str) -> list[SelectedLayers]:
    if not isinstance(groups, Mapping) or len(groups) == 0:
        raise DataError(f"groups must map names to models, such as each beta to its seeds, got {groups!r}.")
    return [SelectedLayers.of(one, (layer,), str(name)) for name, models in groups.items() for one in as_list(models)]


def _similarity_map(
    left: list[SelectedLayers],
    right: list[SelectedLayers] | None,
    measure: str,
    memory: int,
    device: torch.device | str | None,
    precision: str | None,
) -> SimilarityMap:
    """Compare all layers of all models on both sides, as many models at a time as fit in the memory, then average."""
    columns = left if right is None else right
    names = [np.array([row for model in side for row in model.rows]) for side in (left, columns)]
    values = np.full((len(names[0]), len(names[1])), np.nan)
    varies = [np.ones(len(side), dtype=bool) for side in names]
    for one, rows in _blocks(left, memory // 2):
        first = _named_tables(left[one])
        varies[0][rows] = _varying(first)
        for other, places in _blocks(columns, memory // 2):
            same = right is None and other == one
            if right is None and other.start < one.start:
                continue
            second = first if same else _named_tables(columns[other])
            varies[1][places] = _varying(second)
            kept = np.flatnonzero(varies[0][rows]), np.flatnonzero(varies[1][places])
            if len(kept[0]) and len(kept[1]):
                values[np.ix_(kept[0] + rows.start, kept[1] + places.start)] = all_pairs(
                    dict(first[place] for place in kept[0]),
                    others=None if same else dict(second[place] for place in kept[1]),
                    measure=measure,
                    device=device,
                    precision=precision,
                )
    if right is None:
        values = np.where(np.isnan(values), values.T, values)
    models = [np.array([id(model.activations) for model in side for _ in model.rows]) for side in (left, columns)]
    itself = models[0][:, None] == models[1]
    constant = [str(name) for side, good in zip(names, varies, strict=True) for name in side[~good]]
    if np.array_equal(models[0], models[1]):
        # For one layer both orders of a pair of models give the same number, which counts once.
        values[np.tri(len(values), k=-1, dtype=bool) & (names[0][:, None] == names[1])] = np.nan
    return _average(measure, names, values, itself, tuple(dict.fromkeys(constant)))


def _blocks(models: list[SelectedLayers], memory: int) -> list[tuple[slice, slice]]:
    """Consecutive models whose activations fit in the memory together, at least one each, and their rows in the map."""
    starts, held = [0], 0
    for place, model in enumerate(models):
        held += model.bytes
        if held > memory and place > starts[-1]:
            starts, held = [*starts, place], model.bytes
    rows = np.cumsum([0, *(len(model.rows) for model in models)]).tolist()
    ends = [*starts[1:], len(models)]
    return [(slice(start, end), slice(rows[start], rows[end])) for start, end in zip(starts, ends, strict=True)]


def _named_tables(models: list[SelectedLayers]) -> NamedTables:
    """All layers of all models, each with a name for error messages."""
    return [
        (f"{name} of model {number}", layer)
        for number, model in enumerate(models)
        for name, layer in zip(model.layers, model.tables(), strict=True)
    ]


def _varying(tables: NamedTables) -> list[bool]:
    return [bool((values != values[0]).any()) for _, values in tables]


def _average(
    measure: str,
    names: list[np.ndarray],
    values: Float[np.ndarray, "rows columns"],
    itself: Bool[np.ndarray, "rows columns"],
    constant: tuple[str, ...],
) -> SimilarityMap:
    """Average each cell over pairs of models, without pairs of a model with itself unless there is no other."""
    rows, columns = (tuple(dict.fromkeys(side.tolist())) for side in names)
    matrix, deviation = (np.full((len(rows), len(columns)), np.nan) for _ in range(2))
    pairs = np.zeros(matrix.shape, dtype=np.int64)
    for cell in np.ndindex(*matrix.shape):
        chosen = np.ix_(names[0] == rows[cell[0]], names[1] == columns[cell[1]])
        alone = itself[chosen].all()
        found = values[chosen][np.ones_like(itself[chosen]) if alone else ~itself[chosen]]
        found = found[~np.isnan(found)]
        pairs[cell] = len(found)
        if len(found):
            matrix[cell], deviation[cell] = found.mean(), found.std()
    return SimilarityMap(measure, rows, columns, matrix, deviation, pairs, constant)


def as_list(models: object) -> list[object]:
    """One model, or several, as a list."""
    if not isinstance(models, Sequence):
        return [models]
    if isinstance(models, str) or len(models) == 0:
        raise DataError(f"there must be at least one model to compare, got {models!r}.")
    return list(models)
