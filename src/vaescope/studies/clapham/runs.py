"""What Clapham and Grzes train (section III), for all of their figures: VAEs and VGONs over beta on three data sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vaescope.codes import Representation
from vaescope.data import Dataset
from vaescope.encoding import encode
from vaescope.runs import MeasurementSpec, Run
from vaescope.studies.context import Measurement, StudyContext, StudyRun
from vaescope.studies.measurements import regime
from vaescope.studies.results import JsonTable
from vaescope.sweeps import Sweep

PAPER = "Clapham and Grzes, Posterior collapse in variational gradient origin networks"
TITLES = {"vae": "VAE", "vgon": "VGON"}
BETAS = (0.5, 1.0, 5.0, 10.0, 20.0, 25.0, 30.0)
SEEDS = 2, 10
ITEMS = 1000, 10_000  # encoded at most
LEFT_OPEN = (
    "The paper names neither latents, rate, batch, likelihood nor initial weights. Chosen: 10 latents, Adam at 5e-4, "
    "batches of 64, Bernoulli, PyTorch's initial weights, and convolutions with a hidden layer of 256 after the "
    "four. VGON's inner loss weighs the rate by 1 and its gradient is scaled by 1/8; its codes are read without "
    "noise. dSprites are trained for as many steps as MNIST, not for 200 epochs, which are 2.3 million; products are "
    "in TF32 on a GPU. At quick scale the data are digits of 8 x 8 pixels, a twelfth of MNIST's, and each beta is a "
    "tenth of the paper's; one hidden layer of 48, 8 latents, 500 steps of 32 at a rate of 5e-3."
)
QUICK_NOTE = "Quick: digits in place of MNIST, smallNORB and dSprites, with a tenth of each beta."
# Monitoring the types while a model trains would warn of the collapse that is studied here.
_QUICK: JsonTable = {
    "net": {"name": "mlp", "encoder_widths": [48], "decoder_widths": [48]},
    "steps": 500,
    "batch": 32,
    "log_every": 500,
    "evaluate_every": 500,
}
_PAPER: JsonTable = {"net": "conv", "batch": 64, "precision": "tf32"}
_COMMON: JsonTable = {"initialisation": "torch", "held_out": 0, "monitor_every": 0}
_EPOCHS = {"epochs": 200}
_MNIST_STEPS = {"steps": 200 * (60_000 // 64)}


@dataclass(frozen=True)
class Task:
    """A data set with its title and the betas and settings it is trained with."""

    title: str
    source: str
    betas: tuple[float, ...]
    latents: int
    learning_rate: float
    settings: Mapping[str, object]


Runs = dict[str, dict[float, list[StudyRun]]]


def asked_runs(context: StudyContext) -> list[tuple[Task, Runs]]:
    """Each data set that is there, with its runs: model -> beta -> one for each seed."""
    seeds = context.seed_list(*SEEDS)
    found = []
    for task in tasks(context):
        runs = iter(context.runs(sweep(context, task)))
        by_beta = {model: {beta: [next(runs) for _ in seeds] for beta in task.betas} for model in TITLES}
        found.append((task, by_beta))
    return found


def sweep(context: StudyContext, task: Task) -> Sweep:
    """The runs of a data set."""
    return Sweep(
        task.source,
        {**_COMMON, **task.settings},
        {"latents": task.latents, "learning_rate": task.learning_rate},
        {"name": "beta"},
        {"model": list(TITLES), "objective.beta": list(task.betas), "seed": context.seed_list(*SEEDS)},
        MeasurementSpec(items=context.pick(*ITEMS)),
    )


def types_and_rate(context: StudyContext) -> Measurement:
    """Types and rate over as many items as are encoded."""
    return regime(context.pick(*ITEMS))


def encoded(run: Run, data: Dataset, device: str, items: int) -> Representation:
    """The codes of the same items under every run."""
    return encode(run.model, data.draw(items).to(device), device=device, progress=False)


def tasks(context: StudyContext) -> list[Task]:
    """The data sets of a scale that are there; the others are noted."""
    if context.is_quick:
        context.note(QUICK_NOTE)
        return [Task("digits", "digits", tuple(beta / 10 for beta in BETAS), 8, 5e-3, _QUICK)]
    sets = (("MNIST", "mnist", _EPOCHS), ("smallNORB", "smallnorb", _EPOCHS), ("dSprites", "dsprites", _MNIST_STEPS))
    return [
        Task(title, source, BETAS, 10, 5e-4, {**_PAPER, **length})
        for title, source, length in sets
        if context.open(source) is not None
    ]
