"""Figures 1, 5 and 8 of Pastrana: reconstructions by weight, and what each latent does to a digit."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.data import Dataset, Subset, conditions_of
from vaescope.encoding import Traversal, encode, traversals, traverse
from vaescope.runs import Run
from vaescope.studies.charts import Pictures
from vaescope.studies.context import Measurement, StudyContext, Values
from vaescope.studies.measurements import images, pictures, regime
from vaescope.studies.pastrana import claims
from vaescope.studies.pastrana.curves import CHOSEN, CONDITIONAL, HISTORY, PLAIN, QUICK_CHOSEN, ImageSet, of_images
from vaescope.studies.results import JsonTable
from vaescope.studies.study import Cell, Findings, Study

COMPARED = ((PLAIN, 1), (PLAIN, 10), (CONDITIONAL, 10))
DIGITS, SHOWN = 10, 8  # the digit 8 is the one of Figure 1
FIGURE_8_LATENTS = 3  # latents of Figure 8
MIN_VISIBLE_CHANGE = 0.2  # of the range of a pixel: what moves none by more changes nothing to the eye
PROPERTIES = ("line weight", "tilt", "width")
MOVES = tuple(f"{value:.1f}" for value in np.linspace(-5, 5, 10))  # the values of a latent that is moved


@of_images
def figure5(context: StudyContext, found: ImageSet) -> Findings:
    """Figure 5: one image of each digit as the beta-VAE decodes its mean code, for every weight of the KL."""
    groups = found.by_beta(context, PLAIN)
    ends = context.measured_by(groups, HISTORY)
    decoded = context.measured_by({beta: runs[:1] for beta, runs in groups.items()}, RECONSTRUCTIONS)
    strips = [("original", images(decoded[1][0]["original"]))]
    cells = []
    for beta, values in ends.items():
        strips.append((f"beta = {found.weight(beta)}", images(decoded[beta][0]["decoded"])))
        cells.append(Cell.over({**found.at(beta), "measure": "BCE"}, [one["reconstruction"] for one in values]))
    sentence = (
        "Source: the larger the weight of the KL, the blurrier the digits, until at 20 they cannot be identified."
    )
    return Findings(tuple(cells), (Pictures("Reconstructions", sentence, strips),))


@of_images
def figure1_and_8(context: StudyContext, found: ImageSet) -> Findings:
    """Figures 1 and 8: every latent moved from -5 to 5, at an 8 for three models, and at every digit for the best."""
    items = context.pick(1000, 10_000)
    wanted = Measurement("properties", _properties, {"items": items})
    asked: list[tuple[str, int, Values, Values, Values]] = []
    for model, beta in COMPARED:
        runs = found.by_beta(context, model)[beta]
        visible, types = context.measured(runs, wanted), context.measured(runs, regime(items))
        asked.append((model, beta, visible, types, context.measured(runs[:1], TRAVERSALS)))
    model, beta = COMPARED[-1]
    digits = context.measured(found.by_beta(context, model)[beta][:1], ALL_DIGITS)
    charts, cells = [], []
    for model, beta, visible, types, moved in asked:
        of = {"data": found.label, "model": model, "beta": found.weight(beta)}
        measures = {
            "latents that change nothing": [one["still"] for one in visible],
            "passive latents": [float(one["passive"] or 0) for one in types],
            **{f"best correlation with {name}": [one["best"][name] for one in visible] for name in PROPERTIES},
        }
        cells += [Cell.over({**of, "measure": name}, values) for name, values in measures.items()]
        sentence = "Each row moves one latent from -5 to 5; rows that do not change are latents without a use."
        strips = [(f"z{at + 1}", images(one)) for at, one in enumerate(moved[0])]
        charts.append(Pictures(f"{model}, beta = {found.weight(beta)}", sentence, strips, MOVES))
    sentence = "Source: the three latents that move an image most do the same to every digit."
    strips = [(f"digit {one['digit']}, z{one['latent'] + 1}", images(one["items"])) for one in digits[0]]
    charts.append(Pictures("Every digit under the conditional beta-VAE", sentence, strips, MOVES))
    return Findings(tuple(cells), tuple(charts))


def held_out_of(run: Run, data: Dataset) -> Dataset:
    """The images that a run was not trained on."""
    return data.split(run.configuration.split.held_out)[1]


def examples_of(run: Run, data: Dataset) -> Dataset:
    """The first image of each digit that a run was not trained on."""
    held_out = held_out_of(run, data)
    labels = torch.empty(0) if held_out.labels is None else held_out.labels
    return Subset.of(held_out, torch.stack([(labels == digit).nonzero()[0, 0] for digit in range(DIGITS)]))


def reconstructions(model: nn.Module, data: Dataset) -> Float[Tensor, "items ..."]:
    """What the decoder makes of each item's mean code."""
    conditions = conditions_of(model, data)
    codes = encode(model, data, progress=False).mean
    # A latent set to the value that it has leaves the code as it is.
    found = [
        traverse(model, code, 0, [float(code[0])], None if conditions is None else conditions[at])
        for at, code in enumerate(codes)
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


def _reconstructions(run: Run, data: Dataset, device: str) -> JsonTable:
    """One image of each digit, and what the decoder makes of its mean code."""
    examples = examples_of(run, data)
    original = examples.batch(torch.arange(len(examples)))
    return {"original": pictures(original), "decoded": pictures(reconstructions(run.model, examples))}


def _traversals(run: Run, data: Dataset, device: str) -> list[JsonTable]:
    """Images of an 8 with each latent moved from -5 to 5."""
    return [pictures(one.items) for one in _moved(run, examples_of(run, data), SHOWN)]


def _all_digits(run: Run, data: Dataset, device: str) -> list[JsonTable]:
    """Figure 8: the latents that move an 8 most, at every digit."""
    examples = examples_of(run, data)
    strongest = sorted(_moved(run, examples, SHOWN), key=motion, reverse=True)[:FIGURE_8_LATENTS]
    latents = sorted(one.latent for one in strongest)
    found = []
    for digit in range(DIGITS):
        moved = _moved(run, examples, digit)
        found += [{"digit": digit, "latent": one, "items": pictures(moved[one].items)} for one in latents]
    return found


RECONSTRUCTIONS = Measurement("reconstructions", _reconstructions)
TRAVERSALS = Measurement("traversals", _traversals)
ALL_DIGITS = Measurement("traversals-of-digits", _all_digits)


def _properties(run: Run, data: Dataset, device: str, items: int) -> JsonTable:
    """Latents that change nothing to the eye, and for each property the strongest correlation of a latent with it.

    Correlations are among images of one digit, over all digits.
    """
    still = sum(motion(one) <= MIN_VISIBLE_CHANGE for one in _moved(run, examples_of(run, data), SHOWN))
    some = held_out_of(run, data).draw(items)
    wanted = _within(properties(some.batch(torch.arange(len(some)))), some.labels)
    codes = _within(encode(run.model, some, progress=False).mean.double(), some.labels)
    best = np.abs(np.nan_to_num(_correlations(codes, wanted))).max(0)
    return {"still": float(still), "best": dict(zip(PROPERTIES, best.tolist(), strict=True))}


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
        matrix: np.ndarray = np.corrcoef(codes.T, wanted.T)
    return matrix[: codes.shape[1], codes.shape[1] :]


STUDIES = (
    Study(
        "pastrana-figure5",
        "Pastrana, Figure 5",
        "How does beta change the appearance of reconstructed digits?",
        "Which images are shown is not said: ours are the first held-out ones of each digit, decoded from "
        "their mean codes.",
        figure5,
        claims=claims.FIGURE_5,
        shared=(
            CHOSEN,
            QUICK_CHOSEN,
        ),
    ),
    Study(
        "pastrana-figure1-8",
        "Pastrana, Figures 1 and 8",
        "Which latents change a digit, and does each change one visible property?",
        "The paper judges by eye, and moves from a sampled code; we move from the mean code, call a latent "
        f"without effect if no pixel moves by more than {MIN_VISIBLE_CHANGE:g}, and add correlations with line weight, "
        "tilt and width among images of one digit. Figure 8 has nine digits, ours ten.",
        figure1_and_8,
        claims=claims.FIGURE_1,
        shared=(
            CHOSEN,
            QUICK_CHOSEN,
        ),
    ),
)
