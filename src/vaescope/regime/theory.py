"""The polarised regime of the linear VAE, in closed form (Bonheme, sections 4.2 and 4.3.2)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import finite_number
from vaescope.codes.arrays import ArrayLike, as_tensor
from vaescope.errors import DataError
from vaescope.notebook import NotebookResult
from vaescope.numerics.linear import optimal_spectrum, spectral_gain, spectral_variance
from vaescope.numerics.polarised import variable_type_codes
from vaescope.numerics.variable_type_names import VARIABLE_TYPES
from vaescope.tables import Row, rows_from_columns


@dataclass(frozen=True)
class LinearRegime(NotebookResult):
    """The posterior of each latent of a linear VAE whose decoder has orthogonal columns.

    Attributes:
        spectrum: The squared norms of the columns of W.
        variance: The posterior variance (Bonheme, eq. 4.15 and 4.23).
        gain: The factor from a principal coordinate of x - b to the posterior mean (eq. 4.16 and 4.24).
        gamma: The variance of the likelihood.
        beta: The weight of the rate.
    """

    spectrum: Float[Tensor, "latents"]
    variance: Float[Tensor, "latents"]
    gain: Float[Tensor, "latents"]
    gamma: float
    beta: float

    @property
    def types(self) -> tuple[str, ...]:
        """Active, mixed or passive by the rule for trained models; here the variance is the same for every x."""
        codes = variable_type_codes(self.variance, torch.zeros_like(self.variance))
        return tuple(VARIABLE_TYPES[code] for code in codes.tolist())

    def rows(self) -> list[Row]:
        """One row for each latent."""
        columns = {name: getattr(self, name).tolist() for name in ("spectrum", "variance", "gain")}
        return rows_from_columns(columns | {"type": self.types})

    def summary(self) -> str:
        """The number of latents of each type."""
        counts = ", ".join(f"{self.types.count(name)} {name}" for name in VARIABLE_TYPES)
        return f"linear VAE with gamma {self.gamma:g} and beta {self.beta:g}: {counts}"


def linear_regime(spectrum: ArrayLike, gamma: float, beta: float = 1.0) -> LinearRegime:
    """The regime of a decoder with orthogonal columns of these squared norms (Bonheme, eq. 4.15, 4.16, 4.23, 4.24)."""
    gamma, beta = finite_number("gamma", gamma, above=0), finite_number("beta", beta, above=0)
    squares = _not_negative("spectrum", spectrum)
    variance = spectral_variance(squares, gamma, beta)
    return LinearRegime(squares, variance, spectral_gain(squares, gamma, beta), gamma, beta)


def optimal_regime(eigenvalues: ArrayLike, gamma: float, beta: float = 1.0) -> LinearRegime:
    """The regime of the best decoder for data whose covariance has these eigenvalues, one for each latent.

    Latents whose eigenvalue does not exceed beta * gamma have variance 1 and gain 0, exactly.
    """
    gamma, beta = finite_number("gamma", gamma, above=0), finite_number("beta", beta, above=0)
    values = _not_negative("eigenvalues", eigenvalues)
    return linear_regime(optimal_spectrum(values, gamma, beta), gamma, beta)


def critical_betas(eigenvalues: ArrayLike, gamma: float) -> Float[Tensor, "latents"]:
    """The smallest beta at which each latent is passive; at the largest of these betas all latents are passive."""
    return _not_negative("eigenvalues", eigenvalues) / finite_number("gamma", gamma, above=0)


def _not_negative(name: str, values: ArrayLike) -> Float[Tensor, "latents"]:
    """One number per latent, in float64."""
    row = as_tensor(values, name).to(torch.float64)
    if row.ndim != 1:
        raise DataError(f"{name} must hold one number per latent, got the shape {tuple(row.shape)}.")
    wrong = ~(row.isfinite() & (row >= 0))
    if bool(wrong.any()):
        first = int(wrong.int().argmax())
        raise DataError(
            f"{name} must be finite and at least 0, got {float(row[first]):g} for latent {first}. "
            "Pass squared singular values, or eigenvalues of a covariance."
        )
    return row
