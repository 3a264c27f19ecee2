"""The contract of a likelihood: a description that builds the module from decoder outputs to p(x|z)."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from vaescope.numerics.distributions import Distribution
from vaescope.registry import Part, PartRegistry


@runtime_checkable
class LikelihoodModule(Protocol):
    """A module from the outputs of a decoder to p(x|z)."""

    def __call__(self, output: Float[Tensor, "batch ..."], /) -> Distribution:
        """The distribution of each item; its log-probability is summed over the item."""
        ...


@runtime_checkable
class Likelihood(Part, Protocol):
    """Builds the likelihood of a model."""

    def module(self, shape: tuple[int, ...]) -> LikelihoodModule:
        """The likelihood of items with this shape, which may have parameters for each of their dimensions."""
        ...


LIKELIHOODS: PartRegistry[Likelihood] = PartRegistry("likelihood", "vaescope.likelihoods", Likelihood)
