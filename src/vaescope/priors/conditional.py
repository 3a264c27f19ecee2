"""p(z|u) = N(mean(u), diag(variance(u))): the prior of the identifiable VAE (Bonheme, section 5.2, Table A.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.data.conditions import checked_condition
from vaescope.errors import ConfigurationError, quoted
from vaescope.nets.mlp import hidden_layers
from vaescope.nets.net import check_sizes
from vaescope.numerics.distributions import DiagonalGaussian, full_precision
from vaescope.priors.prior import PRIORS, Prior

LEAKY_SLOPE = 0.1


@PRIORS.register(
    "conditional", summary="a Gaussian that depends on the condition", source="Bonheme, section 5.2, Table A.2"
)
@dataclass(frozen=True)
class ConditionalGaussian(Prior):
    """The log-variance is a net of u; the mean is 0 or another net of u.

    Attributes:
        learned_mean: Whether the mean is a net; default: it is 0.
        widths: Units of the hidden layers of each net, which have leaky ReLUs of slope 0.1.
    """

    conditional: ClassVar[bool] = True

    learned_mean: bool = False
    widths: tuple[int, ...] = (50, 50, 50)

    def __post_init__(self) -> None:
        check_sizes("widths", self.widths)
        if not isinstance(self.learned_mean, bool):
            raise ConfigurationError(f"learned_mean must be True or False, got {quoted(self.learned_mean)}.")

    def module(self, latents: int, condition_width: int = 0) -> ConditionalGaussianPrior:
        return ConditionalGaussianPrior(self, latents, condition_width)


class ConditionalGaussianPrior(nn.Module):
    """Nets from the condition to the log-variance, and to the mean if it is learned."""

    def __init__(self, prior: ConditionalGaussian, latents: int, condition_width: int) -> None:
        super().__init__()
        self.condition_width = condition_width
        widths = (condition_width, *prior.widths, latents)
        activation = partial(nn.LeakyReLU, LEAKY_SLOPE)
        self.mean = hidden_layers(widths, activation)[:-1] if prior.learned_mean else None
        self.log_variance = hidden_layers(widths, activation)[:-1]

    def forward(
        self, mask: Float[Tensor, "latents"], condition: Float[Tensor, "batch width"] | None = None
    ) -> DiagonalGaussian:
        given = checked_condition(condition, self.condition_width).to(mask.dtype)
        log_variance = full_precision(self.log_variance(given)) * mask
        mean = torch.zeros_like(log_variance) if self.mean is None else full_precision(self.mean(given)) * mask
        return DiagonalGaussian(mean, log_variance)
