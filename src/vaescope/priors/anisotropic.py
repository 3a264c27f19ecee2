"""p(z) = N(0, diag(variance)) with variances of a fixed mean: the non-isotropic priors of Mathieu, section 6.1."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.checks import finite_number
from vaescope.data.dataset import Dataset
from vaescope.errors import ConfigurationError, DataError, LatentError
from vaescope.numerics.distributions import DiagonalGaussian, full_precision
from vaescope.numerics.moments import Moments
from vaescope.priors.prior import Prior
from vaescope.priors.registry import PRIORS

KINDS = ("isotropic", "fixed", "learned")
CHUNK_ITEMS = 1024


@PRIORS.register("anisotropic", summary="diagonal; variances fixed or learned", source="Mathieu et al., section 6.1")
@dataclass(frozen=True)
class Anisotropic(Prior):
    """variance_j = scale * latents * softmax(log_variance)_j, so that the variances average to `scale`.

    Attributes:
        kind: "isotropic": all variances are `scale`. "fixed": the variances of `log_variance`. "learned": trained,
            starting at `log_variance`, or at the isotropic prior if that is None.
        log_variance: At least one number for each latent; a model takes the first ones. A common shift has no effect.
            `principal_log_variances` computes those of the data.
        scale: The mean variance.
    """

    kind: str = "learned"
    log_variance: tuple[float, ...] | None = None
    scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", finite_number("the scale of an anisotropic prior", self.scale, above=0))
        if self.kind not in KINDS:
            raise ConfigurationError(
                f"the kind of an anisotropic prior must be one of {', '.join(KINDS)}, got {self.kind!r}."
            )
        if self.log_variance is not None:
            name = "a log_variance of an anisotropic prior"
            numbers = tuple(finite_number(name, value) for value in _sequence(self.log_variance))
            object.__setattr__(self, "log_variance", numbers)
        if self.kind == "isotropic" and self.log_variance is not None:
            raise ConfigurationError(
                f"an anisotropic prior of kind 'isotropic' must have no log_variance, got {self.log_variance}. "
                "Remove it, or choose the kind 'fixed'."
            )
        if self.kind == "fixed" and self.log_variance is None:
            raise ConfigurationError(
                "an anisotropic prior of kind 'fixed' must have a log_variance for each latent, got none. "
                "Pass principal_log_variances(data, latents), or choose the kind 'learned'."
            )

    def module(self, latents: int, condition_width: int = 0) -> AnisotropicPrior:
        """The prior over `latents` latents."""
        if self.log_variance is None:
            return AnisotropicPrior(torch.zeros(latents), self.scale, self.kind == "learned")
        if len(self.log_variance) < latents:
            raise LatentError(
                f"an anisotropic prior must have a log_variance for each of the {latents} latents, "
                f"got {len(self.log_variance)}. Pass more of them, or choose fewer latents."
            )
        return AnisotropicPrior(torch.tensor(self.log_variance[:latents]), self.scale, self.kind == "learned")


class AnisotropicPrior(nn.Module):
    """Holds the log-variances, as a parameter if they are learned; shares are over the latents in use only."""

    log_variance: Tensor

    def __init__(self, log_variance: Float[Tensor, "latents"], scale: float, learned: bool) -> None:
        super().__init__()
        self.log_scale = math.log(scale)
        if learned:
            self.log_variance = nn.Parameter(log_variance)
        else:
            self.register_buffer("log_variance", log_variance, persistent=False)

    def forward(self, mask: Float[Tensor, "latents"], condition: Tensor | None = None) -> DiagonalGaussian:
        used = mask > 0
        values = full_precision(self.log_variance)
        log_share = torch.log_softmax(values.masked_fill(~used, -math.inf), -1)
        log_mean = used.sum().to(values.dtype).log() + self.log_scale
        return DiagonalGaussian(torch.zeros_like(values), torch.where(used, log_share + log_mean, 0.0))


def principal_log_variances(data: Dataset, latents: int) -> tuple[float, ...]:
    """The logs of the leading principal variances of the data, largest first: a `log_variance` for `Anisotropic`.

    Mathieu uses the squared singular values of the centred data; they are the same up to a common factor, which has
    no effect on the prior.
    """
    moments = Moments.over(chunk.flatten(1) for chunk in data.chunks(CHUNK_ITEMS))
    values = torch.linalg.eigvalsh(moments.covariance(correction=0)).flip(0)
    directions = int((values > torch.finfo(values.dtype).eps * len(values) * values[0]).sum())
    if latents > directions:
        raise DataError(
            f"{data.name}: an anisotropic prior over {latents} latents needs data that vary in at least {latents} "
            f"directions, got {directions}. Choose fewer latents."
        )
    return tuple(values[:latents].log().tolist())


def _sequence(values: object) -> tuple[object, ...]:
    if not isinstance(values, tuple | list):
        raise ConfigurationError(f"the log_variance of an anisotropic prior must be a list of numbers, got {values!r}.")
    return tuple(values)
