"""The beta-TC VAE: the total correlation in the rate has a weight beta (Bonheme, eq. 4.28 and 4.29)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.errors import unknown_name
from vaescope.models.forward_pass import ForwardPass
from vaescope.numerics import gaussian
from vaescope.numerics.aggregate import ESTIMATORS, Estimator, aggregate
from vaescope.numerics.distributions import Distribution
from vaescope.objectives.objective import Context, Terms
from vaescope.objectives.registry import OBJECTIVES
from vaescope.objectives.scheduled import ScheduledObjective
from vaescope.objectives.strengths import require


@OBJECTIVES.register(
    "beta_tc", summary="reconstruction + KL + (beta - 1) TC by minibatches", source="Bonheme, eq. 4.29"
)
@dataclass(frozen=True)
class BetaTC(ScheduledObjective):
    """-E[log p(x|z)] + KL(q(z|x) || p(z)) + (beta - 1) KL(q(z) || prod_j q(z_j)); beta = 1 is the negative ELBO.

    The history has the decomposition of the rate (Chen et al., 2018, eq. 2) into index-code mutual information, total
    correlation and dimension-wise rate at the sample z; they add up to log q(z|x) - log p(z). They are 0 for a
    deterministic code.

    Attributes:
        beta: Weight of the total correlation.
        estimator: How q(z) is estimated from a batch: `weighted` (eq. 4.29), `stratified` (unbiased) or `plain`
            (disentanglement_lib). `weighted` and `plain` differ by a constant, so they give the same training.
    """

    beta: float | Tensor = 6.0
    estimator: Estimator = "weighted"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "beta", at_least=0)
        if self.estimator not in ESTIMATORS:
            raise unknown_name("estimator", self.estimator, ESTIMATORS)

    def terms(self, x: Float[Tensor, "batch ..."], result: ForwardPass, context: Context) -> Terms:
        rate = self.rate(result, context)
        zero = torch.zeros_like(rate)
        information, correlation, dimensions = (
            (zero, zero, zero) if result.prior is None else self._parts(result, result.prior, context)
        )
        values = {
            "reconstruction": self.reconstruction(x, result),
            "rate": rate,
            "total_correlation": correlation,
            "index_code_information": information.detach(),
            "dimension_wise_rate": dimensions.detach(),
        }
        shown = {"index_code_information": 0.0, "dimension_wise_rate": 0.0}
        return Terms(values, {"reconstruction": 1.0, "rate": 1.0, "total_correlation": self.beta - 1, **shown})

    def _parts(self, result: ForwardPass, prior: Distribution, context: Context) -> tuple[Tensor, Tensor, Tensor]:
        found = aggregate(result.posterior, result.z, context.items, self.estimator)
        # Latents that are not in use are N(0, 1) in the posterior and in the prior, and no part of the code.
        unused = gaussian.log_density(result.z, torch.zeros_like(result.z), torch.zeros_like(result.z))
        unused = (unused * (1 - context.mask)).sum(-1)
        product = (found.marginals * context.mask).sum(-1)
        information = result.posterior.log_prob(result.z) - found.joint
        return information, found.joint - unused - product, product + unused - prior.log_prob(result.z)
