"""The result of FONDUE: the answer of each seed, their mean and interval, and the curve of gaps."""

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
from vaescope.sizing.kinds import ROUNDS
from vaescope.sizing.search import SearchResult
from vaescope.terminal import on_command_line

# Properties that `Fondue.plain` writes in addition to the fields.
PLAIN_PROPERTIES = ("mean", "sd", "interval", "stable", "models", "epochs", "curve")


@dataclass(frozen=True)
class Answer:
    """One seed's final answer, the periods it trained for, whether it converged, and its last search."""

    seed: int
    value: float
    periods: int
    stable: bool
    search: SearchResult


@dataclass(frozen=True)
class Probe:
    """The latest measurement of one model: the two terms of its gap, after `periods` periods of training."""

    value: float
    seed: int
    periods: int
    minuend: float
    subtrahend: float
    gap: float


@dataclass(frozen=True)
class Fondue(NotebookResult):
    """The number of latents (or the strength) that FONDUE found, its uncertainty, and the evidence.

    Attributes:
        over: What was searched over: 'latents' or a strength.
        answers: One per seed.
        probes: The latest measurement of each model.
        start: Where the search started.
        dimension: Intrinsic dimension of the data, if the search started there.
        period: Training steps between answers.
        trained_steps: Steps of all models in this call; 0 if everything was measured before.
        trained_ahead: Number of models that this call trained in empty slots of a program, on a GPU, and that no search
            asked for. Their steps are among `trained_steps`.
        search: The kind of search.
        seconds_per_step: Time of one step of one model, over all searches of the folder; None if none was trained.
    """

    over: str
    gap: str
    threshold: float
    answers: tuple[Answer, ...]
    probes: tuple[Probe, ...]
    start: float
    dimension: float | None
    period: int
    steps_per_epoch: int
    trained_steps: int
    seconds: float
    data: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    seconds_per_step: float | None = None
    search: str = ROUNDS
    trained_ahead: int = 0

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
        """The mean, rounded to a whole number of latents (halves up)."""
        if self.over != LATENTS:
            raise AttributeError(f"this search is over {self.over}; use mean or values instead of latents.")
        return math.floor(self.mean + 0.5)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Student's 95% confidence interval of the mean over seeds; None for one seed."""
        if self.sd is None:
            return None
        low, high = student_interval(self.values)
        return max(0.0, low), high

    @property
    def stable(self) -> bool:
        """Whether every seed gave the same answer in two successive periods."""
        return all(answer.stable for answer in self.answers)

    @property
    def dimensions(self) -> int:
        """Dimensions of one item."""
        return math.prod(self.data["shape"])

    @property
    def models(self) -> int:
        """Number of models that the searches asked for."""
        return len(self.probes)

    @property
    def epochs(self) -> float:
        """Passes over the training items by the models that trained longest."""
        return max(answer.periods for answer in self.answers) * self.period / self.steps_per_epoch

    @property
    def curve(self) -> list[dict[str, Any]]:
        """By ascending value: mean gap and terms over the seeds, lowest and highest gap (Bonheme, figure 8.1)."""
        rows = []
        for value in sorted({probe.value for probe in self.probes}):
            found = [probe for probe in self.probes if probe.value == value]
            gaps = [probe.gap for probe in found]
            row = {self.over: value, "gap": fmean(gaps), "low": min(gaps), "high": max(gaps), "seeds": len(found)}
            terms = {name: fmean(getattr(probe, name) for probe in found) for name in ("minuend", "subtrahend")}
            rows.append(row | terms)
        return rows

    def plain(self) -> dict[str, Any]:
        """Everything in tables, lists, text and numbers."""
        return {
            "summary": self.summary(),
            **({"latents": self.latents} if self.over == LATENTS else {}),
            **{name: getattr(self, name) for name in (*_plain_fields(), *PLAIN_PROPERTIES)},
            "seeds": self.rows(),
            "looks": [vars(probe) for probe in self.probes],
            "searches": [{"bracket": answer.search.bracket, "gaps": answer.search.gaps} for answer in self.answers],
        }

    @classmethod
    def from_plain(cls, table: Mapping[str, Any]) -> Fondue:
        """The result that `plain` wrote; JSON has None in place of infinity."""
        try:
            pairs = zip(table["seeds"], table["searches"], strict=True)
            answers = tuple(_answer(seed, search, table["over"], table["threshold"]) for seed, search in pairs)
            probes = tuple(_probe(row) for row in table["looks"])
            # Version 0.1 did not write the seconds per step, had one kind of search, and trained no model ahead.
            written = {"seconds_per_step": None, "search": ROUNDS, "trained_ahead": 0, **table}
            return cls(answers=answers, probes=probes, **{name: written[name] for name in _plain_fields()})
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(
                "the stored result of a search is damaged or from another version "
                f"({type(error).__name__}: {error}). Repeat the same search: it trains nothing again."
            ) from error

    def rows(self) -> list[dict[str, Any]]:
        """One row per seed."""
        return [
            {
                "seed": answer.seed,
                self.over: answer.value,
                "periods": answer.periods,
                "stable": answer.stable,
                "bounded": answer.search.bounded,
                "models": sum(probe.seed == answer.seed for probe in self.probes),
            }
            for answer in self.answers
        ]

    def summary(self) -> str:
        """The answer, its evidence, and warnings."""
        sentences = [self._headline()]
        if not self.stable:
            option = "--max-periods" if on_command_line() else "max_periods"
            sentences.append(f"The answer still changed when training ended: allow more periods ({option}).")
        open_ended = [answer for answer in self.answers if not answer.search.bounded]
        if open_ended:
            most = max(answer.value for answer in open_ended)
            sentences.append(
                f"The gap never exceeds {self.threshold:g} up to {most:g}, the largest {self.over} tried, for "
                f"{len(open_ended)} of {len(self.answers)} seeds: the true number may be larger."
            )
        if any(answer.search.latents == 0 for answer in self.answers):
            least, why = f"the smallest {self.over}", "latents are passive at every strength. Use fewer latents."
            if self.over == LATENTS:
                least, why = "one latent", "no latent stays in use. Train longer, lower beta, or check the data."
            sentences.append(f"Even {least} has a gap above {self.threshold:g}: {why}")
        again = sorted({value for answer in self.answers for value in answer.search.contradictions})
        if again:
            sentences.append("The gap is not monotone: some sizes above the answer are within the threshold again.")
        return " ".join(sentences)

    def _headline(self) -> str:
        seeds = f"{len(self.answers)} seed" + ("s" if len(self.answers) > 1 else "")
        trained = f"{self.models} models, at most {self.epochs:.3g} epochs, {self.seconds:.0f} s"
        name = self.data.get("name", "the data")
        if self.over != LATENTS:
            what = f"{self.over} {self.mean:.3g} is the largest before passive latents appear on {name}"
        else:
            what = f"{self.latents} latents for {name}"
        if self.interval is None:
            return f"{what} ({self.gap} gap, 1 seed; use more seeds for a confidence interval; {trained})."
        low, high = self.interval
        spread = f"{self.mean:.3g} ± {self.sd:.2g}, 95% interval {low:.3g} to {high:.3g}"
        return f"{what} ({spread}; {self.gap} gap, {seeds}; {trained})."


def _plain_fields() -> list[str]:
    """The fields of `Fondue` that are written as they are."""
    return [field.name for field in fields(Fondue) if field.name not in ("answers", "probes")]


def _answer(row: Mapping[str, Any], search: Mapping[str, Any], over: str, threshold: float) -> Answer:
    low, high = search["bracket"]
    gaps = tuple((size, _number(gap)) for size, gap in search["gaps"])
    found = SearchResult((low, high), gaps, threshold)
    return Answer(row["seed"], row[over], row["periods"], row["stable"], found)


def _probe(row: Mapping[str, Any]) -> Probe:
    terms = (_number(row[name]) for name in ("minuend", "subtrahend", "gap"))
    return Probe(row["value"], row["seed"], row["periods"], *terms)


def _number(value: float | None) -> float:
    return math.inf if value is None else value
