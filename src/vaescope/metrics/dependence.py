"""Dependence between latents, without factors: total correlation, Wasserstein correlation and effective rank."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from vaescope.codes import CodesLike, means_of
from vaescope.codes.arrays import as_table
from vaescope.numerics import information, linalg


def total_correlation(codes: CodesLike) -> float:
    """The total correlation, in nats, of a Gaussian with the covariance of the codes (Bonheme, eq. 6.3).

    0 for uncorrelated latents, infinite for linearly dependent ones, as with no more items than latents. Constant
    latents add nothing.

    Args:
        codes: A `Representation`, whose means are taken, or an array, items x latents.
    """
    return information.total_correlation(_covariance(codes))


def gaussian_wasserstein_correlation(codes: CodesLike, *, normalise: bool = False) -> float:
    """The squared 2-Wasserstein distance of N(0, C) from N(0, diag C), C the covariance of the codes.

    0 for uncorrelated latents, and finite for linearly dependent ones (Locatello et al., 2019; Watters et al., 2019).

    Args:
        codes: A `Representation`, whose means are taken, or an array, items x latents.
        normalise: Divide by the trace of C, so that the scale of the codes does not matter.
    """
    return information.wasserstein_correlation(_covariance(codes), normalise=normalise)


def effective_rank(codes: CodesLike) -> float:
    """exp H(p), p the singular values of the centred codes divided by their sum (Roy and Vetterli, 2007).

    It lies between 1 and the number of latents; it is 0 for constant codes.

    Args:
        codes: A `Representation`, whose means are taken, or an array, items x latents.
    """
    return linalg.effective_rank(_table(codes))


def _table(codes: CodesLike) -> Float[Tensor, "items latents"]:
    return as_table(means_of(codes), "codes", min_items=2)


def _covariance(codes: CodesLike) -> Float[Tensor, "latents latents"]:
    return linalg.covariance(_table(codes))
