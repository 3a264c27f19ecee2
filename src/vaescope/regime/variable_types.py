"""Variable types under the polarised regime: active, mixed, passive (Bonheme, definition 6.3.1)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from vaescope.codes.chunks import Codes
from vaescope.errors import ConfigurationError, DataError
from vaescope.notebook import NotebookResult
from vaescope.numerics.polarised import ALPHA, SPREAD, own_prior_type_codes, variable_type_codes
from vaescope.numerics.variable_type_names import ACTIVE, MIXED, PASSIVE, VARIABLE_TYPES
from vaescope.regime.statistics import BINS, EPSILON, LatentStatistics, threshold

DELTA = 0.01
INTERMEDIATE, MIXTURE = "intermediate", "mixture"
# The least share of examples that makes a mode, so that a stray example is none.
MODE_SHARE = 0.05


@dataclass(frozen=True)
class VariableTypes(NotebookResult):
    """The type of each latent under `rule`, under the other rules in `by_rule`, and what they were read from.

    `mixed_kinds` names, for each mixed latent, what its variance does (Clapham, figure 9): "intermediate" (type 1,
    between 0 and 1) or "mixture" (type 2, modes at 0 and at 1: active for some examples, passive for the others).
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
        """How many latents are of each type."""
        return {kind: self.types.count(kind) for kind in VARIABLE_TYPES}

    def _of_type(self, kind: str) -> tuple[int, ...]:
        return tuple(latent for latent, found in enumerate(self.types) if found == kind)

    def rows(self) -> list[dict[str, Any]]:
        """One row for each latent; `kl` is in nats, `kl_share` is None where the total is infinite."""
        statistics = self.statistics
        columns: dict[str, Any] = {"latent": range(statistics.latents), "type": self.types}
        columns |= {rule: types for rule, types in self.by_rule.items() if rule != self.rule}
        columns["mixed_kind"] = self.mixed_kinds
        for name, spread in (("mean", statistics.mean), ("variance", statistics.variance)):
            columns |= {f"{name}_mean": spread.mean.tolist(), f"{name}_variance": spread.variance.tolist()}
        columns |= {"kl": statistics.rate.tolist(), "kl_share": _shares(statistics.rate)}
        columns["passive_share"] = (statistics.passive.double() / statistics.count).tolist()
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def summary(self) -> str:
        """How many latents are of which type."""
        active, mixed, passive = self.counts.values()
        verb = "is" if active == 1 else "are"
        return f"{active} of {len(self.types)} latents {verb} active, {mixed} mixed, {passive} passive"


def variable_types(
    codes: Any,
    *,
    prior: Any = None,
    alpha: float = ALPHA,
    epsilon: float = EPSILON,
    delta: float = DELTA,
    chunk: int | None = None,
) -> VariableTypes:
    """Which latents are active, mixed and passive; one pass, `chunk` items at a time.

    `codes` is a `Representation`, a pair (mean, variance) of numpy arrays (memory maps too) or torch tensors, or
    `LatentStatistics`. `prior` is a pair (mean, variance), by default the representation's own, or N(0, 1). Variances
    are those of the examples at hand (division by their number). The rules:

    - "thesis", the main one (Bonheme, section 6.4.1): from the mean and variance of the variance representation,
      within `alpha`. A variance of zero everywhere, as deterministic codes have it, makes every latent active, of
      infinite divergence.
    - "conditional", the main one under another prior than N(0, 1) (Bonheme, propositions 5.2.1 and 5.2.2): passive
      latents follow the prior, whose variance may be small, active ones vary far less than it does on average.
    - "rolinek" (section 5.2): active if the standard deviation of the mean representation, in units of the prior's, is
      above 0.5, else passive.
    - "clapham" (eq. 5): passive if the divergence from the prior is below `epsilon` for a share of at least
      1 - `delta` of the examples, else active.
    """
    statistics = latent_statistics(codes, prior=prior, alpha=alpha, epsilon=epsilon, chunk=chunk)
    delta = threshold("delta", delta)
    variance = statistics.variance
    thesis = _named(variable_type_codes(variance.mean, variance.variance, alpha))
    by_rule = {"thesis": thesis}
    if statistics.prior is not None:
        ratio, moved = statistics.prior.variance, statistics.prior.mean
        by_rule["conditional"] = _named(
            own_prior_type_codes(
                (variance.mean, variance.variance),
                statistics.prior.unit.mean,
                (ratio.mean, ratio.variance),
                moved.variance + moved.mean.square(),
                alpha,
            )
        )
    by_rule["rolinek"] = _active_where(statistics.relative_mean.variance.sqrt() > SPREAD)
    by_rule["clapham"] = _active_where(statistics.negligible.double() < (1 - delta) * statistics.count)
    rule = "conditional" if "conditional" in by_rule else "thesis"
    kinds = [_mixed_kind(counts) for counts in statistics.histogram.tolist()]
    mixed_kinds = tuple(kind if found == MIXED else None for kind, found in zip(kinds, by_rule[rule], strict=True))
    return VariableTypes(rule, by_rule, mixed_kinds, statistics, delta)


def latent_statistics(codes: Any, *, prior: Any, alpha: float, epsilon: float, chunk: int | None) -> LatentStatistics:
    """The statistics of codes of any kind that `variable_types` takes, of at least two examples."""
    if not isinstance(codes, LatentStatistics):
        arrays = Codes.of(codes, prior)
        codes = LatentStatistics.of(
            arrays.mean, arrays.variance, prior=arrays.prior, alpha=alpha, epsilon=epsilon, chunk=chunk
        )
    elif prior is not None:
        raise ConfigurationError("prior must be given where the statistics are gathered, not with the statistics.")
    for name, value in (("alpha", alpha), ("epsilon", epsilon)):
        if getattr(codes, name) != value:
            raise ConfigurationError(
                f"{name} must be {getattr(codes, name)}, with which the statistics were gathered, got {value!r}."
            )
    if codes.count < 2:
        raise DataError(f"variable types need at least 2 examples, got {codes.count}; encode more items.")
    return codes


def _mixed_kind(counts: list[int]) -> str:
    """A mixture if the variance is denser in both outer quarters of [0, 1] than between them (Clapham, figure 9)."""
    quarter = BINS // 4
    total, low, high = sum(counts), sum(counts[:quarter]), sum(counts[-quarter - 1 :])
    middle = (total - low - high) / 2
    return MIXTURE if min(low, high) > max(middle, MODE_SHARE * total) else INTERMEDIATE


def _named(codes: Tensor) -> tuple[str, ...]:
    return tuple(VARIABLE_TYPES[code] for code in codes.tolist())


def _active_where(active: Tensor) -> tuple[str, ...]:
    return tuple(ACTIVE if one else PASSIVE for one in active.tolist())


def _shares(rate: Tensor) -> list[float | None]:
    total = float(rate.sum())
    if not math.isfinite(total):
        return [None] * len(rate)
    return (rate / total).tolist() if total > 0 else [0.0] * len(rate)
