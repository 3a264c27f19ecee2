"""Whether a decoder turns its latents into orthogonal changes of an item (Rolinek et al., 2019, section 5, eq. 29)."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from jaxtyping import Float

from vaescope.checks import finite_number, random_seed, whole_number
from vaescope.codes import CodesLike
from vaescope.errors import DataError
from vaescope.metrics.decoders import MAX_JACOBIAN_ENTRIES, DecoderLike, JacobianProducts, jacobian_products
from vaescope.metrics.score import METRICS, NORMAL_95, Score

ZERO_COLUMN = 1e-7  # columns shorter than this share of the longest are lost in the rounding of their products

Products = Float[np.ndarray, "items latents latents"]


@METRICS.register(
    "distance_to_orthogonality",
    summary="do latents move an item along orthogonal directions?",
    source="Rolinek et al. 2019, eq. 29",
    factors=0,
    decoder=True,
)
def distance_to_orthogonality(
    decoder: DecoderLike, codes: CodesLike, *, items: int = 1000, draws: int = 500, seed: int = 0
) -> Score:
    """The mean over items of ||V - P(V)||, where U S V^T is the Jacobian at an item's mean code; 0 is orthogonal.

    P(V) is the nearest signed permutation of the axes. If V is one itself, each latent moves an item along a direction
    orthogonal to those of all others. Where V is not unique, as for columns of zeros, it is aligned with the axes.

    Args:
        decoder: Any function from a batch of codes to a batch of items, or a `DecoderFunction`; for one of our models
            use `vaescope.encoding.distance_to_orthogonality`.
        codes: A `Representation`, whose means are taken, or an array, items x latents.
        items: Maximum number of items, drawn by `seed`.
        draws: Number of random decoders from which the parts `baseline` and `baseline_spread` are computed. The part
            `spread` is the standard deviation over items.
        seed: Random seed.
    """
    found = jacobian_products(decoder, codes, items, seed)
    distances = _distances(_rotations(found.products, found.rounding))
    baseline, baseline_spread = random_decoder_baseline(found.dimensions, len(found.latents), draws, seed)
    parts = {"spread": float(distances.std()), "baseline": baseline, "baseline_spread": baseline_spread}
    return _mean_score("distance_to_orthogonality", distances, found, found.latents, parts)


@METRICS.register(
    "column_orthogonality",
    summary="the mean cosine between the directions in which latents move an item",
    source="Rolinek et al. 2019, section 5",
    factors=0,
    decoder=True,
)
def column_orthogonality(
    decoder: DecoderLike, codes: CodesLike, *, items: int = 1000, least: float = 1e-6, seed: int = 0
) -> Score:
    """The mean absolute cosine between the columns of the Jacobian, one for each latent; 0 is orthogonal.

    The arguments are those of `distance_to_orthogonality`. At each item, columns shorter than `least` times the longest
    are left out; the part `passive` counts the latents that are left out of all items.
    """
    finite_number("least", least, at_least=0)
    found = jacobian_products(decoder, codes, items, seed)
    norms = _norms(found.products)
    used = norms > max(least, ZERO_COLUMN) * norms.max(1, keepdims=True)
    pairs = used[:, :, None] & used[:, None, :] & ~np.eye(norms.shape[1], dtype=bool)
    counted = pairs.any((1, 2))
    if not counted.any():
        raise DataError(
            "the decoder must use at least 2 latents at one item, it uses fewer. The model has collapsed, or lower "
            "least."
        )
    cosines = np.where(pairs, np.abs(_cosines(found.products)), 0.0)[counted]
    means = cosines.sum((1, 2)) / pairs[counted].sum((1, 2))
    passive = ~used.any(0)
    parts = {"spread": float(means.std()), "passive": float(passive.sum())}
    latents = tuple(np.array(found.latents)[~passive].tolist())
    return _mean_score("column_orthogonality", means, found, latents, parts)


@cache
def random_decoder_baseline(dimensions: int, latents: int, draws: int = 500, seed: int = 0) -> tuple[float, float]:
    """Mean and standard deviation of the distance for Jacobians, dimensions x latents, of numbers uniform in [0, 1]."""
    for name, value in (("dimensions", dimensions), ("latents", latents), ("draws", draws)):
        whole_number(name, value, 1)
    random_seed(seed)
    generator = np.random.default_rng((seed, 3))
    products = np.empty((draws, latents, latents))
    size = max(1, MAX_JACOBIAN_ENTRIES // (dimensions * latents))
    for start in range(0, draws, size):
        shape = (min(size, draws - start), dimensions, latents)
        columns = generator.random(shape, dtype=np.float32).astype(np.float64)
        products[start : start + size] = columns.transpose(0, 2, 1) @ columns
    distances = _distances(_rotations(products, float(np.finfo(np.float64).eps)))
    return float(distances.mean()), float(distances.std())


def _norms(products: Products) -> Float[np.ndarray, "items latents"]:
    return np.asarray(np.sqrt(np.diagonal(products, axis1=1, axis2=2)))


def _cosines(products: Products) -> Products:
    norms = _norms(products)
    lengths = norms[:, :, None] * norms[:, None, :]
    return np.asarray(np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0))


def _rotations(products: Products, rounding: float) -> Products:
    """V of each item, from J^T J = V S^2 V^T.

    Among directions with equal singular values the solver would choose arbitrarily. A column that is orthogonal to all
    others to within rounding is such a direction already: it is given a value that no other has, which moves no
    direction.
    """
    norms, diagonal = _norms(products), np.eye(products.shape[1], dtype=bool)
    zero = norms <= ZERO_COLUMN * norms.max(1, keepdims=True)
    apart = (np.abs(_cosines(products)) <= 8 * rounding) | zero[:, :, None] | zero[:, None, :]
    alone = (apart | diagonal).all(2)
    largest = np.maximum(np.trace(products, axis1=1, axis2=2), np.finfo(np.float64).tiny)
    cleaned = np.where(apart & ~diagonal, 0.0, products / largest[:, None, None])
    values = np.where(alone, 2.0 + np.arange(len(diagonal)), np.diagonal(cleaned, axis1=1, axis2=2))
    return np.linalg.eigh(np.where(diagonal, values[:, None], cleaned))[1]


def _distances(rotations: Products) -> Float[np.ndarray, "items"]:
    """||V - P(V)||: entries of V are at most 1, so the assignment with the largest sum is the nearest P in L1."""
    from scipy.optimize import linear_sum_assignment

    nearest = np.zeros_like(rotations)
    for item, rotation in enumerate(rotations):
        rows, columns = linear_sum_assignment(np.abs(rotation), maximize=True)
        nearest[item, rows, columns] = np.where(rotation[rows, columns] < 0, -1.0, 1.0)
    return np.asarray(np.linalg.norm(rotations - nearest, axis=(1, 2)))


def _mean_score(
    metric: str,
    values: Float[np.ndarray, "items"],
    found: JacobianProducts,
    latents: tuple[int, ...],
    parts: dict[str, float],
) -> Score:
    """The mean over items, whose standard error needs no half-samples."""
    mean, count, interval = float(values.mean()), len(values), None
    if count > 1:
        error = NORMAL_95 * float(values.std(ddof=1)) / math.sqrt(count)
        interval = mean - error, mean + error
    title = f"Jacobian of the decoder's {found.output} at {count} {'item' if count == 1 else 'items'}"
    return Score(metric, mean, title, parts, latents=latents, interval=interval)
