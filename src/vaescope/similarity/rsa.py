"""Representational similarity analysis: do items that are near in one representation lie near in the other?"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import whole_number
from vaescope.errors import ConfigurationError, DataError
from vaescope.similarity.tables import centred_pair, finite_pair

CORRELATIONS = ("spearman", "pearson")
DISTANCES = ("euclidean", "correlation")


def rsa(
    a: Any,
    b: Any,
    *,
    items: int = 1000,
    correlation: str = "spearman",
    distance: str = "euclidean",
    seed: int = 0,
) -> float:
    """The correlation of the distances between all pairs of items (Kriegeskorte et al., 2008).

    On at most `items` rows, drawn by `seed`, since pairs grow with their square. Distances are Euclidean, or one less
    the correlation of the items' features; correlations of distances are by rank or of the distances themselves.
    """
    for name, value, known in (("correlation", correlation, CORRELATIONS), ("distance", distance, DISTANCES)):
        if value not in known:
            raise ConfigurationError(f"{name} must be one of {', '.join(known)}, got {value!r}.")
    x, y = centred_pair(a, b)
    if distance == "correlation":
        # Centring over items, which no difference between items feels, would change what an item's features share.
        x, y = finite_pair(a, b)
    count = whole_number("items", items, 3)
    if len(x) < 3:
        raise DataError(f"distances can be correlated from 3 items on, got {len(x)}.")
    if len(x) > count:
        kept = np.sort(np.random.default_rng(seed).permutation(len(x))[:count])
        x, y = x[torch.from_numpy(kept)], y[torch.from_numpy(kept)]
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
                f"{int((length == 0).int().argmax())} does not. Take Euclidean distances."
            )
        # For vectors of length 1, half the squared distance is one less the correlation.
        return (torch.pdist(x / length).square() / 2).cpu().numpy()
    found = torch.pdist(x).cpu().numpy()
    if (found == found[0]).all():
        raise DataError(f"{name} must have distances that differ, all of its items are equally far apart.")
    return found
