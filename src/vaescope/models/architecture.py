"""The description of a model: everything but its size and its weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from vaescope.checks import is_whole, whole_number
from vaescope.errors import ConfigurationError, LatentError
from vaescope.likelihoods import LIKELIHOODS
from vaescope.models.registry import MODELS
from vaescope.models.variational import takes_condition
from vaescope.nets import INITIALISATIONS, NETS, initialise
from vaescope.posteriors import POSTERIORS, Deterministic
from vaescope.priors import PRIORS
from vaescope.registry import PartRegistry, lookup


@dataclass(frozen=True)
class Architecture:
    """Names of the parts, or the parts themselves; `build` makes the model.

    `model` is a name, or `{"name": ..., option: ...}` for one that has options, which are kept in `options`. Without a
    `prior` the model has its own: 'conditional' for an identifiable one, else 'standard'; so it is with the
    `initialisation`, 'torch' for a VGON, else 'glorot'. `condition` is how many numbers a conditional model is told
    about an item: its classes, or its factors.
    """

    model: Any = "vae"
    net: Any = "conv"
    posterior: Any = "diagonal"
    prior: Any = None
    likelihood: Any = "bernoulli"
    initialisation: str | None = None
    condition: int = 0
    options: Any = ()

    def __post_init__(self) -> None:
        self._take_model()
        for part, usual in (("prior", "standard"), ("initialisation", "glorot")):
            if getattr(self, part) is None:
                object.__setattr__(self, part, getattr(MODELS[self.model], f"own_{part}", usual))
        lookup(INITIALISATIONS, str(self.initialisation), "initialisation")
        for part, registry in _PARTS.items():
            object.__setattr__(self, part, registry.resolve(getattr(self, part)))
        self._check_condition()
        if (self.model == "autoencoder") != isinstance(self.posterior, Deterministic):
            raise ConfigurationError(
                f"model {self.model!r} and posterior {type(self.posterior).__name__} do not go together: "
                "an autoencoder has the posterior 'deterministic', a VAE one with noise."
            )

    def _take_model(self) -> None:
        """The name and the options of the model apart."""
        table = dict(self.model) if isinstance(self.model, Mapping) else {"name": self.model}
        if "name" not in table:
            raise ConfigurationError(f"model given as a table must have a 'name', got {table!r}.")
        name = table.pop("name")
        given = {**dict(self.options), **table}
        known = getattr(MODELS[name], "options", ())
        for option in given:
            if option not in known:
                raise ConfigurationError(
                    f"model {name!r} takes the options {', '.join(known) or 'none'}; got {option!r}. "
                    "Remove it or correct its name."
                )
        object.__setattr__(self, "model", name)
        object.__setattr__(self, "options", tuple(sorted(given.items())))

    def _check_condition(self) -> None:
        """A model that is told something, and only such a one, has a condition and may have a prior given it."""
        wanted = getattr(MODELS[self.model], "condition_on", None)
        if (wanted is None) != (whole_number("condition", self.condition, 0) == 0):
            raise ConfigurationError(
                f"model {self.model!r} {'takes no condition' if wanted is None else f'is told the {wanted}'}, "
                f"so condition must be {'0' if wanted is None else 'how many numbers that has'}, got {self.condition}."
            )
        told = takes_condition(self.prior)
        if (wanted is None and told) or (self.model == "identifiable" and not told):
            raise ConfigurationError(
                f"model {self.model!r} and prior {type(self.prior).__name__} do not go together: an identifiable model "
                "has the prior 'conditional', a conditional one may have it, others are not told what it depends on."
            )

    def build(self, shape: tuple[int, ...], latents: int, seed: int | None) -> nn.Module:
        """The model for items of `shape`, with the initial weights of `seed`; None where only its form matters."""
        check_latents(latents, shape)
        model = MODELS[self.model](
            shape,
            latents,
            net=self.net,
            posterior=self.posterior,
            prior=self.prior,
            likelihood=self.likelihood,
            **({"condition": self.condition} if self.condition else {}),
            **dict(self.options),
        )
        if seed is not None:
            initialise(model, str(self.initialisation), seed)
        return model

    def plain(self) -> dict[str, Any]:
        """The table from which `Architecture(**table)` builds an equal one."""
        parts = {part: registry.plain(getattr(self, part)) for part, registry in _PARTS.items()}
        model = {"name": self.model, **dict(self.options)} if self.options else self.model
        return {"model": model, **parts, "initialisation": self.initialisation, "condition": self.condition}


_PARTS: dict[str, PartRegistry[Any]] = {
    "net": NETS,
    "posterior": POSTERIORS,
    "prior": PRIORS,
    "likelihood": LIKELIHOODS,
}


def check_latents(latents: int, shape: tuple[int, ...]) -> None:
    """Between 1 and the number of dimensions of an item."""
    dimensions = math.prod(shape)
    if not is_whole(latents, 1, dimensions):
        raise LatentError(
            f"latents must be a whole number between 1 and {dimensions} (the data have {dimensions} dimensions), "
            f"got {latents!r}. Choose fewer latents, or data with more dimensions."
        )
