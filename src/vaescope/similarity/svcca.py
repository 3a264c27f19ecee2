"""Singular vector canonical correlation analysis (Raghu et al., 2017)."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.errors import ConfigurationError
from vaescope.similarity.tables import centred_pair

VARIANCE = 0.99


def svcca(a: Any, b: Any, *, variance: float = VARIANCE) -> float:
    """The mean canonical correlation of the leading principal components that hold this share of each's variance.

    The mean is over as many correlations as the one with fewer components has. 1 up to affine maps of the components;
    with nearly as many components as items it is near 1 whatever the representations.
    """
    if not 0 < variance <= 1:
        raise ConfigurationError(f"variance must be a share above 0 and up to 1, got {variance!r}.")
    first, second = (_components(side, variance) for side in centred_pair(a, b))
    return min(float(torch.linalg.svdvals(first.T @ second).mean()), 1.0)


def _components(x: Float[Tensor, "items features"], variance: float) -> Float[Tensor, "items components"]:
    """The leading left singular vectors: the principal components, each scaled to norm 1, hence ready for CCA."""
    vectors, values, _ = torch.linalg.svd(x, full_matrices=False)
    share = values.square().cumsum(0) / values.square().sum()
    # Components that are nothing but rounding have no direction.
    real = int((values > torch.finfo(x.dtype).eps * max(x.shape) * values[0]).sum())
    count = int((share < variance - torch.finfo(x.dtype).eps * len(values)).sum()) + 1
    return vectors[:, : min(count, real)]
