"""p(z): the distribution of codes before an example is seen."""

from vaescope.priors.conditional import ConditionalGaussian
from vaescope.priors.factorised import Anisotropic, Sparse, Standard, StudentT, principal_log_variances
from vaescope.priors.mixture import Mixture
from vaescope.priors.prior import PRIORS, Prior, PriorModule

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
