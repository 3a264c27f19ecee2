"""p(x|z): the distribution of an item given its code."""

from vaescope.likelihoods.independent import Bernoulli, Gaussian, GaussianDistribution, Laplace
from vaescope.likelihoods.likelihood import LIKELIHOODS, Likelihood, LikelihoodModule

__all__ = [
    "LIKELIHOODS",
    "Bernoulli",
    "Gaussian",
    "GaussianDistribution",
    "Laplace",
    "Likelihood",
    "LikelihoodModule",
]
