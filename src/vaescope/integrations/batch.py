"""Statistics of one batch of posteriors as training code has them: means and log-variances of any float type."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from vaescope.codes.arrays import as_tensor
from vaescope.codes.chunks import Codes
from vaescope.errors import DataError
from vaescope.regime.statistics import LatentStatistics


def batch_statistics(mean: Any, log_variance: Any, alpha: float, epsilon: float) -> LatentStatistics:
    """The statistics of tensors of items x latents, from any device, with or without gradients."""
    for name, values in (("mean", mean), ("log_variance", log_variance)):
        if not isinstance(values, Tensor):
            raise DataError(f"{name} must be a torch tensor, items x latents, got {type(values).__name__}.")
    # In one copy to the CPU: each check of the values would otherwise wait for the accelerator by itself.
    means, logarithms = (
        as_tensor(values, name).cpu() for name, values in (("mean", mean), ("log_variance", log_variance))
    )
    logarithms = logarithms.double()
    variances = logarithms.exp()
    codes = Codes.of((means, variances))
    wrong = ~(torch.isfinite(logarithms) & torch.isfinite(variances))
    if bool(wrong.any()):
        item, latent = wrong.nonzero()[0].tolist()
        raise DataError(
            f"log_variance must be finite and below 709, but item {item}, latent {latent} holds "
            f"{float(logarithms[item, latent]):g}; pass the logarithm of the posterior variance."
        )
    return LatentStatistics.of(codes.mean, codes.variance, alpha=alpha, epsilon=epsilon)
