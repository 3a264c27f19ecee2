"""The Structure Preservation Index of items and their reconstructions (Bonheme, appendix D.2, eq. D.1)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.codes import CodesLike
from vaescope.errors import DataError
from vaescope.numerics.linalg import rows_per_chunk
from vaescope.similarity.tables import finite_pair


def structure_preservation(items: CodesLike, reconstructions: CodesLike) -> float:
    """SPI = sum_ij |D_ij - E_ij| / h: how much the cosine similarities of h items change when they are reconstructed.

    D_ij is the cosine similarity of items i and j, E_ij that of their reconstructions (Gupta, Banchs and Rosso, 2016).
    It is 0 if no cosine changes, as with reconstructions that are scaled or rotated, and at most 2 (h - 1). A sum over
    h items for each item, it grows with their number: compare values of equally many items.

    Args:
        items, reconstructions: The items and their reconstructions, items x features.
    """
    first, second = finite_pair(items, reconstructions)
    first, second = _directions(first, "items"), _directions(second, "reconstructions")
    total, chunk = first.new_zeros(()), rows_per_chunk(len(first))
    for start in range(0, len(first), chunk):
        part = slice(start, start + chunk)
        total += (first[part] @ first.T - second[part] @ second.T).abs().sum()
    return float(total) / len(first)


def _directions(x: Float[Tensor, "items features"], name: str) -> Float[Tensor, "items features"]:
    """Each item divided by its length."""
    # Relative to its largest entry, an item has a length that neither overflows nor underflows.
    largest = x.abs().amax(1, keepdim=True)
    if bool((largest == 0).any()):
        raise DataError(
            f"{name} must have no item that is 0 everywhere, which has no cosine similarity; item "
            f"{int((largest == 0).int().argmax())} is. Leave it out."
        )
    x = x / largest
    lengths: Tensor = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    return x / lengths
