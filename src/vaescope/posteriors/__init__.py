"""q(z|x): the distribution of the code of an example."""

from vaescope.posteriors.deterministic import Deterministic
from vaescope.posteriors.diagonal import Diagonal
from vaescope.posteriors.full import Full
from vaescope.posteriors.posterior import Posterior, PosteriorHead
from vaescope.posteriors.registry import POSTERIORS

__all__ = ["POSTERIORS", "Deterministic", "Diagonal", "Full", "Posterior", "PosteriorHead"]
