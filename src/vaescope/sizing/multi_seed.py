"""The searches of several seeds, side by side: they ask together, so that their models train together."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from vaescope.progress import ProgressReport
from vaescope.sizing.axes import Axis
from vaescope.sizing.model_pool import Pool
from vaescope.sizing.result import Answer
from vaescope.sizing.search import SearchResult, rounds
from vaescope.training import Member


@dataclass(frozen=True)
class Quest:
    """What is asked of every seed: which gap, from where, how far, in how wide rounds."""

    gap: str
    axis: Axis
    member: Member
    start: int
    threshold: float
    width: int
    most_periods: int
    near: bool = False


@dataclass
class _Search:
    """One seed's search: after a period its answer is looked for near that of the period before."""

    quest: Quest
    number: int
    period: int = 0
    result: SearchResult | None = None
    sizes: tuple[int, ...] = ()
    answer: Answer | None = None
    gaps: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        quest, near = self.quest, self.result is not None or self.quest.near
        start = quest.start if self.result is None else max(1, self.result.latents)
        # A former answer needs two sizes to stand: itself and the next.
        width = max(2, quest.width // 2 + 1) if near else quest.width
        self.period += 1
        self._talk = rounds(start, quest.threshold, width, quest.axis.largest, near)
        self.sizes, self.gaps = next(self._talk), {}

    def members(self) -> list[Member]:
        own = dataclasses.replace(self.quest.member, seed=self.number)
        return [self.quest.axis.member(size, own) for size in self.sizes]

    def hear(self, gaps: Sequence[float]) -> None:
        """Take the gaps of the sizes asked for, and ask on, or end."""
        heard = dict(zip(self.sizes, gaps, strict=True))
        self.gaps |= heard
        try:
            self.sizes = self._talk.send(heard)
        except StopIteration as end:
            self._conclude(end.value)

    def _conclude(self, found: SearchResult) -> None:
        same = self.result is not None and found.latents == self.result.latents and self._alive(found)
        self.result = found
        if same or self.period == self.quest.most_periods:
            value = self.quest.axis.value(found.latents) if found.latents else 0
            stable = same or self.quest.most_periods == 1 or not self._alive(found)
            self.answer = Answer(self.number, value, self.period, stable, found)
        else:
            self._begin()

    def _alive(self, found: SearchResult) -> bool:
        """Whether at least half of the model's latents are alive: before training none is, yet 1 is within 1."""
        if found.latents == 0:
            return False
        latents = self.quest.axis.member(found.latents, self.quest.member).latents
        return dict(found.gaps)[found.latents] <= latents / 2

    def words(self) -> str:
        """Where the search stands."""
        axis, limit = self.quest.axis, self.quest.threshold
        above = min((size for size, gap in self.gaps.items() if gap > limit), default=None)
        within = [size for size, gap in self.gaps.items() if gap <= limit and (above is None or size < above)]
        low = f"{axis.value(max(within)):.3g}" if within else "0"
        high = "?" if above is None else f"{axis.value(above):.3g}"
        return f"{axis.name} {low} to {high}, period {self.period}"


def search_together(pool: Pool, quests: Sequence[tuple[Quest, int]], report: ProgressReport) -> tuple[Answer, ...]:
    """The answer of each quest with its seed: that of two successive periods, or that of the last one."""
    searches = [_Search(quest, seed) for quest, seed in quests]
    while asking := [one for one in searches if one.answer is None]:
        period = min(one.period for one in asking)
        here = [one for one in asking if one.period == period]
        words = here[0].words() + (f" ({len(here)} seeds)" if len(here) > 1 else "")
        wanted = [(one.quest.gap, member) for one in here for member in one.members()]
        readings = pool.read(wanted, period, partial(report, words=words))
        for one in here:
            one.hear([readings[one.quest.gap, member].gap for member in one.members()])
    return tuple(one.answer for one in searches if one.answer is not None)
