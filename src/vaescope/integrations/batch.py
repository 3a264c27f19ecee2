"""Statistics of a batch of posteriors, given as training code computes them: means and log-variances."""

from __future__ import annotations

import torch
from torch import Tensor

from vaescope.codes.arrays import as_tensor
from vaescope.codes.chunks import Codes
from vaescope.errors import DataError
from vaescope.regime.statistics import LatentStatistics


def batch_statistics(mean: object, log_variance: object, alpha: float, epsilon: float) -> LatentStatistics:
    """Statistics of the latents over one batch.

    Args:
        mean, log_variance: Tensors of items x latents, of any float type, on any device, with or without gradients.
            `log_variance` is the logarithm of the variance; `vs.diagnose` takes the variance itself.
        alpha, epsilon: Thresholds of `variable_types`.
    """
    for name, values in (("mean", mean), ("log_variance", log_variance)):
        if not isinstance(values, Tensor):
            raise DataError(f"{name} must be a torch tensor, items x latents, got {type(values).__name__}.")
    # One copy to the CPU, because otherwise every check of the values would wait for the accelerator.
    means, log_variances = (
        as_tensor(values, name).cpu() for name, values in (("mean", mean), ("log_variance", log_variance))
    )
    log_variances = log_variances.double()
    variances = log_variances.exp()
    codes = Codes.of((means, variances))
    wrong = ~(torch.isfinite(log_variances) & torch.isfinite(variances))
    if bool(wrong.any()):
        item, latent = wrong.nonzero()[0].tolist()
        raise DataError(
            f"log_variance must be finite and below 709, but item {item}, latent {latent} is "
            f"{float(log_variances[item, latent]):g}. Pass the logarithm of the posterior variance."
        )
    return LatentStatistics.of(codes.mean, codes.variance, alpha=alpha, epsilon=epsilon)
