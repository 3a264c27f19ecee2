"""p(z): the distribution of codes before an example is seen."""

from vaescope.priors.conditional import ConditionalGaussian
from vaescope.priors.prior import PRIORS, Prior, PriorModule
from vaescope.priors.unconditional import (
    Anisotropic,
    Mixture,
    Sparse,
    Standard,
    StudentT,
    principal_log_variances,
)

__all__ = [
    "PRIORS",
    "Anisotropic",
    "ConditionalGaussian",
    "Mixture",
    "Prior",
    "PriorModule",
    "Sparse",
    "Standard",
    "StudentT",
    "principal_log_variances",
]
