"""Where passive latents of mean codes get their correlations from: during training (Bonheme, figures 6.9 to 6.11)."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from vaescope.data import Dataset, open_dataset
from vaescope.encoding import encode
from vaescope.numerics.linalg import correlation, covariance
from vaescope.numerics.variable_type_names import ACTIVE, PASSIVE, VARIABLE_TYPES
from vaescope.runs.options import FitOptions, choose_device
from vaescope.studies.bonheme_settings import (
    BETA,
    COLOUR,
    DIGITS,
    DSPRITES,
    ITEMS,
    LATENTS,
    PAPER,
    PAPER_STEPS,
    QUICK,
    QUICK_DATA,
    QUICK_STEPS,
    THESIS,
    TITLES,
    codes_of,
    data_there,
    over,
    trained,
    types_of,
)
from vaescope.studies.charts import Lines, Matrix
from vaescope.studies.study import Cell, Findings, Scale, Study
from vaescope.training import Member, Trainer

THRESHOLD = 0.2  # figure 6.10


@dataclass(frozen=True)
class Snapshots:
    """Correlations of the means of one model at moments of its training, and the types of its latents at the end."""

    steps: tuple[int, ...]
    types: tuple[str, ...]
    correlations: np.ndarray  # moments x latents x latents

    def places(self, kind: str) -> list[int]:
        """The latents of a type."""
        return [place for place, one in enumerate(self.types) if one == kind]

    def times_above(self, place: int) -> int:
        """How often, over snapshots and other latents, its correlation with one was above 0.2 (figure 6.10)."""
        others = np.delete(self.correlations[:, place], place, axis=1)
        return int((np.abs(others) > THRESHOLD).sum())

    def share_above(self, kind: str) -> float | None:
        """The share of snapshots and other latents with which latents of a type were correlated by more than 0.2."""
        own, looks = self.places(kind), len(self.steps) * (len(self.types) - 1)
        return fmean(self.times_above(place) / looks for place in own) if own else None

    def to_active(self, kind: str) -> float | None:
        """The mean size, over training, of correlations of active latents with others of a type (figure 6.11)."""
        pairs = [(one, other) for one in self.places(ACTIVE) for other in self.places(kind) if one != other]
        return fmean(float(np.abs(self.correlations[:, one, other]).mean()) for one, other in pairs) if pairs else None


def correlations(scale: Scale) -> Findings:
    """Figures 6.9 to 6.11: correlations at the end of training, and how they came about."""
    notes: list[str] = []
    last, last_chart = _at_the_end(scale, notes)
    found = _snapshots(scale)
    data, beta = _subject(scale)
    of = {"figure": "6.10", "data": TITLES[data], "beta": beta}
    cells = [*last]
    for kind in VARIABLE_TYPES:
        counts = [one.types.count(kind) for one in found]
        cells.append(over({**of, "measure": "latents", "type": kind}, counts, ""))
        shares = [one.share_above(kind) for one in found]
        name = "share of |correlations| above 0.2"
        cells.append(over({**of, "measure": name, "type": kind}, shares, f"no latent was {kind}"))
        sizes = [one.to_active(kind) for one in found]
        where = {**of, "figure": "6.11", "measure": "mean |correlation| with active latents", "type": kind}
        cells.append(over(where, sizes, f"no active and {kind} latents"))
    return Findings(tuple(cells), (*last_chart, *_training_charts(_shown(found))), tuple(notes))


def largest(matrices: np.ndarray) -> np.ndarray:
    """The largest size of a correlation of each latent with another one."""
    sizes = np.abs(matrices)
    return np.where(np.eye(matrices.shape[-1], dtype=bool), 0.0, sizes).max(-1)


def _at_the_end(scale: Scale, notes: list[str]) -> tuple[list[Cell], list[Matrix]]:
    """Figure 6.9: a trained beta-VAE with a large beta."""
    beta, only = scale.pick((4, None), (16, [16]))
    cells: list[Cell] = []
    charts: list[Matrix] = []
    for name in data_there(scale, (COLOUR,), notes):
        codes = [codes_of(scale, run) for run in trained(scale, BETA, name, only, seeds=5)[beta]]
        kinds = [types_of(one) for one in codes]
        matrices = [correlation(covariance(one.mean)).matrix.numpy() for one in codes]
        of = {"figure": "6.9", "data": TITLES[name], "beta": beta}
        for kind in VARIABLE_TYPES:
            counts = [one.count(kind) for one in kinds]
            sizes = [_mean(largest(matrix)[np.array(one) == kind]) for matrix, one in zip(matrices, kinds, strict=True)]
            cells.append(over({**of, "measure": "latents", "type": kind}, counts, ""))
            where = {**of, "measure": "largest |correlation|", "type": kind}
            cells.append(over(where, sizes, f"no latent was {kind}"))
        labels = [f"{place} {kind}" for place, kind in enumerate(kinds[0])]
        title = f"Figure 6.9: correlation of mean codes, beta-VAE on {TITLES[name]}, beta = {beta}"
        sentence = "The size of the correlation of every two latents, with their types."
        charts.append(Matrix(title, sentence, np.abs(matrices[0]), labels, labels, "|correlation|"))
    return cells, charts


def _subject(scale: Scale) -> tuple[str, float]:
    return scale.pick((DIGITS, 4), (DSPRITES, 8))


def _snapshots(scale: Scale) -> list[Snapshots]:
    """Train the seeds of one beta-VAE together, looking at their codes on the way."""
    name, beta = _subject(scale)
    looks, length = scale.pick((20, QUICK_STEPS), (300, PAPER_STEPS))
    steps = scale.cut({"steps": length}, name)["steps"]
    every = max(1, steps // looks)
    rows = {"steps": steps, "log_every": every, "evaluate_every": every * looks}
    settings, data = FitOptions.of({**scale.pick(QUICK, PAPER), **rows}), open_dataset(name)
    training, _ = settings.split().of(data)
    rate = scale.pick(5e-3, 1e-4)
    members = [Member(LATENTS, {"name": "beta", "beta": beta}, rate, seed) for seed in scale.seed_list(2, 5)]
    plan = settings.plan(len(training))
    device = choose_device(scale.device)
    trainer = Trainer(settings.architecture(data), members, plan, training, None, device)
    probe = data.draw(ITEMS)
    moments: list[int] = []
    seen: list[list[np.ndarray]] = [[] for _ in members]
    while not trainer.finished:
        trainer.advance()
        moments.append(trainer.state.step)
        for place, own in enumerate(seen):
            own.append(_correlation(trainer, place, probe))
    return [
        Snapshots(tuple(moments), types_of(_codes(trainer, place, probe)), np.stack(own))
        for place, own in enumerate(seen)
    ]


def _codes(trainer: Trainer, place: int, probe: Dataset) -> Any:
    return encode(trainer.model(place), probe, device=trainer.device, progress=False)


def _correlation(trainer: Trainer, place: int, probe: Dataset) -> np.ndarray:
    return correlation(covariance(_codes(trainer, place, probe).mean)).matrix.numpy()


def _shown(found: list[Snapshots]) -> Snapshots:
    """The first seed with active and passive latents, or the first."""
    return next((one for one in found if {ACTIVE, PASSIVE} <= set(one.types)), found[0])


def _training_charts(one: Snapshots) -> list[Lines]:
    names = [f"{place} {kind}" for place, kind in enumerate(one.types)]
    times = [{"latent": name, "times": one.times_above(place)} for place, name in enumerate(names)]
    charts = [
        Lines(
            "Figure 6.10: how often latents were correlated",
            f"How often a latent's correlation with another one was above 0.2 in {len(one.steps)} snapshots.",
            times,
            *("latent", "times"),
            sd=None,
            kind="bars",
            x_title="latent",
            y_title="times",
        )
    ]
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


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


STUDIES: tuple[Study, ...] = (
    Study(
        "bonheme-figure6.9-6.11",
        f"{THESIS}, figures 6.9 to 6.11",
        "Are passive latents of the mean codes correlated with others from the beginning, or because they are passive?",
        "Published are pictures of one model each, and in the text the types of their latents; ours are 5 seeds, "
        "trained together, with a snapshot every thousandth step as in the thesis. Whether figure 6.10 counts "
        "snapshots or pairs of a snapshot and another latent is not said, nor how many items a correlation is over: we "
        "count pairs, over 10,000 items. Snapshots are not kept: asking again trains those of figures 6.10 and 6.11 "
        f"again. Quick has beta = 4 in all figures, and 20 snapshots. {QUICK_DATA}",
        correlations,
    ),
)
