"""What a fit can be asked for beside its members, with the defaults that fit the data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from vaescope.checks import finite_number, whole_number
from vaescope.data.conditions import condition_width
from vaescope.data.dataset import Dataset
from vaescope.errors import ConfigurationError, DataError, unknown_name
from vaescope.likelihoods import Bernoulli
from vaescope.models import MODELS, Architecture
from vaescope.runs.configuration import Split
from vaescope.runs.store import DEFAULT_FOLDER
from vaescope.training import Plan
from vaescope.training.plan import LARGEST_SEED

DEFAULT_STEPS = 5000
SMALLEST_CONVOLVED = 16  # pixels; smaller images have nothing left after four halvings


@dataclass(frozen=True)
class FitOptions:
    """Parts are names, `{"name": ..., option: ...}` tables or objects; None chooses by the data.

    Attributes:
        net: 'conv' for images of at least 16 x 16, else 'mlp'.
        posterior: 'diagonal', or 'deterministic' for an autoencoder.
        prior: 'standard', or 'conditional' for an identifiable model.
        likelihood: 'bernoulli' for images, else 'gaussian' with a learned variance.
        steps, epochs: one or the other, epochs also in part; 5000 steps when neither is given.
        held_out: share (float) or number (int) of items kept aside for evaluation; 0 for none.
        log_every, evaluate_every: steps between rows of the history (a fiftieth and a tenth of training or so).
        monitor_every: steps between looks at the types of the latents (200, and not more than 300 looks); 0 for none.
        device: 'cuda' where there is one, else 'cpu'.
        runs: the folder that runs are kept in.
        progress: whether to show a bar; None shows it on a terminal.
        checkpoint_seconds: time between checkpoints.
    """

    model: Any = "vae"
    net: Any = None
    posterior: Any = None
    prior: Any = None
    likelihood: Any = None
    initialisation: str | None = None
    optimiser: Any = "adam"
    batch: int = 64
    steps: int | None = None
    epochs: float | None = None
    precision: str = "float32"
    log_every: int | None = None
    evaluate_every: int | None = None
    evaluation_items: int = 2048
    monitor_every: int | None = None
    monitor_items: int = 512
    held_out: float | int = 0.1
    split_seed: int = 0
    device: str | torch.device | None = None
    runs: str | Path = DEFAULT_FOLDER
    progress: bool | None = None
    checkpoint_seconds: float = 20.0

    def __post_init__(self) -> None:
        for name in ("batch", "evaluation_items", "steps", "log_every", "evaluate_every"):
            value = getattr(self, name)
            if value is not None or name in ("batch", "evaluation_items"):
                whole_number(name, value, 1)
        if self.epochs is not None:
            finite_number("epochs", self.epochs, above=0)
        if self.steps is not None and self.epochs is not None:
            raise ConfigurationError(
                f"give steps or epochs, not both; got steps={self.steps} and epochs={self.epochs}."
            )
        finite_number("held_out, a share below 1 or a number of items,", self.held_out, at_least=0)
        whole_number("split_seed", self.split_seed, 0, LARGEST_SEED)
        finite_number("checkpoint_seconds", self.checkpoint_seconds, at_least=0)
        if not (isinstance(self.runs, str | Path) and str(self.runs)):
            raise ConfigurationError(f"runs must be the path of a folder, got {self.runs!r}.")

    @classmethod
    def of(cls, options: dict[str, Any]) -> FitOptions:
        """The settings by name; an unknown one lists the known."""
        known = [field.name for field in dataclasses.fields(cls)]
        for name in options:
            if name not in known:
                raise unknown_name("setting", name, known)
        return cls(**options)

    @property
    def model_name(self) -> Any:
        """The name of the model, which may be given as a table of its options."""
        return self.model.get("name") if isinstance(self.model, Mapping) else self.model

    def split(self) -> Split:
        """How held-out items are drawn."""
        return Split(self.held_out, self.split_seed)

    def architecture(self, data: Dataset) -> Architecture:
        """The architecture, with what was left open chosen by the data."""
        convolved = data.is_image and min(data.shape[1:]) >= SMALLEST_CONVOLVED
        name = self.model_name
        model = MODELS[name]
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

    def plan(self, items: int) -> Plan:
        """The plan for training on this many items."""
        batch = min(self.batch, items)
        steps = max(1, round(self.epochs * (items // batch))) if self.epochs is not None else self.steps
        steps = DEFAULT_STEPS if steps is None else steps
        log_every = self.log_every or min(50, max(1, steps // 50))
        evaluate_every = self.evaluate_every or log_every * max(1, round(steps / 10 / log_every))
        return Plan(
            steps,
            batch,
            self.optimiser,
            self.precision,
            log_every,
            evaluate_every,
            self.evaluation_items,
            self.monitor_every,
            self.monitor_items,
        )

    def chosen_device(self) -> torch.device:
        """The device to train on."""
        if self.device is None:
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        name = str(self.device)
        kind, _, number = name.partition(":")
        if kind not in ("cpu", "cuda") or (":" in name and not number.isdecimal()):
            raise unknown_name("device", name, ["cpu", "cuda"])
        seen = torch.cuda.device_count()
        if kind == "cuda" and int(number or 0) >= seen:
            how_many = "there is none" if not seen else f"it sees {seen}"
            raise ConfigurationError(f"device {name!r} needs a GPU that torch can see, {how_many}. Use 'cpu'.")
        return torch.device(name)


def check_likelihood(architecture: Architecture, data: Dataset) -> None:
    """A Bernoulli likelihood takes numbers in [0, 1]; images are by contract, vectors are looked at."""
    if data.is_image or not isinstance(architecture.likelihood, Bernoulli):
        return
    for chunk in data.chunks(4096):
        if float(chunk.min()) < 0 or float(chunk.max()) > 1:
            raise DataError(
                f"{data.name}: likelihood 'bernoulli' takes numbers in [0, 1], got {float(chunk.min()):g}.."
                f"{float(chunk.max()):g}. Rescale the data, or use likelihood 'gaussian'."
            )


def choose_device(device: str | None) -> str:
    """The name of the device to train on: `device`, or by default 'cuda' if there is a GPU, else 'cpu'."""
    return str(FitOptions(device=device).chosen_device())
