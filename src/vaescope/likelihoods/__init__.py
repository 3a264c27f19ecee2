"""p(x|z): the distribution of an item given its code."""

from vaescope.likelihoods.likelihood import (
    LIKELIHOODS,
    Bernoulli,
    Gaussian,
    GaussianDistribution,
    Laplace,
    Likelihood,
    LikelihoodModule,
)

__all__ = ["LIKELIHOODS", "Bernoulli", "Gaussian", "GaussianDistribution", "Laplace", "Likelihood", "LikelihoodModule"]
