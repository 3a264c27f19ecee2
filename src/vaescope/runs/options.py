"""The options of a fit, and what follows from them and the data: architecture, split and training plan."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch

from vaescope.checks import LARGEST_NUMBER, finite_number, whole_number
from vaescope.data.conditions import condition_width
from vaescope.data.dataset import UNIT_RANGE, Dataset
from vaescope.errors import ConfigurationError, DataError, LikelihoodWarning, ScaleWarning, unknown_name
from vaescope.likelihoods import LIKELIHOODS, Counts, Gaussian, Likelihood, are_counts
from vaescope.likelihoods.units import large_scale, takes_any_scale
from vaescope.models import (
    MODELS,
    AnyArchitecture,
    Architecture,
    FactoryArchitecture,
    FactoryFunction,
    check_latents,
    likelihood_of,
)
from vaescope.models.architecture import checked_overcomplete
from vaescope.models.factory import checked_factory
from vaescope.nets import Net
from vaescope.numerics.moments import Spread
from vaescope.posteriors import Posterior
from vaescope.priors import Prior
from vaescope.registry import PartSpec
from vaescope.runs.configuration import Configuration, Split
from vaescope.runs.recorded_row import OnRow
from vaescope.runs.rows import ARCHITECTURE_PARTS
from vaescope.runs.run import Run
from vaescope.runs.store import DEFAULT_FOLDER, load
from vaescope.runs.trackers import Tracker
from vaescope.training import OPTIMISERS, Member, Plan
from vaescope.training.optimisers import Optimiser
from vaescope.training.plan import LARGEST_SEED

DEFAULT_MODEL, DEFAULT_LATENTS, DEFAULT_STEPS = "vae", 10, 5000
# A registered name, a table of a name and options, or a factory.
ModelSpec: TypeAlias = str | Mapping[str, object] | FactoryFunction
MIN_CONV_PIXELS = 16  # of an image's side; four halvings leave nothing of a smaller one
CHECK_CHUNK = 4096  # items


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """How models are built and trained, whatever they are trained for; `fit` documents the fields."""

    model: ModelSpec | None = None
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
    compile: bool | None = None
    progress: bool | None = None

    def __post_init__(self) -> None:
        if self.compile is not None and type(self.compile) is not bool:
            raise ConfigurationError(f"compile must be True, False or None, got {self.compile!r}.")
        finite_number("held_out, a share below 1 or a number of items,", self.held_out, at_least=0)
        whole_number("split_seed", self.split_seed, 0, LARGEST_SEED)

    def split(self) -> Split:
        """How held-out items are drawn."""
        return Split(self.held_out, self.split_seed)

    def architecture(self, data: Dataset) -> AnyArchitecture:
        """The architecture, with defaults chosen from the data."""
        chosen = DEFAULT_MODEL if self.model is None else self.model
        likelihood = _default_likelihood(data)
        if not isinstance(chosen, str | Mapping):
            self._check_factory_parts()
            built = FactoryArchitecture.of(checked_factory(chosen), data.shape, self.prior, self.likelihood, likelihood)
            return dataclasses.replace(built, standardise=data.standardise, missing=data.missing)
        name = str(chosen.get("name") if isinstance(chosen, Mapping) else chosen)
        if ":" in name:
            raise ConfigurationError(
                f"model must be a registered name or a factory itself, got the name {name!r} of a factory. Pass the "
                "function to vs.fit or vs.fondue; files of sweeps take registered names only."
            )
        model = MODELS[name]
        return Architecture(
            chosen,
            _default_net(data.shape) if self.net is None else self.net,
            model.default_posterior if self.posterior is None else self.posterior,
            self.prior,
            likelihood if self.likelihood is None else self.likelihood,
            self.initialisation,
            0 if model.condition is None else condition_width(data, model.condition),
            standardise=data.standardise,
            missing=data.missing,
        )

    def _check_factory_parts(self) -> None:
        """Raise an error for parts that a factory builds by itself."""
        for part in ("net", "posterior", "initialisation"):
            if getattr(self, part) is not None:
                raise ConfigurationError(
                    f"a factory builds its own {part}, got {part}={getattr(self, part)!r}. Remove it, or use a "
                    "registered model."
                )

    def chosen_device(self) -> torch.device:
        """The device to train on."""
        return torch.device(choose_device(self.device))


@dataclass(frozen=True, kw_only=True)
class FitOptions(TrainingOptions):
    """All options of `fit` apart from the data and the members; the fields are its keywords."""

    overcomplete: bool = False
    batch: int = 64
    epochs: float | None = None
    steps: int | None = None
    log_every: int | None = None
    evaluate_every: int | None = None
    evaluation_items: int = 2048
    monitor_every: int | None = None
    monitor_items: int = 512
    start: Run | str | Path | None = None
    runs: str | Path = DEFAULT_FOLDER
    checkpoint_seconds: float = 20.0
    on_row: OnRow | None = None
    tracker: PartSpec[Tracker] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_overcomplete(self.overcomplete)
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
    def of(cls, options: Mapping[str, Any]) -> FitOptions:
        """The options by name; an unknown name raises an error that lists the known ones."""
        known = [field.name for field in dataclasses.fields(cls)]
        for name in options:
            if name not in known:
                raise unknown_name("option of a fit", name, known)
        return cls(**options)  # values are checked when the object is made

    def architecture(self, data: Dataset) -> AnyArchitecture:
        """The architecture, with defaults chosen from the data."""
        found = super().architecture(data)
        return dataclasses.replace(found, overcomplete=True) if self.overcomplete else found

    def configurations(self, data: Dataset, members: Sequence[Member]) -> list[Configuration]:
        """The configuration of each member's run on these data, after checking that the parts and the data fit."""
        split, start = self.split(), self.start_run()
        overcomplete = self.overcomplete or (start is not None and start.configuration.architecture.overcomplete)
        for member in members:
            check_latents(member.latents, data.shape, overcomplete)
        architecture = self.architecture(data) if start is None else self._architecture_of(start, data, members)
        check_likelihood(architecture, data)
        plan, parent = self.plan(len(split.of(data)[0])), None if start is None else start.id
        return [Configuration.of(data, split, architecture, plan, member, parent) for member in members]

    def start_run(self) -> Run | None:
        """The run from whose weights training starts."""
        return None if self.start is None else load(self.start, self.runs)

    def default_latents(self) -> int:
        """The number of latents if none is given."""
        start = self.start_run()
        return DEFAULT_LATENTS if start is None else start.configuration.member.latents

    def _architecture_of(self, start: Run, data: Dataset, members: Sequence[Member]) -> AnyArchitecture:
        """The architecture of the run that training starts from, after checking that it is the one asked for."""
        known = start.configuration
        theirs = ours = known.architecture
        given = {part for part in (*ARCHITECTURE_PARTS, "initialisation") if getattr(self, part) is not None}
        if isinstance(theirs, FactoryArchitecture):
            self._check_factory_of(start, theirs)
        if given or not isinstance(theirs, FactoryArchitecture):
            table = theirs.plain()
            if isinstance(theirs, FactoryArchitecture) and "model" not in given:
                table["model"] = theirs.function
            kept: dict[str, Any] = {
                part: value for part, value in table.items() if hasattr(self, part) and part not in given
            }
            asked = dataclasses.replace(self, **kept).architecture(data)
            standardise, missing = theirs.standardise or asked.standardise, theirs.missing or asked.missing
            ours = dataclasses.replace(asked, standardise=standardise, missing=missing)
        shape = "shape of an item"
        before = {shape: tuple(known.data["shape"]), **_compared(theirs), "latents": known.member.latents}
        for member in members:
            now = {shape: data.shape, **_compared(ours), "latents": member.latents}
            different = [
                f"{name} {before.get(name)} in the run and {now.get(name)} here"
                for name in sorted({*before, *now})
                if before.get(name) != now.get(name)
            ]
            if different:
                raise ConfigurationError(
                    f"start must be a run of the same model for items of the same shape, but run {start.id} differs: "
                    f"{'; '.join(different)}. Leave out latents and parts of the model: those of the run are used."
                )
        return ours

    def _check_factory_of(self, start: Run, architecture: FactoryArchitecture) -> None:
        """Raise an error unless the factory of a run is known, or given here and the same."""
        if self.model is None or isinstance(self.model, str | Mapping):
            start.check_factory()
            return
        shape = tuple(start.configuration.data["shape"])
        changes = architecture.provide(checked_factory(self.model), shape, if_changed=False)
        if changes:
            raise ConfigurationError(
                f"start must be a run of the same model, but the factory has changed since run {start.id} was trained: "
                f"{', '.join(changes)}. Pass it as it was then; to start from the weights with the changed factory, "
                f"leave model out after vs.load({start.id!r}, model=factory)."
            )

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


def _default_net(shape: tuple[int, ...]) -> str:
    """The net for items of a shape."""
    if len(shape) == 2:
        return "conv1d"
    return "conv" if len(shape) == 3 and min(shape[1:]) >= MIN_CONV_PIXELS else "mlp"


def _default_likelihood(data: Dataset) -> PartSpec[Likelihood]:
    """The likelihood for images, counts or other vectors.

    Arrays that happen to hold whole numbers keep the Gaussian: their runs of earlier versions stay what they are.
    """
    if data.holds_counts and not data.standardise:
        return "negative_binomial"
    return "bernoulli" if data.is_image else {"name": "gaussian", "learned": True}


def _compared(architecture: AnyArchitecture) -> dict[str, object]:
    """The parts that must be those of a run to start from its weights; a factory may have changed."""
    table = architecture.plain()
    if table.pop("factory", None) is not None:
        table["model"] = "a factory"
    return table


def choose_device(device: str | torch.device | None) -> str:
    """The name of the device to train on. Default: 'cuda' if there is a GPU, else 'cpu'."""
    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    name = str(device)
    parts = re.fullmatch(r"(cpu|cuda|mps)(?::(\d{1,4}))?", name, re.ASCII)
    if parts is None:
        raise unknown_name("device", name, ["cpu", "cuda", "mps"])
    kind, number = parts.groups()
    if kind == "mps" and not torch.backends.mps.is_available():
        raise ConfigurationError(f"device {name!r} needs a Mac whose GPU torch can use; there is none. Use 'cpu'.")
    visible = torch.cuda.device_count()
    if kind == "cuda" and int(number or 0) >= visible:
        raise ConfigurationError(f"device {name!r} needs a GPU that torch can see; torch sees {visible}. Use 'cpu'.")
    return name


def check_likelihood(architecture: AnyArchitecture, data: Dataset) -> None:
    """Raise an error unless pixels lie in [0, 1] and the items are what the likelihood requires."""
    if data.pixel_range != UNIT_RANGE:
        low, high = data.pixel_range
        raise DataError(
            f"{data.name}: pixels must lie in [0, 1] to train on them, got {low:g}..{high:g}. Rescale them, and leave "
            "out as_given, which is for models of other libraries."
        )
    likelihood = likelihood_of(architecture)
    if likelihood is None:  # the decoder returns distributions
        return
    if not data.is_image:
        _warn_of_numbers(data, architecture, likelihood)
    if likelihood.requires is None or (data.is_image and likelihood.accepts(torch.tensor([0, 0.5, 1]))):
        return
    if data.holds_counts and isinstance(likelihood, Counts):
        return
    for items in data.chunks(CHECK_CHUNK):
        chunk = items if data.missing is None else items[~items.isnan()]
        if not likelihood.accepts(chunk):
            raise DataError(
                f"{data.name}: likelihood {LIKELIHOODS.name_of(likelihood)!r} needs {likelihood.requires}, got "
                f"{chunk.min():g}..{chunk.max():g}. Change the data, or use likelihood 'gaussian'."
            )


def _warn_of_numbers(data: Dataset, architecture: AnyArchitecture, likelihood: Likelihood) -> None:
    """Warn of counts under a Gaussian, or else of numbers that are too large for a net."""
    first = next(data.chunks(CHECK_CHUNK))
    if isinstance(likelihood, Gaussian) and are_counts(first) and first.max() > 1:
        warnings.warn(
            f"{data.name}: the items are counts (whole numbers from {first.min():g} to {first.max():g}), and their "
            "likelihood is 'gaussian'. 'negative_binomial' or 'poisson' is better for counts.",
            LikelihoodWarning,
            stacklevel=4,
        )
    elif takes_any_scale(likelihood) and not architecture.standardise:
        words = large_scale(Spread.of_known(first.flatten(1)))
        if words:
            warnings.warn(f"{data.name}: {words}", ScaleWarning, stacklevel=4)
