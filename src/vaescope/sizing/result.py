"""What FONDUE found: the answer of each seed, their mean and interval, and the curve of gaps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from statistics import fmean, stdev
from typing import Any

from vaescope.errors import RunError
from vaescope.notebook import NotebookResult
from vaescope.numerics.confidence import student_interval
from vaescope.sizing.axes import LATENTS
from vaescope.sizing.search import SearchResult


@dataclass(frozen=True)
class Answer:
    """One seed: what stands at the end of its search, after so many periods of training, and whether it still moved."""

    seed: int
    value: float
    periods: int
    stable: bool
    search: SearchResult


@dataclass(frozen=True)
class Look:
    """One model as it was last read: the two terms of its gap, after so many periods."""

    value: float
    seed: int
    periods: int
    minuend: float
    subtrahend: float
    gap: float


@dataclass(frozen=True)
class Fondue(NotebookResult):
    """The number of latents (or the strength, with `over`), how sure it is, and what it rests on.

    `start` is where the search began and `dimension` the intrinsic dimension of the data, if that was where. A period
    of training is `period` steps; `epochs` says how many passes over the training items those are.
    """

    over: str
    gap: str
    threshold: float
    answers: tuple[Answer, ...]
    looks: tuple[Look, ...]
    start: float
    dimension: float | None
    period: int
    steps_per_epoch: int
    trained_steps: int
    seconds: float
    data: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def values(self) -> tuple[float, ...]:
        """The answer of each seed."""
        return tuple(answer.value for answer in self.answers)

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return fmean(self.values)

    @property
    def sd(self) -> float | None:
        """The standard deviation over seeds (divisor seeds - 1); None for one seed."""
        return stdev(self.values) if len(self.answers) > 1 else None

    @property
    def latents(self) -> int:
        """The mean as a whole number of latents, halves rounded up."""
        if self.over != LATENTS:
            raise AttributeError(f"this FONDUE is over {self.over}: ask for its mean or values, not for latents.")
        return math.floor(self.mean + 0.5)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Student's 95% interval of the mean over seeds; None for one seed, which cannot tell."""
        if self.sd is None:
            return None
        low, high = student_interval(self.values)
        return max(0.0, low), high

    @property
    def stable(self) -> bool:
        """Whether the answer of every seed was the same after two successive periods."""
        return all(answer.stable for answer in self.answers)

    @property
    def dimensions(self) -> int:
        """The number of numbers in one item."""
        return math.prod(self.data["shape"])

    @property
    def models(self) -> int:
        """How many models were trained."""
        return len(self.looks)

    @property
    def epochs(self) -> float:
        """Passes over the training items that the longest trained models made."""
        return max(answer.periods for answer in self.answers) * self.period / self.steps_per_epoch

    @property
    def curve(self) -> list[dict[str, Any]]:
        """By ascending value: mean gap and its terms over the seeds, with the lowest and highest gap (figure 8.1)."""
        rows = []
        for value in sorted({look.value for look in self.looks}):
            found = [look for look in self.looks if look.value == value]
            gaps = [look.gap for look in found]
            terms = {name: fmean(getattr(look, name) for look in found) for name in ("minuend", "subtrahend")}
            rows.append(
                {
                    self.over: value,
                    "gap": fmean(gaps),
                    "low": min(gaps),
                    "high": max(gaps),
                    "seeds": len(found),
                    **terms,
                }
            )
        return rows

    def plain(self) -> dict[str, Any]:
        """Everything in tables, lists, text and numbers."""
        named = (
            "over",
            "gap",
            "threshold",
            "mean",
            "sd",
            "interval",
            "stable",
            "models",
            "epochs",
            "start",
            "dimension",
        )
        more = ("period", "steps_per_epoch", "trained_steps", "seconds", "data", "settings", "curve")
        return {
            "summary": self.summary(),
            **({"latents": self.latents} if self.over == LATENTS else {}),
            **{name: getattr(self, name) for name in (*named, *more)},
            "seeds": self.rows(),
            "looks": [vars(look) for look in self.looks],
            "searches": [{"bracket": answer.search.bracket, "gaps": answer.search.gaps} for answer in self.answers],
        }

    @classmethod
    def from_plain(cls, table: Mapping[str, Any]) -> Fondue:
        """What `plain` wrote, also as read from JSON, which has no word for infinity: None stands for it."""
        try:
            pairs = zip(table["seeds"], table["searches"], strict=True)
            answers = tuple(_answer(seed, search, table["over"], table["threshold"]) for seed, search in pairs)
            looks = tuple(_look(look) for look in table["looks"])
            own = [field.name for field in fields(cls) if field.name not in ("answers", "looks")]
            return cls(answers=answers, looks=looks, **{name: table[name] for name in own})
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(
                "the table of a search must be what FONDUE keeps, this one is damaged or from another version "
                f"({type(error).__name__}: {error}). Ask for the same search again: it trains nothing anew."
            ) from error

    def rows(self) -> list[dict[str, Any]]:
        """One row for each seed."""
        return [
            {
                "seed": answer.seed,
                self.over: answer.value,
                "periods": answer.periods,
                "stable": answer.stable,
                "bounded": answer.search.bounded,
                "models": sum(look.seed == answer.seed for look in self.looks),
            }
            for answer in self.answers
        ]

    def summary(self) -> str:
        """The number, what it rests on, and what to be careful about."""
        sentences = [self._headline()]
        if not self.stable:
            sentences.append("The answer still moved when training ended: allow more periods.")
        open_ended = [answer for answer in self.answers if not answer.search.bounded]
        if open_ended:
            most = max(answer.value for answer in open_ended)
            sentences.append(
                f"The gap never exceeds {self.threshold:g} up to {most:g}, the largest {self.over} tried for "
                f"{len(open_ended)} of {len(self.answers)} seeds: the true number may be larger."
            )
        if any(answer.search.latents == 0 for answer in self.answers):
            least = "one latent" if self.over == LATENTS else f"the smallest {self.over}"
            sentences.append(f"Already {least} has a gap above {self.threshold:g}: {self._why_none()}")
        again = sorted({value for answer in self.answers for value in answer.search.contradictions})
        if again:
            sentences.append("The gap is not monotone: sizes above the answer are within the threshold again.")
        return " ".join(sentences)

    def _headline(self) -> str:
        seeds = f"{len(self.answers)} seed" + ("s" if len(self.answers) > 1 else "")
        trained = f"{self.models} models, {self.epochs:.3g} epochs at most, {self.seconds:.0f} s"
        name = self.data.get("name", "the data")
        if self.over != LATENTS:
            what = f"{self.over} {self.mean:.3g} is the largest before passive latents appear on {name}"
        else:
            what = f"{self.latents} latents for {name}"
        if self.interval is None:
            return f"{what} ({self.gap} gap, 1 seed: ask for more to get an interval; {trained})."
        low, high = self.interval
        spread = f"{self.mean:.3g} ± {self.sd:.2g}, 95% interval {low:.3g} to {high:.3g}"
        return f"{what} ({spread}; {self.gap} gap, {seeds}; {trained})."

    def _why_none(self) -> str:
        if self.over == LATENTS:
            return "not even one latent stays alive. Train longer, lower beta, or look at the data."
        return "passive latents are there however weak it is. Ask for fewer latents."


def _answer(row: Mapping[str, Any], search: Mapping[str, Any], over: str, threshold: float) -> Answer:
    low, high = search["bracket"]
    gaps = tuple((size, _number(gap)) for size, gap in search["gaps"])
    found = SearchResult((low, high), gaps, threshold)
    return Answer(row["seed"], row[over], row["periods"], row["stable"], found)


def _look(row: Mapping[str, Any]) -> Look:
    terms = (_number(row[name]) for name in ("minuend", "subtrahend", "gap"))
    return Look(row["value"], row["seed"], row["periods"], *terms)


def _number(value: float | None) -> float:
    return math.inf if value is None else value
