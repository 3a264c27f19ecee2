"""The searches of FONDUE over any gap function (Bonheme, Algorithms 1, 2, 7 and 8, theorem 8.3.3).

A size is within the threshold if its gap is at most the threshold. All searches find the same size for a gap that
crosses the threshold once, upwards. Otherwise each finds one of the crossings, depending on the sizes it measures.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real

from vaescope.checks import finite_number, whole_number
from vaescope.errors import ConfigurationError, DataError, quoted
from vaescope.notebook import NotebookResult

GapFunction = Callable[[int], float]

# The end of a search without a given one: a gap that never crosses the threshold must not run for ever.
DEFAULT_LARGEST = 2**20
MAX_FIRST_DOUBLINGS = 3  # of the start, up and down, in the first round
MAX_LIKELY_DISTANCE = 6  # of a likely size from the expected answer; sizes further away save no training in replays


@dataclass(frozen=True)
class SearchResult(NotebookResult):
    """The number of latents, the bracket around the crossing, and the gaps in the order of measurement.

    The bracket is (lower, upper): `lower` is within the threshold or below every size of the search, `upper` is the
    next size and above the threshold; it is None if no measured size is above the threshold.
    """

    bracket: tuple[int, int | None]
    gaps: tuple[tuple[int, float], ...]
    threshold: float

    @property
    def latents(self) -> int:
        """The number of latents: the lower end of the bracket."""
        return self.bracket[0]

    @property
    def bounded(self) -> bool:
        """Whether any gap exceeds the threshold; if not, the true number may be larger."""
        return self.bracket[1] is not None

    @property
    def contradictions(self) -> tuple[int, ...]:
        """Sizes above the bracket that are within the threshold: the gap crosses it more than once."""
        upper = math.inf if self.bracket[1] is None else self.bracket[1]
        return tuple(sorted(size for size, gap in self.gaps if size > upper and gap <= self.threshold))

    def rows(self) -> list[dict[str, object]]:
        """One row per measured size, in order."""
        return [{"latents": size, "gap": gap, "within": gap <= self.threshold} for size, gap in self.gaps]

    def summary(self) -> str:
        """One sentence: the number of latents, the gaps around it, and the limits of the search."""
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


def fondue_search(gap: GapFunction, start: int, threshold: float = 1.0, largest: int | None = None) -> SearchResult:
    """FONDUE for any gap function (Bonheme, Algorithm 1): the largest size whose gap is within the threshold.

    The size doubles from `start` until the gap exceeds the threshold; then the bracket is halved. No size is measured
    twice. With answer a, at most 2 log2(max(start, a + 1)) + 2 sizes are measured.

    Args:
        gap: The gap of a model with the given number of latents, for instance of one that it trains.
        start: The first size, often the intrinsic dimension of the data.
        threshold: The largest gap allowed.
        largest: No larger size is measured; default: 2^20.

    Returns:
        The size, its bracket and the measured gaps. If no gap exceeds the threshold, `latents` is `largest` and
        `bounded` is False.

    Example:
        >>> fondue_search(lambda latents: max(0, latents - 7), start=4, threshold=0.5).latents
        7
    """
    largest, threshold = checked_limits(start, threshold, largest)
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


def binary_search(score: GapFunction, low: int = 1, high: int = 200, threshold: float = 1.0) -> SearchResult:
    """Bisection between two sizes, as in the supervised variants (Bonheme, Algorithms 7 and 8).

    As published, `high` itself is never measured: the answer lies between low - 1 and high - 1. The answer high - 1
    means that no size exceeds the threshold; it is not `bounded`. At most ceil(log2(high - low + 1)) sizes are
    measured.
    """
    low, threshold = whole_number("low", low, 1), finite_number("threshold", threshold)
    if whole_number("high", high, 1) <= low:
        raise ConfigurationError(f"high must be above low, got low = {low} and high = {high}; widen the range.")
    search = BisectionSearch(threshold, int(high) - 1, low)
    while search.sizes:
        search.feed({size: score(size) for size in search.sizes})
    return search.result


class Search(ABC):
    """A search for models that are trained when it asks for them.

    Feed the gaps of `sizes` until `sizes` is empty; `result` then equals that of `fondue_search` for every gap that
    crosses the threshold once. If it crosses more often, the bracket is the first crossing among the measured sizes,
    and sizes above it that are within the threshold again are `result.contradictions`.

    Attributes:
        sizes: The sizes to measure next, ascending; empty when the search is done.
        start: The answer expected before the first gap is known; None for a search that expects none.
    """

    def __init__(
        self, sizes: tuple[int, ...], threshold: float, largest: int, lower: int = 0, start: int | None = None
    ) -> None:
        self.sizes, self.threshold, self.largest, self.start = sizes, threshold, largest, start
        self._memo: dict[int, float] = {}
        self._lower, self._upper = lower, math.inf

    def feed(self, gaps: Mapping[int, float]) -> None:
        """Take in the gaps of `sizes`, and choose the next sizes."""
        for size in self.sizes:
            if size not in gaps:
                raise DataError(f"gaps must have every size asked for, but {size} of {list(self.sizes)} is missing.")
            _recall(self._memo, size, gaps.__getitem__)
        memo, limit = self._memo, self.threshold
        self._upper = min((size for size in self.sizes if memo[size] > limit), default=self._upper)
        self._lower = max((size for size in self.sizes if size < self._upper), default=self._lower)
        _assert_invariant(memo, self._lower, self._upper, limit)
        self.sizes = self._next_sizes()

    @property
    def result(self) -> SearchResult:
        """What is known so far."""
        return _result(self._memo, self._lower, self._upper, self.threshold)

    def likely_next(self) -> tuple[int, ...]:
        """Sizes that the search may ask for after `sizes`: those next to the expected answer, nearest first.

        The answer is expected where the line through the gaps meets the threshold. The next search of the same seed,
        which starts at the answer, may ask for these sizes, too.
        """
        if self.start is None:
            return ()
        expected = self._expected_answer(self.start)
        first = max(1, math.ceil(expected - MAX_LIKELY_DISTANCE))
        last = min(self.largest, math.floor(expected + MAX_LIKELY_DISTANCE))
        return tuple(sorted(range(first, last + 1), key=lambda size: abs(size - expected)))

    def _expected_answer(self, start: int) -> float:
        """Where the line meets the threshold, inside the bracket or up to the double of its lower end."""
        if not self._memo:
            return start
        meets, upper = self._crossing_of_line(), 2 * self._lower if self._upper == math.inf else self._upper
        return min(max(start if meets is None else meets, self._lower), upper)

    def _crossing_of_line(self) -> float | None:
        """Where the line through two gaps meets the threshold; None if it does not rise, or with a single size.

        The line is that through the ends of the bracket, or through the two nearest sizes while an end is missing.
        """
        measured = sorted(self._memo)
        if self._lower in self._memo and self._upper in self._memo:
            measured = [self._lower, int(self._upper)]
        pair = measured[:2] if self._upper in self._memo else measured[-2:]
        if len(pair) < 2:
            return None
        (one, other), (gap, other_gap) = pair, (self._memo[size] for size in pair)
        slope = (other_gap - gap) / (other - one)
        return one + (self.threshold - gap) / slope if 0 < slope < math.inf else None

    @abstractmethod
    def _next_sizes(self) -> tuple[int, ...]:
        """New sizes inside the bracket, ascending; empty when its ends are neighbours."""


class RoundSearch(Search):
    """FONDUE for models that train at the same time: it asks for several sizes at once.

    The first round holds rungs of a doubling ladder around `start`, later ones sizes inside the bracket, all of them
    as soon as they are at most `width`. With `near` the rounds hold sizes next to `start`, then next to those.
    """

    def __init__(
        self, start: int, threshold: float = 1.0, width: int = 8, largest: int | None = None, near: bool = False
    ) -> None:
        largest, threshold = checked_limits(start, threshold, largest)
        self.width, self.near = whole_number("width", width, 1), near
        first = _window if near else _nearest_rungs
        super().__init__(first(int(start), self.width, largest), threshold, largest, start=int(start))

    def _next_sizes(self) -> tuple[int, ...]:
        return next_round(self._lower, self._upper, self.width, self.largest, self.near)


class BisectionSearch(Search):
    """Algorithms 7 and 8 (Bonheme, section D.3): one size at a time, in the middle of those that are left.

    In the algorithms l is one above the lower end of the bracket, u the upper end, and n = floor((l + u) / 2). They
    never measure the first u, here `largest` + 1; the thesis begins with l = 1 and u = 200.
    """

    def __init__(self, threshold: float = 1.0, largest: int = 199, low: int = 1) -> None:
        largest = whole_number("largest", largest, low)
        super().__init__((), finite_number("threshold", threshold), largest, low - 1)
        self.sizes = self._next_sizes()

    def _next_sizes(self) -> tuple[int, ...]:
        low, high = self._lower + 1, int(min(self._upper, self.largest + 1))
        return ((low + high) // 2,) if low < high else ()


def search_in_rounds(
    gaps: Callable[[Sequence[int]], Mapping[int, float]],
    start: int,
    threshold: float = 1.0,
    width: int = 8,
    largest: int | None = None,
    near: bool = False,
) -> SearchResult:
    """`fondue_search` with up to `width` sizes measured at once by `gaps`; see `RoundSearch`."""
    search = RoundSearch(start, threshold, width, largest, near)
    while search.sizes:
        search.feed(gaps(search.sizes))
    return search.result


def ladder(start: int, largest: int) -> tuple[int, ...]:
    """The sizes of a search before it has a bracket: halves of `start` down to 1, doubles up to `largest`."""
    largest = whole_number("largest", largest, 1)
    start = whole_number("start", start, 1, largest)
    down = {start >> power for power in range(start.bit_length())}
    up = {min(start << power, largest) for power in range(largest.bit_length() + 1)}
    return tuple(sorted(down | up))


def next_round(lower: int, upper: float, width: int, largest: int, near: bool = False) -> tuple[int, ...]:
    """Up to `width` new sizes, ascending: even steps inside a bracket, or doubles of its lower end if it is open.

    With `near`, a missing end of the bracket is searched among the adjacent sizes. Empty when the search is done:
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
    """Adjacent sizes around an earlier answer and its successor, which decide whether it still holds."""
    first = max(1, centre - (width - 1) // 2)
    return tuple(range(first, min(first + width - 1, largest) + 1))


def _nearest_rungs(start: int, width: int, largest: int) -> tuple[int, ...]:
    def distance(size: int) -> float:
        return abs(math.log2(size / start))

    rungs = [size for size in ladder(start, largest) if distance(size) <= MAX_FIRST_DOUBLINGS]
    return tuple(sorted(sorted(rungs, key=distance)[:width]))


def checked_limits(start: int, threshold: float, largest: int | None) -> tuple[int, float]:
    """The largest size and the threshold of a search, checked."""
    largest = DEFAULT_LARGEST if largest is None else whole_number("largest", largest, 1)
    whole_number("start", start, 1, largest)
    return largest, finite_number("threshold", threshold)


def _recall(memo: dict[int, float], size: int, gap: GapFunction) -> float:
    """GET-MEM (Bonheme, Algorithm 2): a gap is measured once."""
    if size not in memo:
        if not callable(gap):
            raise ConfigurationError(f"gap must be a function from a number of latents to a number, got {quoted(gap)}.")
        value = gap(size)
        if not isinstance(value, Real) or isinstance(value, bool) or math.isnan(value):
            raise DataError(f"the gap at {size} latents must be a number, got {value!r}. Check for diverged training.")
        memo[size] = float(value)
    return memo[size]


def _assert_invariant(memo: Mapping[int, float], lower: int, upper: float, threshold: float) -> None:
    assert memo.get(lower, -math.inf) <= threshold
    assert upper == math.inf or memo[int(upper)] > threshold
    assert lower < upper


def _result(memo: Mapping[int, float], lower: int, upper: float, threshold: float) -> SearchResult:
    return SearchResult((lower, None if upper == math.inf else int(upper)), tuple(memo.items()), threshold)
