"""p(x|z): the distribution of an item given its code."""

from vaescope.likelihoods.bernoulli import Bernoulli
from vaescope.likelihoods.gaussian import Gaussian
from vaescope.likelihoods.laplace import Laplace
from vaescope.likelihoods.likelihood import Likelihood, LikelihoodModule
from vaescope.likelihoods.registry import LIKELIHOODS

__all__ = ["LIKELIHOODS", "Bernoulli", "Gaussian", "Laplace", "Likelihood", "LikelihoodModule"]
