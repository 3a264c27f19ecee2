"""The rule that tells active, mixed and passive latents apart (Bonheme, section 6.4.1), and when collapse begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.numerics.variable_type_names import ACTIVE, MIXED, PASSIVE, VARIABLE_TYPES

ALPHA = 0.1
# Standard deviation of the mean representation above which Rolinek et al. (section 5.2) call a latent active.
SPREAD = 0.5
HALF = 0.5
PATIENCE = 500  # steps in which latents may all still look like the prior they begin at


def variable_type_codes(
    mean: Float[Tensor, "*many latents"], variance: Float[Tensor, "*many latents"], alpha: float = ALPHA
) -> Int[Tensor, "*many latents"]:
    """Positions in `VARIABLE_TYPES`, from the mean and the variance of each latent's variance representation.

    Active: the posterior variance stays near 0; passive: it stays near 1; mixed: neither, or it changes.
    """
    steady = variance < alpha
    active = steady & (mean <= alpha)
    passive = steady & ((mean - 1).abs() <= alpha)
    mixed = torch.full_like(mean, VARIABLE_TYPES.index(MIXED), dtype=torch.int64)
    return mixed.masked_fill(active, VARIABLE_TYPES.index(ACTIVE)).masked_fill(passive, VARIABLE_TYPES.index(PASSIVE))


def own_prior_type_codes(
    variance: tuple[Float[Tensor, "*many latents"], Float[Tensor, "*many latents"]],
    unit: Float[Tensor, "*many latents"],
    ratio: tuple[Float[Tensor, "*many latents"], Float[Tensor, "*many latents"]],
    distance: Float[Tensor, "*many latents"],
    alpha: float = ALPHA,
) -> Int[Tensor, "*many latents"]:
    """Positions in `VARIABLE_TYPES` under a Gaussian prior other than N(0, 1) (Bonheme, propositions 5.2.1 and 5.2.2).

    Active: the variance stays near 0, in units of the prior's mean variance, since the scale of a latent is free where
    its prior is learned. Over the examples, not for each: where an active latent is near 0, so is the prior's variance,
    which is about the squared mean. Passive: the variance of each example stays near its prior's, and the mean near the
    prior's mean. `variance`, and `ratio`, the variance in units of the prior's own, come as mean and variance over the
    examples, `unit` is the mean of the prior's variance, and `distance` the mean squared distance to the prior's mean,
    in units of the prior's variance.
    """
    active = variable_type_codes(variance[0] / unit, variance[1] / unit.square(), alpha) == VARIABLE_TYPES.index(ACTIVE)
    passive = (variable_type_codes(*ratio, alpha) == VARIABLE_TYPES.index(PASSIVE)) & (distance <= alpha)
    mixed = torch.full_like(unit, VARIABLE_TYPES.index(MIXED), dtype=torch.int64)
    return mixed.masked_fill(active, VARIABLE_TYPES.index(ACTIVE)).masked_fill(passive, VARIABLE_TYPES.index(PASSIVE))


def regime_rate(
    rate: Float[Tensor, "*many latents"],
    mean_variance: Float[Tensor, "*many latents"],
    spread: Float[Tensor, "*many latents"],
) -> Float[Tensor, "*many"]:
    """What the polarised regime leaves of the rate (Rolinek, eq. 10): half of mean^2 - log variance - 1, when active.

    That is the divergence of each active latent less half its mean variance; `spread` is the standard deviation of
    the mean representation.
    """
    return torch.where(spread > SPREAD, rate - 0.5 * mean_variance, 0.0).sum(-1)


def relative_error(rate: float, approximation: float) -> float:
    """Delta_KL (Rolinek, eq. 30); 0 where both are 0."""
    return abs(rate - approximation) / rate if rate > 0 else 0.0


@dataclass(frozen=True)
class CollapseWatch:
    """What must be kept of the looks so far to tell when collapse begins, once.

    That superfluous latents become passive is the polarised regime at work. Collapse is when half of those that were
    active do, or when in the second half of training none has come to life.
    """

    most_active: int = 0
    begun: bool = False

    def after(self, counts: Mapping[str, Any], step: int, steps: int | float) -> tuple[CollapseWatch, str | None]:
        """The watch after one more look, at `step` of `steps`, and what happened if collapse began with it."""
        used, most = counts[ACTIVE] + counts[MIXED], max(counts[ACTIVE], self.most_active)
        never = most == used == 0 and step >= max(HALF * steps, PATIENCE)
        begins = not self.begun and (never or (most > 0 and used <= HALF * most))
        what = "no latent has come to life" if never else f"{most - used} of {most} active latents became passive"
        return CollapseWatch(most, self.begun or begins), what if begins else None


def collapse_sentence(what: str, step: int, setting: str = "") -> str:
    """What happened, in which training, why, and what to change."""
    return (
        f"posterior collapse begins at step {step}{f' ({setting})' if setting else ''}: {what}, because the rate "
        "outweighs the reconstruction. Lower the weight of the rate, raise it slowly (warm-up), leave it some free "
        "bits, or ask for fewer latents."
    )
