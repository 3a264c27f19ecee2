"""Options that several commands share, with their help, and their text as values."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, wraps
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, TypeVar, get_type_hints

import typer
from typer import Argument, Option

from vaescope.cli.completion import of_kind, of_names, run_ids, several
from vaescope.cli.values import Table, number, numbers, one_or_several, tables_of
from vaescope.cli.variants import choices
from vaescope.errors import ConfigurationError, quoted
from vaescope.progress import no_log_lines

if TYPE_CHECKING:
    from vaescope.data import Dataset

FROM_DATA, FROM_MODEL = "; default: chosen from the data", "; default: chosen by the model"
DATA_OPTIONS = "Options of the data"  # the panel of the help
PARTS = ("data", "model", "net", "posterior", "prior", "likelihood", "optimiser", "objective", "gap", "tracker")

Name = TypeVar("Name", bound="str | None")

Data = Annotated[
    str,
    Argument(
        help="Name of a data set (see `vaescope datasets`), or path to your own data.", autocompletion=of_kind("data")
    ),
]
RunId = Annotated[
    str, Argument(help="Id of a run (its first characters suffice), or its folder.", autocompletion=run_ids)
]
EncodedData = Annotated[
    str | None, Option("--data", help="Data to encode; default: the data of the run.", autocompletion=of_kind("data"))
]
Device = Annotated[
    str | None,
    Option(
        help="cpu, cuda or mps (untested); default: cuda if available.",
        autocompletion=of_names("cpu", "cuda", "mps"),
    ),
]
Items = Annotated[int, Option(help="Maximum number of items to encode.")]
Seed = Annotated[int, Option(help="Random seed for sampling and item selection.")]
Alpha = Annotated[float, Option(help="Threshold of the variable types.")]
Metrics = Annotated[
    str | None,
    Option(
        help=f"Metrics to compute, separated by commas, or all: {choices('metric')}",
        autocompletion=several(of_kind("metric")),
    ),
]
Runs = Annotated[str, Option("--runs", help="Folder of the runs.")]
Engine = Annotated[
    str, Option(help="local (this machine) or ray (a cluster).", autocompletion=of_names("local", "ray"))
]
Address = Annotated[str | None, Option(help="Address of the ray cluster: auto, or host:port.")]
Tracker = Annotated[
    str | None,
    Option(help=f"Where to show the runs while they train: {choices('tracker')}", autocompletion=of_kind("tracker")),
]
Factory = Annotated[
    str | None, Option("--model", help="package.module:name of the factory that the run was trained with.")
]


def _for_programs(context: typer.Context, json: bool) -> bool:
    """Show progress on terminals only if the output is JSON."""
    if json and not context.resilient_parsing:
        context.with_resource(no_log_lines())
    return json


Json = Annotated[bool, Option("--json", help="Output JSON, and no progress in logs.", callback=_for_programs)]


def imported_factory(name: str) -> Callable[[int], object]:
    """A factory by its name; modules in the current folder are found, too."""
    from vaescope.models.factory import imported_factory as imported

    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    return imported(name)


def use_factory(name: str | None, subjects: Sequence[str], runs: str) -> None:
    """Use the factory with this name for those of the subjects that are runs of a factory."""
    if name is None:
        return
    from vaescope.models import FactoryArchitecture
    from vaescope.runs.store import provide_factory, run_of

    factory = imported_factory(name)
    found = [run for run in (run_of(subject, runs) for subject in subjects) if run is not None]
    built = [run for run in found if isinstance(run.configuration.architecture, FactoryArchitecture)]
    if not built:
        raise ConfigurationError(f"--model is for runs that were trained with a factory, got {', '.join(subjects)}.")
    for run in built:
        provide_factory(run, factory)


@dataclass(frozen=True)
class Flags:
    """A frozen dataclass whose fields are options of several commands; see `with_flags`."""


class TrainingKeywords(TypedDict):
    """Keyword arguments of `fit_many`, `fondue` and `FitOptions`, made from `TrainingFlags`."""

    model: str | Table | Callable[[int], object] | None
    net: str | Table | None
    likelihood: str | Table | None
    posterior: str | Table | None
    prior: str | Table | None
    initialisation: str | None
    optimiser: str | Table
    precision: str
    held_out: float
    device: str | None
    compile: bool | None
    runs: str


def part_option(kind: str, suffix: str = "") -> Any:
    """An option that takes the name of a part."""
    return Option(help=choices(kind, suffix), autocompletion=of_kind(kind))


def _data_option(help: str, *names: str) -> Any:
    """An option in the panel of the data."""
    return Option(*names, help=help, rich_help_panel=DATA_OPTIONS)


@dataclass(frozen=True)
class DataFlags(Flags):
    """How data are opened: each field that is given is an option of `open_dataset`."""

    size: Annotated[str | None, _data_option("Resize images to a square, or to HEIGHT,WIDTH.")] = None
    label: Annotated[str | None, _data_option("Column of the labels.")] = None
    factors: Annotated[str | None, _data_option("Columns of the factors, or a table of them.")] = None
    columns: Annotated[str | None, _data_option("Columns to use, separated by commas.")] = None
    drop: Annotated[str | None, _data_option("Columns to leave out, separated by commas.")] = None
    missing: Annotated[str | None, _data_option("What to do about missing values: mean or mask.")] = None
    standardise: Annotated[bool, _data_option("Train on dimensions of mean 0 and variance 1.", "--standardise")] = False
    range: Annotated[str | None, _data_option("Pixels that are black and white, such as -1,1.")] = None
    layer: Annotated[str | None, _data_option("Layer of an AnnData, such as counts.")] = None

    def options(self, others: Mapping[str, object] | None = None) -> Table:
        """The options of `open_dataset` that were given, together with those of `--set`."""
        given: dict[str, object | None] = {
            "size": None if self.size is None else one_or_several(numbers("size", self.size, int)),
            "label": self.label,
            "factors": None if self.factors is None else one_or_several(self.factors.split(",")),
            "columns": None if self.columns is None else self.columns.split(","),
            "drop": None if self.drop is None else self.drop.split(","),
            "missing": self.missing,
            "standardise": self.standardise or None,
            "range": None if self.range is None else numbers("range", self.range, number),
            "layer": self.layer,
        }
        found = {option: value for option, value in given.items() if value is not None}
        for option in found:
            if others and option in others:
                raise ConfigurationError(f"give --{option} or --set data.{option}, not both.")
        return {**found, **(others or {})}

    def open(self, data: str, others: Mapping[str, object] | None = None) -> str | Dataset:
        """The name or path itself, or the opened data set if there are options."""
        options = self.options(others)
        if not options:
            return data
        from vaescope.data import open_dataset
        from vaescope.data.sources import flags_of

        try:
            return open_dataset(data, **options)
        except TypeError as error:
            # Options are parsed from text, so they may have the wrong type.
            words = " ".join(flags_of(options))
            raise ConfigurationError(
                f"the options of {data} must have the right types, got {words} ({error})."
            ) from error


@dataclass(frozen=True)
class EncodedDataFlags(DataFlags):
    """How a command opens the data that `--data` names."""

    settings: Annotated[list[str] | None, _data_option("Any other option, as data.OPTION=VALUE.", "--set")] = None

    def open_given(self, data: str | None) -> str | Dataset | None:
        """The data, if there are any."""
        others = tables_of(self.settings, ("data",))["data"]
        if data is not None:
            return self.open(data, others)
        for option in self.options(others):
            flag = f"--set data.{option}" if option in others else f"--{option}"
            raise ConfigurationError(f"{flag} is an option of the data to open. Name them with --data.")
        return None


@dataclass(frozen=True)
class TrainingFlags(Flags):
    """Training settings of `fit` and `fondue`: each field is an option of both commands."""

    model: Annotated[str | None, part_option("model", ", or a factory as package.module:name; default: vae")] = None
    net: Annotated[str | None, part_option("net", FROM_DATA)] = None
    likelihood: Annotated[str | None, part_option("likelihood", FROM_DATA)] = None
    posterior: Annotated[str | None, part_option("posterior", FROM_MODEL)] = None
    prior: Annotated[str | None, part_option("prior", FROM_MODEL)] = None
    objective: Annotated[str, part_option("objective")] = "beta"
    warm_up: Annotated[
        float | None, Option(help="Steps over which all terms but the reconstruction reach their full weight.")
    ] = None
    free_bits: Annotated[float | None, Option(help="Nats of each latent's rate that are not penalised.")] = None
    optimiser: Annotated[str, part_option("optimiser")] = "adam"
    precision: Annotated[str, part_option("precision")] = "float32"
    initialisation: Annotated[str | None, part_option("initialisation", FROM_MODEL)] = None
    held_out: Annotated[float, Option(help="Share of items held out of training for evaluation.")] = 0.1
    device: Device = None
    compile: Annotated[
        bool | None,
        Option("--compile/--no-compile", help="Compile the training step on a GPU; default: where that pays back."),
    ] = None
    runs: Runs = "runs"
    settings: Annotated[
        list[str] | None,
        Option("--set", help="Any option of a part, as PART.OPTION=VALUE, such as net.kernels=[4,4,4,4]."),
    ] = None

    @cached_property
    def tables(self) -> dict[str, Table]:
        """The options of each part given by `--set`; a value is JSON, or else text."""
        return tables_of(self.settings, PARTS)

    def part(self, kind: str, name: Name) -> Name | Table:
        """A part by its name alone, or as a table with its options."""
        table = self.tables[kind]
        if not table:
            return name
        if name is None:
            raise ConfigurationError(f"--set {kind}.{next(iter(table))} needs --{kind} to name the {kind}.")
        return {"name": name, **table}

    def refuse(self, kind: str, command: str) -> None:
        """Raise an error if `--set` gave options of a part that the command does not have."""
        for option in self.tables[kind]:
            raise ConfigurationError(f"--set {kind}.{option} is not an option of {command}, which has no {kind}.")

    def objective_table(self, beta: float | None) -> Table:
        """The objective as a table; options of the command line that are None keep the objective's default."""
        flags = {"beta": beta, "warm_up": self.warm_up, "free_bits": self.free_bits}
        given = {option: value for option, value in flags.items() if value is not None}
        return {"name": self.objective, **self.tables["objective"], **given}

    def keywords(self) -> TrainingKeywords:
        """The parts and settings as keywords."""
        return {
            "model": self._model(),
            "net": self.part("net", self.net),
            "likelihood": self.part("likelihood", self.likelihood),
            "posterior": self.part("posterior", self.posterior),
            "prior": self.part("prior", self.prior),
            "initialisation": self.initialisation,
            "optimiser": self.part("optimiser", self.optimiser),
            "precision": self.precision,
            "held_out": self.held_out,
            "device": self.device,
            "compile": self.compile,
            "runs": self.runs,
        }

    def _model(self) -> str | Table | Callable[[int], object] | None:
        """A registered model, or the factory named by package.module:name."""
        if self.model is None or ":" not in self.model:
            module, dot, name = (self.model or "").rpartition(".")
            if dot:
                raise ConfigurationError(
                    f"--model must be a registered name or a factory as package.module:name, got {quoted(self.model)}. "
                    f"Write --model {module}:{name}."
                )
            return self.part("model", self.model)
        self.refuse("model", "a factory")
        return imported_factory(self.model)


def with_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command so that it has the options of its `Flags` in place of each parameter that takes them."""
    signature, kind = inspect.signature(command, eval_str=True), inspect.Parameter.KEYWORD_ONLY
    groups = {
        name: one.annotation
        for name, one in signature.parameters.items()
        if isinstance(one.annotation, type) and issubclass(one.annotation, Flags)
    }
    options: dict[str, list[inspect.Parameter]] = {}
    for name, group in groups.items():
        hints = get_type_hints(group, include_extras=True)
        options[name] = [
            inspect.Parameter(field.name, kind, default=field.default, annotation=hints[field.name])
            for field in fields(group)
        ]

    @wraps(command)
    def call(**given: Any) -> None:
        flags = {
            name: group(**{option.name: given.pop(option.name) for option in options[name]})
            for name, group in groups.items()
        }
        command(**given, **flags)

    parameters = [options.get(name, [one]) for name, one in signature.parameters.items()]
    # Typer reads the options of a command from its signature.
    vars(call)["__signature__"] = signature.replace(parameters=list(chain.from_iterable(parameters)))
    return call
