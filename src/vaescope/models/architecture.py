"""The description of a model: everything but its size and its weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import nn

from vaescope.checks import is_whole, whole_number
from vaescope.errors import ConfigurationError, LatentError
from vaescope.likelihoods import LIKELIHOODS
from vaescope.models.autoencoder import Autoencoder
from vaescope.models.vae import VAE
from vaescope.nets import INITIALISATIONS, NETS, initialise
from vaescope.posteriors import POSTERIORS, Deterministic
from vaescope.priors import PRIORS
from vaescope.registry import lookup, plain, resolve

MODELS: dict[str, type[Any]] = {"autoencoder": Autoencoder, "vae": VAE}


@dataclass(frozen=True)
class Architecture:
    """Names of the parts, or the parts themselves; `build` makes the model.

    `condition` is how many numbers a conditional model is told about an item: its classes, or its factors.
    """

    model: str = "vae"
    net: Any = "conv"
    posterior: Any = "diagonal"
    prior: Any = "standard"
    likelihood: Any = "bernoulli"
    initialisation: str = "glorot"
    condition: int = 0

    def __post_init__(self) -> None:
        lookup(MODELS, self.model, "model")
        lookup(INITIALISATIONS, self.initialisation, "initialisation")
        for part, table in _PARTS.items():
            object.__setattr__(self, part, resolve(table, getattr(self, part), part))
        wanted = getattr(MODELS[self.model], "condition_on", None)
        if (wanted is None) != (whole_number("condition", self.condition, 0) == 0):
            raise ConfigurationError(
                f"model {self.model!r} {'takes no condition' if wanted is None else f'is told the {wanted}'}, "
                f"so condition must be {'0' if wanted is None else 'how many numbers that has'}, got {self.condition}."
            )
        if (self.model == "autoencoder") != isinstance(self.posterior, Deterministic):
            raise ConfigurationError(
                f"model {self.model!r} and posterior {type(self.posterior).__name__} do not go together: "
                "an autoencoder has the posterior 'deterministic', a VAE one with noise."
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
        )
        if seed is not None:
            initialise(model, self.initialisation, seed)
        return model

    def plain(self) -> dict[str, Any]:
        """The table from which `Architecture(**table)` builds an equal one."""
        parts = {part: plain(table, getattr(self, part), part) for part, table in _PARTS.items()}
        return {"model": self.model, **parts, "initialisation": self.initialisation, "condition": self.condition}


_PARTS: dict[str, dict[str, type[Any]]] = {
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
