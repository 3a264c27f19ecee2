"""p(z): the distribution of codes before an example is seen."""

from typing import Any

from vaescope.priors.anisotropic import Anisotropic, principal_log_variances
from vaescope.priors.conditional import ConditionalGaussian
from vaescope.priors.mixture import Mixture
from vaescope.priors.sparse import Sparse
from vaescope.priors.standard import Standard
from vaescope.priors.student import StudentT

PRIORS: dict[str, type[Any]] = {
    "anisotropic": Anisotropic,
    "conditional": ConditionalGaussian,
    "mixture": Mixture,
    "sparse": Sparse,
    "standard": Standard,
    "student_t": StudentT,
}

__all__ = [
    "PRIORS",
    "Anisotropic",
    "ConditionalGaussian",
    "Mixture",
    "Sparse",
    "Standard",
    "StudentT",
    "principal_log_variances",
]
