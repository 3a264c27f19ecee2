"""The description of a model: everything but its size and its weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from vaescope.checks import is_whole, whole_number
from vaescope.data.conditions import ConditionKind
from vaescope.data.dataset import Missing
from vaescope.errors import ConfigurationError, LatentError, quoted
from vaescope.likelihoods import LIKELIHOODS, Likelihood
from vaescope.likelihoods.units import check_units, plain_units
from vaescope.memory import check_memory
from vaescope.models.module import MODELS, LatentModule, Parts
from vaescope.nets import INITIALISATIONS, NETS, Net, initialise
from vaescope.numerics import counter
from vaescope.posteriors import POSTERIORS, Posterior
from vaescope.priors import PRIORS, Prior
from vaescope.registry import PartSpec, lookup
from vaescope.terminal import on_command_line

FLOAT_BYTES = 4
CONSTRUCTION = "construction"  # the stream of the random numbers that constructors draw


@dataclass(frozen=True)
class Architecture:
    """The parts of a model, each as an instance, a name or a table `{"name": ..., option: value}`.

    Attributes:
        model: Name of the model; a table for one that has options, which are kept in `options`.
        prior: Default: the model's `default_prior`.
        initialisation: Default: the model's `default_initialisation`.
        condition: Number of columns of the condition of a conditional model: its classes, or its varying factors.
        options: Names and values of the model's options.
        standardise, missing: How the model takes items, as in `Dataset`.
        overcomplete: Whether there may be more latents than the data have dimensions.
    """

    model: str | Mapping[str, object] = "vae"
    net: PartSpec[Net] = "conv"
    posterior: PartSpec[Posterior] = "diagonal"
    prior: PartSpec[Prior] | None = None
    likelihood: PartSpec[Likelihood] = "bernoulli"
    initialisation: str | None = None
    condition: int = 0
    options: tuple[tuple[str, object], ...] = ()
    standardise: bool = False
    missing: Missing | None = None
    overcomplete: bool = False

    def __post_init__(self) -> None:
        self._split_model()
        kind = self.model_class
        prior = kind.default_prior if self.prior is None else self.prior
        initialisation = kind.default_initialisation if self.initialisation is None else self.initialisation
        lookup(INITIALISATIONS, initialisation, "initialisation")
        object.__setattr__(self, "initialisation", initialisation)
        object.__setattr__(self, "net", NETS.resolve(self.net))
        object.__setattr__(self, "posterior", POSTERIORS.resolve(self.posterior))
        object.__setattr__(self, "prior", PRIORS.resolve(prior))
        object.__setattr__(self, "likelihood", LIKELIHOODS.resolve(self.likelihood))
        self._check_condition()
        checked_overcomplete(self.overcomplete)
        check_units(self.parts.likelihood, self.standardise, self.missing)
        deterministic = POSTERIORS[kind.default_posterior].deterministic
        if deterministic != self.parts.posterior.deterministic:
            needed = f"a posterior {'without' if deterministic else 'with'} noise"
            raise self._mismatch("posterior", self.posterior, needed, kind.default_posterior)

    @property
    def model_class(self) -> type[LatentModule]:
        """The class of the model."""
        return MODELS[str(self.model)]

    @property
    def parts(self) -> Parts:
        """The parts that the model is built from."""
        return Parts(
            NETS.resolve(self.net),
            POSTERIORS.resolve(self.posterior),
            PRIORS.resolve(self.model_class.default_prior if self.prior is None else self.prior),
            LIKELIHOODS.resolve(self.likelihood),
            self.condition,
            self.standardise,
            self.missing,
        )

    @property
    def condition_kind(self) -> ConditionKind | None:
        """What the model is conditioned on."""
        return self.model_class.condition

    @property
    def deterministic(self) -> bool:
        """Whether codes have no noise."""
        return self.parts.posterior.deterministic

    @property
    def convolutional(self) -> bool:
        """Whether the net has convolutions."""
        return self.parts.net.convolutional

    def _split_model(self) -> None:
        """Separate the name of the model from its options."""
        table = dict(self.model) if isinstance(self.model, Mapping) else {"name": self.model}
        if "name" not in table:
            raise ConfigurationError(f"model given as a table must have a 'name', got {table!r}.")
        name = table.pop("name")
        given = {**dict(self.options), **table}
        known = MODELS[str(name)].options
        for option in given:
            if option not in known:
                raise ConfigurationError(
                    f"model {name!r} takes the options {', '.join(known) or 'none'}; got {option!r}. "
                    "Remove it or correct its name."
                )
        object.__setattr__(self, "model", name)
        object.__setattr__(self, "options", tuple(sorted(given.items())))

    def _check_condition(self) -> None:
        """Only conditional models take a condition or a conditional prior."""
        kind = self.model_class
        if (kind.condition is None) != (whole_number("condition", self.condition, 0) == 0):
            must = "0" if kind.condition is None else f"the number of columns of its condition, the {kind.condition}"
            raise ConfigurationError(f"condition of model {self.model!r} must be {must}, got {self.condition}.")
        conditional = self.parts.prior.conditional
        required = PRIORS[kind.default_prior].conditional
        if (conditional and kind.condition is None) or (required and not conditional):
            needed = "a conditional prior" if required else "an unconditional prior"
            raise self._mismatch("prior", self.prior, needed, kind.default_prior)

    def _mismatch(self, kind: str, part: object, needed: str, default: str) -> ConfigurationError:
        return ConfigurationError(
            f"model {self.model!r} and {kind} {type(part).__name__} do not go together: this model needs {needed}, for "
            f"instance {default!r}."
        )

    def build(self, shape: tuple[int, ...], latents: int, seed: int | None) -> LatentModule:
        """Build the model.

        Args:
            shape: The shape of an item.
            latents: The number of latents.
            seed: Seed of the initial weights; None leaves the weights as constructed, if only their shapes matter.
        """
        self.check_size(shape, latents)
        # Layers of torch draw initial weights when they are made.
        with counter.seeded(0 if seed is None else seed, CONSTRUCTION, torch.device("cpu")):
            model = self._construct(shape, latents)
        if seed is not None:
            initialise(model, str(self.initialisation), seed)
        return model

    def form(self, shape: tuple[int, ...], latents: int) -> LatentModule:
        """The model without memory for its weights."""
        check_latents(latents, shape, self.overcomplete)
        with without_memory(f"a model with {latents} latents for items of shape {shape}"):
            return self._construct(shape, latents)

    def check_size(self, shape: tuple[int, ...], latents: int) -> None:
        """Raise an error unless the weights of a model fit into memory."""
        tensors = self.form(shape, latents).state_dict()
        check_fits("a model", {name: tuple(tensor.shape) for name, tensor in tensors.items()}, FLOAT_BYTES)

    def _construct(self, shape: tuple[int, ...], latents: int) -> LatentModule:
        construct: Callable[..., LatentModule] = self.model_class
        return construct(shape, latents, self.parts, **dict(self.options))

    def plain(self) -> dict[str, object]:
        """The table from which `Architecture(**table)` builds an equal one."""
        parts = self.parts
        return {
            "model": {"name": self.model, **dict(self.options)} if self.options else self.model,
            "net": NETS.plain(parts.net),
            "posterior": POSTERIORS.plain(parts.posterior),
            "prior": PRIORS.plain(parts.prior),
            "likelihood": LIKELIHOODS.plain(parts.likelihood),
            "initialisation": self.initialisation,
            "condition": self.condition,
            **plain_units(self.standardise, self.missing),
            **plain_overcomplete(self.overcomplete),
        }


@contextmanager
def without_memory(what: str) -> Iterator[None]:
    """Tensors that are made inside have a shape and no memory; one whose bytes 64 bits cannot count is an error."""
    try:
        with torch.device("meta"):
            yield
    except RuntimeError as error:
        raise ConfigurationError(
            f"{what} must fit into memory, and torch cannot even count its bytes ({error}). Choose smaller sizes."
        ) from error


def check_fits(what: str, shapes: Mapping[str, tuple[int, ...]], bytes_each: int, free: float | None = None) -> None:
    """Raise an error that names the largest tensor unless tensors fit into memory.

    Args:
        shapes: The shape of each tensor by its name.
        bytes_each: Bytes for each number, in all copies together.
        free: Bytes that there are; default: what is available on the CPU.
    """
    numbers = sum(math.prod(shape) for shape in shapes.values())
    name, shape = max(shapes.items(), key=lambda each: math.prod(each[1]), default=("none", ()))
    remedy = f"The largest tensor is {name}, of shape {shape}: choose smaller items or a smaller net."
    check_memory(f"{what} with {numbers:,} parameters", bytes_each * numbers, remedy, free)


def check_latents(latents: int, shape: tuple[int, ...], overcomplete: bool = False) -> None:
    """Raise an error unless `latents` is between 1 and, unless `overcomplete`, the number of dimensions of an item."""
    if overcomplete:
        if not is_whole(latents, 1):
            raise LatentError(f"latents must be a whole number of at least 1, got {latents!r}.")
        return
    dimensions = math.prod(shape)
    if not is_whole(latents, 1, dimensions):
        option = "--overcomplete" if on_command_line() else "overcomplete=True"
        advice = f", data with more dimensions, or {option}" if is_whole(latents, 1) else ""
        raise LatentError(
            f"latents must be a whole number between 1 and {dimensions} (the data have {dimensions} dimensions), "
            f"got {latents!r}. Choose a number in this range{advice}."
        )


def checked_overcomplete(overcomplete: object) -> bool:
    """Whether there may be more latents than dimensions, or an error."""
    if not isinstance(overcomplete, bool):
        raise ConfigurationError(f"overcomplete must be True or False, got {quoted(overcomplete)}.")
    return overcomplete


def plain_overcomplete(overcomplete: bool) -> dict[str, object]:
    """The entry of a configuration, which has none for the default, so that it keeps its id."""
    return {"overcomplete": True} if overcomplete else {}
