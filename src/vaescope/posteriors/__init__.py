"""q(z|x): the distribution of the code of an example."""

from vaescope.posteriors.gaussian import Deterministic, Diagonal, Full
from vaescope.posteriors.posterior import POSTERIORS, Posterior, PosteriorHead

__all__ = ["POSTERIORS", "Deterministic", "Diagonal", "Full", "Posterior", "PosteriorHead"]
