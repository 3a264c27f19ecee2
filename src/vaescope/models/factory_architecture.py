"""The description of models that a factory builds, in place of an `Architecture` of registered parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.data.conditions import ConditionKind
from vaescope.data.dataset import Missing, checked_missing
from vaescope.errors import ConfigurationError
from vaescope.likelihoods import LIKELIHOODS, Likelihood
from vaescope.likelihoods.units import check_units, item_units, plain_units
from vaescope.models.architecture import Architecture, check_latents, checked_overcomplete, plain_overcomplete
from vaescope.models.factory import FactoryRecord, built_module, factory_name
from vaescope.models.factory_model import FactoryModel, KeptLatents, Reading, check_size, examine, refuse_sigmoid
from vaescope.models.factory_source import FactoryFunction
from vaescope.models.pruning import cut_to_kept, kept_prior
from vaescope.priors import PRIORS, Prior
from vaescope.registry import PartSpec

CRITIC_INITIALISATION = "glorot"


@dataclass
class _Known:
    """A factory of this process, and what is known of its modules by the shape of an item."""

    function: FactoryFunction
    readings: dict[tuple[int, ...], Reading]


# Every factory that this process was given, by what runs keep of it.
_KNOWN: dict[FactoryRecord, _Known] = {}


@dataclass(frozen=True)
class FactoryArchitecture:
    """Models that a factory builds: what a run keeps of the factory, the prior and the likelihood.

    Attributes:
        factory: What is kept of the factory; the factory itself must have been given to this process.
        prior: The prior.
        likelihood: What the output of `decode` parametrises; None if `decode` returns a distribution.
        kept: The latents of a pruned model; None for all.
        standardise, missing: How the models take items, as in `Dataset`.
    """

    factory: FactoryRecord
    prior: Prior
    likelihood: Likelihood | None = None
    kept: KeptLatents | None = None
    standardise: bool = False
    missing: Missing | None = None
    overcomplete: bool = False

    def __post_init__(self) -> None:
        if self.likelihood is not None:
            check_units(self.likelihood, self.standardise, self.missing)
        elif plain_units(self.standardise, self.missing):
            raise ConfigurationError(
                "items can be standardised or have missing values only if decode returns a tensor, but the model of "
                "the factory returns a distribution. Return its parameters, and pass likelihood."
            )

    @classmethod
    def of(
        cls,
        function: FactoryFunction,
        shape: tuple[int, ...],
        prior: PartSpec[Prior] | None,
        likelihood: PartSpec[Likelihood] | None,
        default: PartSpec[Likelihood],
    ) -> FactoryArchitecture:
        """The models of a factory for items of a shape; the factory is remembered.

        Args:
            likelihood: What the user says that `decode` parametrises.
            default: The likelihood of tensors if neither user nor factory says.
        """
        record, reading = examine(function, shape)
        _KNOWN[record] = _Known(function, {shape: reading})
        unconditional = PRIORS.resolve("standard" if prior is None else prior)
        if unconditional.conditional:
            raise ConfigurationError(
                f"the model of a factory is given no condition, but prior {type(unconditional).__name__} needs one. "
                "Use prior 'standard'."
            )
        name = f"{factory_name(function)}()"
        if reading.decodes_distribution:
            if likelihood is not None:
                raise ConfigurationError(
                    f"{reading.decode} of the model that {name} returns gives a distribution, which is its likelihood. "
                    "Remove likelihood."
                )
            return cls(record, unconditional)
        chosen = likelihood if likelihood is not None else reading.likelihood
        resolved = LIKELIHOODS.resolve(default if chosen is None else chosen)
        refuse_sigmoid(reading, resolved, name)
        return cls(record, unconditional, resolved)

    @classmethod
    def from_plain(cls, table: Mapping[str, object]) -> FactoryArchitecture:
        """The description that `plain` wrote."""
        given = dict(table)
        fields = ("factory", "prior", "likelihood", "kept", "standardise", "missing")
        factory, prior, likelihood, kept, standardise, missing = (given.pop(name, None) for name in fields)
        overcomplete = checked_overcomplete(given.pop("overcomplete", False))
        if given or not isinstance(factory, Mapping) or not isinstance(prior, Mapping):
            raise ConfigurationError(f"models of a factory must have a factory and a prior, got {sorted(table)}.")
        return cls(
            FactoryRecord.from_plain(factory),
            PRIORS.resolve(prior),
            LIKELIHOODS.resolve(likelihood) if isinstance(likelihood, Mapping) else None,
            KeptLatents(tuple(kept["kept"]), int(kept["whole"])) if isinstance(kept, Mapping) else None,
            bool(standardise),
            checked_missing(missing),
            overcomplete,
        )

    def plain(self) -> dict[str, object]:
        """The description in tables, lists, text and numbers."""
        table: dict[str, object] = {
            "factory": self.factory.plain(),
            "prior": PRIORS.plain(self.prior),
            "likelihood": None if self.likelihood is None else LIKELIHOODS.plain(self.likelihood),
        }
        if self.kept is not None:
            table["kept"] = {"kept": list(self.kept.kept), "whole": self.kept.whole}
        units = plain_units(self.standardise, self.missing)
        return {**table, **units, **plain_overcomplete(self.overcomplete)}

    @property
    def model(self) -> str:
        """What tables and pages call the models."""
        return self.factory.name or "factory"

    @property
    def initialisation(self) -> str:
        """How the critic of an objective is initialised; a factory initialises its own modules."""
        return CRITIC_INITIALISATION

    @property
    def condition_kind(self) -> ConditionKind | None:
        """These models are given no condition."""
        return None

    @property
    def deterministic(self) -> bool:
        """Codes have noise."""
        return False

    @property
    def convolutional(self) -> bool:
        """Whether there are convolutions."""
        return any(reading.convolutional for reading in self._known().readings.values())

    @property
    def is_known(self) -> bool:
        """Whether this process was given the factory."""
        return self.factory in _KNOWN

    @property
    def function(self) -> FactoryFunction:
        """The factory."""
        return self._known().function

    def provide(self, function: FactoryFunction, shape: tuple[int, ...], if_changed: bool = True) -> list[str]:
        """Use this factory for the models; returns what has changed since they were described, in words.

        Args:
            if_changed: Whether to use it if something has changed.
        """
        record, reading = examine(function, shape)
        changes = self.factory.changes(record)
        if if_changed or not changes:
            _KNOWN[self.factory] = _Known(function, {shape: reading})
        return changes

    def build(self, shape: tuple[int, ...], latents: int, seed: int | None) -> FactoryModel:
        """Build the model.

        Args:
            shape: The shape of an item.
            latents: The number of latents.
            seed: Seed of the random numbers that the factory draws; None if only shapes matter.
        """
        check_latents(latents, shape, self.overcomplete)
        known, whole = self._known(), latents if self.kept is None else self.kept.whole
        if shape not in known.readings:
            _, known.readings[shape] = examine(known.function, shape)
        reading = known.readings[shape]
        module = built_module(known.function, whole, 0 if seed is None else seed).module
        assert module is not None
        check_size(module, reading, factory_name(known.function), whole, shape)
        units = item_units(shape, self.standardise, self.missing)
        return FactoryModel(module, reading, shape, latents, self.prior, self.likelihood, self.kept, units)

    def form(self, shape: tuple[int, ...], latents: int) -> FactoryModel:
        """The model, for the shapes of its tensors."""
        return self.build(shape, latents, seed=None)

    def check_size(self, shape: tuple[int, ...], latents: int) -> None:
        """Raise an error unless the model can be built."""
        self.form(shape, latents)

    def pruned(
        self, model: FactoryModel, shape: tuple[int, ...], kept: tuple[int, ...], fill: Float[Tensor, "latents"]
    ) -> tuple[FactoryModel, FactoryArchitecture]:
        """The model with only the latents `kept`, and its description; the others are held at `fill` in its decoder."""
        before = KeptLatents(tuple(range(len(model.latent_mask))), len(model.latent_mask))
        before = before if model.kept is None else model.kept
        assert model.prior is not None
        own = replace(
            self,
            prior=kept_prior(self.prior, model.prior, kept),
            kept=KeptLatents(tuple(before.kept[latent] for latent in kept), before.whole),
        )
        small = own.build(shape, len(kept), seed=None)
        held = torch.zeros(before.whole) if model.kept is None else model.held_at.clone()
        held[list(before.kept)] = fill.to(held)
        wanted = small.state_dict()
        index = torch.tensor(kept, device=held.device)
        tensors = {
            name: cut_to_kept(value, wanted[name].shape, len(model.latent_mask), index)
            for name, value in model.state_dict().items()
        }
        small.load_state_dict({**tensors, "held_at": held})
        return small.to(model.latent_mask.dtype).train(model.training), own

    def _known(self) -> _Known:
        if self.factory not in _KNOWN:
            raise ConfigurationError(
                f"the model was built by {self.factory.words}, which a run does not hold. Pass it: vs.load(run, "
                f"model={self.factory.argument})."
            )
        return _KNOWN[self.factory]


AnyArchitecture: TypeAlias = Architecture | FactoryArchitecture


def likelihood_of(architecture: AnyArchitecture) -> Likelihood | None:
    """The likelihood; None if the decoders of a factory return distributions."""
    return architecture.parts.likelihood if isinstance(architecture, Architecture) else architecture.likelihood
