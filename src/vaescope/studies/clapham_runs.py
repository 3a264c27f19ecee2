"""What Clapham and Grzes train (section III), for all of their figures: VAEs and VGONs over beta on three data sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vaescope.codes import Representation
from vaescope.data import Dataset, open_dataset
from vaescope.encoding import encode
from vaescope.runs import Run
from vaescope.runs.measurements import MeasurementSpec
from vaescope.runs.options import choose_device
from vaescope.studies.study import Scale
from vaescope.sweeps.specification import Sweep

PAPER = "Clapham and Grzes, Posterior collapse in variational gradient origin networks"
TITLES = {"vae": "VAE", "vgon": "VGON"}
BETAS = (0.5, 1.0, 5.0, 10.0, 20.0, 25.0, 30.0)
SEEDS = 2, 10
ITEMS = 1000, 10_000  # items that are encoded, at most
LEFT_OPEN = (
    "The paper names neither latents, rate, batch, likelihood nor initial weights. Chosen: 10 latents, Adam at 5e-4, "
    "batches of 64, Bernoulli, PyTorch's initial weights, and convolutions with a hidden layer of 256 beside the "
    "four. VGON's inner loss weighs the rate by 1 and its gradient is scaled by 1/8; its codes are read without "
    "noise. dSprites are trained for as many steps as MNIST, not for 200 epochs, which are 2.3 million; products are "
    "in TF32 on a GPU. At quick scale the data are digits of 8 x 8 pixels, a twelfth of MNIST's, and each beta is a "
    "tenth of the paper's; one hidden layer of 48, 8 latents, 500 steps of 32 at a rate of 5e-3."
)
QUICK_NOTE = "Quick: digits in place of MNIST, smallNORB and dSprites, with a tenth of each beta."
# Looks at the types while a model trains would warn of the collapse that is studied here.
_QUICK: dict[str, Any] = {
    "net": {"name": "mlp", "encoder_widths": [48], "decoder_widths": [48]},
    **{"steps": 500, "batch": 32, "log_every": 500, "evaluate_every": 500},
}
_PAPER: dict[str, Any] = {"net": "conv", "batch": 64, "precision": "tf32"}
_COMMON: dict[str, Any] = {"initialisation": "torch", "held_out": 0, "monitor_every": 0}
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
    settings: Mapping[str, Any]


Runs = dict[str, dict[float, list[Run]]]
Codes = dict[str, dict[float, list[Representation]]]


def trained(scale: Scale, notes: list[str]) -> Iterator[tuple[Task, Runs]]:
    """Each data set that is there, with its runs: model -> beta -> one for each seed."""
    seeds = scale.seed_list(*SEEDS)
    for task in tasks(scale, notes):
        runs = iter(scale.trained(sweep(scale, task)))
        yield task, {model: {beta: [next(runs) for _ in seeds] for beta in task.betas} for model in TITLES}


def sweep(scale: Scale, task: Task) -> Sweep:
    """The runs of a data set."""
    return Sweep(
        task.source,
        {**_COMMON, **task.settings},
        {"latents": task.latents, "learning_rate": task.learning_rate},
        {"name": "beta"},
        {"model": list(TITLES), "objective.beta": list(task.betas), "seed": scale.seed_list(*SEEDS)},
        measure(scale),
    )


def measure(scale: Scale) -> MeasurementSpec:
    """Types and rate over as many items as are encoded."""
    return MeasurementSpec(items=scale.pick(*ITEMS))


def encoded(scale: Scale, task: Task, runs: Runs) -> Codes:
    """The codes of the same items under every run."""
    items = _items(scale, task)
    device = choose_device(scale.device)
    return {
        model: {
            beta: [encode(run.model, items, device=device, progress=False) for run in own]
            for beta, own in by_beta.items()
        }
        for model, by_beta in runs.items()
    }


def _items(scale: Scale, task: Task) -> Dataset:
    return open_dataset(task.source).draw(scale.pick(*ITEMS)).to(choose_device(scale.device))


def tasks(scale: Scale, notes: list[str]) -> list[Task]:
    """The data sets of a scale that are there; the others are noted."""
    if scale.pick(True, False):
        notes.append(QUICK_NOTE)
        return [Task("digits", "digits", tuple(beta / 10 for beta in BETAS), 8, 5e-3, _QUICK)]
    sets = (("MNIST", "mnist", _EPOCHS), ("smallNORB", "smallnorb", _EPOCHS), ("dSprites", "dsprites", _MNIST_STEPS))
    return [
        Task(title, source, BETAS, 10, 5e-4, {**_PAPER, **length})
        for title, source, length in sets
        if scale.open(source, notes) is not None
    ]
