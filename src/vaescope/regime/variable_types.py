"""Variable types under the polarised regime: active, mixed, passive (Bonheme, chapter 6)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from torch import Tensor

from vaescope.codes.chunks import Codes, MeanAndVariance, PosteriorsLike
from vaescope.errors import ConfigurationError, DataError, unknown_name
from vaescope.notebook import NotebookResult
from vaescope.numerics.polarised import (
    ALPHA,
    ROLINEK_ACTIVE_SD,
    intersection_type_codes,
    prior_relative_type_codes,
    variable_type_codes,
)
from vaescope.numerics.variable_type_names import ACTIVE, MIXED, PASSIVE, VARIABLE_TYPES
from vaescope.regime.statistics import EPSILON, VARIANCE_BINS, LatentStatistics, checked_tolerance, merged_statistics
from vaescope.tables import Row, rows_from_columns

DELTA = 0.01  # share of examples that may differ from the prior in a passive latent (Clapham, eq. 5)
INTERMEDIATE, MIXTURE = "intermediate", "mixture"
MIN_MODE_SHARE = 0.05  # minimum share of the examples in a mode, so that outliers are not a mode


@runtime_checkable
class HasTypes(Protocol):
    """A result with the type of each latent, such as `VariableTypes`."""

    @property
    def types(self) -> Sequence[str]: ...


TypesLike: TypeAlias = HasTypes | Sequence[str] | np.ndarray


@dataclass(frozen=True)
class VariableTypes(NotebookResult):
    """The type of each latent.

    Attributes:
        rule: The main rule, whose answer is `types`.
        by_rule: The types under each rule.
        mixed_kinds: The behaviour of the variance of each mixed latent (Clapham, figure 9): "intermediate" (type 1,
            between 0 and 1) or "mixture" (type 2, modes at 0 and 1: active for some examples, passive for others); None
            for other latents.
        statistics: The statistics of the codes.
        delta: The threshold of the rule "clapham".
    """

    rule: str
    by_rule: Mapping[str, tuple[str, ...]]
    mixed_kinds: tuple[str | None, ...]
    statistics: LatentStatistics
    delta: float

    @property
    def types(self) -> tuple[str, ...]:
        """The type of each latent."""
        return self.by_rule[self.rule]

    @property
    def active(self) -> tuple[int, ...]:
        """The numbers of the active latents."""
        return self._of_type(ACTIVE)

    @property
    def mixed(self) -> tuple[int, ...]:
        """The numbers of the mixed latents."""
        return self._of_type(MIXED)

    @property
    def passive(self) -> tuple[int, ...]:
        """The numbers of the passive latents."""
        return self._of_type(PASSIVE)

    @property
    def counts(self) -> dict[str, int]:
        """The number of latents of each type."""
        return {kind: self.types.count(kind) for kind in VARIABLE_TYPES}

    @property
    def well_determined(self) -> float:
        """The number of well-determined latents (MacKay, 1992): the sum of `statistics.well_determined`."""
        return float(self.statistics.well_determined.sum())

    def _of_type(self, kind: str) -> tuple[int, ...]:
        return tuple(latent for latent, found in enumerate(self.types) if found == kind)

    def rows(self) -> list[Row]:
        """One row per latent; `kl` is in nats, `kl_share` is None if the total is infinite."""
        statistics = self.statistics
        columns: dict[str, Iterable[object]] = {"latent": range(statistics.latents), "type": self.types}
        columns |= {rule: types for rule, types in self.by_rule.items() if rule != self.rule}
        columns["mixed_kind"] = self.mixed_kinds
        for name, spread in (("mean", statistics.mean), ("variance", statistics.variance)):
            columns |= {f"{name}_mean": spread.mean.tolist(), f"{name}_variance": spread.variance.tolist()}
        columns |= {"kl": statistics.rate.tolist(), "kl_share": _shares(statistics.rate)}
        columns["well_determined"] = statistics.well_determined.tolist()
        columns["passive_share"] = (statistics.passive.double() / statistics.count).tolist()
        return rows_from_columns(columns)

    def summary(self) -> str:
        """The number of latents of each type, in one sentence."""
        active, mixed, passive = self.counts.values()
        verb = "is" if active == 1 else "are"
        return f"{active} of {len(self.types)} latents {verb} active, {mixed} mixed, and {passive} passive"


def variable_types(
    codes: PosteriorsLike | LatentStatistics,
    *,
    prior: MeanAndVariance | None = None,
    rule: str | None = None,
    alpha: float = ALPHA,
    epsilon: float = EPSILON,
    delta: float = DELTA,
    chunk: int | None = None,
) -> VariableTypes:
    """Find which latents are active, mixed and passive, in one pass over the codes.

    All rules that apply are computed; the main one gives `types`. The rules:

    - "thesis", the default (Bonheme, section 6.4.1): from the mean and the variance of the variance representation,
      within `alpha`. If all variances are 0, as in deterministic codes, all latents are active and their divergence is
      infinite.
    - "conditional", the default if the prior is not N(0, 1) (Bonheme, propositions 5.2.1 and 5.2.2): passive latents
      follow the prior, whose variance may be small; the variance of active latents is far below the prior's.
    - "rolinek" (section 5.2): active if the standard deviation of the mean representation, in units of the prior's, is
      above 0.5, else passive.
    - "clapham" (eq. 5): passive if the divergence from the prior is below `epsilon` for a share of at least
      1 - `delta` of the examples, else active.
    - "intersection" (Bonheme, definition 6.3.1): passive if mean and variance are those of the prior, within `alpha`,
      for every example; active if the variance is at most `alpha` times the prior's for every example; else mixed. One
      example that differs makes a latent mixed, so it finds more mixed latents than "thesis", the more the larger the
      set.

    Args:
        codes: A `Representation`, a pair (mean, variance) of arrays or tensors (memory maps are read in chunks), or
            `LatentStatistics`.
        prior: A pair (mean, variance). Default: the prior of the representation, or N(0, 1).
        rule: Name of the main rule. Default: "thesis", or "conditional" if the prior is not N(0, 1).
        alpha: Tolerance around the variances 0 and 1.
        epsilon: Divergence in nats below which an example counts as passive under "clapham".
        delta: Share of the examples that may exceed `epsilon` in a passive latent under "clapham".
        chunk: The number of items to read at a time. Default: a few megabytes.
    """
    if not isinstance(codes, LatentStatistics):
        statistics = merged_statistics([Codes.of(codes, prior)], alpha, epsilon, chunk)
    elif prior is not None:
        raise ConfigurationError("prior must be given to LatentStatistics.of, not together with the statistics.")
    else:
        statistics = codes
    for name, used, value in (("alpha", statistics.alpha, alpha), ("epsilon", statistics.epsilon, epsilon)):
        if used != value:
            raise ConfigurationError(f"{name} must be {used}, as in the statistics, got {value!r}.")
    if statistics.count < 2:
        raise DataError(f"variable types need at least 2 examples, got {statistics.count}. Encode more items.")
    delta = checked_tolerance("delta", delta)
    variance = statistics.variance
    thesis = _named(variable_type_codes(variance.mean, variance.variance, alpha))
    by_rule = {"thesis": thesis}
    if statistics.prior is not None:
        ratio, moved = statistics.prior.variance, statistics.prior.mean
        by_rule["conditional"] = _named(
            prior_relative_type_codes(
                (variance.mean, variance.variance),
                statistics.prior.unit.mean,
                (ratio.mean, ratio.variance),
                moved.variance + moved.mean.square(),
                alpha,
            )
        )
    by_rule["rolinek"] = _active_where(statistics.relative_mean.variance.sqrt() > ROLINEK_ACTIVE_SD)
    by_rule["clapham"] = _active_where(statistics.negligible.double() < (1 - delta) * statistics.count)
    by_rule["intersection"] = _named(intersection_type_codes(statistics.passive, statistics.active, statistics.count))
    rule = checked_rule(rule, by_rule)
    kinds = [_mixed_kind(counts) for counts in statistics.histogram.tolist()]
    mixed_kinds = tuple(kind if found == MIXED else None for kind, found in zip(kinds, by_rule[rule], strict=True))
    return VariableTypes(rule, by_rule, mixed_kinds, statistics, delta)


def checked_rule(rule: str | None, known: Iterable[str]) -> str:
    """The main rule, by default that for the prior of the codes; an unknown name raises an error."""
    names = list(known)
    if rule is None:
        return "conditional" if "conditional" in names else "thesis"
    if rule not in names:
        raise unknown_name("rule of variable types", rule, names)
    return rule


def checked_types(types: TypesLike, latents: int) -> tuple[str, ...]:
    """The type of each latent, from a sequence or from a result such as `VariableTypes`."""
    given: object = types.types if isinstance(types, HasTypes) else types
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        raise DataError(f"types must be a sequence with one type per latent, got {given!r}.")
    names = tuple(str(name) for name in given)
    if len(names) != latents:
        raise DataError(
            f"types must have one entry for each of {latents} latents, got {len(names)}. "
            "Compute the types from the same codes."
        )
    for place, name in enumerate(names):
        if name not in VARIABLE_TYPES:
            raise DataError(f"types must be one of {', '.join(VARIABLE_TYPES)}; got {name!r} for latent {place}.")
    return names


def _mixed_kind(counts: list[int]) -> str:
    """A mixture if the variance is denser in both outer quarters of [0, 1] than between them (Clapham, figure 9)."""
    quarter = VARIANCE_BINS // 4
    total, low, high = sum(counts), sum(counts[:quarter]), sum(counts[-quarter - 1 :])
    middle = (total - low - high) / 2
    return MIXTURE if min(low, high) > max(middle, MIN_MODE_SHARE * total) else INTERMEDIATE


def _named(codes: Tensor) -> tuple[str, ...]:
    return tuple(VARIABLE_TYPES[code] for code in codes.tolist())


def _active_where(active: Tensor) -> tuple[str, ...]:
    return tuple(ACTIVE if one else PASSIVE for one in active.tolist())


def _shares(rate: Tensor) -> list[float | None]:
    total = float(rate.sum())
    if not math.isfinite(total):
        return [None] * len(rate)
    return (rate / total).tolist() if total > 0 else [0.0] * len(rate)
