"""Rules for active, mixed and passive latents (Bonheme, chapters 4 to 6), and for the start of posterior collapse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vaescope.numerics.variable_type_names import ACTIVE, MIXED, PASSIVE, VARIABLE_TYPES

PerLatent: TypeAlias = Float[Tensor, "*many latents"]
Types: TypeAlias = Int[Tensor, "*many latents"]
Flags: TypeAlias = Bool[Tensor, "*many latents"]

ALPHA = 0.1
# Standard deviation of the mean representation above which Rolinek et al. (section 5.2) call a latent active.
ROLINEK_ACTIVE_SD = 0.5
COLLAPSED_SHARE = 0.5  # of the latents that were active
LATE_SHARE = 0.5  # of training, after which a model without active latents has collapsed
MIN_STEPS = 500  # all latents start at the prior; no collapse is reported before this step


def variable_type_codes(mean: PerLatent, variance: PerLatent, alpha: float = ALPHA) -> Types:
    """Positions in `VARIABLE_TYPES`, from the mean and the variance of each latent's variance representation.

    Active: the posterior variance stays near 0; passive: it stays near 1; mixed: neither, or it changes.
    """
    steady = variance < alpha
    active = steady & (mean <= alpha)
    passive = steady & ((mean - 1).abs() <= alpha)
    return _codes(active, passive)


def prior_relative_type_codes(
    variance: tuple[PerLatent, PerLatent],
    unit: PerLatent,
    ratio: tuple[PerLatent, PerLatent],
    distance: PerLatent,
    alpha: float = ALPHA,
) -> Types:
    """Positions in `VARIABLE_TYPES` under a Gaussian prior other than N(0, 1) (Bonheme, propositions 5.2.1 and 5.2.2).

    Active: the variance stays near 0 in units of the prior's mean variance, because the scale of a latent is free if
    its prior is learned. The mean over examples is used because the prior's variance, about the squared mean, is small
    wherever an active latent is near 0. Passive: the variance of each example stays near its prior's variance and the
    mean near the prior's mean.

    Args:
        variance: Mean and variance over the examples of the posterior variance.
        unit: Mean of the prior's variance.
        ratio: Mean and variance over the examples of the posterior variance divided by the prior's.
        distance: Mean squared distance to the prior's mean, in units of the prior's variance.
        alpha: Tolerance.
    """
    active = variable_type_codes(variance[0] / unit, variance[1] / unit.square(), alpha) == VARIABLE_TYPES.index(ACTIVE)
    passive = (variable_type_codes(*ratio, alpha) == VARIABLE_TYPES.index(PASSIVE)) & (distance <= alpha)
    return _codes(active, passive)


def example_types(mean: PerLatent, variance: PerLatent, alpha: float = ALPHA) -> tuple[Flags, Flags]:
    """Whether each latent is passive for an example, and whether it is active (Bonheme, definition 4.1.1).

    Passive: the mean is within `alpha` of 0 and the variance within `alpha` of 1. Active: the variance is at most
    `alpha`. A latent may be neither, which the definition leaves out.
    """
    return (mean.abs() <= alpha) & ((variance - 1).abs() <= alpha), variance <= alpha


def intersection_type_codes(
    passive: Int[Tensor, "latents"], active: Int[Tensor, "latents"], count: int
) -> Int[Tensor, "latents"]:
    """Positions in `VARIABLE_TYPES` by intersection over `count` examples (Bonheme, definition 6.3.1).

    Passive, or active, if the latent is so for every example; mixed otherwise. In the definition a mixed latent is
    passive for some examples and active for others; here that includes a latent that is neither for some example.

    Args:
        passive, active: The number of examples for which each latent is passive and active, as in `example_types`.
    """
    return _codes(active == count, passive == count)


def _codes(active: Flags, passive: Flags) -> Types:
    mixed = torch.full_like(active, VARIABLE_TYPES.index(MIXED), dtype=torch.int64)
    return mixed.masked_fill(active, VARIABLE_TYPES.index(ACTIVE)).masked_fill(passive, VARIABLE_TYPES.index(PASSIVE))


def regime_rate(rate: PerLatent, mean_variance: PerLatent, spread: PerLatent) -> Float[Tensor, "*many"]:
    """The rate in the polarised regime (Rolinek, eq. 10): half of mean^2 - log variance - 1 over the active latents.

    That is the divergence of each active latent minus half its mean variance; `spread` is the standard deviation of
    the mean representation.
    """
    return torch.where(spread > ROLINEK_ACTIVE_SD, rate - 0.5 * mean_variance, 0.0).sum(-1)


def relative_error(rate: float, approximation: float) -> float:
    """Delta_KL (Rolinek, eq. 30); 0 if both are 0."""
    return abs(rate - approximation) / rate if rate > 0 else 0.0


@dataclass(frozen=True)
class CollapseWatch:
    """Detects the start of posterior collapse from the counts of types during training.

    Superfluous latents become passive in the polarised regime. Collapse means that half of the latents that were active
    become passive, or that no latent is active in the second half of training.

    Attributes:
        most_active: The largest number of active latents so far.
        begun: Whether collapse has begun; it is reported once.
    """

    most_active: int = 0
    begun: bool = False

    def after(self, counts: Mapping[str, int], step: int, steps: int | float) -> tuple[CollapseWatch, str | None]:
        """The watch after the counts at `step` of `steps`, and what happened if collapse begins there."""
        used, most = counts[ACTIVE] + counts[MIXED], max(counts[ACTIVE], self.most_active)
        never = most == used == 0 and step >= max(LATE_SHARE * steps, MIN_STEPS)
        begins = not self.begun and (never or (most > 0 and used <= COLLAPSED_SHARE * most))
        what = "no latent has become active" if never else f"{most - used} of {most} active latents became passive"
        return CollapseWatch(most, self.begun or begins), what if begins else None


def collapse_sentence(what: str, step: int, setting: str = "") -> str:
    """What happened, in which training, why, and what to change."""
    return (
        f"posterior collapse begins at step {step}{f' ({setting})' if setting else ''}: {what}, because the rate "
        "outweighs the reconstruction. Lower the weight of the rate, raise it slowly (warm-up), allow some free "
        "bits, or use fewer latents."
    )
