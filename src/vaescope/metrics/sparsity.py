"""How few latents an item uses, and which classes use which (Mathieu et al., 2019, section 6.3, figures 4 and 5)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from vaescope.codes import Representation
from vaescope.errors import DataError
from vaescope.metrics.inputs import Labelled, labelled
from vaescope.metrics.score import Score, interval


def hoyer(codes: Any, *, normalise: bool = True, half_samples: int = 0, seed: int = 0) -> Score:
    """The mean over items of (sqrt(d) - |z|_1 / |z|_2) / (sqrt(d) - 1): 1 where one of d latents is on, 0 where all.

    Each latent is divided by its standard deviation first, unless `normalise` is False: else latents on different
    scales would pass for sparse. Latents that do not vary are left out, as are items whose code is zero throughout, and
    both are counted in the parts. `half_samples` of the items, drawn by `seed`, give an interval.

    Args:
        codes: A `Representation`, whose means are taken, or an array, items x latents.
    """
    table = codes.mean if isinstance(codes, Representation) else codes
    shape = np.shape(table)
    if len(shape) != 2:
        raise DataError(f"codes must be a table, items x latents, got the shape {tuple(shape)}.")
    # No factor is needed: the numbers of the items stand in, and halves are drawn as for any metric.
    data = _varying(labelled(table, np.arange(shape[0]), names=("item",)), normalise)
    values = _sparsities(data.codes)
    score = float(values.mean())
    return Score(
        "hoyer",
        score,
        "each latent over its standard deviation" if normalise else "latents on their own scales",
        {"constant_latents": float(shape[1] - len(data.latents)), "zero_items": float(shape[0] - len(values))},
        latents=data.latents,
        interval=interval(
            lambda half, _: float(_sparsities(_varying(half, normalise).codes).mean()), data, score, half_samples, seed
        ),
    )


def class_activation(codes: Any, labels: Any = None, *, normalise: bool = True) -> Score:
    """How strongly each class uses each latent: the matrix has the mean of |z|, latents x classes.

    The score is the mean over classes of Hoyer's measure of a class' column, and `by_factor` has that of each: 1 where
    a class has a latent to itself, 0 where it uses all alike. Latents are normalised and left out as by `hoyer`.

    Args:
        codes: A `Representation`, whose means are taken, or an array, items x latents.
        labels: One whole number for each item; those of the `Representation` unless given.
    """
    if labels is None:
        labels = codes.labels if isinstance(codes, Representation) else None
        if labels is None:
            raise DataError("activation by class needs the classes of the items, and these have none. Pass labels.")
    labels = np.asarray(labels.detach().cpu() if isinstance(labels, Tensor) else labels)
    if labels.ndim != 1:
        raise DataError(f"labels must be one number for each item, got the shape {labels.shape}.")
    whole = labelled(codes, labels, names=("label",))
    names = tuple(f"class {value:g}" for value in np.unique(labels))
    data, own = _varying(whole, normalise), whole.classes[:, 0]
    sums = np.zeros((len(names), len(data.latents)))
    np.add.at(sums, own, np.abs(data.codes))
    matrix = sums.T / np.bincount(own)
    columns = _sparsities(matrix.T)
    if len(columns) < len(names):
        raise DataError("every class must use some latent, one has codes of zero throughout. Leave its items out.")
    constant = float(whole.codes.shape[1] - len(data.latents))
    return Score(
        "class_activation",
        float(columns.mean()),
        "each latent over its standard deviation" if normalise else "latents on their own scales",
        {"constant_latents": constant},
        tuple(columns.tolist()),
        matrix,
        names,
        data.latents,
    )


def _varying(data: Labelled, normalise: bool) -> Labelled:
    """The latents that vary, each over its standard deviation where `normalise` says so."""
    kept = np.flatnonzero((data.codes != data.codes[0]).any(0))
    if len(kept) < 2:
        raise DataError(
            f"sparsity is about at least 2 latents that vary, {len(kept)} of {data.codes.shape[1]} do. "
            "The model has collapsed, or the items are all alike."
        )
    codes = data.codes[:, kept]
    scaled = codes / codes.std(0) if normalise else codes
    return replace(data, codes=scaled, latents=tuple(data.latents[place] for place in kept))


def _sparsities(codes: Float[np.ndarray, "items latents"]) -> Float[np.ndarray, "others"]:
    """Hoyer's measure of each item that is not zero."""
    root = math.sqrt(codes.shape[1])
    lengths = np.linalg.norm(codes, axis=1)
    sums = np.abs(codes).sum(1)[lengths > 0]
    return (root - sums / lengths[lengths > 0]) / (root - 1)
