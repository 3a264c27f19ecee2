"""Figures 1, 5 and 8 of Pastrana: reconstructions by weight, and what each latent does to a digit."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.data import Dataset, Subset
from vaescope.data.conditions import conditions_of
from vaescope.encoding import Traversal, encode, traversals, traverse
from vaescope.runs import Run
from vaescope.runs.measurements import MeasurementSpec, measure
from vaescope.studies.charts import Pictures
from vaescope.studies.pastrana_runs import CHOSEN, CONDITIONAL, PLAIN, QUICK_CHOSEN, Material, of_images
from vaescope.studies.study import Cell, Findings, Scale, Study

COMPARED = ((PLAIN, 1), (PLAIN, 10), (CONDITIONAL, 10))
DIGITS, SHOWN = 10, 8  # the digit 8 is the one of Figure 1
STRONGEST = 3  # latents of Figure 8
VISIBLE = 0.2  # of the range of a pixel: what moves none by more changes nothing to the eye
PROPERTIES = ("line weight", "tilt", "width")


@of_images
def figure5(scale: Scale, found: Material) -> Findings:
    """Figure 5: one image of each digit as the beta-VAE decodes its mean code, for every weight of the KL."""
    examples = one_of_each(found.held_out())
    strips = [("original", examples.batch(torch.arange(len(examples))))]
    cells = []
    for beta, runs in found.by_beta(scale, PLAIN).items():
        strips.append((f"beta = {found.weight(beta)}", reconstructions(runs[0].model, examples)))
        errors = [run.last("test")["reconstruction"] for run in runs]
        cells.append(Cell.over({"data": found.label, "beta": found.weight(beta), "measure": "BCE"}, errors))
    sentence = (
        "Source: the larger the weight of the KL, the blurrier the digits, until at 20 they cannot be identified."
    )
    return Findings(tuple(cells), (Pictures("Reconstructions", sentence, strips),))


@of_images
def figure1_and_8(scale: Scale, found: Material) -> Findings:
    """Figures 1 and 8: every latent moved from -5 to 5, at an 8 for three models, and at every digit for the best."""
    examples = one_of_each(found.held_out())
    charts, cells = [], []
    for model, beta in COMPARED:
        runs = found.by_beta(scale, model)[beta]
        of = {"data": found.label, "model": model, "beta": found.weight(beta)}
        moved = [_moved(run, examples, SHOWN) for run in runs]
        cells += _counts(of, scale, runs, moved)
        cells += _told(of, found, runs, scale.pick(1000, 10_000))
        sentence = "Each row moves one latent from -5 to 5; rows that do not change are latents without a use."
        strips = [(f"z{one.latent + 1}", one.items) for one in moved[0]]
        charts.append(Pictures(f"{model}, beta = {found.weight(beta)}", sentence, strips))
    model, beta = COMPARED[-1]
    charts.append(_all_digits(found.by_beta(scale, model)[beta][0], examples))
    return Findings(tuple(cells), tuple(charts))


def one_of_each(data: Dataset) -> Dataset:
    """The first image of each digit."""
    labels = torch.empty(0) if data.labels is None else data.labels
    return Subset.of(data, torch.stack([(labels == digit).nonzero()[0, 0] for digit in range(DIGITS)]))


def reconstructions(model: Any, data: Dataset) -> Float[Tensor, "items ..."]:
    """What the decoder makes of each item's mean code."""
    told = conditions_of(model, data)
    codes = encode(model, data, progress=False).mean
    # A latent set to the value that it has leaves the code as it is.
    found = [
        traverse(model, code, 0, [float(code[0])], None if told is None else told[at]) for at, code in enumerate(codes)
    ]
    return torch.cat(found)


def motion(one: Traversal) -> float:
    """The most that any pixel moves, as a share of its range."""
    return float((one.items.amax(0) - one.items.amin(0)).max())


def properties(images: Float[Tensor, "items 1 height width"]) -> Float[Tensor, "items 3"]:
    """Line weight (the mean pixel), tilt (the shear that rights the digit) and width (the spread across)."""
    ink = images[:, 0].double()
    total = ink.sum((1, 2)).clamp(min=1e-9)
    rows, columns = (torch.arange(size, dtype=torch.float64) for size in ink.shape[1:])
    down = rows - ((ink.sum(2) @ rows) / total)[:, None]
    across = columns - ((ink.sum(1) @ columns) / total)[:, None]
    height = (ink.sum(2) * down.square()).sum(1) / total
    width = (ink.sum(1) * across.square()).sum(1) / total
    both = torch.einsum("nij,ni,nj->n", ink, down, across) / total
    return torch.stack([ink.mean((1, 2)), both / height.clamp(min=1e-9), width.sqrt()], 1)


def _moved(run: Run, examples: Dataset, digit: int) -> tuple[Traversal, ...]:
    return traversals(run.model, examples, encode(run.model, examples, progress=False), example=digit).wide


def _counts(of: dict[str, Any], scale: Scale, runs: list[Run], moved: list[tuple[Traversal, ...]]) -> list[Cell]:
    """Latents that change nothing to the eye, and those that are passive (Bonheme, section 6.4.1)."""
    still = [float(sum(motion(one) <= VISIBLE for one in latents)) for latents in moved]
    wanted = MeasurementSpec(items=scale.pick(1000, 10_000))
    passive = [float(measure(run, wanted)["passive"] or 0) for run in runs]
    return [
        Cell.over({**of, "measure": "latents that change nothing"}, still),
        Cell.over({**of, "measure": "passive latents"}, passive),
    ]


def _told(of: dict[str, Any], found: Material, runs: list[Run], items: int) -> list[Cell]:
    """How strongly the best latent correlates with each property among images of one digit, over all digits."""
    data = found.held_out().draw(items)
    images, labels = data.batch(torch.arange(len(data))), data.labels
    wanted = _within(properties(images), labels)
    best = []
    for run in runs:
        codes = _within(encode(run.model, data, progress=False).mean.double(), labels)
        best.append(np.abs(np.nan_to_num(_correlations(codes, wanted))).max(0))
    return [
        Cell.over({**of, "measure": f"best correlation with {name}"}, [float(one[at]) for one in best])
        for at, name in enumerate(PROPERTIES)
    ]


def _within(values: Float[Tensor, "items columns"], labels: Tensor | None) -> Float[np.ndarray, "items columns"]:
    """The values less the mean of their class."""
    classes = torch.zeros(len(values), dtype=torch.int64) if labels is None else labels.long()
    units = torch.nn.functional.one_hot(classes).double()
    means = (units.T @ values) / units.sum(0).clamp(min=1)[:, None]
    return (values - means[classes]).numpy()


def _correlations(
    codes: Float[np.ndarray, "items latents"], wanted: Float[np.ndarray, "items properties"]
) -> Float[np.ndarray, "latents properties"]:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.corrcoef(codes.T, wanted.T)[: codes.shape[1], codes.shape[1] :]


def _all_digits(run: Run, examples: Dataset) -> Pictures:
    """Figure 8: the latents that move an 8 most, at every digit."""
    strongest = sorted(_moved(run, examples, SHOWN), key=motion, reverse=True)[:STRONGEST]
    latents = sorted(one.latent for one in strongest)
    strips = []
    for digit in range(DIGITS):
        moved = _moved(run, examples, digit)
        strips += [(f"digit {digit}, z{latent + 1}", moved[latent].items) for latent in latents]
    sentence = "Source: the three latents that move an image most do the same to every digit."
    return Pictures("Every digit under the conditional beta-VAE", sentence, strips)


STUDIES = (
    Study(
        "pastrana-figure5",
        "Pastrana, Figure 5",
        "How does beta change the looks of reconstructed digits?",
        f"{CHOSEN} Which images are shown is not said: ours are the first held-out ones of each digit, decoded from "
        f"their mean codes. {QUICK_CHOSEN}",
        figure5,
    ),
    Study(
        "pastrana-figure1-8",
        "Pastrana, Figures 1 and 8",
        "Which latents change a digit, and does each change one visible property?",
        f"{CHOSEN} The paper judges by eye, and moves from a sampled code; we move from the mean code, call a latent "
        f"without effect if no pixel moves by more than {VISIBLE:g}, and add correlations with line weight, tilt and "
        f"width among images of one digit. Figure 8 has nine digits, ours ten. {QUICK_CHOSEN}",
        figure1_and_8,
    ),
)
