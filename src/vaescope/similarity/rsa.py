"""Representational similarity analysis: are items that are near in one representation near in the other?"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import whole_number
from vaescope.codes.arrays import ArrayLike
from vaescope.errors import DataError, unknown_name
from vaescope.similarity.tables import centred_pair, finite_pair

CORRELATIONS = ("spearman", "pearson")
DISTANCES = ("euclidean", "correlation")


def rsa(
    a: ArrayLike,
    b: ArrayLike,
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
        distance: "euclidean", or "correlation": 1 less the correlation of the features of two items.
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
    if len(x) < 3:
        raise DataError(f"distances can be correlated from 3 items, got {len(x)}.")
    if len(x) > count:
        kept = torch.from_numpy(np.sort(np.random.default_rng(seed).permutation(len(x))[:count]))
        x, y = x[kept], y[kept]
    columns = [_distances(side, name, distance) for name, side in (("a", x), ("b", y))]
    if correlation == "spearman":
        from scipy.stats import rankdata

        columns = [rankdata(column) for column in columns]
    return float(np.corrcoef(columns)[0, 1])


def _distances(x: Float[Tensor, "items features"], name: str, distance: str) -> Float[np.ndarray, "pairs"]:
    if distance == "correlation":
        x = x - x.mean(1, keepdim=True)
        length = torch.linalg.vector_norm(x, dim=1, keepdim=True)
        if bool((length == 0).any()):
            raise DataError(
                f"{name} must differ between the features of an item for correlation distances; item "
                f"{int((length == 0).int().argmax())} does not. Use Euclidean distances."
            )
        # For vectors of length 1, half the squared distance is 1 less the correlation.
        return (torch.pdist(x / length).square() / 2).cpu().numpy()
    found = torch.pdist(x).cpu().numpy()
    if (found == found[0]).all():
        raise DataError(f"{name} must have distances that differ, all of its items are equally far apart.")
    return found
