"""Priors p(z) that are the same for all items: N(0, 1), other variances, heavy tails, sparse, clustered."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.checks import finite_number
from vaescope.data.dataset import Dataset, check_complete
from vaescope.errors import ConfigurationError, DataError, LatentError, quoted
from vaescope.numerics.distributions import (
    DiagonalGaussian,
    GaussianMixture,
    ScaleMixture,
    StudentProduct,
    full_precision,
    log_normaliser,
    quantile_table,
)
from vaescope.numerics.moments import RunningMoments
from vaescope.priors.prior import PRIORS, Prior, listed

KINDS = ("isotropic", "fixed", "learned")
CHUNK_ITEMS = 1024
CROSS = ((0.0, 1.0), (0.0, -1.0), (1.0, 0.0), (-1.0, 0.0))
MIN_DEGREES = 0.5  # with fewer, samples overflow single precision


@PRIORS.register("standard", summary="N(0, I)", source="Bonheme, eq. 2.19")
@dataclass(frozen=True)
class Standard(Prior):
    """Zero mean, unit variance."""

    def module(self, latents: int, condition_width: int = 0) -> StandardPrior:
        return StandardPrior()


class StandardPrior(nn.Module):
    """Has no parameters."""

    def forward(self, mask: Float[Tensor, "latents"], condition: Tensor | None = None) -> DiagonalGaussian:
        zero = torch.zeros_like(mask)
        return DiagonalGaussian(zero, zero)


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
                f"the kind of an anisotropic prior must be one of {', '.join(KINDS)}, got {quoted(self.kind)}."
            )
        if self.log_variance is not None:
            given = listed("the log_variance of an anisotropic prior", self.log_variance)
            numbers = tuple(finite_number("a log_variance of an anisotropic prior", value) for value in given)
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


@PRIORS.register("student_t", summary="a product of Student-t", source="Mathieu et al., section 6.1")
@dataclass(frozen=True)
class StudentT(Prior):
    """Unit scale and the same degrees of freedom in each latent; for many degrees it is close to N(0, 1)."""

    degrees: float = 5.0

    def __post_init__(self) -> None:
        name = "the degrees of freedom of a Student-t prior"
        object.__setattr__(self, "degrees", finite_number(name, self.degrees, at_least=MIN_DEGREES))

    def module(self, latents: int, condition_width: int = 0) -> StudentPrior:
        return StudentPrior(self.degrees)


class StudentPrior(nn.Module):
    """Has no parameters; holds the table that turns normal noise into Student-t noise."""

    table: Tensor

    def __init__(self, degrees: float) -> None:
        super().__init__()
        self.degrees, self.log_constant = degrees, log_normaliser(degrees)
        self.register_buffer("table", quantile_table(degrees), persistent=False)

    def forward(self, mask: Float[Tensor, "latents"], condition: Tensor | None = None) -> StudentProduct:
        return StudentProduct(full_precision(mask), self.degrees, self.log_constant, full_precision(self.table))


@PRIORS.register("sparse", summary="each latent near 0 (off) or N(0, 1) (on)", source="Mathieu et al., section 6.3")
@dataclass(frozen=True)
class Sparse(Prior):
    """Each latent is near 0 (off) with probability gamma; gamma = 0 is the standard prior.

    Attributes:
        gamma: Probability that a latent is off.
        variance: Variance of a latent that is off. The paper has .05; its code uses .05 as the standard deviation,
            which is a variance of 0.0025.
    """

    gamma: float = 0.8
    variance: float = 0.05

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", finite_number("gamma of a sparse prior", self.gamma, at_least=0))
        object.__setattr__(self, "variance", finite_number("the variance of a sparse prior", self.variance, above=0))
        if self.gamma > 1:
            raise ConfigurationError(f"gamma of a sparse prior must be between 0 and 1, got {self.gamma}.")

    def module(self, latents: int, condition_width: int = 0) -> SparsePrior:
        return SparsePrior(self)


class SparsePrior(nn.Module):
    """Has no parameters."""

    log_weights: Tensor

    def __init__(self, prior: Sparse) -> None:
        super().__init__()
        self.gamma, self.log_variance = prior.gamma, math.log(prior.variance)
        self.register_buffer("log_weights", torch.tensor([prior.gamma, 1 - prior.gamma]).log(), persistent=False)

    def forward(
        self, mask: Float[Tensor, "latents"], condition: Tensor | None = None
    ) -> ScaleMixture | DiagonalGaussian:
        off, on = self.log_variance * full_precision(mask), torch.zeros_like(full_precision(mask))
        if self.gamma in (0, 1):
            return DiagonalGaussian(on, off if self.gamma else on)
        # Normalised in this precision, because a rounding error would count for every latent.
        return ScaleMixture(torch.stack([off, on]), torch.log_softmax(full_precision(self.log_weights), 0))


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
                f"{name} must be one row for each component, all of the same length of at least 1, got "
                f"{quoted(self.means)}."
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
    """Has no parameters; holds the components, with N(0, 1) for latents without a mean."""

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


def principal_log_variances(data: Dataset, latents: int) -> tuple[float, ...]:
    """The logs of the leading principal variances of the data, largest first: a `log_variance` for `Anisotropic`.

    Mathieu uses the squared singular values of the centred data; they are the same up to a common factor, which has
    no effect on the prior.
    """
    check_complete(data, "principal_log_variances")
    moments = RunningMoments.over(chunk.flatten(1) for chunk in data.chunks(CHUNK_ITEMS))
    values = torch.linalg.eigvalsh(moments.covariance(correction=0)).flip(0)
    directions = int((values > torch.finfo(values.dtype).eps * len(values) * values[0]).sum())
    if latents > directions:
        raise DataError(
            f"{data.name}: an anisotropic prior over {latents} latents needs data that vary in at least {latents} "
            f"directions, got {directions}. Choose fewer latents."
        )
    return tuple(values[:latents].log().tolist())
