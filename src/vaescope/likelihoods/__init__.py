"""p(x|z): the distribution of an item given its code."""

from typing import Any

from vaescope.likelihoods.bernoulli import Bernoulli
from vaescope.likelihoods.gaussian import Gaussian
from vaescope.likelihoods.laplace import Laplace

LIKELIHOODS: dict[str, type[Any]] = {"bernoulli": Bernoulli, "gaussian": Gaussian, "laplace": Laplace}

__all__ = ["LIKELIHOODS", "Bernoulli", "Gaussian", "Laplace"]
