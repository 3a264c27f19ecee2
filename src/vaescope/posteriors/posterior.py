"""The contract of a posterior: a description that builds the head from features to q(z|x)."""

from __future__ import annotations

from typing import ClassVar, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from vaescope.numerics.distributions import Distribution
from vaescope.registry import Part, PartRegistry


@runtime_checkable
class PosteriorHead(Protocol):
    """A module from features to q(z|x)."""

    def __call__(self, features: Float[Tensor, "batch features"], mask: Float[Tensor, "latents"], /) -> Distribution:
        """The distribution of each item's code; a latent whose mask is 0 is N(0, 1), or 0 if there is no noise."""
        ...


@runtime_checkable
class Posterior(Part, Protocol):
    """Builds the head of an encoder.

    Attributes:
        deterministic: Whether the code has no noise, as in an autoencoder.
    """

    deterministic: ClassVar[bool] = False

    def head(self, features: int, latents: int) -> PosteriorHead:
        """The head from `features` features to `latents` latents."""
        ...


POSTERIORS: PartRegistry[Posterior] = PartRegistry("posterior", "vaescope.posteriors", Posterior)
