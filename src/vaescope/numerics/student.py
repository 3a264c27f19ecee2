"""Products of Student-t distributions: density, and samples as functions of normal noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.numerics import gaussian

MAX_NOISE = 8.0  # standard deviations; larger noise has a probability below 1e-14
TABLE_NODES = 1025


def log_normaliser(degrees: float) -> float:
    """Log of the normaliser of the Student-t density; stable for large degrees of freedom, too."""
    from scipy.special import betaln

    return -float(betaln(degrees / 2, 0.5)) - 0.5 * math.log(degrees)


def quantile_table(degrees: float) -> Float[Tensor, "two nodes"]:
    """Table of the map from a normal number to the Student-t quantile of the same probability.

    Rows: asinh of the quantile, and its slope, at `TABLE_NODES` equal steps from 0 to `MAX_NOISE`; the map is odd.
    asinh makes heavy tails, which grow exponentially, smooth enough for a cubic.
    """
    from scipy.special import betaincinv, erf, erfc

    normal = np.linspace(0, MAX_NOISE, TABLE_NODES)
    # t^2 / (degrees + t^2) has a beta distribution; each tail is inverted from the side on which it is exact.
    inner = betaincinv(0.5, degrees / 2, erf(normal / math.sqrt(2)))
    outer = betaincinv(degrees / 2, 0.5, erfc(normal / math.sqrt(2)))
    near = normal < 1
    inner, outer = np.where(near, inner, 1 - outer), np.where(near, 1 - inner, outer)
    quantile = np.sqrt(degrees * inner / outer)
    log_slope = -0.5 * (normal**2 + gaussian.LOG_TWO_PI) - log_normaliser(degrees)
    log_slope += 0.5 * (degrees + 1) * np.log1p(quantile**2 / degrees) - 0.5 * np.log1p(quantile**2)
    return torch.tensor(np.stack([np.arcsinh(quantile), np.exp(log_slope)]), dtype=torch.get_default_dtype())


@dataclass(frozen=True)
class StudentProduct:
    """Independent Student-t latents, centred and of unit scale; N(0, 1) where the mask is 0."""

    mask: Float[Tensor, "latents"]
    degrees: float
    log_constant: float
    table: Float[Tensor, "two nodes"]

    @property
    def mean(self) -> Float[Tensor, "latents"]:
        """The centre, 0."""
        return torch.zeros_like(self.mask)

    @property
    def variance(self) -> Float[Tensor, "latents"]:
        """degrees / (degrees - 2); infinite for at most two degrees of freedom."""
        value = self.degrees / (self.degrees - 2) if self.degrees > 2 else math.inf
        return torch.where(self.mask > 0, value, torch.ones_like(self.mask))

    def latent_log_prob(self, z: Float[Tensor, "*batch latents"]) -> Float[Tensor, "*batch latents"]:
        """log p(z_j) of each latent."""
        student = self.log_constant - 0.5 * (self.degrees + 1) * torch.log1p(z.square() / self.degrees)
        zero = torch.zeros_like(z)
        return torch.where(self.mask > 0, student, gaussian.log_density(z, zero, zero))

    def log_prob(self, z: Float[Tensor, "*batch latents"]) -> Float[Tensor, "*batch"]:
        """log p(z)."""
        return self.latent_log_prob(z).sum(-1)

    def sample(self, noise: Float[Tensor, "*batch latents"]) -> Float[Tensor, "*batch latents"]:
        """One code per row of standard normal noise; each latent is the quantile of its column."""
        return torch.where(self.mask > 0, _quantile(noise, self.table.to(noise.dtype)), noise)


def _quantile(noise: Tensor, table: Tensor) -> Tensor:
    """Cubic Hermite interpolation between the nodes of the table."""
    step = MAX_NOISE / (TABLE_NODES - 1)
    place = noise.abs().clamp(max=MAX_NOISE) / step
    left = place.floor().clamp(max=TABLE_NODES - 2)
    part, index = place - left, left.long()
    value, next_value = table[0][index], table[0][index + 1]
    slope, next_slope = table[1][index] * step, table[1][index + 1] * step
    rise = next_value - value
    bend = part * (3 * rise - 2 * slope - next_slope + part * (slope + next_slope - 2 * rise))
    return noise.sign() * torch.sinh(value + part * (slope + bend))
