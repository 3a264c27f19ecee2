"""Training by a function of the user: what it is given, how it is called, and what it must do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset as TorchDataset

from vaescope.data import Dataset
from vaescope.encoding.scvi import ScviModel, is_scvi_model
from vaescope.errors import ConfigurationError
from vaescope.models import FactoryArchitecture, FactoryFunction
from vaescope.models.factory import called, checked_factory, factory_name, seeded_generators
from vaescope.numerics import counter
from vaescope.priors import Prior
from vaescope.registry import PartSpec
from vaescope.runs.options import ModelSpec

ARGUMENTS = "model, data, steps, seed"
SEED_LIMIT = 2**31  # every library takes seeds below


class TrainingItems(TorchDataset[Tensor]):
    """The training items as a data set of torch: `items[3]` is one, `items[index]` a batch."""

    def __init__(self, data: Dataset) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int | slice | Sequence[int] | Tensor) -> Tensor:
        rows = torch.arange(len(self))[index]
        found = self.data.batch(rows.reshape(-1))
        return found if rows.ndim else found[0]


# The model is of a class of the user.
TrainFunction: TypeAlias = Callable[[Any, TrainingItems, int, int], object]


@dataclass(frozen=True)
class ScviModels:
    """Models of scvi-tools that a factory builds, in place of an architecture; they hold their own cells."""

    function: FactoryFunction
    deterministic: ClassVar[bool] = False
    convolutional: ClassVar[bool] = False

    @property
    def model(self) -> str:
        """What pages call the models."""
        return factory_name(self.function)

    def plain(self) -> dict[str, object]:
        """The description as a table."""
        return {"model": self.model}

    def build(self, latents: int, seed: int) -> ScviModel:
        """A model, not trained."""
        found = called(self.function, latents, seed)
        assert is_scvi_model(found)
        return found


def checked_train(function: object) -> TrainFunction:
    """The function, unless it cannot be called with a model, items, a number of steps and a seed."""
    try:
        if not callable(function):
            raise TypeError(f"got {type(function).__name__}")
        inspect.signature(function).bind(*ARGUMENTS.split(", "))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"train must be a function of ({ARGUMENTS}), which trains the model for that many steps: {error}."
        ) from error
    return function


def refuse(name: str, given: object, default: object) -> None:
    """Raise an error for a setting of our training that differs from its default."""
    if given != default:
        raise ConfigurationError(f"your function trains the models, so {name} has no effect; got {given!r}. Remove it.")


def models_of(
    model: ModelSpec | None, prior: PartSpec[Prior] | None, data: Dataset
) -> FactoryArchitecture | ScviModels:
    """The models of a factory that a function of the user trains."""
    if model is None or isinstance(model, str | Mapping):
        raise ConfigurationError(
            f"train needs a factory of the models that it trains, got model={model!r}. Write "
            "model=lambda latents: MyVAE(latents)."
        )
    if data.standardise or data.missing:
        raise ConfigurationError(
            f"your function trains the models, so {data.name} must not be opened with standardise or missing. "
            "Standardise items or fill in missing values before you open them."
        )
    factory = checked_factory(model)
    if is_scvi_model(called(factory, 1, seed=0)):
        return ScviModels(factory)
    # A likelihood plays no part in their training; this one takes what decode returns as the mean of an item.
    return FactoryArchitecture.of(factory, data.shape, prior, None, "gaussian")


def train_period(
    function: TrainFunction,
    model: nn.Module | ScviModel,
    data: Dataset,
    steps: int,
    seed: int,
    period: int,
    device: torch.device,
) -> None:
    """Call the function to train a model; it is given another seed in each period, and generators that have it."""
    if isinstance(model, nn.Module):
        model.to(device).train()
    stream = f"period {period}"
    with seeded_generators(seed, stream):
        returned = function(model, TrainingItems(data), steps, counter.derived_seed(seed, stream) % SEED_LIMIT)
    if isinstance(returned, nn.Module | type(model)) and returned is not model:
        raise ConfigurationError(
            f"train must train the model that it is given, but {factory_name(function)} returns another one. Change "
            "the weights of the model in place."
        )
    if isinstance(model, nn.Module):
        model.to(device)
