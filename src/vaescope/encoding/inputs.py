"""Inputs of a trained model by item index: items, conditions and sampling noise, on its device and in its precision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vaescope.checks import whole_number
from vaescope.data import Dataset
from vaescope.data.conditions import conditions_of
from vaescope.errors import ConfigurationError
from vaescope.numerics import counter
from vaescope.numerics.distributions import Distribution
from vaescope.progress import track

PROGRESS_BAR_ITEMS = 5000


@runtime_checkable
class Encodes(Protocol):
    """The part of `LatentModel` that encoding needs; models of other libraries may have no more."""

    def encode(self, x: Tensor, condition: Tensor | None = None, /) -> Distribution:
        """q(z|x), or q(z|x, condition)."""


@runtime_checkable
class Decodes(Protocol):
    """The part of `LatentModel` that decoding needs."""

    latent_mask: Tensor

    def decode(self, z: Tensor, condition: Tensor | None = None, /) -> Distribution:
        """p(x|z), or p(x|z, condition)."""


def missing_method(model: nn.Module, method: str) -> ConfigurationError:
    """The error for a model that cannot encode or decode."""
    return ConfigurationError(f"{type(model).__name__} must have a method {method}, as the models of vaescope have.")


class ModelInputs:
    """The inputs of `model` for the items of `data`; the noise of an item depends on `seed` and its index alone.

    Attributes:
        device: Where the model runs. Default: where it is.
    """

    def __init__(
        self, model: nn.Module, data: Dataset, *, seed: int = 0, device: torch.device | str | None = None
    ) -> None:
        first = next(model.parameters())
        self.device = first.device if device is None else torch.device(device)
        self.dtype = first.dtype
        self.data = data
        self.conditions = conditions_of(model, data, self.device)
        self._seed = torch.tensor(seed, device=self.device)

    def batch(self, index: Int[Tensor, "batch"]) -> Float[Tensor, "batch ..."]:
        """The items at `index`."""
        return self.data.batch(index).to(self.dtype)

    def condition(self, index: Int[Tensor, "batch"]) -> tuple[Float[Tensor, "batch width"], ...]:
        """The conditions at `index` as the last positional argument of a call; empty for an unconditional model."""
        return () if self.conditions is None else (self.conditions[index].to(self.dtype),)

    def sample(self, posterior: Distribution, index: Int[Tensor, "batch"]) -> Float[Tensor, "batch latents"]:
        """One sample of the posterior of each item at `index`."""
        noise = counter.normal(self._seed, "encode", torch.tensor(0), index, posterior.mean.shape[1])
        return posterior.sample(noise.to(posterior.mean.dtype))


def index_chunks(
    data: Dataset,
    size: int,
    title: str,
    *,
    device: torch.device | str = "cpu",
    progress: bool | None = None,
) -> Iterator[Int[Tensor, "chunk"]]:
    """The indices of all items, `size` at a time, with a progress bar.

    `progress` says whether to show the bar. Default: for many items on a terminal.
    """
    starts = range(0, len(data), whole_number("chunk", size, 1))
    long = len(data) > PROGRESS_BAR_ITEMS if progress is None else progress
    for start in track(starts, f"{title} {data.name}", len(starts), long=long):
        yield torch.arange(start, min(start + size, len(data)), device=device)
