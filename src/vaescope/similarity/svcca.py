"""Singular vector canonical correlation analysis (Raghu et al., 2017)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.codes.arrays import ArrayLike
from vaescope.errors import ConfigurationError
from vaescope.similarity.tables import centred_pair


def svcca(a: ArrayLike, b: ArrayLike, *, variance: float = 0.99) -> float:
    """The mean canonical correlation of the leading principal components of two representations.

    The mean is over as many correlations as the one with fewer components has. It is 1 for affine maps of the
    components; with nearly as many components as items it is near 1 for any representations.

    Args:
        a, b: Representations of the same items, items x features.
        variance: The share of each representation's variance that its leading components explain.
    """
    if not 0 < variance <= 1:
        raise ConfigurationError(f"variance must be above 0 and at most 1, got {variance!r}.")
    first, second = (_components(side, variance) for side in centred_pair(a, b))
    return min(float(torch.linalg.svdvals(first.T @ second).mean()), 1.0)


def _components(x: Float[Tensor, "items features"], variance: float) -> Float[Tensor, "items components"]:
    """The leading left singular vectors: the principal components, each scaled to norm 1, ready for CCA."""
    vectors: Tensor
    vectors, values, _ = torch.linalg.svd(x, full_matrices=False)
    share = values.square().cumsum(0) / values.square().sum()
    # Components that are only rounding have no direction.
    real = int((values > torch.finfo(x.dtype).eps * max(x.shape) * values[0]).sum())
    count = int((share < variance - torch.finfo(x.dtype).eps * len(values)).sum()) + 1
    return vectors[:, : min(count, real)]
