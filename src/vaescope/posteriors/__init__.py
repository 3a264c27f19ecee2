"""q(z|x): the distribution of the code of an example."""

from vaescope.posteriors.posterior import POSTERIORS, Deterministic, Diagonal, Full, Posterior, PosteriorHead

__all__ = ["POSTERIORS", "Deterministic", "Diagonal", "Full", "Posterior", "PosteriorHead"]
