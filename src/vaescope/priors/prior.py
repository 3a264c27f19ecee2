"""The contract of a prior: a description that builds the module for p(z) or p(z|condition)."""

from __future__ import annotations

from typing import ClassVar, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from vaescope.errors import ConfigurationError, quoted
from vaescope.numerics.distributions import Distribution
from vaescope.registry import Part, PartRegistry


@runtime_checkable
class PriorModule(Protocol):
    """A module that gives the distribution of codes."""

    def __call__(
        self, mask: Float[Tensor, "latents"], condition: Float[Tensor, "batch width"] | None = None, /
    ) -> Distribution:
        """p(z), one for all items, or p(z|condition), one for each; a latent whose mask is 0 is N(0, 1)."""
        ...


@runtime_checkable
class Prior(Part, Protocol):
    """Builds the prior of a model.

    Attributes:
        conditional: Whether the prior depends on the condition of an item. Other priors ignore it.
    """

    conditional: ClassVar[bool] = False

    def module(self, latents: int, condition_width: int = 0) -> PriorModule:
        """The prior over `latents` latents, given conditions of `condition_width` numbers."""
        ...


PRIORS: PartRegistry[Prior] = PartRegistry("prior", "vaescope.priors", Prior)


def listed(name: str, values: object) -> tuple[object, ...]:
    """The values of an option that takes a list, or an error that names the option."""
    if not isinstance(values, tuple | list):
        raise ConfigurationError(f"{name} must be a list of numbers, got {quoted(values)}.")
    return tuple(values)
