"""Where passive latents of mean codes get their correlations from: during training (Bonheme, figures 6.9 to 6.11)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from vaescope.codes import Representation
from vaescope.data import Dataset
from vaescope.encoding import encode
from vaescope.numerics import linalg
from vaescope.objectives import Beta
from vaescope.regime import ACTIVE, PASSIVE, VARIABLE_TYPES
from vaescope.runs import Configuration, FitOptions, Run
from vaescope.studies.bonheme import chapter6_claims as claims
from vaescope.studies.bonheme import settings as thesis
from vaescope.studies.bonheme.settings import ITEMS, QUICK_DATA, THESIS, TITLES, over, types_of
from vaescope.studies.charts import Lines, Matrix
from vaescope.studies.context import Measurement, StudyContext, Task, Values
from vaescope.studies.results import JsonTable, Result, ResultKey
from vaescope.studies.study import Cell, Findings, Study
from vaescope.training import Member, Trainer

THRESHOLD = 0.2  # figure 6.10


@dataclass(frozen=True)
class Snapshots:
    """Correlations of the means of one model at moments of its training, and the types of its latents at the end."""

    steps: tuple[int, ...]
    types: tuple[str, ...]
    correlations: np.ndarray  # moments x latents x latents

    @classmethod
    def from_plain(cls, table: JsonTable) -> Snapshots:
        """The snapshots that `plain` wrote."""
        types = tuple(table["types"])
        above = np.triu_indices(len(types), 1)
        matrices = np.broadcast_to(np.eye(len(types)), (len(table["steps"]), len(types), len(types))).copy()
        values = np.array(table["correlations"], dtype=np.float64)
        matrices[:, above[0], above[1]] = values
        matrices[:, above[1], above[0]] = values
        return cls(tuple(table["steps"]), types, matrices)

    def plain(self) -> JsonTable:
        """Steps, types and, for each moment, the correlations above the diagonal in six decimals."""
        above = np.triu_indices(len(self.types), 1)
        values = self.correlations[:, above[0], above[1]].astype(np.float64).round(6)
        return {"steps": list(self.steps), "types": list(self.types), "correlations": values.tolist()}

    def places(self, kind: str) -> list[int]:
        """The latents of a type."""
        return [place for place, one in enumerate(self.types) if one == kind]

    def times_above(self, place: int) -> int:
        """How often, over snapshots and other latents, its correlation with one was above 0.2 (figure 6.10)."""
        others = np.delete(self.correlations[:, place], place, axis=1)
        return int((np.abs(others) > THRESHOLD).sum())

    def share_above(self, kind: str) -> float | None:
        """The share of snapshots and other latents with which latents of a type were correlated by more than 0.2."""
        places, pairs = self.places(kind), len(self.steps) * (len(self.types) - 1)
        return fmean(self.times_above(place) / pairs for place in places) if places else None

    def to_active(self, kind: str) -> float | None:
        """The mean size, over training, of correlations of active latents with others of a type (figure 6.11)."""
        pairs = [(one, other) for one in self.places(ACTIVE) for other in self.places(kind) if one != other]
        return fmean(float(np.abs(self.correlations[:, one, other]).mean()) for one, other in pairs) if pairs else None


def correlations(context: StudyContext) -> Findings:
    """Figures 6.9 to 6.11: correlations at the end of training, and how they came about."""
    beta, only = context.pick((4, None), (16, [16]))
    runs = {
        name: thesis.asked_runs(context, thesis.BETA, name, only, seeds=5)[beta]
        for name in thesis.data_there(context, (thesis.COLOUR,))
    }
    asked, snapshots = context.measured_by(runs, CORRELATIONS), _asked_snapshots(context)
    cells: list[Cell] = []
    charts: list[Lines | Matrix] = []
    for name, values in asked.items():
        cells += _last_cells(name, beta, values)
        labels = [f"{place} {kind}" for place, kind in enumerate(values[0]["types"])]
        title = f"Figure 6.9: correlation of mean codes, beta-VAE on {TITLES[name]}, beta = {beta}"
        sentence = "The size of the correlation of every two latents, with their types."
        charts.append(Matrix(title, sentence, np.abs(values[0]["matrix"]), labels, labels, "|correlation|"))
    found = [Snapshots.from_plain(table) for table in snapshots]
    data, strength = _subject(context)
    of = {"figure": "6.10", "data": TITLES[data], "beta": strength}
    for kind in VARIABLE_TYPES:
        counts = [one.types.count(kind) for one in found]
        cells.append(over({**of, "measure": "latents", "type": kind}, counts, ""))
        shares = [one.share_above(kind) for one in found]
        name = "share of |correlations| above 0.2"
        cells.append(over({**of, "measure": name, "type": kind}, shares, f"no latent was {kind}"))
        sizes = [one.to_active(kind) for one in found]
        where = {**of, "figure": "6.11", "measure": "mean |correlation| with active latents", "type": kind}
        cells.append(over(where, sizes, f"no active and {kind} latents"))
    # The first seed with active and passive latents, or the first.
    shown = next((one for one in found if {ACTIVE, PASSIVE} <= set(one.types)), found[0])
    return Findings(tuple(cells), (*charts, *_training_charts(shown)))


def _correlations(run: Run, data: Dataset, device: str) -> JsonTable:
    """The types of the latents and the correlations of the means."""
    codes = thesis.codes_of(run, data, device)
    return {"types": list(types_of(codes)), "matrix": _matrix(codes).tolist()}


CORRELATIONS = Measurement("correlations", _correlations)


def _matrix(codes: Representation) -> np.ndarray:
    return linalg.correlation(linalg.covariance(codes.mean)).matrix.numpy()


def _last_cells(name: str, beta: float, values: Values) -> list[Cell]:
    """Figure 6.9: a trained beta-VAE with a large beta."""
    cells: list[Cell] = []
    of = {"figure": "6.9", "data": TITLES[name], "beta": beta}
    for kind in VARIABLE_TYPES:
        sizes: list[float | None] = []
        for one in values:
            between = np.abs(one["matrix"])
            np.fill_diagonal(between, 0.0)
            largest = between.max(1)[np.array(one["types"]) == kind]  # with another latent
            sizes.append(float(largest.mean()) if len(largest) else None)
        counts = [one["types"].count(kind) for one in values]
        cells.append(over({**of, "measure": "latents", "type": kind}, counts, ""))
        cells.append(over({**of, "measure": "largest |correlation|", "type": kind}, sizes, f"no latent was {kind}"))
    return cells


def _subject(context: StudyContext) -> tuple[str, int]:
    return context.pick((thesis.DIGITS, 4), (thesis.DSPRITES, 8))


def _asked_snapshots(context: StudyContext) -> Values:
    """Correlations of every seed of one beta-VAE at moments of its training."""
    name, beta = _subject(context)
    snapshots, length = context.pick((20, thesis.QUICK_STEPS), (300, thesis.PAPER_STEPS))
    steps = context.cut({"steps": length}, name)["steps"]
    every = max(1, steps // snapshots)
    rows = {"steps": steps, "log_every": every, "evaluate_every": every * snapshots}
    settings = FitOptions.of({**context.pick(thesis.QUICK, thesis.PAPER), **rows})
    data = context.dataset(name)
    rate = context.pick(5e-3, 1e-4)
    members = [Member(thesis.LATENTS, Beta(beta), rate, seed) for seed in context.seed_list(2, 5)]
    training, _ = settings.split().of(data)
    plan = settings.plan(len(training))

    def key(member: Member) -> ResultKey:
        run = Configuration.of(data, settings.split(), settings.architecture(data), plan, member)
        return ResultKey.of(run.id, "snapshots", {"items": ITEMS})

    keys = {member.seed: key(member) for member in members}

    def perform(seeds: Sequence[int]) -> Iterator[tuple[ResultKey, Result]]:
        chosen = [member for member in members if member.seed in seeds]
        trainer = Trainer(settings.architecture(data), chosen, plan, training, None, context.device)
        for seed, found in zip([member.seed for member in chosen], _snapshots(trainer, data.draw(ITEMS)), strict=True):
            yield keys[seed], Result(found.plain())

    task = Task(
        title=f"snapshots of a beta-VAE, {name}",
        net=context.pick(("mlp", "float32"), ("conv", "bfloat16")),
        parts={seed: (own,) for seed, own in keys.items()},
        models=1,
        steps=steps,
        perform=perform,
    )
    return context.computed(task, list(keys.values()))


def _snapshots(trainer: Trainer, probe: Dataset) -> list[Snapshots]:
    """Train to the end, encoding the probe with every member on the way."""

    def codes(place: int) -> Representation:
        return encode(trainer.model(place), probe, device=trainer.device, progress=False)

    moments: list[int] = []
    seen: list[list[np.ndarray]] = [[] for _ in trainer.members]
    while not trainer.finished:
        trainer.advance()
        moments.append(trainer.state.step)
        for place, own in enumerate(seen):
            own.append(_matrix(codes(place)))
    return [Snapshots(tuple(moments), types_of(codes(place)), np.stack(own)) for place, own in enumerate(seen)]


def _training_charts(one: Snapshots) -> list[Lines]:
    names = [f"{place} {kind}" for place, kind in enumerate(one.types)]
    times = [{"latent": name, "times": one.times_above(place)} for place, name in enumerate(names)]
    title = "Figure 6.10: how often latents were correlated"
    sentence = f"How often a latent's correlation with another one was above 0.2 in {len(one.steps)} snapshots."
    x, y = "latent", "times"
    charts = [Lines(title, sentence, times, x, y, sd=None, kind="bars", x_title=x, y_title=y)]
    active = one.places(ACTIVE)
    if active:
        rows = [
            {"step": step, "correlation": float(one.correlations[moment, active[0], place]), "latent": name}
            for place, name in enumerate(names)
            for moment, step in enumerate(one.steps)
            if place != active[0]
        ]
        title = f"Figure 6.11: correlation of the active latent {active[0]} with the others during training"
        sentence = "Source: correlations with passive latents grow and change while those with active ones stay small."
        charts.append(Lines(title, sentence, rows, "step", "correlation", "latent", sd=None, x_title="step"))
    return charts


STUDIES = (
    Study(
        "bonheme-figure6.9-6.11",
        f"{THESIS}, figures 6.9 to 6.11",
        "Are passive latents of the mean codes correlated with others from the beginning, or because they are passive?",
        "Published are pictures of one model each, and in the text the types of their latents; ours are 5 seeds, "
        "trained together, with a snapshot every thousandth step as in the thesis. Whether figure 6.10 counts "
        "snapshots or pairs of a snapshot and another latent is not said, nor how many items a correlation is over: we "
        "count pairs, over 10,000 items. Quick has beta = 4 in all figures, and 20 snapshots.",
        correlations,
        claims=claims.FIGURE_6_9,
        shared=(QUICK_DATA,),
    ),
)
