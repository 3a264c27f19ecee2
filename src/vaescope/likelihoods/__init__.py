"""p(x|z): the distribution of an item given its code."""

from vaescope.likelihoods.counts import Counts, NegativeBinomial, Poisson, are_counts
from vaescope.likelihoods.likelihood import (
    LIKELIHOODS,
    Bernoulli,
    FittedToItems,
    Gaussian,
    GaussianDistribution,
    Laplace,
    Likelihood,
    LikelihoodModule,
)

__all__ = [
    "LIKELIHOODS",
    "Bernoulli",
    "Counts",
    "FittedToItems",
    "Gaussian",
    "GaussianDistribution",
    "Laplace",
    "Likelihood",
    "LikelihoodModule",
    "NegativeBinomial",
    "Poisson",
    "are_counts",
]
