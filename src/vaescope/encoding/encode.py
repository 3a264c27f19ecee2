"""Codes from anything that encodes: the mean, variance and sampled representation (Bonheme, section 6.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vaescope.checks import whole_number
from vaescope.codes import Representation, read_codes
from vaescope.codes.arrays import as_tensor
from vaescope.data import DataLike, Dataset, open_dataset
from vaescope.data.conditions import conditions_of
from vaescope.errors import ConfigurationError, DataError
from vaescope.models import LatentModel
from vaescope.models.module import evaluation_mode, gaussian_prior
from vaescope.numerics import counter
from vaescope.numerics.distributions import Distribution
from vaescope.progress import track

PROGRESS_BAR_ITEMS = 5000
CHUNK_ITEMS = 1024
ACCEPTED = "codes, a pair (mean, variance) of arrays, a file of codes (.npz, .csv), or a model or function with data"


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


@torch.no_grad()
def encode(
    model: nn.Module,
    data: DataLike,
    *,
    chunk: int = CHUNK_ITEMS,
    seed: int = 0,
    device: torch.device | str | None = None,
    progress: bool | None = None,
) -> Representation:
    """Encode every item of a data set.

    Args:
        model: A model with a method `encode`, such as those of this library.
        data: Anything that `open_dataset` takes.
        chunk: The number of items per forward pass; it does not change the result.
        seed: Random seed for sampling; the sample of item i depends on `seed` and i alone.
        device: Where the model runs. Default: where it is.
        progress: Whether to show a progress bar. Default: for many items on a terminal.

    Returns:
        The codes on the CPU, with the factors and labels of the data, and the mean and variance of the prior if it is a
        Gaussian other than N(0, 1).
    """
    if not isinstance(model, Encodes):
        raise missing_method(model, "encode")
    opened = open_dataset(data)
    inputs = ModelInputs(model, opened, seed=seed, device=device)
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    priors: list[tuple[Tensor, Tensor]] = []
    with evaluation_mode(model.to(inputs.device)):
        for index in index_chunks(opened, chunk, "encoding", device=inputs.device, progress=progress):
            condition = inputs.condition(index)
            posterior = model.encode(inputs.batch(index), *condition)
            sample = inputs.sample(posterior, index)
            parts.append((posterior.mean.cpu(), posterior.variance.cpu(), sample.cpu()))
            prior = gaussian_prior(model, *condition) if isinstance(model, LatentModel) else None
            if prior is not None:
                priors.append((prior.mean.cpu(), prior.variance.cpu()))
    mean, variance, sample = (torch.cat(columns) for columns in zip(*parts, strict=True))
    factors, labels = (None if codes is None else codes.cpu() for codes in (opened.factors, opened.labels))
    shared = bool(priors) and priors[0][0].ndim == 1  # the prior is the same for all items
    prior_moments = priors[0] if shared else tuple(torch.cat(columns) for columns in zip(*priors, strict=True))
    return Representation(mean, variance, sample, factors, labels, *prior_moments)


def adapt(subject: object, data: DataLike | None = None, *, seed: int = 0) -> Representation:
    """The codes of a model or function, of a file, or of arrays.

    Args:
        subject: One of

            - a `Representation`, which is returned unchanged,
            - a pair (mean, variance) of arrays, items x latents,
            - the path of an .npz archive or a .csv table with `mean` and `variance` (or `log_variance`), and
              optionally the other attributes of a `Representation`,
            - with `data`: a model of this library, a function that maps a batch to a posterior or to a pair (mean,
              variance), or a module with such a method `encode`.
        data: Anything that `open_dataset` takes, for a model or function.
        seed: Random seed for sampling, if there are no samples.

    Returns:
        The codes, in float64 if they come from arrays, a file or a function.
    """
    if isinstance(subject, nn.Module) and isinstance(subject, LatentModel) and data is not None:
        return encode(subject, data, seed=seed)
    if isinstance(subject, nn.Module) and isinstance(subject, Encodes):
        subject = subject.encode
    if callable(subject):
        if data is None:
            raise DataError("A model or function needs data to encode. Pass data.")
        return _from_function(subject, open_dataset(data), seed)
    if data is not None:
        raise DataError(f"data can be passed only with a model or function that encodes, got {type(subject).__name__}.")
    if isinstance(subject, Representation):
        return subject
    if isinstance(subject, str | Path):
        return read_codes(subject, seed=seed)
    if isinstance(subject, tuple | list) and len(subject) == 2:
        return Representation.from_arrays({"mean": subject[0], "variance": subject[1]}, seed=seed)
    raise DataError(f"The subject must be {ACCEPTED}, got {_type_of(subject)}.")


@torch.no_grad()
def _from_function(function: Callable[[Tensor], object], data: Dataset, seed: int) -> Representation:
    parts: list[list[Tensor]] = []
    for index in index_chunks(data, CHUNK_ITEMS, "encoding"):
        posterior = _mean_and_variance(function(data.batch(index)))
        parts.append([as_tensor(values, name).double().cpu() for name, values in posterior.items()])
        for values in parts[-1]:
            if values.ndim != 2 or len(values) != len(index):
                raise DataError(
                    f"The function must return one row of latents for each of the {len(index)} items of a batch, "
                    f"got the shape {tuple(values.shape)}."
                )
    mean, variance = (torch.cat(columns) for columns in zip(*parts, strict=True))
    arrays = {"mean": mean, "variance": variance, "factors": data.factors, "labels": data.labels}
    given = {name: values for name, values in arrays.items() if values is not None}
    return Representation.from_arrays(given, name=data.name, seed=seed)


@runtime_checkable
class HasMeanAndVariance(Protocol):
    """A posterior of any library; arrays and tensors are none, because they have no `variance`."""

    mean: object
    variance: object


def _mean_and_variance(posterior: object) -> dict[str, object]:
    if isinstance(posterior, tuple | list) and len(posterior) == 2:
        return {"mean": posterior[0], "variance": posterior[1]}
    if isinstance(posterior, HasMeanAndVariance):
        return {"mean": posterior.mean, "variance": posterior.variance}
    raise DataError(
        "The function must return a posterior with mean and variance, or a pair (mean, variance), "
        f"got {_type_of(posterior)}."
    )


def _type_of(value: object) -> str:
    return type(value).__name__ + (f" of {len(value)}" if isinstance(value, tuple | list) else "")
