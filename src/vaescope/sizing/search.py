"""The search of FONDUE over any gap function (Bonheme, Algorithms 1, 2 and 8, theorem 8.3.3), one by one or in rounds.

A gap is a number for each number of latents; a size is within the threshold t if its gap <= t. The searches agree on
every gap that crosses t once, upwards. On others each returns a size at one of the crossings, and which one depends on
the sizes it happened to ask for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

from vaescope.checks import finite_number, whole_number
from vaescope.errors import ConfigurationError, DataError
from vaescope.notebook import NotebookResult

Gap = Callable[[int], float]
Gaps = Callable[[Sequence[int]], Mapping[int, float]]

# Where a search without a given end stops, so that a gap that never crosses the threshold cannot run for ever.
LARGEST = 2**20
REACH = 3  # doublings and halvings of the start that the first round may hold


@dataclass(frozen=True)
class SearchResult(NotebookResult):
    """The number of latents found, the bracket around the crossing, and the gaps asked for, in order.

    The bracket is (l, u): l within the threshold or below every size of the search, u the next size, above the
    threshold; u is None if no size asked for was above it.
    """

    bracket: tuple[int, int | None]
    gaps: tuple[tuple[int, float], ...]
    threshold: float

    @property
    def latents(self) -> int:
        """The number of latents found: the lower end of the bracket."""
        return self.bracket[0]

    @property
    def bounded(self) -> bool:
        """Whether a gap above the threshold was met; if not, more latents might do as well."""
        return self.bracket[1] is not None

    @property
    def contradictions(self) -> tuple[int, ...]:
        """Sizes above the bracket that are within the threshold: the gap crosses it more than once."""
        upper = math.inf if self.bracket[1] is None else self.bracket[1]
        return tuple(sorted(size for size, gap in self.gaps if size > upper and gap <= self.threshold))

    def rows(self) -> list[dict[str, Any]]:
        """One row for each size asked for, in order."""
        return [{"latents": size, "gap": gap, "within": gap <= self.threshold} for size, gap in self.gaps]

    def summary(self) -> str:
        """The number of latents, what speaks for it, and what the search could not see."""
        lower, upper = self.bracket
        gaps, limit = dict(self.gaps), f"the threshold of {self.threshold:g}"
        tried = f"{len(gaps)} {'size' if len(gaps) == 1 else 'sizes'} tried"
        if upper is None:
            text = f"at least {lower} latents: the gap never exceeds {limit} up to {lower}, the largest size tried"
        elif lower == 0:
            text = f"0 latents: not even one latent stays active, the gap at 1 is {gaps[1]:.2f}, above {limit}"
        elif lower not in gaps:
            text = f"at most {lower} latents: the gap at {upper}, the smallest size of the search, is above {limit}"
        else:
            text = (
                f"{lower} latents: the gap is {gaps[lower]:.2f} there and {gaps[upper]:.2f} at {upper}, around {limit}"
            )
        again = ", ".join(map(str, self.contradictions))
        return f"{text}; {tried}" + (f"; not monotone: within the threshold again at {again}" if again else "")


def search(gap: Gap, start: int, threshold: float = 1.0, largest: int | None = None) -> SearchResult:
    """FONDUE (Bonheme, Algorithm 1): the largest number of latents whose gap is within the threshold.

    From `start`, often the intrinsic dimension of the data, the size doubles until the gap exceeds the threshold, then
    the bracket is halved. No size above `largest` (2^20 if not given) is asked for, none is asked for twice, and with
    answer a at most 2 log2(max(start, a + 1)) + 2 are. If the gap is never above the threshold, the result is
    `largest` and not `bounded`.
    """
    largest, threshold = _limits(start, threshold, largest)
    memo: dict[int, float] = {}
    lower, upper, size = 0, math.inf, int(start)
    while size != lower:
        if _recall(memo, size, gap) <= threshold:
            lower = size
            size = int(min(2 * size, upper, largest))
        else:
            upper = size
            size = (lower + size) // 2
        _assert_invariant(memo, lower, upper, threshold)
        assert lower <= size <= upper
    return _result(memo, lower, upper, threshold)


def binary_search(score: Gap, low: int = 1, high: int = 200, threshold: float = 1.0) -> SearchResult:
    """The search of the supervised variants between two given sizes (Bonheme, Algorithms 7 and 8).

    As published, `high` itself is never asked for: the answer is from low - 1 to high - 1, and high - 1 means that no
    size was above the threshold, so it is not `bounded`. At most ceil(log2(high - low + 1)) sizes are asked for.
    """
    low, threshold = whole_number("low", low, 1), finite_number("threshold", threshold)
    if whole_number("high", high, 1) <= low:
        raise ConfigurationError(f"high must be above low, got low = {low} and high = {high}; widen the range.")
    memo: dict[int, float] = {}
    lower, upper = low, int(high)
    while lower < upper:
        size = (lower + upper) // 2
        if _recall(memo, size, score) <= threshold:
            lower = size + 1
        else:
            upper = size
    return _result(memo, lower - 1, upper if upper in memo else math.inf, threshold)


def search_in_rounds(
    gaps: Gaps, start: int, threshold: float = 1.0, width: int = 8, largest: int | None = None, near: bool = False
) -> SearchResult:
    """FONDUE for models that train at the same time: `gaps` is asked for up to `width` sizes at once.

    First come rungs of a doubling ladder around `start`, then sizes inside the bracket, all of them once they are no
    more than `width`; with `near`, sizes next to `start` and then next to those. The answer is that of `search` for
    every gap that crosses the threshold once. If it crosses more often, the bracket is the first crossing among the
    sizes asked for: all those up to its lower end are within the threshold, and sizes above it that are within again
    are the `contradictions` of the result.
    """
    conversation = rounds(start, threshold, width, largest, near)
    sizes = next(conversation)
    while True:
        try:
            sizes = conversation.send(gaps(sizes))
        except StopIteration as end:
            return end.value


def rounds(
    start: int, threshold: float = 1.0, width: int = 8, largest: int | None = None, near: bool = False
) -> Generator[tuple[int, ...], Mapping[int, float], SearchResult]:
    """`search_in_rounds` as a conversation: it yields the sizes to ask for, is sent their gaps, returns the result.

    So several searches, one for each seed, can share the models that they train together.
    """
    largest, threshold = _limits(start, threshold, largest)
    width = whole_number("width", width, 1)
    memo: dict[int, float] = {}
    lower, upper = 0, math.inf
    sizes = _window(int(start), width, largest) if near else _nearest_rungs(int(start), largest, width)
    while sizes:
        answered = yield sizes
        for size in sizes:
            if size not in answered:
                raise DataError(f"gaps must answer for every size asked for, but {size} of {list(sizes)} is missing.")
            _recall(memo, size, answered.__getitem__)
        upper = min((size for size in sizes if memo[size] > threshold), default=upper)
        lower = max((size for size in sizes if size < upper), default=lower)
        _assert_invariant(memo, lower, upper, threshold)
        sizes = next_round(lower, upper, width, largest, near)
    return _result(memo, lower, upper, threshold)


def ladder(start: int, largest: int) -> tuple[int, ...]:
    """The sizes a search can meet before it has a bracket: halves of `start` down to 1, doubles up to `largest`."""
    largest = whole_number("largest", largest, 1)
    start = whole_number("start", start, 1, largest)
    down = {start >> power for power in range(start.bit_length())}
    up = {min(start << power, largest) for power in range(largest.bit_length() + 1)}
    return tuple(sorted(down | up))


def next_round(lower: int, upper: float, width: int, largest: int, near: bool = False) -> tuple[int, ...]:
    """Up to `width` new sizes, ascending: even steps inside a bracket, or doubles of a lower end without an upper one.

    With `near`, an end that is not yet there is looked for among the next sizes. Empty when nothing is left to ask:
    the ends of the bracket are neighbours, or the lower end is `largest`.
    """
    if upper == math.inf:
        above = (lower + power if near else lower << power for power in range(1, width + 1))
        return tuple(sorted({min(size, largest) for size in above} - {lower}))
    inside = range(lower + 1, int(upper))
    if near and lower == 0:
        inside = inside[-width:]
    if len(inside) <= width:
        return tuple(inside)
    return tuple(lower + (len(inside) + 1) * step // (width + 1) for step in range(1, width + 1))


def _window(centre: int, width: int, largest: int) -> tuple[int, ...]:
    """Neighbouring sizes around a former answer and the one after it, which decide whether it still stands."""
    first = max(1, centre - (width - 1) // 2)
    return tuple(range(first, min(first + width - 1, largest) + 1))


def _nearest_rungs(start: int, largest: int, width: int) -> tuple[int, ...]:
    def distance(size: int) -> float:
        return abs(math.log2(size / start))

    rungs = [size for size in ladder(start, largest) if distance(size) <= REACH]
    return tuple(sorted(sorted(rungs, key=distance)[:width]))


def _limits(start: int, threshold: float, largest: int | None) -> tuple[int, float]:
    largest = LARGEST if largest is None else whole_number("largest", largest, 1)
    whole_number("start", start, 1, largest)
    return largest, finite_number("threshold", threshold)


def _recall(memo: dict[int, float], size: int, gap: Gap) -> float:
    """GET-MEM (Bonheme, Algorithm 2): a gap is asked for once."""
    if size not in memo:
        value = gap(size)
        if not isinstance(value, Real) or isinstance(value, bool) or math.isnan(value):
            raise DataError(
                f"the gap at {size} latents must be a number, got {value!r}; look for diverged training at that size."
            )
        memo[size] = float(value)
    return memo[size]


def _assert_invariant(memo: Mapping[int, float], lower: int, upper: float, threshold: float) -> None:
    assert lower == 0 or memo[lower] <= threshold
    assert upper == math.inf or memo[int(upper)] > threshold
    assert lower < upper


def _result(memo: Mapping[int, float], lower: int, upper: float, threshold: float) -> SearchResult:
    return SearchResult((lower, None if upper == math.inf else int(upper)), tuple(memo.items()), threshold)
