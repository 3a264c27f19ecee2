"""p(z) = prod_j Student-t(z_j; degrees): heavy tails favour axis-aligned codes (Mathieu, section 6.1)."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from vaescope.checks import finite_number
from vaescope.numerics.distributions import StudentProduct, full_precision, log_normaliser, quantile_table
from vaescope.priors.prior import Prior
from vaescope.priors.registry import PRIORS

MIN_DEGREES = 0.5  # with fewer, samples overflow single precision


@PRIORS.register("student_t", summary="a product of Student-t", source="Mathieu et al., section 6.1")
@dataclass(frozen=True)
class StudentT(Prior):
    """Unit scale and the same degrees of freedom in each latent; for many degrees it is close to N(0, 1)."""

    degrees: float = 5.0

    def __post_init__(self) -> None:
        name = "the degrees of freedom of a Student-t prior"
        object.__setattr__(self, "degrees", finite_number(name, self.degrees, at_least=MIN_DEGREES))

    def module(self, latents: int, condition_width: int = 0) -> StudentPrior:
        """The prior over `latents` latents."""
        return StudentPrior(self.degrees)


class StudentPrior(nn.Module):
    """Has no parameters; holds the table that turns normal noise into Student-t noise."""

    table: Tensor

    def __init__(self, degrees: float) -> None:
        super().__init__()
        self.degrees, self.log_constant = degrees, log_normaliser(degrees)
        self.register_buffer("table", quantile_table(degrees), persistent=False)

    def forward(self, mask: Float[Tensor, "latents"], condition: Tensor | None = None) -> StudentProduct:
        return StudentProduct(full_precision(mask), self.degrees, self.log_constant, full_precision(self.table))
