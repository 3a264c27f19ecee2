"""Codes from anything that encodes: the mean, variance and sampled representation (Bonheme, section 6.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeGuard, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.checks import whole_number
from vaescope.codes import Representation, read_codes
from vaescope.codes.files import codes_from_arrays
from vaescope.data import DataLike, Dataset, open_dataset
from vaescope.data.conditions import conditions_of
from vaescope.data.dataset import check_complete
from vaescope.data.items import open_items
from vaescope.data.pixel_scale import UNIT_SCALE, PixelScale
from vaescope.encoding.untouched import checked_device, place_of, untouched
from vaescope.encoding.wrap import checked_model, instead_of, model_of
from vaescope.encoding.wrapped import WrappedModel
from vaescope.errors import ConfigurationError, DataError
from vaescope.models import LatentModel, TrainableModel
from vaescope.models.latent_model import EncodesWithNoise
from vaescope.models.module import gaussian_prior
from vaescope.models.moments import VARIANCE
from vaescope.models.outputs import reader_of
from vaescope.models.readers import Call, NotRecognised, Reader
from vaescope.numerics import counter
from vaescope.numerics.distributions import Distribution
from vaescope.progress import track

PROGRESS_BAR_ITEMS = 5000
CHUNK_ITEMS = 1024
ACCEPTED_SUBJECTS = (
    "codes, a pair (mean, variance) of arrays, a mapping with mean and variance or log_variance, a distribution, a "
    "file of codes (.npz, .csv), or a model or function with data"
)


@runtime_checkable
class HasItemShape(Protocol):
    """A model that knows the shape of the items that it was built for."""

    item_shape: tuple[int, ...]


def open_for(model: LatentModel, data: DataLike | None) -> Dataset:
    """The items of `data`, which must have the shape that the model was built for; one item is enough.

    None stands for the data of a wrapped model that knows them.
    """
    missing = model.missing if isinstance(model, TrainableModel) else None
    if isinstance(model, WrappedModel):
        opened = model.open(data)
    elif data is None:
        raise DataError("A model or function needs data to encode. Pass data.")
    elif isinstance(model, HasItemShape):
        opened = open_items(data, model.item_shape, scale=scale_of(model), missing=missing)
    else:
        opened = open_dataset(data)
    if missing is None:
        check_complete(opened, "A model trained without missing='mask'")
    return opened


def scale_of(model: LatentModel) -> PixelScale:
    """The scale of the images that a model was trained on."""
    return model.pixel_scale if isinstance(model, TrainableModel) else UNIT_SCALE


class ModelInputs:
    """The inputs of `model` for the items of `data`; the noise of an item depends on `seed` and its index alone.

    Attributes:
        device: Where the model runs. Default: where it is.
    """

    def __init__(
        self, model: LatentModel, data: Dataset, *, seed: int = 0, device: torch.device | str | None = None
    ) -> None:
        place, self.dtype = place_of(model)
        self.device = place if device is None else checked_device(device)
        self.data = data
        self.conditions = conditions_of(model, data, self.device)
        self._seed = torch.tensor(seed, device=self.device)

    def items(self, index: Int[Tensor, "batch"]) -> Float[Tensor, "batch ..."]:
        """The items at `index`."""
        return self.data.batch(index).to(self.dtype)

    def batch(self, index: Int[Tensor, "batch"]) -> Tensor:
        """What the model encodes for the items at `index`: the items, unless it needs more."""
        given = self.data.encoder_input(index)
        return given.to(self.dtype) if given.is_floating_point() else given

    def condition(self, index: Int[Tensor, "batch"]) -> tuple[Float[Tensor, "batch width"], ...]:
        """The conditions at `index` as the last positional argument of a call; empty for an unconditional model."""
        return () if self.conditions is None else (self.conditions[index].to(self.dtype),)

    def sample(self, posterior: Distribution, index: Int[Tensor, "batch"]) -> Float[Tensor, "batch latents"]:
        """One sample of the posterior of each item at `index`."""
        mean = posterior.mean
        noise = counter.normal(self._seed, "encode", torch.tensor(0), index, mean[0].numel())
        return posterior.sample(noise.to(mean).reshape(mean.shape))

    def noise(self, columns: Mapping[str, int], index: Int[Tensor, "batch"]) -> dict[str, Tensor]:
        """The noise streams of a forward pass of the items at `index`, each with its number of columns."""
        draws = {
            name: counter.normal(self._seed, f"evaluation/{name}", torch.tensor(0), index, width)
            for name, width in columns.items()
        }
        return {name: draw.to(self.dtype) for name, draw in draws.items()}


def items_per_call(model: LatentModel, items: int) -> int:
    """The batch size of a wrapped model; of other models, `items`."""
    return model.batch_size if isinstance(model, WrappedModel) else items


def index_chunks(
    data: Dataset,
    size: int,
    title: str,
    *,
    device: torch.device | str = "cpu",
    progress: bool | None = None,
) -> Iterator[Int[Tensor, "chunk"]]:
    """The indices of all items, `size` at a time, with progress.

    `progress` says whether to show it. Default: for many items.
    """
    starts = range(0, len(data), whole_number("chunk", size, 1))
    long = len(data) > PROGRESS_BAR_ITEMS if progress is None else progress
    for start in track(starts, f"{title} {data.name}", len(starts), long=long):
        yield torch.arange(start, min(start + size, len(data)), device=device)


@torch.no_grad()
def encode(
    model: object,
    data: DataLike | None = None,
    *,
    chunk: int | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
    progress: bool | None = None,
    inner_noise: bool = False,
) -> Representation:
    """Encode every item of a data set.

    Args:
        model: A run, a model of this library or any other, or a function of a batch; see `vaescope.wrap`.
        data: Anything that `open_dataset` takes; for a model of this library also one item; for a model of scvi-tools
            an AnnData. Default: the cells that a model of scvi-tools was trained on.
        chunk: The number of items per forward pass; it does not change the result. Default: 1024, or the `batch_size`
            of a wrapped model.
        seed: Random seed for sampling; the sample of item i depends on `seed` and i alone.
        device: Where the model runs; it is moved back afterwards. Default: where it is.
        progress: Whether to show progress. Default: for many items.
        inner_noise: Whether a VGON draws the noise of its inner passes too, as in training; the mean and the variance
            of an item then depend on `seed` as its sample does. Default: it does not, and an item has one posterior.

    Returns:
        The codes on the CPU, with the factors and labels of the data, and the mean and variance of the prior if it is a
        Gaussian other than N(0, 1). If the latents are the channels of spatial codes, there is one row per position,
        without factors and labels.
    """
    groups = encode_groups(
        model, data, chunk=chunk, seed=seed, device=device, progress=progress, inner_noise=inner_noise
    )
    if len(groups) > 1:
        raise DataError(
            f"the model encodes {len(groups)} groups of latents ({', '.join(groups)}), not one. Use "
            "`vaescope.encoding.encode_groups`, or diagnose the model."
        )
    (codes,) = groups.values()
    return codes


@torch.no_grad()
def encode_groups(
    model: object,
    data: DataLike | None = None,
    *,
    chunk: int | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
    progress: bool | None = None,
    inner_noise: bool = False,
) -> dict[str, Representation]:
    """Encode every item of a data set with a model of several groups of latents; one group is named ''.

    The arguments are those of `encode`.
    """
    given = checked_model(model)
    if inner_noise and not isinstance(given, EncodesWithNoise):
        raise ConfigurationError(
            f"inner_noise needs a model that draws noise to find a posterior, such as a VGON, got "
            f"{type(given).__name__}. Leave it out: all noise of this model is in the sample."
        )
    opened = open_for(given, data)
    inputs = ModelInputs(given, opened, seed=seed, device=device)
    size = items_per_call(given, CHUNK_ITEMS) if chunk is None else chunk
    codes: dict[str, list[tuple[Tensor, Tensor, Tensor]]] = {}
    priors: dict[str, list[tuple[Tensor, Tensor]]] = {}
    with untouched(given, device):
        for index in index_chunks(opened, size, "encoding", device=inputs.device, progress=progress):
            for name, (posterior, prior) in _posteriors(given, inputs, index, inner_noise).items():
                sample = inputs.sample(posterior, index)
                codes.setdefault(name, []).append((posterior.mean.cpu(), posterior.variance.cpu(), sample.cpu()))
                if prior is not None:
                    priors.setdefault(name, []).append((prior.mean.cpu(), prior.variance.cpu()))
    return {name: _representation(parts, priors.get(name, []), opened) for name, parts in codes.items()}


def _posteriors(
    model: LatentModel, inputs: ModelInputs, index: Int[Tensor, "batch"], inner_noise: bool
) -> Mapping[str, tuple[Distribution, Distribution | None]]:
    """The posterior of each group for the items at `index`, with its prior unless that is N(0, 1)."""
    if isinstance(model, WrappedModel):
        return model.encode_groups(inputs.batch(index))
    x, condition = inputs.batch(index), inputs.condition(index)
    if inner_noise and isinstance(model, EncodesWithNoise):
        posterior = model.encode_with_noise(x, inputs.noise(model.noise, index), *condition)
    else:
        posterior = model.encode(x, *condition)
    return {"": (posterior, gaussian_prior(model, *condition))}


def _representation(
    parts: Sequence[tuple[Tensor, Tensor, Tensor]], priors: Sequence[tuple[Tensor, Tensor]], data: Dataset
) -> Representation:
    mean, variance, sample = (torch.cat(columns) for columns in zip(*parts, strict=True))
    prior_mean = prior_variance = None
    if priors:
        shared = priors[0][0].ndim == 1  # the prior is the same for all items
        prior_mean, prior_variance = (
            priors[0] if shared else (torch.cat(columns) for columns in zip(*priors, strict=True))
        )
    if mean.ndim > 2:
        tables = {"mean": mean, "variance": variance, "sample": sample}
        if prior_mean is not None and prior_variance is not None:
            tables |= {"prior_mean": prior_mean, "prior_variance": prior_variance}
        return Representation.from_arrays(tables)
    factors, labels = (None if codes is None else codes.cpu() for codes in (data.factors, data.labels))
    names = None if factors is None or data.factor_table is None else data.factor_table.names
    return Representation(mean, variance, sample, factors, labels, prior_mean, prior_variance, factor_names=names)


def recognised_model(model: object, data: Dataset) -> LatentModel:
    """A model that is ready to decode: a wrapped one has encoded a batch of the data."""
    found = checked_model(model)
    recognise(found, data)
    return found


def recognise(model: LatentModel, data: Dataset) -> None:
    """Let a wrapped model find out how it encodes and decodes; other models know."""
    if isinstance(model, WrappedModel):
        model.recognise(data.encoder_input(torch.arange(min(len(data), model.batch_size))))


def adapt(subject: object, data: DataLike | None = None, *, seed: int = 0) -> Representation:
    """The codes of a model or function, of a file, or of arrays.

    Args:
        subject: One of

            - a `Representation`, which is returned unchanged,
            - a pair (mean, variance) of arrays, items x latents or items x channels x height x width,
            - a mapping with `mean` and `variance` or `log_variance`, and optionally the other attributes of a
              `Representation`,
            - a posterior by other names (mu, logvar, std, ...), a distribution of torch, or what else `vaescope.wrap`
              reads without doubt,
            - the path of an .npz archive or a .csv table with the same names,
            - with `data`: a run, a model of this library or any other, or a function of a batch; see `vaescope.wrap`.
        data: Anything that `open_dataset` takes, for a model or function.
        seed: Random seed for sampling, if there are no samples.

    Returns:
        The codes, in float64 unless they come from a model of this library.
    """
    model = model_of(subject)
    if model is not None:
        return encode(model, data, seed=seed)
    if data is not None:
        raise DataError(
            f"data can be passed only with a model or function that encodes, got {type(subject).__name__}."
            f"{instead_of(subject)}"
        )
    if isinstance(subject, Representation):
        return subject
    if isinstance(subject, str | Path):
        return read_codes(subject, seed=seed)
    if _is_plain_sequence(subject) and len(subject) == 2:
        return Representation.from_arrays({"mean": subject[0], "variance": subject[1]}, seed=seed)
    if isinstance(subject, Mapping) and "mean" in subject and {"variance", "log_variance"} & set(subject):
        return codes_from_arrays(subject, "codes", seed=seed)
    found = None if _is_plain_sequence(subject) else _posterior_codes(subject, seed)
    if found is not None:
        return found
    if isinstance(subject, Mapping):
        return codes_from_arrays(subject, "codes", seed=seed)
    raise DataError(f"The subject must be {ACCEPTED_SUBJECTS}, got {_type_of(subject)}.")


def _is_plain_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether its entries are distinguished by place, not by name."""
    return isinstance(value, tuple | list) and not hasattr(value, "_fields")


def _posterior_codes(output: object, seed: int) -> Representation | None:
    """The codes of what a model returned, which names its parts; None if it is not one posterior."""
    try:
        reader = reader_of(output, Call(spread=VARIANCE))
    except NotRecognised:
        return None
    if not isinstance(reader, Reader):
        return None
    found, prior = reader.posterior(output), None if reader.prior is None else reader.prior(output)
    arrays: dict[str, Any] = {"mean": found.mean, "variance": found.variance}
    arrays |= {} if prior is None else {"prior_mean": prior.mean, "prior_variance": prior.variance}
    if isinstance(output, Mapping):
        arrays |= {name: output[name] for name in ("sample", "factors", "labels") if name in output}
    return Representation.from_arrays(arrays, seed=seed)


def _type_of(value: object) -> str:
    return type(value).__name__ + (f" of {len(value)}" if isinstance(value, tuple | list) else "")
