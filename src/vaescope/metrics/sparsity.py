"""How few latents an item uses, and which classes use which (Mathieu et al., 2019, section 6.3, figures 4 and 5)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from vaescope.checks import random_seed
from vaescope.codes import CodesLike, Representation, means_of
from vaescope.codes.arrays import as_numpy, as_table
from vaescope.errors import DataError
from vaescope.metrics.inputs import FactorsLike, MetricInputs, metric_inputs
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
    table = as_table(means_of(codes), "codes")
    shape = table.shape
    # No factor is needed: item numbers stand in, and halves are drawn as for any metric.
    data = _varying_latents(metric_inputs(table, np.arange(shape[0]), names=("item",)), normalise)
    values = _sparsities(data.codes)
    score = float(values.mean())

    def score_of(half: MetricInputs, _: int) -> float:
        return float(_sparsities(_varying_latents(half, normalise).codes).mean())

    parts = {"constant_latents": float(shape[1] - len(data.latents)), "zero_items": float(shape[0] - len(values))}
    reach = interval(score_of, data, score, half_samples, seed)
    return Score("hoyer", score, _estimator(normalise), parts, latents=data.latents, interval=reach)


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
    table, labels = as_table(means_of(codes), "codes"), as_numpy(labels, "labels")
    if labels.shape != (len(table),):
        raise DataError(f"labels must be one number for each of {len(table)} items, got the shape {labels.shape}.")
    whole = metric_inputs(table, labels, argument="labels", names=("label",))
    names = tuple(f"class {value:g}" for value in np.unique(labels))
    data, classes = _varying_latents(whole, normalise), whole.classes[:, 0]
    sums = np.zeros((len(names), len(data.latents)))
    np.add.at(sums, classes, np.abs(data.codes))
    matrix = sums.T / np.bincount(classes)
    columns = _sparsities(matrix.T)
    if len(columns) < len(names):
        raise DataError("every class must use some latent, the codes of one class are all zero. Leave its items out.")
    parts = {"constant_latents": float(whole.codes.shape[1] - len(data.latents))}
    details = (_estimator(normalise), parts, tuple(columns.tolist()), matrix, names, data.latents)
    return Score("class_activation", float(columns.mean()), *details)


def _estimator(normalise: bool) -> str:
    return "latents divided by their standard deviation" if normalise else "latents on their original scales"


def _varying_latents(data: MetricInputs, normalise: bool) -> MetricInputs:
    """The latents that vary, each divided by its standard deviation if `normalise`."""
    kept = np.flatnonzero((data.codes != data.codes[0]).any(0))
    if len(kept) < 2:
        raise DataError(
            f"sparsity needs at least 2 latents that vary, {len(kept)} of {data.codes.shape[1]} do. "
            "The model has collapsed, or the items are all equal."
        )
    codes = data.codes[:, kept]
    scaled = codes / codes.std(0) if normalise else codes
    return replace(data, codes=scaled, latents=tuple(data.latents[place] for place in kept))


def _sparsities(codes: Float[np.ndarray, "items latents"]) -> Float[np.ndarray, "others"]:
    """Hoyer's measure of each item that is not zero."""
    root = math.sqrt(codes.shape[1])
    lengths = np.linalg.norm(codes, axis=1)
    sums = np.abs(codes).sum(1)[lengths > 0]
    return np.asarray((root - sums / lengths[lengths > 0]) / (root - 1))
