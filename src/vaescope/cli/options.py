"""Options that several commands share, with their help, and their text as values."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property, wraps
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, TypeVar, get_type_hints

from typer import Argument, Option

from vaescope.checks import check_plain, too_deep
from vaescope.cli.variants import choices
from vaescope.errors import ConfigurationError, quoted

if TYPE_CHECKING:
    from vaescope.data import Dataset

FROM_DATA, FROM_MODEL = "; default: chosen from the data", "; default: chosen by the model"
PARTS = ("data", "model", "net", "posterior", "prior", "likelihood", "optimiser", "objective", "gap")

Number = TypeVar("Number", int, float)
Name = TypeVar("Name", bound="str | None")
Table = dict[str, object]

Data = Annotated[str, Argument(help="Name of a data set (see `vaescope datasets`), or path to your own data.")]
RunId = Annotated[str, Argument(help="Id of a run (its first characters suffice), or its folder.")]
EncodedData = Annotated[str | None, Option("--data", help="Data to encode; default: the data of the run.")]
Device = Annotated[str | None, Option(help="cpu or cuda; default: cuda if available.")]
Items = Annotated[int, Option(help="Maximum number of items to encode.")]
Seed = Annotated[int, Option(help="Random seed for sampling and item selection.")]
Alpha = Annotated[float, Option(help="Threshold of the variable types.")]
Metrics = Annotated[str | None, Option(help=f"Metrics to compute, separated by commas, or all: {choices('metric')}")]
Runs = Annotated[str, Option("--runs", help="Folder of the runs.")]
Engine = Annotated[str, Option(help="local (this machine) or ray (a cluster).")]
Address = Annotated[str | None, Option(help="Address of the ray cluster: auto, or host:port.")]
Json = Annotated[bool, Option("--json", help="Output JSON.")]


class TrainingKeywords(TypedDict):
    """What `fit_many`, `fondue` and `FitOptions` are given of `TrainingFlags`."""

    model: str | Table
    net: str | Table | None
    likelihood: str | Table | None
    posterior: str | Table | None
    prior: str | Table | None
    initialisation: str | None
    optimiser: str | Table
    precision: str
    held_out: float
    device: str | None
    runs: str


@dataclass(frozen=True)
class TrainingFlags:
    """What `fit` and `fondue` train and how: each field is an option of both commands."""

    model: Annotated[str, Option(help=choices("model"))] = "vae"
    net: Annotated[str | None, Option(help=choices("net", FROM_DATA))] = None
    likelihood: Annotated[str | None, Option(help=choices("likelihood", FROM_DATA))] = None
    posterior: Annotated[str | None, Option(help=choices("posterior", FROM_MODEL))] = None
    prior: Annotated[str | None, Option(help=choices("prior", FROM_MODEL))] = None
    objective: Annotated[str, Option(help=choices("objective"))] = "beta"
    warm_up: Annotated[
        float | None, Option(help="Steps over which all terms but the reconstruction reach their full weight.")
    ] = None
    free_bits: Annotated[float | None, Option(help="Nats of each latent's rate that are not penalised.")] = None
    optimiser: Annotated[str, Option(help=choices("optimiser"))] = "adam"
    precision: Annotated[str, Option(help=choices("precision"))] = "float32"
    initialisation: Annotated[str | None, Option(help=choices("initialisation", FROM_MODEL))] = None
    held_out: Annotated[float, Option(help="Share of items held out of training for evaluation.")] = 0.1
    device: Device = None
    runs: Runs = "runs"
    settings: Annotated[
        list[str] | None,
        Option("--set", help="Any option of a part, as PART.OPTION=VALUE, such as net.kernels=[4,4,4,4]."),
    ] = None

    @cached_property
    def tables(self) -> dict[str, Table]:
        """The options of each part that `--set` gave; a value is JSON, or else text."""
        tables: dict[str, Table] = {part: {} for part in PARTS}
        for setting in self.settings or []:
            path, equals, value = setting.partition("=")
            part, dot, option = path.partition(".")
            if not (equals and dot and option and part in PARTS):
                raise ConfigurationError(
                    f"--set must be PART.OPTION=VALUE with PART one of {', '.join(PARTS)}, got {quoted(setting)}."
                )
            tables[part][option] = _value(f"--set {path}", value)
        return tables

    def part(self, kind: str, name: Name) -> Name | Table:
        """A part by its name alone, or as a table with its options."""
        table = self.tables[kind]
        if not table:
            return name
        if name is None:
            raise ConfigurationError(f"--set {kind}.{next(iter(table))} needs --{kind} to name the {kind}.")
        return {"name": name, **table}

    def objective_table(self, beta: float | None) -> Table:
        """The objective as a table; options of the command line that are None keep the objective's default."""
        flags = {"beta": beta, "warm_up": self.warm_up, "free_bits": self.free_bits}
        given = {option: value for option, value in flags.items() if value is not None}
        return {"name": self.objective, **self.tables["objective"], **given}

    def keywords(self) -> TrainingKeywords:
        """The parts and settings as keywords."""
        return {
            "model": self.part("model", self.model),
            "net": self.part("net", self.net),
            "likelihood": self.part("likelihood", self.likelihood),
            "posterior": self.part("posterior", self.posterior),
            "prior": self.part("prior", self.prior),
            "initialisation": self.initialisation,
            "optimiser": self.part("optimiser", self.optimiser),
            "precision": self.precision,
            "held_out": self.held_out,
            "device": self.device,
            "runs": self.runs,
        }

    def open_data(self, data: str) -> str | Dataset:
        """The name or path itself, or the opened data set if `--set data.OPTION=VALUE` gave options."""
        options = self.tables["data"]
        if not options:
            return data
        from vaescope.data import open_dataset

        try:
            return open_dataset(data, **options)
        except TypeError as error:
            # Options come as text, so that they may be of any type.
            words = " ".join(f"--set data.{name}={value}" for name, value in options.items())
            raise ConfigurationError(
                f"the options of {data} must have the right types, got {words} ({error})."
            ) from error


def with_training_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command so that it has the options of `TrainingFlags` in place of its parameter `training`."""
    hints, kind = get_type_hints(TrainingFlags, include_extras=True), inspect.Parameter.KEYWORD_ONLY
    options = [
        inspect.Parameter(field.name, kind, default=field.default, annotation=hints[field.name])
        for field in fields(TrainingFlags)
    ]

    @wraps(command)
    def call(**given: Any) -> None:
        training = TrainingFlags(**{option.name: given.pop(option.name) for option in options})
        command(training=training, **given)

    signature = inspect.signature(command, eval_str=True)
    parameters = [[one] if one.name != "training" else options for one in signature.parameters.values()]
    # Typer reads the options of a command from its signature.
    vars(call)["__signature__"] = signature.replace(parameters=list(chain.from_iterable(parameters)))
    return call


def _value(name: str, text: str) -> object:
    """A value of `--set`: JSON, or else text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    except RecursionError as error:
        raise too_deep(name) from error
    check_plain(name, value)
    return value


def numbers(option: str, values: str, kind: Callable[[str], Number]) -> list[Number]:
    """The numbers of a comma-separated list."""
    try:
        return [kind(value) for value in values.split(",")]
    except ValueError:
        wanted = "whole numbers" if kind is int else "numbers"
        raise ConfigurationError(f"--{option} must be {wanted} separated by commas, got {quoted(values)}.") from None


def names(values: str | None) -> str | list[str] | None:
    """The names of a comma-separated list; 'all' and None stay as they are."""
    return values if values in (None, "all") else [name for name in values.split(",") if name]
