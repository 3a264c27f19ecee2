"""The options of a fit, and what follows from them and the data: architecture, split and training plan."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from vaescope.checks import LARGEST_NUMBER, finite_number, whole_number
from vaescope.data.conditions import condition_width
from vaescope.data.dataset import Dataset
from vaescope.errors import ConfigurationError, DataError, unknown_name
from vaescope.likelihoods import Bernoulli, Likelihood
from vaescope.models import MODELS, Architecture, check_latents
from vaescope.nets import Net
from vaescope.posteriors import Posterior
from vaescope.priors import Prior
from vaescope.registry import PartSpec
from vaescope.runs.configuration import Configuration, Split
from vaescope.runs.store import DEFAULT_FOLDER
from vaescope.training import OPTIMISERS, Member, Plan
from vaescope.training.optimisers import Optimiser
from vaescope.training.plan import LARGEST_SEED

DEFAULT_STEPS = 5000
MIN_CONV_PIXELS = 16  # of an image's side; four halvings leave nothing of a smaller one
CHECK_CHUNK = 4096  # items


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """How models are built and trained, whatever they are trained for; `fit` documents the fields."""

    model: str | Mapping[str, object] = "vae"
    net: PartSpec[Net] | None = None
    posterior: PartSpec[Posterior] | None = None
    prior: PartSpec[Prior] | None = None
    likelihood: PartSpec[Likelihood] | None = None
    initialisation: str | None = None
    optimiser: PartSpec[Optimiser] = "adam"
    precision: str = "float32"
    held_out: float | int = 0.1
    split_seed: int = 0
    device: str | torch.device | None = None
    progress: bool | None = None

    def __post_init__(self) -> None:
        finite_number("held_out, a share below 1 or a number of items,", self.held_out, at_least=0)
        whole_number("split_seed", self.split_seed, 0, LARGEST_SEED)

    def split(self) -> Split:
        """How held-out items are drawn."""
        return Split(self.held_out, self.split_seed)

    def architecture(self, data: Dataset) -> Architecture:
        """The architecture, with defaults chosen from the data."""
        convolved = data.is_image and min(data.shape[1:]) >= MIN_CONV_PIXELS
        model = MODELS[str(self.model.get("name") if isinstance(self.model, Mapping) else self.model)]
        likelihood = "bernoulli" if data.is_image else {"name": "gaussian", "learned": True}
        return Architecture(
            self.model,
            ("conv" if convolved else "mlp") if self.net is None else self.net,
            model.default_posterior if self.posterior is None else self.posterior,
            self.prior,
            likelihood if self.likelihood is None else self.likelihood,
            self.initialisation,
            0 if model.condition is None else condition_width(data, model.condition),
        )

    def chosen_device(self) -> torch.device:
        """The device to train on."""
        return torch.device(choose_device(self.device))


@dataclass(frozen=True, kw_only=True)
class FitOptions(TrainingOptions):
    """Everything `fit` can be asked for, apart from the data and the members; the fields are keywords of `fit`."""

    batch: int = 64
    epochs: float | None = None
    steps: int | None = None
    log_every: int | None = None
    evaluate_every: int | None = None
    evaluation_items: int = 2048
    monitor_every: int | None = None
    monitor_items: int = 512
    runs: str | Path = DEFAULT_FOLDER
    checkpoint_seconds: float = 20.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("batch", "evaluation_items", "steps", "log_every", "evaluate_every"):
            value = getattr(self, name)
            if value is not None or name in ("batch", "evaluation_items"):
                whole_number(name, value, 1)
        if self.epochs is not None:
            finite_number("epochs", self.epochs, above=0, at_most=LARGEST_NUMBER)
        if self.steps is not None and self.epochs is not None:
            raise ConfigurationError(
                f"give steps or epochs, not both; got steps={self.steps} and epochs={self.epochs}."
            )
        finite_number("checkpoint_seconds", self.checkpoint_seconds, at_least=0)
        if not (isinstance(self.runs, str | Path) and str(self.runs)):
            raise ConfigurationError(f"runs must be the path of a folder, got {self.runs!r}.")

    @classmethod
    def of(cls, options: Mapping[str, object]) -> FitOptions:
        """The options by name; an unknown name raises an error that lists the known ones."""
        known = [field.name for field in dataclasses.fields(cls)]
        for name in options:
            if name not in known:
                raise unknown_name("option of a fit", name, known)
        return cls(**options)  # type: ignore[arg-type]  # values are checked when the object is made

    def configurations(self, data: Dataset, members: Sequence[Member]) -> list[Configuration]:
        """The configuration of each member's run on these data, after checking that the parts and the data fit."""
        for member in members:
            check_latents(member.latents, data.shape)
        split, architecture = self.split(), self.architecture(data)
        check_likelihood(architecture, data)
        plan = self.plan(len(split.of(data)[0]))
        return [Configuration.of(data, split, architecture, plan, member) for member in members]

    def plan(self, items: int) -> Plan:
        """The plan for training on `items` items."""
        batch = min(self.batch, items)
        steps = max(1, round(self.epochs * (items // batch))) if self.epochs is not None else self.steps
        steps = DEFAULT_STEPS if steps is None else steps
        log_every = self.log_every or min(50, max(1, steps // 50))
        evaluate_every = self.evaluate_every or log_every * max(1, round(steps / 10 / log_every))
        return Plan(
            steps,
            batch,
            OPTIMISERS.resolve(self.optimiser),
            self.precision,
            log_every,
            evaluate_every,
            self.evaluation_items,
            self.monitor_every,
            self.monitor_items,
        )


def choose_device(device: str | torch.device | None) -> str:
    """The name of the device to train on. Default: 'cuda' if there is a GPU, else 'cpu'."""
    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    name = str(device)
    parts = re.fullmatch(r"(cpu|cuda)(?::(\d{1,4}))?", name, re.ASCII)
    if parts is None:
        raise unknown_name("device", name, ["cpu", "cuda"])
    kind, number = parts.groups()
    visible = torch.cuda.device_count()
    if kind == "cuda" and int(number or 0) >= visible:
        raise ConfigurationError(f"device {name!r} needs a GPU that torch can see; torch sees {visible}. Use 'cpu'.")
    return name


def check_likelihood(architecture: Architecture, data: Dataset) -> None:
    """A Bernoulli likelihood needs numbers in [0, 1]; images are in that range by contract, vectors are checked."""
    if data.is_image or not isinstance(architecture.likelihood, Bernoulli):
        return
    for chunk in data.chunks(CHECK_CHUNK):
        if float(chunk.min()) < 0 or float(chunk.max()) > 1:
            raise DataError(
                f"{data.name}: likelihood 'bernoulli' needs numbers in [0, 1], got {float(chunk.min()):g}.."
                f"{float(chunk.max()):g}. Rescale the data, or use likelihood 'gaussian'."
            )
