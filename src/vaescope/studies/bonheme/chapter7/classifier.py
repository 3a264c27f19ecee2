"""Layers of a classifier against those of a VAE with the same encoder (Bonheme, appendix C.3)."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from vaescope.data import Dataset
from vaescope.encoding import activations, layer_widths
from vaescope.errors import DataError
from vaescope.nets import initialise
from vaescope.runs import FitOptions, Run
from vaescope.similarity import SimilarityMap, layer_similarity
from vaescope.studies.bonheme.chapter7.similarity import heatmap, map_cell
from vaescope.studies.bonheme.settings import (
    BETA,
    CARS,
    DSPRITES,
    LATENTS,
    NORB,
    PAPER,
    PAPER_STEPS,
    QUICK,
    QUICK_DATA,
    QUICK_STEPS,
    THESIS,
    TITLES,
    asked_runs,
    data_there,
    over,
)
from vaescope.studies.charts import Matrix
from vaescope.studies.context import Comparison, StudyContext, Values
from vaescope.studies.measurements import map_of, plain_map
from vaescope.studies.results import JsonTable
from vaescope.studies.study import Cell, Findings, Study
from vaescope.training import BatchOrder

BATCH, RATE, QUICK_RATE = 64, 1e-4, 5e-3
CODES = ("mean", "variance", "sampled")


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
    asked = {name: _asked(context, name) for name in data_there(context, (DSPRITES, CARS, NORB))}
    cells: list[Cell] = []
    charts: list[Matrix] = []
    for name, values in asked.items():
        value = values[0]
        of = {"data": TITLES[name], "models": "classifier against beta-VAE 1"}
        cells.append(over({**of, "measure": "accuracy", "layers": "heads"}, value["accuracies"], ""))
        found = map_of(value["similarity"])
        cells += _cells(of, found)
        charts.append(heatmap(f"Figure C.1: a classifier against a beta-VAE on {TITLES[name]}", found))
    return Findings(tuple(cells), tuple(charts))


def _asked(context: StudyContext, name: str) -> Values:
    runs = asked_runs(context, BETA, name, context.pick(None, [1]), seeds=5)[1]
    steps = context.cut({"steps": context.pick(QUICK_STEPS, PAPER_STEPS)}, name)["steps"]
    options = {"paper": not context.is_quick, "steps": steps, "items": context.pick(500, 5000)}
    return context.compared([runs], Comparison("classifier", _classifiers, options, steps=steps * len(runs)))


def _classifiers(groups: list[list[Run]], data: Dataset, device: str, paper: bool, steps: int, items: int) -> JsonTable:
    """Train a classifier for each seed; its accuracy, and the similarity of its layers to those of the VAEs."""
    settings = FitOptions.of(PAPER if paper else QUICK)
    rate = RATE if paper else QUICK_RATE
    (runs,) = groups
    models = [_classified(settings, rate, steps, data, seed, device) for seed in range(len(runs))]
    accuracies = [fmean(_accuracies(settings, model, data)) for _, model in models]
    return {
        "accuracies": accuracies,
        "similarity": plain_map(_compared([vae for vae, _ in models], runs, data.draw(items), device)),
    }


def _classified(
    settings: FitOptions, rate: float, steps: int, data: Dataset, seed: int, device: str
) -> tuple[nn.Module, Classifier]:
    """A VAE whose encoder was trained to classify, so that its layers are found as those of any other, and that net."""
    vae = settings.architecture(data).build(data.shape, LATENTS, seed)
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


def _compared(vaes: list[nn.Module], runs: list[Run], items: Dataset, device: str) -> SimilarityMap:
    names = [name for name in layer_widths(vaes[0], items) if name == "input" or name.startswith("encoder")]
    rows = [activations(vae, items, names, items=None, device=device) for vae in vaes]
    columns = [activations(run.model, items, [*names, *CODES], items=None, device=device) for run in runs]
    return layer_similarity(rows, columns, device=device)


def _cells(of: JsonTable, found: SimilarityMap) -> list[Cell]:
    """CKA of the same layer in both, and of the classifier's last layer with each of the VAE's codes."""
    at = {name: place for place, name in enumerate(found.columns)}
    layers = [name for name in found.rows if name.startswith("encoder")]
    same = fmean(float(found.matrix[found.rows.index(name), at[name]]) for name in layers)
    values = {"encoder": same}
    values |= {f"last layer and {name}": float(found.matrix[-1, at[name]]) for name in CODES}
    return [map_cell({**of, "measure": "CKA", "layers": name}, value, found) for name, value in values.items()]


STUDIES: tuple[Study, ...] = (
    Study(
        "bonheme-classifier",
        f"{THESIS}, appendix C.3, figure C.1",
        "Does an encoder learn what a classifier of the same architecture learns?",
        "Published are heatmaps; the text says that CKA of the encoders' layers stays close to 1. What is classified "
        "is not in the text; the released code has a layer of logits for each factor and adds their losses, and so do "
        f"we (digits: their label). Steps, batch and rate are the VAE's. {QUICK_DATA}",
        classifier,
    ),
)
