"""p(z) = sum_k weight_k N(z; mean_k, variance_k): the clustered prior of Mathieu, section 6.2."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.checks import finite_number
from vaescope.errors import ConfigurationError
from vaescope.numerics.distributions import DiagonalGaussian, GaussianMixture, full_precision
from vaescope.priors.prior import PRIORS, Prior, listed

CROSS = ((0.0, 1.0), (0.0, -1.0), (1.0, 0.0), (-1.0, 0.0))


@PRIORS.register("mixture", summary="Gaussian clusters", source="Mathieu et al., section 6.2")
@dataclass(frozen=True)
class Mixture(Prior):
    """Gaussian clusters; default: the four of the pinwheel experiment.

    Attributes:
        means: The means of the first latents, one tuple for each component. Further latents are N(0, 1) in every
            component; a model with fewer latents has the marginal of the mixture.
        variances: Variance of these latents, one for each component or one for all.
        weights: Weights of the components, which sum to 1; default: equal.
    """

    means: tuple[tuple[float, ...], ...] = CROSS
    variances: float | tuple[float, ...] = 0.03
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        name = "the means of a mixture prior"
        rows = [
            [finite_number("a mean of a mixture prior", one) for one in listed(name, row)]
            for row in listed(name, self.means)
        ]
        if not rows or len({len(row) for row in rows}) != 1 or not rows[0]:
            raise ConfigurationError(
                f"{name} must be one row for each component, all of the same length of at least 1, got {self.means!r}."
            )
        object.__setattr__(self, "means", tuple(map(tuple, rows)))
        if isinstance(self.variances, tuple | list):
            object.__setattr__(self, "variances", self._one_for_each("variances", "a variance", self.variances))
        else:
            variance = finite_number("a variance of a mixture prior", self.variances, above=0)
            object.__setattr__(self, "variances", variance)
        if self.weights is not None:
            object.__setattr__(self, "weights", self._one_for_each("weights", "a weight", self.weights))
            if not math.isclose(sum(self.weights), 1, abs_tol=1e-6):
                raise ConfigurationError(
                    f"the weights of a mixture prior must sum to 1, got {self.weights}, which sum to "
                    f"{sum(self.weights):g}."
                )

    def _one_for_each(self, option: str, one: str, values: object) -> tuple[float, ...]:
        given = listed(f"the {option} of a mixture prior", values)
        numbers = tuple(finite_number(f"{one} of a mixture prior", value, above=0) for value in given)
        if len(numbers) != len(self.means):
            raise ConfigurationError(
                f"the {option} of a mixture prior must be one for each of its {len(self.means)} means, "
                f"got {len(numbers)}."
            )
        return numbers

    def module(self, latents: int, condition_width: int = 0) -> MixturePrior:
        return MixturePrior(self, latents)


class MixturePrior(nn.Module):
    """Has no parameters; holds the components, with N(0, 1) for latents that have no mean."""

    means: Tensor
    log_variances: Tensor
    log_weights: Tensor

    def __init__(self, prior: Mixture, latents: int) -> None:
        super().__init__()
        components, placed = len(prior.means), min(latents, len(prior.means[0]))
        means, log_variances = torch.zeros(components, latents), torch.zeros(components, latents)
        means[:, :placed] = torch.tensor(prior.means)[:, :placed]
        variances = torch.tensor(prior.variances).expand(components)
        log_variances[:, :placed] = variances.log()[:, None]
        weights = torch.full((components,), 1 / components) if prior.weights is None else torch.tensor(prior.weights)
        self.register_buffer("means", means, persistent=False)
        self.register_buffer("log_variances", log_variances, persistent=False)
        self.register_buffer("log_weights", weights.log(), persistent=False)

    def forward(
        self, mask: Float[Tensor, "latents"], condition: Tensor | None = None
    ) -> GaussianMixture | DiagonalGaussian:
        used = full_precision(mask)
        means, log_variances = full_precision(self.means) * used, full_precision(self.log_variances) * used
        if len(means) == 1:
            return DiagonalGaussian(means[0], log_variances[0])
        return GaussianMixture(means, log_variances, torch.log_softmax(full_precision(self.log_weights), 0))
