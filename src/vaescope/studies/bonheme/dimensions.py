"""Intrinsic dimensions of the data and of what VAEs make of them (Bonheme, figures 8.4 and 8.9 to 8.11)."""

from __future__ import annotations

from collections.abc import Sequence

from vaescope.data import Dataset
from vaescope.dimension import estimate, mle, neighbours
from vaescope.encoding import activations, encode
from vaescope.errors import DataError
from vaescope.objectives import OBJECTIVES
from vaescope.regime import MEAN, SAMPLED
from vaescope.runs import Run, choose_device
from vaescope.sizing import Evidence, IntrinsicDimension
from vaescope.studies.bonheme import chapter8_claims as claims
from vaescope.studies.bonheme.elbows import SEEDS, VAES, sizes_of, sweep_of
from vaescope.studies.bonheme.search import DSPRITES, SearchedSet, rate_of, settings_of, subjects
from vaescope.studies.charts import Lines
from vaescope.studies.context import Measurement, StudyContext, Values, grouped
from vaescope.studies.measurements import regime
from vaescope.studies.results import JsonTable
from vaescope.studies.study import Cell, Findings, Study, cell_rows
from vaescope.sweeps import Sweep, data_name

K = 20
INVERSES, ESTIMATES, TWONN = "MLE, mean of inverses", "MLE, mean of estimates", "TwoNN"
REPEATS = 2, 3
ITEMS = 300, 10_000
TYPES = ("active", "mixed", "passive")
EPOCHS = (2, 5, 10), (1, 2, 4, 8, 16, 28)
LATENTS = 4, 10  # of figure 8.11


def figure_8_4(context: StudyContext) -> Findings:
    """Estimates by two averagings for several k, and TwoNN, of each data set (figure 8.4)."""
    cells: list[Cell] = []
    for subject in subjects(context):
        values: dict[tuple[str, int], list[float]] = {}
        infinite: set[int] = set()
        for seed in context.seed_list(*REPEATS):
            items = subject.data.draw(context.pick(*ITEMS), seed)
            found = estimate(items, device=choose_device(None))
            for name, swept in ((INVERSES, found.mackay_ghahramani), (ESTIMATES, found.levina_bickel)):
                for one in swept.estimates:
                    values.setdefault((name, one.k), []).append(one.dimension)
            values.setdefault((TWONN, 2), []).append(found.twonn.dimension)
            infinite.update(found.infinite)
        if infinite:
            sizes = " and ".join(map(str, sorted(infinite)))
            context.note(
                f"{subject.label}: with {sizes} neighbours some draws have no mean of estimates, because all "
                "neighbours of some items are equally far."
            )
        cells += [
            Cell.over({"data": subject.label, "estimator": name, "k": k}, own) for (name, k), own in values.items()
        ]
    rows = cell_rows(cells, "dimension")
    sentence = "Source: the estimates settle as more neighbours are used; TwoNN uses two."
    chart = Lines("Intrinsic dimension of the data", sentence, rows, "k", "dimension", "estimator", "data")
    return Findings(tuple(cells), (chart,) if rows else ())


def figures_8_9_to_8_11(context: StudyContext) -> Findings:
    """Dimensions of mean and sampled codes and types of latents by size, and dimensions of layers during training."""
    requests = [
        (subject, _asked_by_size(context, subject), _asked_during_training(context, subject))
        for subject in subjects(context, context.pick(VAES.quick_names, VAES.names))
    ]
    cells: list[Cell] = []
    for subject, by_size, during in requests:
        for size, (dimensions, types) in by_size.items():
            for name in (MEAN, SAMPLED):
                cells.append(Cell.over(_of("8.9", subject, name, size), [one[name] for one in dimensions]))
            for name in TYPES:
                cells.append(Cell.over(_of("8.10", subject, name, size), [float(one[name] or 0) for one in types]))
        for epochs, values in during.items():
            for layer in values[0]:
                own = [float("nan") if one[layer] is None else one[layer] for one in values]
                cells.append(Cell.over(_of("8.11", subject, layer, context.pick(*LATENTS), epochs), own))
    return Findings(tuple(cells), tuple(_charts(cells)) if cells else ())


def _asked_by_size(context: StudyContext, subject: SearchedSet) -> dict[int, tuple[Values, Values]]:
    """Dimensions of codes (figure 8.9) and types of latents (figure 8.10) for each number of latents."""
    runs = grouped(sizes_of(context, subject), context.runs(sweep_of(context, subject, VAES)))
    dimensions = Measurement("code-dimensions", _code_dimensions, {"items": context.pick(*ITEMS), "k": K})
    return {size: (context.measured(own, dimensions), context.measured(own, regime())) for size, own in runs.items()}


def _code_dimensions(run: Run, data: Dataset, device: str, items: int, k: int) -> dict[str, float]:
    """Both dimensions, as the gap of FONDUE_IDE takes them."""
    probe = data.draw(items)
    codes = encode(run.model, probe, device=device, progress=False)
    found = IntrinsicDimension(k=k)(Evidence(run.model, probe, codes))
    return {MEAN: found.subtrahend, SAMPLED: found.minuend}


def _asked_during_training(context: StudyContext, subject: SearchedSet) -> dict[float, Values]:
    """Figure 8.11: runs that end after more and more epochs are one training seen at those times."""
    # The widest layers have 32,768 features.
    options = {"items": context.pick(ITEMS[0], ITEMS[1] // 2), "k": K}
    found: dict[float, Values] = {}
    for count in context.pick(*EPOCHS):
        sweep = Sweep(
            subject.source,
            {**settings_of(context), "monitor_every": 0, "epochs": count},
            {"learning_rate": rate_of(context), "latents": context.pick(*LATENTS)},
            OBJECTIVES.plain(VAES.objective),
            {"seed": context.seed_list(*SEEDS)},
        )
        epochs = context.cut({"epochs": count}, data_name(subject.source))["epochs"]
        found[epochs] = context.measured(context.runs(sweep), Measurement("layer-dimensions", _of_layers, options))
    return found


def _of_layers(run: Run, data: Dataset, device: str, items: int, k: int) -> dict[str, float | None]:
    """The dimension of each layer's activations of the same items; None where they do not vary."""
    found: dict[str, float | None] = {}
    for layer, values in activations(run.model, data, items=items, device=device).items():
        try:
            found[layer] = mle(neighbours(values, k, device), k, subsamples=1).dimension
        except DataError:
            found[layer] = None
    return found


def _of(figure: str, subject: SearchedSet, part: str, latents: int, epochs: float | None = None) -> JsonTable:
    return {"figure": figure, "data": subject.label, "of": part, "latents": latents, "epochs": epochs}


def _charts(cells: Sequence[Cell]) -> list[Lines]:
    figures = {
        "8.9": ("Dimension of mean and sampled codes", "they part where latents are no longer used."),
        "8.10": ("Types of latents", "beyond some size, more latents are only more mixed and passive ones."),
        "8.11": (
            "Dimension of each layer during training",
            "of models that do well, it does not change much after the first epoch.",
        ),
    }
    charts = []
    for figure, (title, said) in figures.items():
        rows = cell_rows(cell for cell in cells if cell.of["figure"] == figure)
        x, y_title = "epochs" if figure == "8.11" else "latents", "latents" if figure == "8.10" else "dimension"
        charts.append(Lines(title, f"Source: {said}", rows, x, "value", "of", "data", y_title=y_title))
    return charts


STUDIES = (
    Study(
        "bonheme-figure8.4",
        "Bonheme, Figure 8.4",
        "How many dimensions do the data sets have, by maximum likelihood with 3 to 20 neighbours and by TwoNN?",
        "The figure is a picture; the text gives 4, 11 and 22 for k = 20 as whole numbers. It names the averaging of "
        "Levina and Bickel, its code has that of MacKay and Ghahramani: both are here and compared with the same "
        "number. Each repetition draws other items, where table D.4 has an anchor of 0.8 and 5 runs, and section 8.4.1 "
        "three.",
        figure_8_4,
        claims=claims.FIGURE_8_4,
    ),
    Study(
        "bonheme-figure8.9-8.11",
        "Bonheme, Figures 8.9 to 8.11",
        "Where do the dimensions of mean and sampled codes part, which latents are there then, and how early?",
        "The figures are pictures, so no published number can be compared. The epochs of figure 8.11 are not said; "
        f"it takes 5,000 items here, as the widest layers of {DSPRITES} have 32,768 features. The runs are those of "
        "figure 8.5.",
        figures_8_9_to_8_11,
        claims=claims.FIGURE_8_9,
    ),
)
