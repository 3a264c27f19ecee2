"""Intrinsic dimensions of the data and of what VAEs make of them (Bonheme, figures 8.4 and 8.9 to 8.11)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vaescope.dimension import estimate, mle, neighbours
from vaescope.encoding import activations, encode
from vaescope.errors import DataError
from vaescope.objectives import OBJECTIVES
from vaescope.regime.combinations import MEAN, SAMPLED
from vaescope.runs import Run
from vaescope.runs.measurements import MeasurementSpec, measure
from vaescope.runs.options import choose_device
from vaescope.sizing import Evidence, IntrinsicDimension
from vaescope.studies.bonheme_sizes_elbows import SEEDS, VAES, sizes_of, sweep_of
from vaescope.studies.bonheme_sizes_search import DSPRITES, Subject, rate_of, settings_of, subjects
from vaescope.studies.charts import Lines
from vaescope.studies.study import Cell, Findings, Scale, Study
from vaescope.sweeps.specification import Sweep, data_name

K = 20
INVERSES, ESTIMATES, TWONN = "MLE, mean of inverses", "MLE, mean of estimates", "TwoNN"
REPEATS = 2, 3
ITEMS = 300, 10_000
TYPES = ("active", "mixed", "passive")
EPOCHS = (2, 5, 10), (1, 2, 4, 8, 16, 28)
LATENTS = 4, 10  # of figure 8.11


def figure_8_4(scale: Scale) -> Findings:
    """Estimates by two averagings for several k, and TwoNN, of each data set (figure 8.4)."""
    notes: list[str] = []
    cells: list[Cell] = []
    for subject in subjects(scale, notes):
        values: dict[tuple[str, int], list[float]] = {}
        for seed in scale.seed_list(*REPEATS):
            items = subject.data.draw(scale.pick(*ITEMS), seed)
            found = estimate(items, device=choose_device(scale.device))
            for name, swept in ((INVERSES, found.mackay_ghahramani), (ESTIMATES, found.levina_bickel)):
                for one in swept.estimates:
                    values.setdefault((name, one.k), []).append(one.dimension)
            values.setdefault((TWONN, 2), []).append(found.twonn.dimension)
            if found.infinite:
                notes.append(
                    f"{subject.label}: equally far neighbours leave no mean of estimates at k {found.infinite}."
                )
        cells += [
            Cell.over({"data": subject.label, "estimator": name, "k": k}, own) for (name, k), own in values.items()
        ]
    rows = [{**cell.of, "dimension": cell.value, "sd": cell.sd} for cell in cells]
    sentence = "Source: the estimates settle as more neighbours are used; TwoNN uses two."
    chart = Lines("Intrinsic dimension of the data", sentence, rows, "k", "dimension", "estimator", "data")
    return Findings(tuple(cells), (chart,) if rows else (), tuple(dict.fromkeys(notes)))


def figures_8_9_to_8_11(scale: Scale) -> Findings:
    """Dimensions of mean and sampled codes and types of latents by size, and dimensions of layers during training."""
    notes: list[str] = []
    cells: list[Cell] = []
    for subject in subjects(scale, notes, scale.pick(VAES.quick_names, VAES.names)):
        runs = scale.trained(sweep_of(scale, subject, VAES))
        seeds = len(scale.seed_list(*SEEDS))
        groups = [runs[first : first + seeds] for first in range(0, len(runs), seeds)]
        for size, group in zip(sizes_of(scale, subject), groups, strict=True):
            cells += _of_codes(scale, subject, size, group) + _of_types(subject, size, group)
        cells += _during_training(scale, subject)
    return Findings(tuple(cells), tuple(_charts(cells)) if cells else (), tuple(notes))


def _of_codes(scale: Scale, subject: Subject, size: int, runs: Sequence[Run]) -> list[Cell]:
    """Figure 8.9: both dimensions, as the gap of FONDUE_IDE takes them."""
    items = subject.data.draw(scale.pick(*ITEMS))
    readings = []
    for run in runs:
        model = run.model
        codes = encode(model, items, device=choose_device(scale.device), progress=False)
        readings.append(IntrinsicDimension(k=K)(Evidence(model, items, codes)))
    values = {MEAN: [one.subtrahend for one in readings], SAMPLED: [one.minuend for one in readings]}
    return [Cell.over(_of("8.9", subject, name, size), own) for name, own in values.items()]


def _of_types(subject: Subject, size: int, runs: Sequence[Run]) -> list[Cell]:
    """Figure 8.10."""
    found = [measure(run, MeasurementSpec()) for run in runs]
    return [Cell.over(_of("8.10", subject, name, size), [float(one[name] or 0) for one in found]) for name in TYPES]


def _during_training(scale: Scale, subject: Subject) -> list[Cell]:
    """Figure 8.11: runs that end after more and more epochs are one training seen at those times."""
    latents, cells = scale.pick(*LATENTS), []
    for count in scale.pick(*EPOCHS):
        sweep = Sweep(
            subject.source,
            {**settings_of(scale), "monitor_every": 0, "epochs": count},
            {"learning_rate": rate_of(scale), "latents": latents},
            OBJECTIVES.plain(VAES.objective),
            {"seed": scale.seed_list(*SEEDS)},
        )
        values: dict[str, list[float]] = {}
        for run in scale.trained(sweep):
            for layer, dimension in _of_layers(scale, subject, run).items():
                values.setdefault(layer, []).append(dimension)
        epochs = scale.cut({"epochs": count}, data_name(subject.source))["epochs"]
        cells += [Cell.over(_of("8.11", subject, layer, latents, epochs), own) for layer, own in values.items()]
    return cells


def _of_layers(scale: Scale, subject: Subject, run: Run) -> dict[str, float]:
    """The dimension of what each layer makes of the same items; not a number where it makes the same of all."""
    device, found = choose_device(scale.device), {}
    outputs = activations(run.model, subject.data, items=scale.pick(ITEMS[0], ITEMS[1] // 2), device=device)
    for layer, values in outputs.items():
        try:
            found[layer] = mle(neighbours(values, K, device), K, subsamples=1).dimension
        except DataError:
            found[layer] = float("nan")
    return found


def _of(figure: str, subject: Subject, part: str, latents: int, epochs: int | None = None) -> dict[str, Any]:
    return {"figure": figure, "data": subject.label, "of": part, "latents": latents, "epochs": epochs}


def _charts(cells: Sequence[Cell]) -> list[Lines]:
    pages = (
        (
            "8.9",
            "Dimension of mean and sampled codes",
            "Source: they part where latents are no longer used.",
            "latents",
        ),
        (
            "8.10",
            "Types of latents",
            "Source: beyond some size, more latents are only more mixed and passive ones.",
            "latents",
        ),
        (
            "8.11",
            "Dimension of each layer during training",
            "Source: of models that do well, it does not change much after the first epoch.",
            "epochs",
        ),
    )
    charts = []
    for figure, title, sentence, x in pages:
        rows = [{**cell.of, "value": cell.value, "sd": cell.sd} for cell in cells if cell.of["figure"] == figure]
        charts.append(Lines(title, sentence, rows, x, "value", "of", "data"))
    return charts


STUDIES: tuple[Study, ...] = (
    Study(
        "bonheme-figure8.4",
        "Bonheme, Figure 8.4",
        "How many dimensions do the data sets have, by maximum likelihood with 3 to 20 neighbours and by TwoNN?",
        "The figure is a picture; the text gives 4, 11 and 22 for k = 20 as whole numbers. It names the averaging of "
        "Levina and Bickel, its code has that of MacKay and Ghahramani: both are here, beside the same number. Each "
        "repetition draws other items, where table D.4 has an anchor of 0.8 and 5 runs, and section 8.4.1 three.",
        figure_8_4,
    ),
    Study(
        "bonheme-figure8.9-8.11",
        "Bonheme, Figures 8.9 to 8.11",
        "Where do the dimensions of mean and sampled codes part, which latents are there then, and how early?",
        "The figures are pictures, so no number stands beside ours. The epochs of figure 8.11 are not said; it takes "
        f"5,000 items here, as the widest layers of {DSPRITES} have 32,768 features. The runs are those of figure 8.5.",
        figures_8_9_to_8_11,
    ),
)
