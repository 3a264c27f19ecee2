"""The evidence lower bound of items under a trained model (Bonheme, eq. 3.5)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.data import DataLike
from vaescope.encoding.encode import CHUNK_ITEMS, ModelInputs, index_chunks, open_for
from vaescope.encoding.untouched import untouched
from vaescope.encoding.wrap import checked_model
from vaescope.encoding.wrapped import WrappedModel
from vaescope.errors import ConfigurationError
from vaescope.objectives import Beta, Context


@torch.no_grad()
def lower_bound(
    model: object,
    data: DataLike,
    *,
    chunk: int = CHUNK_ITEMS,
    seed: int = 0,
    device: torch.device | str | None = None,
) -> Float[Tensor, "items"]:
    """E[log p(x|z)] - KL(q(z|x) || p(z)) of each item in nats, on the CPU, from one sample of z; higher is better.

    For a deterministic code, which has no prior, it is log p(x|z).

    Args:
        model: A model of this library, or a run.
        data: Anything that `open_dataset` takes, or one item; conditional models also need labels or factors.
        chunk: The number of items per forward pass; it does not change the result.
        seed: Random seed for sampling; the sample of item i depends on `seed` and i alone.
        device: Where the model runs. Default: where it is.
    """
    given = checked_model(model)
    if isinstance(given, WrappedModel):
        raise ConfigurationError(f"The lower bound needs a model of vaescope, with its likelihood; got {given.name}.")
    opened, elbo = open_for(given, data), Beta(1.0)
    inputs = ModelInputs(given, opened, seed=seed, device=device)
    parts: list[Tensor] = []
    with untouched(given, device):
        context = Context(torch.tensor(0, device=inputs.device), len(opened), given.latent_mask)
        for index in index_chunks(opened, chunk, "lower bound of", device=inputs.device):
            x = inputs.batch(index)
            result = given.forward(x, inputs.noise(given.noise, index), *inputs.condition(index))
            parts.append(-elbo(x, result, context).per_example.cpu())
    return torch.cat(parts)
