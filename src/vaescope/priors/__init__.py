"""p(z): the distribution of codes before an example is seen."""

from vaescope.priors.anisotropic import Anisotropic, principal_log_variances
from vaescope.priors.conditional import ConditionalGaussian
from vaescope.priors.mixture import Mixture
from vaescope.priors.prior import Prior, PriorModule
from vaescope.priors.registry import PRIORS
from vaescope.priors.sparse import Sparse
from vaescope.priors.standard import Standard
from vaescope.priors.student import StudentT

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
