"""Matrix-based Rényi entropy of items under an RBF kernel, in bits (Bonheme, appendix D.2, eq. D.2-D.5).

Everything is computed in float64 on the device of the items, because differences of 0.01 between entropies of 10
matter; the products of 1000 images take well under a second even on GPUs with slow float64.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import finite_number


def gram(rows: Float[Tensor, "items columns"]) -> Float[Tensor, "items items"]:
    """A, the normalised Gram matrix of the RBF kernel with the bandwidth of Silverman's rule (eq. D.5)."""
    return normalised(rbf(rows, silverman(rows)))


def silverman(rows: Float[Tensor, "items columns"]) -> float:
    """s = sd h^(-1/(4+m)) for h items of m numbers.

    As in the thesis' code, sd is the standard deviation of all h m entries about their common mean, with divisor h m.
    It is 0 only if all entries are equal.
    """
    items, columns = rows.shape
    # Relative to the first entry, so that equal entries deviate by exactly 0 and a large offset costs no digits.
    shifted, unit = _in_units(rows.to(torch.float64) - rows[0, 0].to(torch.float64))
    shrinkage: float = items ** (-1 / (4 + columns))
    return float(shifted.std(correction=0)) * unit * shrinkage


def rbf(rows: Float[Tensor, "items columns"], bandwidth: float) -> Float[Tensor, "items items"]:
    """K_ij = exp(-|x_i - x_j|^2 / (2 s^2)) (eq. D.5); with s = 0, its limit: 1 for equal items, 0 for others."""
    # Relative to the first item, so that equal items are exactly 0, then to the mean, where products lose least.
    shifted, unit = _in_units(rows.to(torch.float64) - rows[0].to(torch.float64))
    centred = shifted - shifted.mean(0)
    squares = centred.square().sum(1)
    distances = torch.addmm(squares[:, None] + squares, centred, centred.T, alpha=-2).clamp_(min=0)
    distances.fill_diagonal_(0)
    scale = bandwidth / unit
    return (distances == 0).to(torch.float64) if scale == 0 else (distances / scale / scale).mul_(-0.5).exp_()


def normalised(kernel: Float[Tensor, "items items"]) -> Float[Tensor, "items items"]:
    """A_ij = K_ij / (h sqrt(K_ii K_jj)), of trace 1."""
    kernel = kernel.to(torch.float64)
    roots = kernel.diagonal().sqrt()
    return kernel / roots / roots[:, None] / len(kernel)


def entropy(matrix: Float[Tensor, "items items"], alpha: float = 2.0) -> float:
    """S_alpha(A) = log2(sum_i lambda_i^alpha) / (1 - alpha), lambda the eigenvalues of A (eq. D.2).

    It lies between 0, for equal items, and log2 h, for distant items. At alpha = 1 it is the limit,
    -sum_i lambda_i log2 lambda_i. At alpha = 2 the sum is the squared Frobenius norm; no eigenvalue is computed.
    """
    alpha = finite_number("alpha", alpha, above=0)
    matrix = matrix.to(torch.float64)
    if alpha == 2:
        bits = -math.log2(float(matrix.square().sum()))
    else:
        values = torch.linalg.eigvalsh(matrix)
        # Eigenvalues due to rounding would matter at a small alpha.
        values = values[values > len(values) * torch.finfo(torch.float64).eps]
        if alpha == 1:
            bits = float(torch.special.entr(values).sum()) / math.log(2)
        else:
            bits = float(torch.logsumexp(alpha * values.log(), 0)) / math.log(2) / (1 - alpha)
    return min(max(bits, 0.0), math.log2(len(matrix)))


def joint_entropy(one: Float[Tensor, "items items"], two: Float[Tensor, "items items"], alpha: float = 2.0) -> float:
    """S_alpha of the entrywise product of A and B, divided by its trace (eq. D.3)."""
    product = one.to(torch.float64) * two.to(torch.float64)
    return entropy(product / product.trace(), alpha)


def mutual_information(
    one: Float[Tensor, "items items"], two: Float[Tensor, "items items"], alpha: float = 2.0
) -> float:
    """I_alpha(A, B) = S_alpha(A) + S_alpha(B) - S_alpha(A, B) (eq. D.4).

    It is at most the smaller of the two entropies, and can be negative if items are close in one matrix and distant in
    the other.
    """
    return entropy(one, alpha) + entropy(two, alpha) - joint_entropy(one, two, alpha)


def _in_units(rows: Float[Tensor, "items columns"]) -> tuple[Float[Tensor, "items columns"], float]:
    """The rows divided by their largest entry, so that squares neither overflow nor underflow, and that entry."""
    unit = float(rows.abs().max()) or 1.0
    return rows / unit, unit
