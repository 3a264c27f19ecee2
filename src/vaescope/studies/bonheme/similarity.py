"""Similarity of representations (Bonheme, figures 7.1 to 7.10), and of a VAE's and a classifier's (appendix C.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from vaescope.data import Dataset
from vaescope.encoding import activations, layer_widths
from vaescope.encoding import layer_similarity as model_similarity
from vaescope.errors import DataError
from vaescope.nets import initialise
from vaescope.runs import FitOptions, Run
from vaescope.similarity import CKA, PROCRUSTES, SimilarityMap, layer_similarity, sample_size_study
from vaescope.studies.bonheme import chapter7_claims as claims
from vaescope.studies.bonheme import settings as thesis
from vaescope.studies.bonheme.settings import ANNEALED, BETA, BETA_TC, DIP_II, QUICK_DATA, QUICK_STEPS, THESIS, TITLES
from vaescope.studies.charts import Lines, Matrix
from vaescope.studies.context import GroupMeasurement, StudyContext, StudyRun, Values
from vaescope.studies.measurements import map_of, plain_map
from vaescope.studies.results import JsonTable
from vaescope.studies.study import Cell, Findings, Study
from vaescope.training import BatchOrder

FEATURES, REPEATS = 50, 5
SIZES = (50, 100, 200, 500, 1000, 2000, 5000, 10_000)
SHARED = {"A and B": 0.8, "A and C": 0.5, "A and D": 0.0}
NAMES = {"cka": "CKA", "unbiased_cka": "unbiased CKA", "procrustes": "Procrustes"}
CONV, FULLY = "convolutional", "fully connected"
CARS, DSPRITES, NORB = thesis.CARS, thesis.DSPRITES, thesis.NORB
BATCH, RATE, QUICK_RATE = 64, 1e-4, 5e-3  # of the classifier
CODES = ("mean", "variance", "sampled")
EPOCH = {CARS: 17_568 // 64, DSPRITES: 737_280 // 64, NORB: 48_600 // 64}  # steps of a pass over all images


@dataclass(frozen=True)
class Models:
    """Models that differ in their seed: an objective, its strength, and steps of training (None for all)."""

    family: thesis.Family
    strength: float
    steps: int | None = None

    @property
    def title(self) -> str:
        """For titles and cells."""
        when = "" if self.steps is None else f" at step {self.steps}"
        return f"{self.family.title} {self.strength:g}{when}"

    def runs(self, context: StudyContext, one: Heatmap, all_heatmaps: Sequence[Heatmap]) -> list[StudyRun]:
        """The same five seeds for all, together with the other strengths that figures need."""
        like = [other for other in all_heatmaps if (other.data, other.net) == (one.data, one.net)]
        models = [models for other in like for models in (other.rows, other.columns)]
        strengths: Sequence[float] | None = sorted(
            {other.strength for other in models if (other.family, other.steps) == (self.family, self.steps)}
        )
        if context.is_quick and self.steps is None:
            strengths = None  # all that other studies need at quick scale
        settings = thesis.CONNECTED if one.net == FULLY else thesis.PAPER
        return thesis.asked_runs(
            context, self.family, one.data, strengths, seeds=5, steps=self.steps, settings=settings
        )[self.strength]


@dataclass(frozen=True)
class Heatmap:
    """One heatmap: rows and columns are the layers of two groups of models."""

    figure: str
    net: str
    data: str
    rows: Models
    columns: Models
    measure: str = CKA


def _paper() -> tuple[Heatmap, ...]:
    """Figures 7.2 to 7.10; the last epoch is all 300,000 steps."""
    early = {CARS: 25 * EPOCH[CARS], DSPRITES: 2 * EPOCH[DSPRITES], NORB: 10 * EPOCH[NORB]}
    tc = Models(BETA_TC, 2, early[CARS]), Models(BETA_TC, 2)
    objectives = Models(BETA, 1), Models(DIP_II, 1)
    return (
        Heatmap("7.2b", CONV, DSPRITES, Models(DIP_II, 5, early[DSPRITES]), Models(DIP_II, 5)),
        Heatmap("7.3a", CONV, DSPRITES, Models(BETA, 1), Models(BETA, 8)),
        Heatmap("7.3b", CONV, DSPRITES, Models(DIP_II, 1), Models(DIP_II, 20)),
        Heatmap("7.4b", CONV, DSPRITES, *objectives),
        Heatmap("7.9a", FULLY, DSPRITES, Models(BETA, 1), Models(BETA, 8)),
        Heatmap("7.9b", FULLY, DSPRITES, Models(BETA, 1), Models(BETA, 16)),
        Heatmap("7.10b", FULLY, DSPRITES, *objectives),
        Heatmap("7.2a", CONV, CARS, *tc),
        Heatmap("7.4a", CONV, CARS, *objectives),
        Heatmap("7.5b", CONV, CARS, *tc, PROCRUSTES),
        Heatmap("7.6b", CONV, CARS, *objectives, PROCRUSTES),
        Heatmap("7.7a", CONV, CARS, Models(BETA, 1), Models(BETA, 1)),
        Heatmap("7.7b", CONV, CARS, Models(BETA, 8), Models(BETA, 8)),
        Heatmap("7.7c", CONV, CARS, Models(BETA, 1), Models(BETA, 1), PROCRUSTES),
        Heatmap("7.7d", CONV, CARS, Models(BETA, 8), Models(BETA, 8), PROCRUSTES),
        Heatmap("7.10a", FULLY, CARS, *objectives),
        Heatmap("7.2c", CONV, NORB, Models(ANNEALED, 5, early[NORB]), Models(ANNEALED, 5)),
        Heatmap("7.4c", CONV, NORB, *objectives),
        Heatmap("7.8a", FULLY, NORB, Models(ANNEALED, 5, EPOCH[NORB]), Models(ANNEALED, 5)),
        Heatmap("7.8b", FULLY, NORB, Models(ANNEALED, 5, early[NORB]), Models(ANNEALED, 5)),
        Heatmap("7.10c", FULLY, NORB, *objectives),
    )


def _quick() -> tuple[Heatmap, ...]:
    epochs = Models(DIP_II, 1, QUICK_STEPS // 8), Models(DIP_II, 1)
    strengths, objectives = (Models(BETA, 1), Models(BETA, 8)), (Models(BETA, 1), Models(DIP_II, 1))
    return (
        Heatmap("7.8", FULLY, thesis.DIGITS, *epochs),
        Heatmap("7.9", FULLY, thesis.DIGITS, *strengths),
        Heatmap("7.10", FULLY, thesis.DIGITS, *objectives),
        Heatmap("7.5", FULLY, thesis.DIGITS, *epochs, PROCRUSTES),
        Heatmap("7.6", FULLY, thesis.DIGITS, *objectives, PROCRUSTES),
    )


def sample_sizes(context: StudyContext) -> Findings:
    """Figure 7.1: CKA and Procrustes of matrices that share a part of their features, against the number of items."""
    random = np.random.default_rng(0)
    a = random.standard_normal((SIZES[-1], FEATURES))
    rows: list[JsonTable] = []
    for pair, share in SHARED.items():
        common = round(share * FEATURES)
        fresh = random.standard_normal((SIZES[-1], FEATURES - common))
        found = sample_size_study(a, np.concatenate([a[:, :common], fresh], axis=1), sizes=SIZES, repeats=REPEATS)
        rows += [
            {**row, "pair": f"{pair}, {share:.0%} shared", "measure": NAMES[row["measure"]]} for row in found.rows()
        ]
    cells = tuple(
        Cell(
            {"pair": row["pair"], "items": row["items"], "measure": row["measure"]},
            row["mean"],
            row["deviation"] if row["items"] < SIZES[-1] else None,  # all items are one draw
            REPEATS if row["items"] < SIZES[-1] else 1,
        )
        for row in rows
    )
    title = "Figure 7.1: similarity against the number of items"
    sentence = (
        "Source: both agree where 80 or 50% of the features are common; where none is, Procrustes is far too high."
    )
    x, y_title = "items", "similarity"
    chart = Lines(
        title, sentence, rows, x, "mean", "measure", "pair", "deviation", x_title=x, y_title=y_title, log_x=True
    )
    return Findings(cells, (chart,))


def heatmaps(context: StudyContext) -> Findings:
    """Figures 7.2 to 7.10: layers early and late in training, of two strengths, of two objectives, of two nets."""
    cells: list[Cell] = []
    charts: list[Matrix] = []
    for one, found in maps_of(context, context.pick(_quick(), _paper())):
        name = NAMES[one.measure]
        pair = f"{one.rows.title} against {one.columns.title}"
        of = {"figure": one.figure, "net": one.net, "data": TITLES[one.data], "models": pair, "measure": name}
        cells += layer_cells(of, found)
        charts.append(heatmap(f"Figure {one.figure}: {pair}, {one.net} nets on {TITLES[one.data]}", found))
    return Findings(tuple(cells), tuple(charts))


def maps_of(context: StudyContext, wanted: Sequence[Heatmap]) -> list[tuple[Heatmap, SimilarityMap]]:
    """The measured heatmaps of the data that are there; all are asked for before any is read."""
    there = thesis.data_there(context, dict.fromkeys(one.data for one in wanted))
    asked = [(one, _asked(context, one, wanted)) for one in wanted if one.data in there]
    return [(one, map_of(values[0])) for one, values in asked]


def _asked(context: StudyContext, one: Heatmap, wanted: Sequence[Heatmap]) -> Values:
    models = [one.rows] if one.columns == one.rows else [one.rows, one.columns]
    groups = [group.runs(context, one, wanted) for group in models]
    options = {"measure": one.measure, "items": context.pick(500, 5000)}
    return context.compared(groups, GroupMeasurement("layer-similarity", _layers, options))


def _layers(groups: list[list[Run]], data: Dataset, device: str, measure: str, items: int) -> JsonTable:
    """Every layer against every layer, over all pairs of seeds (eq. 7.9)."""
    rows, *columns = [[run.model for run in group] for group in groups]
    other = columns[0] if columns else None
    return plain_map(model_similarity(rows, other, data, measure=measure, items=items, device=device))


def layer_cells(of: JsonTable, found: SimilarityMap) -> list[Cell]:
    """What the text reads off a heatmap: the diagonal by parts of the net, and how the samples relate to the layers."""
    at = {name: place for place, name in enumerate(found.rows)}
    parts = {
        "encoder": [(place, place) for name, place in at.items() if name.startswith("encoder")],
        **{name: [(at[name], at[name])] for name in CODES},
        "decoder": [(place, place) for name, place in at.items() if name.startswith("decoder")],
        "rows' samples with encoder": [(at["sampled"], place) for name, place in at.items() if "encoder" in name],
        "columns' samples with encoder": [(place, at["sampled"]) for name, place in at.items() if "encoder" in name],
    }
    return [
        map_cell({**of, "layers": part}, float(np.mean([found.matrix[place] for place in places])), found)
        for part, places in parts.items()
    ]


def map_cell(of: JsonTable, value: float, found: SimilarityMap) -> Cell:
    """A number from a map, with the number of pairs of models that it is a mean over."""
    return replace(Cell.over(of, [value]), count=int(found.pairs.max()))


def heatmap(title: str, found: SimilarityMap) -> Matrix:
    """The chart of a map."""
    sentence = f"{NAMES[found.measure]} of every two layers, averaged over pairs of seeds."
    return Matrix(title, sentence, found.matrix, found.rows, found.columns, NAMES[found.measure])


class Classifier(nn.Module):
    """The encoder of a VAE, and in place of its mean and variance a layer of logits for each target."""

    def __init__(self, vae: Any, classes: list[int], seed: int) -> None:
        super().__init__()
        self.encoder = vae.encoder
        self.heads = nn.ModuleList([nn.Linear(vae.encoder.features, count) for count in classes])
        initialise(self.heads, "glorot", seed)

    def forward(self, x: Tensor) -> list[Tensor]:
        features = self.encoder(x)
        return [head(features) for head in self.heads]


def targets_of(data: Dataset) -> Tensor:
    """The targets of the classifier: the factors that vary, or the label; items x targets."""
    codes = data.factors
    if codes is None and data.labels is None:
        raise DataError(f"{data.name} must have factors or labels to be classified, it has neither.")
    if codes is None:
        return torch.as_tensor(data.labels).long()[:, None]
    return codes.long()[:, [place for place in range(codes.shape[1]) if len(codes[:, place].unique()) > 1]]


def classifier(context: StudyContext) -> Findings:
    """Figure C.1: layers of a classifier (rows) against those of a beta-VAE with beta = 1 (columns)."""
    asked = {name: _asked_classifiers(context, name) for name in thesis.data_there(context, (DSPRITES, CARS, NORB))}
    cells: list[Cell] = []
    charts: list[Matrix] = []
    for name, values in asked.items():
        value = values[0]
        of = {"data": TITLES[name], "models": "classifier against beta-VAE 1"}
        cells.append(thesis.over({**of, "measure": "accuracy", "layers": "heads"}, value["accuracies"], ""))
        found = map_of(value["similarity"])
        at = {layer: place for place, layer in enumerate(found.columns)}
        layers = [layer for layer in found.rows if layer.startswith("encoder")]
        # CKA of the same layer in both, and of the classifier's last layer with each of the VAE's codes.
        numbers = {"encoder": fmean(float(found.matrix[found.rows.index(layer), at[layer]]) for layer in layers)}
        numbers |= {f"last layer and {code}": float(found.matrix[-1, at[code]]) for code in CODES}
        cells += [map_cell({**of, "measure": "CKA", "layers": part}, one, found) for part, one in numbers.items()]
        charts.append(heatmap(f"Figure C.1: a classifier against a beta-VAE on {TITLES[name]}", found))
    return Findings(tuple(cells), tuple(charts))


def _asked_classifiers(context: StudyContext, name: str) -> Values:
    runs = thesis.asked_runs(context, BETA, name, context.pick(None, [1]), seeds=5)[1]
    steps = context.cut({"steps": context.pick(QUICK_STEPS, thesis.PAPER_STEPS)}, name)["steps"]
    options = {"paper": not context.is_quick, "steps": steps, "items": context.pick(500, 5000)}
    return context.compared([runs], GroupMeasurement("classifier", _classifiers, options, steps=steps * len(runs)))


def _classifiers(groups: list[list[Run]], data: Dataset, device: str, paper: bool, steps: int, items: int) -> JsonTable:
    """Train a classifier for each seed; its accuracy, and the similarity of its layers to those of the VAEs."""
    settings = FitOptions.of(thesis.PAPER if paper else thesis.QUICK)
    rate = RATE if paper else QUICK_RATE
    (runs,) = groups
    models = [_classified(settings, rate, steps, data, seed, device) for seed in range(len(runs))]
    accuracies = [fmean(_accuracies(settings, model, data)) for _, model in models]
    some, vaes = data.draw(items), [vae for vae, _ in models]
    names = [name for name in layer_widths(vaes[0], some) if name == "input" or name.startswith("encoder")]
    rows = [activations(vae, some, names, items=None, device=device) for vae in vaes]
    columns = [activations(run.model, some, [*names, *CODES], items=None, device=device) for run in runs]
    return {"accuracies": accuracies, "similarity": plain_map(layer_similarity(rows, columns, device=device))}


def _classified(
    settings: FitOptions, rate: float, steps: int, data: Dataset, seed: int, device: str
) -> tuple[nn.Module, Classifier]:
    """A VAE whose encoder was trained to classify, so that its layers are found as those of any other, and that net."""
    vae = settings.architecture(data).build(data.shape, thesis.LATENTS, seed)
    training, _ = settings.split().of(data)
    targets = targets_of(training).to(device)
    model = Classifier(vae, (targets.amax(0) + 1).tolist(), seed).to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    items = training.to(device)
    order = BatchOrder(torch.tensor([seed], device=device), len(items), BATCH)
    for step in range(steps):
        index = order.indices(range(step, step + 1))[0, 0]
        logits = model(items.batch(index))
        loss = torch.stack([cross_entropy(one, targets[index, place]) for place, one in enumerate(logits)]).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return vae.to(device).eval(), model.eval()


@torch.no_grad()
def _accuracies(settings: FitOptions, model: Classifier, data: Dataset) -> list[float]:
    """Accuracy of each target on held-out items."""
    _, held_out = settings.split().of(data)
    some = (held_out or data).draw(2000)
    device, targets = next(model.parameters()).device, targets_of(some)
    logits = model(some.batch(torch.arange(len(some))).to(device))
    return [float((one.argmax(1).cpu() == targets[:, place]).double().mean()) for place, one in enumerate(logits)]


STUDIES = (
    Study(
        "bonheme-figure7.1",
        f"{THESIS}, figure 7.1",
        "How many items do CKA and Procrustes need to tell how much two representations share?",
        "Published are lines, and the text says that both come close to the shared fraction. The distribution of the "
        "features, the numbers of items and the repetitions are not said: ours are standard normal, 50 to 10,000 "
        "items, 5 draws but for the last, which is all items. We add the unbiased CKA. Both scales are the same.",
        sample_sizes,
        exact=True,
        claims=claims.FIGURE_7_1,
    ),
    Study(
        "bonheme-figure7.2-7.10",
        f"{THESIS}, figures 7.2 to 7.10",
        "Which layers of VAEs are similar early and late in training, for strengths, objectives and architectures?",
        "Published are heatmaps and a caption. Our cells are means of what the text reads off them: the diagonal of "
        "the encoder, of the codes and of the decoder, and the similarity of samples with the encoder's layers. The "
        "last epoch stands for all 300,000 steps, and an epoch is a pass over all images. Figure 7.8c (epoch 410) is "
        "the end of training itself and left out; 7.5a and 7.6a are 7.2a and 7.4a. A model is not paired with itself. "
        "Quick has fully connected nets alone.",
        heatmaps,
        claims=claims.FIGURE_7_2,
        shared=(QUICK_DATA,),
    ),
    Study(
        "bonheme-classifier",
        f"{THESIS}, appendix C.3, figure C.1",
        "Does an encoder learn what a classifier of the same architecture learns?",
        "Published are heatmaps; the text says that CKA of the encoders' layers stays close to 1. What is classified "
        "is not in the text; the released code has a layer of logits for each factor and adds their losses, and so do "
        "we (digits: their label). Steps, batch and rate are the VAE's.",
        classifier,
        claims=claims.CLASSIFIER,
        shared=(QUICK_DATA,),
    ),
)
