"""Searches of several seeds at once: all ask for sizes together, so that their models train together."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial

from vaescope.progress import ProgressReport
from vaescope.sizing.gaps import GapTerms
from vaescope.sizing.model_pool import ModelPool
from vaescope.sizing.result import Answer, Probe
from vaescope.sizing.search import RoundSearch, SearchResult
from vaescope.sizing.setup import SearchSpec
from vaescope.training import Member


class SeedSearch:
    """The search of one seed: it repeats after each period of training, close to its previous answer.

    Attributes:
        period: The period in which the next sizes are measured.
        answer: The final answer, once two successive periods agree or `max_periods` is reached.
        probes: The latest measurement of each model.
    """

    def __init__(self, spec: SearchSpec, seed: int) -> None:
        self.spec, self.seed, self.period = spec, seed, 1
        self.answer: Answer | None = None
        self.probes: dict[Member, Probe] = {}
        self._previous: SearchResult | None = None
        self._search = RoundSearch(spec.start, spec.threshold, self._width(spec.near), spec.axis.largest, spec.near)

    def members(self) -> list[Member]:
        """The models to measure next."""
        own = dataclasses.replace(self.spec.member, seed=self.seed)
        return [self.spec.axis.member(size, own) for size in self._search.sizes]

    def feed(self, measured: Sequence[GapTerms]) -> None:
        """Take in the measurements of `members()`, in their order, and advance the search."""
        for member, terms in zip(self.members(), measured, strict=True):
            value = self.spec.axis.of(member)
            self.probes[member] = Probe(value, self.seed, self.period, terms.minuend, terms.subtrahend, terms.gap)
        gaps = [terms.gap for terms in measured]
        self._search.feed(dict(zip(self._search.sizes, gaps, strict=True)))
        if not self._search.sizes:
            self._end_period(self._search.result)

    def _end_period(self, found: SearchResult) -> None:
        """Give the answer, or search again after another period of training."""
        spec, alive = self.spec, self._mostly_alive(found)
        same = self._previous is not None and found.latents == self._previous.latents and alive
        if same or self.period == spec.max_periods:
            value = spec.axis.value(found.latents) if found.latents else 0
            stable = same or spec.max_periods == 1 or not alive
            self.answer = Answer(self.seed, value, self.period, stable, found)
            return
        self._previous = found
        self.period += 1
        start = max(1, found.latents)
        self._search = RoundSearch(start, spec.threshold, self._width(near=True), spec.axis.largest, near=True)

    def _width(self, near: bool) -> int:
        # An earlier answer is confirmed by two sizes: itself and the next.
        return max(2, self.spec.width // 2 + 1) if near else self.spec.width

    def _mostly_alive(self, found: SearchResult) -> bool:
        """Whether at least half of the model's latents are alive: before training none is, yet 1 is within 1."""
        if found.latents == 0:
            return False
        latents = self.spec.axis.member(found.latents, self.spec.member).latents
        return dict(found.gaps)[found.latents] <= latents / 2

    def status(self) -> str:
        """The current bracket and period, for the progress bar."""
        axis, (lower, upper) = self.spec.axis, self._search.result.bracket
        low = f"{axis.value(lower):.3g}" if lower else "0"
        high = "?" if upper is None else f"{axis.value(upper):.3g}"
        return f"{axis.name} {low} to {high}, period {self.period}"


def run_searches(pool: ModelPool, searches: Sequence[SeedSearch], report: ProgressReport) -> tuple[Answer, ...]:
    """Run all searches to their answers; searches in the same period share rounds of training."""
    while unfinished := [search for search in searches if search.answer is None]:
        period = min(search.period for search in unfinished)
        current = [search for search in unfinished if search.period == period]
        status = current[0].status() + (f" ({len(current)} seeds)" if len(current) > 1 else "")
        wanted = [(search.spec.gap, member) for search in current for member in search.members()]
        measured = pool.measure(wanted, period, partial(report, words=status))
        for search in current:
            search.feed([measured[search.spec.gap, member] for member in search.members()])
    return tuple(search.answer for search in searches if search.answer is not None)
