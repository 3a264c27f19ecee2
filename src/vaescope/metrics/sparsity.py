"""How few latents an item uses, and which classes use which (Mathieu et al., 2019, section 6.3, figures 4 and 5)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from vaescope.checks import random_seed
from vaescope.codes import CodesLike, Representation
from vaescope.codes.arrays import as_numpy
from vaescope.errors import DataError
from vaescope.metrics.inputs import FactorsLike, MetricInputs, code_table, metric_inputs
from vaescope.metrics.score import METRICS, Score, interval


@METRICS.register(
    "hoyer", summary="how few latents does an item use?", source="Mathieu et al. 2019, section 6.3", factors=0
)
def hoyer(codes: CodesLike, *, normalise: bool = True, half_samples: int = 0, seed: int = 0) -> Score:
    """The mean over items of (sqrt(d) - |z|_1 / |z|_2) / (sqrt(d) - 1): 1 if one of d latents is on, 0 if all are.

    Constant latents are left out, and so are items whose code is zero; the parts count both.

    Args:
        codes: A `Representation`, whose means are taken, or an array, items x latents.
        normalise: Divide each latent by its standard deviation; otherwise latents on different scales seem sparse.
        half_samples: Number of half-samples for a 95% interval. Default: 0, no interval.
        seed: Random seed of the half-samples.
    """
    random_seed(seed)
    table = code_table(codes)
    items, latents = table.shape
    # No factor is needed: item numbers stand in, and halves are drawn as for any metric.
    data = metric_inputs(table, np.arange(items), names=("item",), discrete=True)
    varying = _VaryingLatents.of(data, normalise)
    values = varying.sparsities(data)
    score = float(values.mean())

    def score_of(half: MetricInputs, _: int) -> float:
        return float(_VaryingLatents.of(half, normalise).sparsities(half).mean())

    parts = {"constant_latents": float(latents - len(varying.places)), "zero_items": float(items - len(values))}
    reach = interval(score_of, data, score, half_samples, seed)
    kept = tuple(varying.places.tolist())
    return Score("hoyer", score, _estimator(normalise), parts, latents=kept, interval=reach)


def class_activation(codes: CodesLike, labels: FactorsLike = None, *, normalise: bool = True) -> Score:
    """How strongly each class uses each latent: the matrix has the mean of |z|, latents x classes.

    The score is the mean over classes of Hoyer's measure of a column, and `by_factor` has that of each: 1 if a class
    uses one latent alone, 0 if it uses all equally. Latents are normalised and left out as in `hoyer`.

    Args:
        codes: A `Representation`, whose means are taken, or an array, items x latents.
        labels: One whole number for each item. Default: those of the `Representation`.
        normalise: Divide each latent by its standard deviation.
    """
    if labels is None:
        labels = codes.labels if isinstance(codes, Representation) else None
        if labels is None:
            raise DataError("class_activation needs the class of each item, got none. Pass labels.")
    table, labels = code_table(codes), as_numpy(labels, "labels")
    if labels.shape != (len(table),):
        raise DataError(f"labels must be one number for each of {len(table)} items, got the shape {labels.shape}.")
    whole = metric_inputs(table, labels, argument="labels", names=("label",))
    names = tuple(f"class {value:g}" for value in np.unique(labels))
    varying, classes = _VaryingLatents.of(whole, normalise), whole.classes[:, 0]
    sums, start = np.zeros((len(names), len(varying.places))), 0
    for block in varying.blocks(whole):
        np.add.at(sums, classes[start : start + len(block)], np.abs(block))
        start += len(block)
    matrix = sums.T / np.bincount(classes)
    columns = _sparsities(matrix.T)
    if len(columns) < len(names):
        raise DataError("every class must use some latent, the codes of one class are all zero. Leave its items out.")
    parts = {"constant_latents": float(whole.codes.shape[1] - len(varying.places))}
    details = (_estimator(normalise), parts, tuple(columns.tolist()), matrix, names, tuple(varying.places.tolist()))
    return Score("class_activation", float(columns.mean()), *details)


def _estimator(normalise: bool) -> str:
    return "latents divided by their standard deviation" if normalise else "latents on their original scales"


@dataclass(frozen=True)
class _VaryingLatents:
    """The places of the latents that vary, and what they are divided by."""

    places: Int[np.ndarray, "varying"]
    scale: Float[np.ndarray, "varying"]

    @classmethod
    def of(cls, data: MetricInputs, normalise: bool) -> _VaryingLatents:
        """The latents that vary, to be divided by their standard deviations if `normalise`."""
        blocks = [((block != block[0]).any(0), block.std(0)) for _, block in data.latent_blocks()]
        varies, deviation = (np.concatenate(part) for part in zip(*blocks, strict=True))
        places = np.flatnonzero(varies)
        if len(places) < 2:
            raise DataError(
                f"sparsity needs at least 2 latents that vary, {len(places)} of {len(varies)} do. "
                "The model has collapsed, or the items are all equal."
            )
        return cls(places, deviation[places] if normalise else np.ones(len(places)))

    def blocks(self, data: MetricInputs) -> Iterator[Float[np.ndarray, "items varying"]]:
        """The scaled codes, some items at a time."""
        return (block[:, self.places] / self.scale for block in data.item_blocks())

    def sparsities(self, data: MetricInputs) -> Float[np.ndarray, "others"]:
        """Hoyer's measure of each item that is not zero."""
        return np.concatenate([_sparsities(block) for block in self.blocks(data)])


def _sparsities(codes: Float[np.ndarray, "items latents"]) -> Float[np.ndarray, "others"]:
    """Hoyer's measure of each item that is not zero."""
    root = math.sqrt(codes.shape[1])
    lengths = np.linalg.norm(codes, axis=1)
    sums = np.abs(codes).sum(1)[lengths > 0]
    return np.asarray((root - sums / lengths[lengths > 0]) / (root - 1))
