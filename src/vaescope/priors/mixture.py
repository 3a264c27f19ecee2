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
from vaescope.priors.prior import Prior
from vaescope.priors.registry import PRIORS

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
        rows = [_numbers("a mean", row) for row in _sequence("means", self.means)]
        if not rows or len({len(row) for row in rows}) != 1 or not rows[0]:
            raise ConfigurationError(
                "the means of a mixture prior must be one row for each component, all of the same length of at least "
                f"1, got {self.means!r}."
            )
        object.__setattr__(self, "means", tuple(rows))
        for option, name in (("variances", "a variance"), ("weights", "a weight")):
            value = getattr(self, option)
            if isinstance(value, tuple | list):
                object.__setattr__(self, option, self._one_for_each(option, _numbers(name, value, above=0.0)))
            elif option == "variances":
                object.__setattr__(self, option, finite_number(f"{name} of a mixture prior", value, above=0))
            elif value is not None:
                raise ConfigurationError(f"the weights of a mixture prior must be a list or None, got {value!r}.")
        if self.weights is not None and not math.isclose(sum(self.weights), 1, abs_tol=1e-6):
            raise ConfigurationError(
                f"the weights of a mixture prior must sum to 1, got {self.weights}, which sum to {sum(self.weights):g}."
            )

    def _one_for_each(self, option: str, values: tuple[float, ...]) -> tuple[float, ...]:
        if len(values) != len(self.means):
            raise ConfigurationError(
                f"the {option} of a mixture prior must be one for each of its {len(self.means)} means, "
                f"got {len(values)}."
            )
        return values

    def module(self, latents: int, condition_width: int = 0) -> MixturePrior:
        """The prior over `latents` latents."""
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


def _sequence(name: str, values: object) -> tuple[object, ...]:
    if not isinstance(values, tuple | list):
        raise ConfigurationError(f"the {name} of a mixture prior must be a list, got {values!r}.")
    return tuple(values)


def _numbers(name: str, values: object, above: float = -math.inf) -> tuple[float, ...]:
    given = _sequence(name.partition(" ")[2] + "s", values)
    return tuple(finite_number(f"{name} of a mixture prior", value, above=above) for value in given)
