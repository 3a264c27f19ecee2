"""The gaps of FONDUE: differences of traces, intrinsic dimensions or information (Bonheme, 8.3, 8.4.2 and 8.8)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.checks import finite_number, whole_number
from vaescope.codes import Representation
from vaescope.data import Dataset
from vaescope.data.conditions import conditions_of
from vaescope.dimension import mle
from vaescope.errors import ConfigurationError, DataError, unknown_name
from vaescope.models import TrainableModel
from vaescope.numerics import linalg, renyi
from vaescope.regime.mean_and_sampled import MEAN, SAMPLED, mean_and_sample_tables
from vaescope.registry import Part, PartRegistry

AVERAGINGS = ("mackay-ghahramani", "levina-bickel")
DECODED_AT_ONCE = 1024  # codes


@dataclass(frozen=True)
class Evidence:
    """What a gap is computed from: a trained model, probe items, and their codes in the same order."""

    model: nn.Module
    items: Dataset
    codes: Representation


@dataclass(frozen=True)
class GapTerms:
    """The two terms of a gap."""

    minuend: float
    subtrahend: float

    @property
    def gap(self) -> float:
        """minuend - subtrahend, rounded so that 4.99 - 5 is -0.01 and hence within that threshold."""
        difference = self.minuend - self.subtrahend
        largest = max(abs(self.minuend), abs(self.subtrahend))
        if not 0 < largest < 1e14:
            return difference
        return round(difference, 14 - math.floor(math.log10(largest)))


class Gap(Part, Protocol):
    """A criterion for too many latents: above `threshold` for models with more latents than they use."""

    @property
    def threshold(self) -> float:
        """The largest gap allowed."""

    def __call__(self, evidence: Evidence) -> GapTerms | float:
        """The gap of a trained model, as its two terms or as a number."""


GapFunction = Callable[[Evidence], GapTerms | float]
GapSpec = str | Mapping[str, object] | Gap | GapFunction

GAPS: PartRegistry[Gap] = PartRegistry("gap", "vaescope.gaps")


@GAPS.register(
    "trace", summary="difference of the traces of sampled and mean codes", source="Bonheme, Algorithms 1 and 2"
)
@dataclass(frozen=True)
class Trace:
    """Tr Var[Z] - Tr Var[M], the gap of FONDUE (Bonheme, theorem 8.3.1, Algorithms 1 and 2).

    About 0 while all latents are active, and 1 more for each passive one (theorems 8.3.1 and 8.3.2): with a threshold
    below 1 the search allows only active latents, with one of at least 1 also mixed ones (theorem 8.3.3). Z is one
    draw for each item, and the covariances divide by items - 1. Codes are in units of the prior; N(0, 1)
    leaves them unchanged.
    """

    threshold: float = 1.0

    def __post_init__(self) -> None:
        finite_number("threshold", self.threshold)

    def __call__(self, evidence: Evidence) -> GapTerms:
        tables = mean_and_sample_tables(evidence.codes.in_units_of_prior())
        sampled, mean = (float(linalg.covariance(tables[name]).trace()) for name in (SAMPLED, MEAN))
        return GapTerms(sampled, mean)


@GAPS.register(
    "dimension",
    summary="difference of the intrinsic dimensions of sampled and mean codes",
    source="Bonheme, Algorithms 5 and 6",
)
@dataclass(frozen=True)
class IntrinsicDimension:
    """IDE_Z - IDE_M, maximum likelihood estimates with `k` neighbours, on the codes' device (Bonheme, Algorithms 5-6).

    About the number of passive and mixed latents (section 8.8.2). Codes that are equal for all items, such as the
    means of a collapsed model, have dimension 0.
    """

    threshold: float = 1.0
    k: int = 20
    averaging: str = AVERAGINGS[0]

    def __post_init__(self) -> None:
        finite_number("threshold", self.threshold)
        whole_number("k", self.k, 3)
        if self.averaging not in AVERAGINGS:
            raise unknown_name("averaging", self.averaging, AVERAGINGS)

    def __call__(self, evidence: Evidence) -> GapTerms:
        tables = mean_and_sample_tables(evidence.codes.in_units_of_prior())
        return GapTerms(self._dimension(tables[SAMPLED], SAMPLED), self._dimension(tables[MEAN], MEAN))

    def _dimension(self, table: Float[Tensor, "items latents"], name: str) -> float:
        if bool((table == table[0]).all()):
            return 0.0
        try:
            # The interval is not used, and one subset is the cheapest.
            return mle(table, self.k, self.averaging, subsamples=1).dimension
        except DataError as error:
            raise DataError(f"the {name} codes have no intrinsic dimension: {error}") from error


@GAPS.register("information", summary="difference of matrix-based Rényi entropies", source="Bonheme, section 8.4.2")
@dataclass(frozen=True)
class Information:
    """H(z) - I(x, x_hat), matrix-based Rényi entropies of order `alpha` in bits (FONDUE_IB; Bonheme, section 8.4.2).

    The sign differs from that of the trace: below 0 for fewer latents than needed, about 0 from there on. Hence the
    threshold below 0.

    Both terms are truncated to `decimals` in each block of items (None: not truncated) and then averaged over blocks,
    as in the thesis' code; z is the sampled code, and x_hat the mean of p(x|z). With the cut "spread", a block has
    about `block` items that lie far apart in the data. "sorted" is the cut of the thesis' code: it drops duplicates
    with a function that sorts, and takes the items in that order, all but the last of each `block`. Images that begin
    with the same rows are similar, as are their codes, whose entropy is then lower: the answer is larger, 15 or 16
    instead of 12 or 13 on dSprites.
    """

    threshold: float = -0.01
    block: int = 1000
    alpha: float = 2.0
    decimals: int | None = 2
    cut: str = "spread"

    def __post_init__(self) -> None:
        finite_number("threshold", self.threshold)
        finite_number("alpha", self.alpha, above=0)
        if self.decimals is not None:
            whole_number("decimals", self.decimals, 0, 6)
        if self.cut not in CUTS:
            raise unknown_name("cut", self.cut, list(CUTS))
        # A single item has no entropy, and a sorted block drops its last.
        whole_number("block", self.block, 3 if self.cut == "sorted" else 2)

    def __call__(self, evidence: Evidence) -> GapTerms:
        blocks = [self._terms(*arrays) for arrays in _blocks(evidence, self.block, self.cut)]
        entropy, information = (truncated_mean(terms, self.decimals) for terms in zip(*blocks, strict=True))
        return GapTerms(entropy, information)

    def _terms(self, codes: Tensor, items: Tensor, reconstructions: Tensor) -> tuple[float, float]:
        alpha = float(self.alpha)
        shared = renyi.mutual_information(renyi.gram(items), renyi.gram(reconstructions), alpha)
        return renyi.entropy(renyi.gram(codes), alpha), shared


def truncated_mean(terms: tuple[float, ...], decimals: int | None) -> float:
    """The mean of terms, each truncated to `decimals` first unless that is None."""
    if decimals is None:
        return math.fsum(terms) / len(terms)
    step = int(10**decimals)
    # Whole steps have exact sums. A term that rounding alone keeps below a step is on it.
    return sum(math.trunc(round(term * step, 6)) for term in terms) / (len(terms) * step)


def gap_name(gap: object) -> str:
    """The registered name of a gap, or the name of your own function or class."""
    known = [name for name, variant in GAPS.items() if type(gap) is variant]
    return known[0] if known else str(getattr(gap, "__name__", type(gap).__name__))


def resolve_gap(gap: GapSpec) -> Gap | GapFunction:
    """A gap from its name, its table or itself."""
    found = GAPS.resolve(gap) if isinstance(gap, str | Mapping) else gap
    if not callable(found) or isinstance(found, type):
        raise ConfigurationError(
            f"gap must be one of {', '.join(GAPS)}, or a function or object that takes the evidence, got {gap!r}."
        )
    return found


def measure(gap: Gap | GapFunction, evidence: Evidence) -> GapTerms:
    """The two terms of the gap of a trained model, checked to be finite; a plain number has the second term 0."""
    answer: object = gap(evidence)
    terms: list[object] = [answer.minuend, answer.subtrahend] if isinstance(answer, GapTerms) else [answer, 0.0]
    numbers = []
    for term in terms:
        if not isinstance(term, Real) or isinstance(term, bool):
            raise ConfigurationError(
                f"the gap {gap_name(gap)} must return a number or GapTerms of two numbers, got {answer!r} of type "
                f"{type(answer).__name__}. If it is a number, return float(...) of it."
            )
        if not math.isfinite(term):
            raise DataError(f"the gap {gap_name(gap)} must be finite, got {answer!r}. Check for diverged training.")
        numbers.append(float(term))
    return GapTerms(*numbers)


def _blocks(evidence: Evidence, size: int, cut: str) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Codes, items and reconstructions of each block, as rows on the model's device."""
    model: Any = evidence.model
    items = evidence.items
    sampled = mean_and_sample_tables(evidence.codes)[SAMPLED]
    if len(items) != len(sampled):
        raise DataError(
            f"the codes must have one row per item, got {len(sampled)} rows for the {len(items)} items of "
            f"{items.name!r}. Encode these items."
        )
    device = next((parameter.device for parameter in model.parameters()), sampled.device)
    conditions = conditions_of(model, items, device)
    for index in CUTS[cut](items, size, device):
        codes = sampled[index.to(sampled.device)].to(device)
        condition = None if conditions is None else conditions[index]
        parts = items.batch(index), _reconstructions(model, codes, condition).unflatten(1, items.shape)
        given, decoded = map(model.inside, parts) if isinstance(model, TrainableModel) else parts
        yield codes, given.flatten(1), decoded.flatten(1)


def _spread(items: Dataset, size: int, device: torch.device) -> list[Tensor]:
    """Positions of items far apart, since a block of consecutive sorted items does not represent the data."""
    blocks = max(1, round(len(items) / size))
    return [torch.arange(first, len(items), blocks, device=device) for first in range(blocks)]


def _sorted(items: Dataset, size: int, device: torch.device) -> list[Tensor]:
    """Positions of the distinct items in sorted order, all but the last of each `size`."""
    everywhere = torch.arange(len(items), device=device)
    distinct, place = torch.unique(items.batch(everywhere).flatten(1), dim=0, return_inverse=True)
    first = torch.full((len(distinct),), len(items), device=device).scatter_reduce_(0, place, everywhere, "amin")
    return [part[: size - 1] for part in torch.split(first, size)]


CUTS: dict[str, Callable[[Dataset, int, torch.device], list[Tensor]]] = {"spread": _spread, "sorted": _sorted}


@torch.no_grad()
def _reconstructions(
    model: Any, codes: Float[Tensor, "items latents"], conditions: Float[Tensor, "items width"] | None
) -> Float[Tensor, "items dimensions"]:
    if not callable(getattr(model, "decode", None)):
        raise ConfigurationError(
            f"the gap Information needs a model with decode, got {type(model).__name__}. Use another gap."
        )
    parts = []
    for start in range(0, len(codes), DECODED_AT_ONCE):
        part = slice(start, start + DECODED_AT_ONCE)
        condition = () if conditions is None else (conditions[part].to(codes.dtype),)
        # The mean of a bare tensor is a method.
        mean = getattr(model.decode(codes[part], *condition), "mean", None)
        if not isinstance(mean, Tensor):
            raise ConfigurationError(
                f"the gap Information needs {type(model).__name__}.decode to return a distribution with a tensor as "
                "mean. Return one, or use another gap."
            )
        parts.append(mean.flatten(1))
    rows = torch.cat(parts)
    if not bool(torch.isfinite(rows).all()):
        raise DataError("the reconstructions must be finite numbers, some are not. Check for diverged training.")
    return rows
