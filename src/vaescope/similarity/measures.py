"""Procrustes similarity, canonical correlations (SVCCA) and representational similarity analysis (RSA)."""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import finite_number, random_seed, whole_number
from vaescope.codes import CodesLike
from vaescope.errors import ConfigurationError, DataError, unknown_name
from vaescope.similarity.tables import centred_pair, finite_pair

CORRELATIONS = ("spearman", "pearson")
DISTANCES = ("euclidean", "correlation")
MAX_SCIPY_FEATURES = 150


def procrustes(a: CodesLike, b: CodesLike) -> float:
    """1 - (2 - 2 ||X'Y||_*) / 2 = ||X'Y||_* of centred X and Y of Frobenius norm 1: 1 if equal up to rotation, scaling.

    Representations of different widths are compared as if the narrower one had further features that are 0, which
    changes no nuclear norm. With few items for the features it stays far above 0 for unrelated representations (section
    7.2.2).

    Args:
        a, b: Representations of the same items, items x features.
    """
    x, y = (narrow(side) for side in centred_pair(a, b))
    x, y = (side / torch.linalg.matrix_norm(side) for side in (x, y))
    return min(float(torch.linalg.svdvals(x.T @ y).sum()), 1.0)


def narrow(x: Float[Tensor, "items features"]) -> Float[Tensor, "items _"]:
    """At most as many features as items, with the same kernel XX': R' of X = R'Q', which has the same nuclear norms."""
    if x.shape[1] <= len(x):
        return x
    factor: Tensor = torch.linalg.qr(x.T, mode="r").R
    return factor.T


def svcca(a: CodesLike, b: CodesLike, *, variance: float = 0.99) -> float:
    """The mean canonical correlation of the leading principal components of two representations.

    The mean is over as many correlations as the one with fewer components has. It is 1 for affine maps of the
    components; with nearly as many components as items it is near 1 for any representations.

    Args:
        a, b: Representations of the same items, items x features.
        variance: The share of each representation's variance that its leading components explain.
    """
    if not 0 < finite_number("variance", variance) <= 1:
        raise ConfigurationError(f"variance must be above 0 and at most 1, got {variance!r}.")
    first, second = (_components(side, variance) for side in centred_pair(a, b))
    return min(float(torch.linalg.svdvals(first.T @ second).mean()), 1.0)


def pwcca(a: CodesLike, b: CodesLike) -> float:
    """The mean canonical correlation, weighted by the share of `a` that its directions explain (Morcos et al., 2018).

    The weight of a canonical variate h of `a` is sum_j |<h, x_j>| over the features x_j. Exchanging `a` and `b` changes
    the weights and so the result. With as many features as items it is 1 for any representations.

    Args:
        a, b: Representations of the same items, items x features.
    """
    x, y = centred_pair(a, b)
    first, second = _components(x, 1.0), _components(y, 1.0)
    rotation, correlations, _ = torch.linalg.svd(first.T @ second, full_matrices=False)
    weights = ((first @ rotation).T @ x).abs().sum(1)
    return min(float((weights @ correlations) / weights.sum()), 1.0)


def _components(x: Float[Tensor, "items features"], variance: float) -> Float[Tensor, "items components"]:
    """The leading left singular vectors: the principal components, each scaled to norm 1, ready for CCA."""
    vectors: Tensor
    vectors, values, _ = torch.linalg.svd(x, full_matrices=False)
    share = values.square().cumsum(0) / values.square().sum()
    # Components that consist of rounding errors have no direction.
    real = int((values > torch.finfo(x.dtype).eps * max(x.shape) * values[0]).sum())
    count = int((share < variance - torch.finfo(x.dtype).eps * len(values)).sum()) + 1
    return vectors[:, : min(count, real)]


def rsa(
    a: CodesLike,
    b: CodesLike,
    *,
    items: int = 1000,
    correlation: str = "spearman",
    distance: str = "euclidean",
    seed: int = 0,
) -> float:
    """The correlation between the distances of all pairs of items (Kriegeskorte et al., 2008).

    Args:
        a, b: Representations of the same items, items x features.
        items: Maximum number of items, drawn by `seed`, since the number of pairs grows with its square.
        correlation: "spearman" (of the ranks of distances) or "pearson".
        distance: "euclidean", or "correlation": 1 minus the correlation of the features of two items.
        seed: Random seed.
    """
    for name, value, known in (("correlation", correlation, CORRELATIONS), ("distance", distance, DISTANCES)):
        if value not in known:
            raise unknown_name(name, value, known)
    x, y = centred_pair(a, b)
    if distance == "correlation":
        # Centring over items changes no difference between items, but it does change the correlation of their features.
        x, y = finite_pair(a, b)
    count = whole_number("items", items, 3)
    random_seed(seed)
    if len(x) < 3:
        raise DataError(f"distances can be correlated from 3 items, got {len(x)}.")
    if len(x) > count:
        kept = torch.from_numpy(np.sort(np.random.default_rng(seed).permutation(len(x))[:count]))
        x, y = x[kept], y[kept]
    columns = [_distances(side, name, distance) for name, side in (("a", x), ("b", y))]
    if correlation == "spearman":
        from scipy.stats import rankdata

        columns = [rankdata(column) for column in columns]
    for column in columns:
        column -= column.mean()
    first, second = columns
    return float(first @ second / math.sqrt((first @ first) * (second @ second)))


def _distances(x: Float[Tensor, "items features"], name: str, distance: str) -> Float[np.ndarray, "pairs"]:
    if distance == "correlation":
        x = x - x.mean(1, keepdim=True)
        length = torch.linalg.vector_norm(x, dim=1, keepdim=True)
        if bool((length == 0).any()):
            raise DataError(
                f"{name} must differ between the features of an item for correlation distances; item "
                f"{int((length == 0).int().argmax())} does not. Use Euclidean distances."
            )
        # For vectors of length 1, half the squared distance is 1 minus the correlation.
        return _pair_distances(x / length) ** 2 / 2
    found = _pair_distances(x)
    if (found == found[0]).all():
        raise DataError(f"{name} must have distances that differ, all of its items are equally far apart.")
    return found


def _pair_distances(x: Float[Tensor, "items features"]) -> Float[np.ndarray, "pairs"]:
    from scipy.spatial.distance import pdist

    # Of few features scipy needs down to a tenth of the time, of many torch half.
    few = x.device.type == "cpu" and x.shape[1] <= MAX_SCIPY_FEATURES
    return np.asarray(pdist(x.numpy())) if few else torch.pdist(x).cpu().numpy()
