"""Heatmaps of similarities between the layers of models, averaged over seeds (Bonheme, eq. 7.9; Clapham, figure 10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.checks import whole_number
from vaescope.data import open_dataset
from vaescope.encoding.activations import ITEMS
from vaescope.errors import DataError
from vaescope.markup import element
from vaescope.notebook import drawn
from vaescope.similarity.layers import Items, Subject, group, runs
from vaescope.similarity.pairs import CKA, all_pairs

MEMORY = 4 * 2**30


@dataclass(frozen=True)
class SimilarityMap:
    """A similarity for every row and column, averaged over pairs of models.

    Attributes:
        measure: 'cka' or 'procrustes'.
        rows, columns: names of the layers, or of the groups, of each side.
        matrix: the mean over pairs of models; NaN where one of the two never varied over the items.
        deviation: the standard deviation over the same pairs.
        pairs: how many pairs of models were averaged in each cell.
        constant: rows and columns that in some model did not vary, whose pairs are left out.
    """

    measure: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    matrix: Float[np.ndarray, "rows columns"] = field(repr=False, compare=False)
    deviation: Float[np.ndarray, "rows columns"] = field(repr=False, compare=False)
    pairs: Int[np.ndarray, "rows columns"] = field(repr=False, compare=False)
    constant: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        return element("div", element("p", element("strong", self.summary())), drawn(self))

    def table(self) -> list[dict[str, Any]]:
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
        """The range of the similarities, in one line."""
        text = f"{self.measure} of {len(self.rows)} x {len(self.columns)}"
        if np.isnan(self.matrix).all():
            return f"{text}: none of them varies over the items"
        ends = []
        for word, place in (("lowest", np.nanargmin(self.matrix)), ("highest", np.nanargmax(self.matrix))):
            i, j = np.unravel_index(place, self.matrix.shape)
            ends.append(f"{word} {self.matrix[i, j]:.3f} ({self.rows[i]}, {self.columns[j]})")
        left = f"; without variation: {', '.join(self.constant)}" if self.constant else ""
        most = int(self.pairs.max())
        over = "" if most == 1 else f", over up to {most} pairs of models"
        return f"{text}{over}: {', '.join(ends)}{left}"


@dataclass(frozen=True)
class Settings:
    """How similarities of a heatmap are computed, as in `all_pairs`, and in how much memory activations are held."""

    measure: str
    memory: int
    device: torch.device | str | None
    precision: str | None


def layer_similarity(
    model_a: Any,
    model_b: Any = None,
    data: Any = None,
    *,
    layers: Sequence[str] | None = None,
    measure: str = CKA,
    items: int | None = ITEMS,
    seed: int = 0,
    memory: int = MEMORY,
    device: torch.device | str | None = None,
    precision: str | None = None,
) -> SimilarityMap:
    """Every layer of `model_a` against every one of `model_b`; for groups of seeds, the mean over all pairs (eq. 7.9).

    Args:
        model_a, model_b: a model, or a sequence of models that differ in their seed. In place of a model, its
            activations may be given: a mapping from layers to tables of the same items. Without `model_b`, `model_a` is
            compared with itself. A model is not paired with itself, unless there is no other pair.
        data: what the models are given; not needed for activations.
        layers: names as `activations` has them; None for all.
        items: at most so many, drawn by `seed`, the same for all models.
        memory: bytes of activations that are held at once; where not all models fit, they run again for later pairs.
        device, measure, precision: as in `all_pairs`.
    """
    given = _items(data, items, seed, device)
    left = [Subject.of(model, layers, given) for model in group(model_a)]
    right = None if model_b is None else [Subject.of(model, layers, given) for model in group(model_b)]
    names = [[name for subject in side or left for name in subject.layers] for side in (left, right)]
    return _compared(left, right, names, given, Settings(measure, memory, device, precision))


def group_similarity(
    groups: Mapping[Any, Any],
    others: Mapping[Any, Any] | None = None,
    data: Any = None,
    *,
    layer: str = "mean",
    measure: str = CKA,
    items: int | None = ITEMS,
    seed: int = 0,
    memory: int = MEMORY,
    device: torch.device | str | None = None,
    precision: str | None = None,
) -> SimilarityMap:
    """One layer of every group of models against that of every other group: over betas, epochs or objectives.

    `groups` maps a name, such as a beta, to a model or to models that differ in their seed; as in `layer_similarity`,
    activations may stand for models. Cells are means over all pairs of two groups' models, without pairs of a model
    with itself unless there is no other (Clapham, figures 10 to 14).
    """
    given = _items(data, items, seed, device)
    sides: list[list[Subject]] = []
    names: list[list[str]] = []
    for side in (groups, groups if others is None else others):
        if not isinstance(side, Mapping) or len(side) == 0:
            raise DataError(f"groups must map names to models, such as each beta to its seeds, got {side!r}.")
        named = [(str(name), model) for name, models in side.items() for model in group(models)]
        names.append([name for name, _ in named])
        sides.append([Subject.of(model, (layer,), given) for _, model in named])
    right = None if others is None else sides[1]
    return _compared(sides[0], right, names, given, Settings(measure, memory, device, precision))


def _items(data: Any, items: int | None, seed: int, device: torch.device | str | None) -> Items:
    opened = None if data is None else open_dataset(data)
    if opened is not None and items is not None:
        opened = opened.draw(whole_number("items", items, 2), seed)
    return Items(opened, seed, device)


def _compared(
    left: list[Subject], right: list[Subject] | None, names: list[list[str]], items: Items, settings: Settings
) -> SimilarityMap:
    """All layers of all models on both sides, as many models at a time as fit in the memory, then cell by cell."""
    columns = left if right is None else right
    values = np.full((len(names[0]), len(names[1])), np.nan)
    varies = [np.ones(len(side), dtype=bool) for side in names]
    for one, rows in _blocks(left, settings.memory // 2):
        first = _tables(left[one], items)
        varies[0][rows] = _varying(first)
        for other, places in _blocks(columns, settings.memory // 2):
            same = right is None and other == one
            if right is None and other.start < one.start:
                continue
            second = first if same else _tables(columns[other], items)
            varies[1][places] = _varying(second)
            kept = np.flatnonzero(varies[0][rows]), np.flatnonzero(varies[1][places])
            found = _pairs(first, None if same else second, kept, settings)
            where = np.ix_(kept[0] + rows.start, kept[1] + places.start)
            values[where] = found
            if right is None:
                values.T[where] = found
    models = [np.array([id(subject.model) for subject in side for _ in subject.layers]) for side in (left, columns)]
    itself = models[0][:, None] == models[1]
    constant = [
        name for side, good in zip(names, varies, strict=True) for name, one in zip(side, good, strict=True) if not one
    ]
    if np.array_equal(models[0], models[1]):
        # Both orders of a pair of models say the same of one layer: the lower half counts for nothing there.
        one_layer = np.array(names[0])[:, None] == np.array(names[1])
        values[np.tri(len(values), k=-1, dtype=bool) & one_layer] = np.nan
    return _averaged(settings.measure, names, values, itself, tuple(dict.fromkeys(constant)))


def _blocks(subjects: list[Subject], memory: int) -> list[tuple[slice, slice]]:
    """Runs of subjects, and the rows of the whole matrix that are theirs."""
    ends = np.cumsum([0, *(len(subject.layers) for subject in subjects)]).tolist()
    return [(run, slice(ends[run.start], ends[run.stop])) for run in runs(subjects, memory)]


def _tables(subjects: list[Subject], items: Items) -> list[tuple[str, Tensor]]:
    """The layers of all of them, each with a name for messages."""
    return [
        (f"{name} of model {number}", layer)
        for number, subject in enumerate(subjects)
        for name, layer in zip(subject.layers, subject.tables(items), strict=True)
    ]


def _varying(tables: list[tuple[str, Tensor]]) -> list[bool]:
    return [bool((values != values[0]).any()) for _, values in tables]


def _pairs(
    left: list[tuple[str, Tensor]],
    right: list[tuple[str, Tensor]] | None,
    kept: tuple[np.ndarray, np.ndarray],
    settings: Settings,
) -> Float[np.ndarray, "left right"]:
    if not all(len(side) for side in kept):
        return np.empty((len(kept[0]), len(kept[1])))
    return all_pairs(
        dict(left[place] for place in kept[0]),
        others=None if right is None else dict(right[place] for place in kept[1]),
        measure=settings.measure,
        device=settings.device,
        precision=settings.precision,
    )


def _averaged(
    measure: str,
    names: list[list[str]],
    values: Float[np.ndarray, "rows columns"],
    itself: np.ndarray,
    constant: tuple[str, ...],
) -> SimilarityMap:
    """The mean over the pairs of models of each cell; not of a model with itself, unless there is no other pair."""
    rows, columns = (tuple(dict.fromkeys(side)) for side in names)
    matrix, deviation = (np.full((len(rows), len(columns)), np.nan) for _ in range(2))
    pairs = np.zeros(matrix.shape, dtype=np.int64)
    sides = [np.array(side) for side in names]
    for cell in np.ndindex(*matrix.shape):
        chosen = np.ix_(sides[0] == rows[cell[0]], sides[1] == columns[cell[1]])
        alone = itself[chosen].all()
        found = values[chosen][np.ones_like(itself[chosen]) if alone else ~itself[chosen]]
        found = found[~np.isnan(found)]
        pairs[cell] = len(found)
        if len(found):
            matrix[cell], deviation[cell] = found.mean(), found.std()
    return SimilarityMap(measure, rows, columns, matrix, deviation, pairs, constant)
