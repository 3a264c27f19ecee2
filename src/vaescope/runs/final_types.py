"""The final count of a training: the type of each latent, over as many items as `diagnose` encodes by default."""

from __future__ import annotations

import warnings

import torch

from vaescope.data import Dataset
from vaescope.encoding import encode
from vaescope.errors import DataError, FinalTypesWarning
from vaescope.models import TrainableModel
from vaescope.numerics.linalg import tf32_products
from vaescope.regime import variable_types
from vaescope.runs.store import MAX_ITEMS, sample_items
from vaescope.runs.type_counts import FinalTypes

MIN_CHUNK_ITEMS, MAX_CHUNK_ITEMS = 64, 1024
SEED = 0


def final_types(
    model: TrainableModel, data: Dataset, device: torch.device | str = "cpu", batch: int = MAX_CHUNK_ITEMS
) -> FinalTypes | None:
    """The types that `diagnose` finds by default; None for deterministic codes, which have none, and for one item.

    Args:
        model: The trained model, which does not change.
        data: The whole data set, training and held-out items.
        device: Where the model runs.
        batch: Items in a batch of its training, which fitted into memory.
    """
    if len(data) < 2:
        return None
    chunk = min(max(batch, MIN_CHUNK_ITEMS), MAX_CHUNK_ITEMS)
    try:
        with tf32_products(False):
            items = sample_items(data, MAX_ITEMS, SEED)
            found = variable_types(encode(model, items, seed=SEED, chunk=chunk, device=device, progress=False))
    except DataError as error:
        # The model is trained, whatever its codes are.
        warnings.warn(f"the types of its latents could not be counted: {error}", FinalTypesWarning, stacklevel=3)
        return None
    if not bool(found.statistics.variance.mean.any()):
        return None
    return FinalTypes(found.types, found.statistics.count)
