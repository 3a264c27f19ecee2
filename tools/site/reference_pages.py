"""Pages of the reference that are written from the code: commands, settings, keys of sweep files, the API."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import typer
import typer.core

import vaescope as vs
from vaescope.cli import app
from vaescope.runs.measurements import MeasurementSpec
from vaescope.sweeps.specification import MEMBER_KEYS
from vaescope.sweeps.toml import SCHEMA

Command: TypeAlias = typer.core.TyperCommand | typer.core.TyperGroup
Parameter: TypeAlias = typer.core.TyperArgument | typer.core.TyperOption

# Package -> what it is for; a page of the API for each. The first is the public face.
PACKAGES = {
    "vaescope": "The functions that most people need.",
    "vaescope.data": "Data sets.",
    "vaescope.codes": "Codes, and files of codes.",
    "vaescope.regime": "The polarised regime: types, collapse, means vs. samples.",
    "vaescope.metrics": "Metrics of disentanglement and of decoders.",
    "vaescope.similarity": "Similarities of representations.",
    "vaescope.dimension": "Intrinsic dimension.",
    "vaescope.encoding": "What runs a trained model.",
    "vaescope.models": "Models.",
    "vaescope.nets": "Nets.",
    "vaescope.posteriors": "Posteriors.",
    "vaescope.priors": "Priors.",
    "vaescope.likelihoods": "Likelihoods.",
    "vaescope.objectives": "Objectives.",
    "vaescope.training": "Training plans, optimisers and members of ensembles.",
    "vaescope.runs": "Runs on disk.",
    "vaescope.sweeps": "Sweeps.",
    "vaescope.sizing": "FONDUE.",
    "vaescope.diagnosis": "Diagnoses and comparisons.",
    "vaescope.reporting": "Reports and plots.",
    "vaescope.studies": "Studies of the literature.",
    "vaescope.errors": "Errors and warnings.",
}


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    escaped = [[re.sub(r"\s*\n\s*", " ", cell).replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *escaped])


def commands_page() -> str:
    """Every command with its arguments and options, as `--help` has them."""
    parts = ["# Commands", "Every command takes `--help`. Wrong input prints one sentence and exits with code 2."]
    for name, command in _commands(typer.main.get_command(app), "vaescope"):
        parts += [f"## {name}", _plain(command.help or "")]
        context = command.context_class(command, info_name=name)
        parts.append(f"```text\n{name} {' '.join(command.collect_usage_pieces(context))}\n```")
        rows = [_parameter_row(one, context) for one in command.params if not getattr(one, "hidden", False)]
        parts.append(table(["option", "meaning", "default"], [row for row in rows if row is not None]))
    return "\n\n".join(parts) + "\n"


def _commands(command: Command, name: str) -> Iterator[tuple[str, Command]]:
    if not isinstance(command, typer.core.TyperGroup):
        yield name, command
        return
    if command.invoke_without_command and name != "vaescope":
        yield name, command
    for short, one in command.commands.items():
        yield from _commands(one, f"{name} {short}")


def _parameter_row(parameter: Parameter, context: typer.Context) -> list[str] | None:
    if parameter.name == "help":
        return None
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    meaning = _plain(parameter.help or "")
    default = parameter.get_default(context)
    shown = "" if default in (None, False, (), []) or callable(default) else f"`{default}`"
    return [names, meaning, shown]


def _plain(text: str) -> str:
    """Help text without the markup of terminals."""
    return re.sub(r"\\(\[)", r"\1", text).strip()


def arguments_of(function: Callable[..., object]) -> dict[str, str]:
    """The names of the section Args of a docstring, and what it says of each; names listed together share a text."""
    text = inspect.getdoc(function) or ""
    found = re.search(r"^(?:Args|Attributes):\n(.*?)(?=^\S|\Z)", text, re.DOTALL | re.MULTILINE)
    meanings: dict[str, str] = {}
    for entry in re.split(r"\n(?=    \S)", found[1] if found else ""):
        names, _, meaning = entry.strip().partition(": ")
        meanings |= {name.strip(): " ".join(meaning.split()) for name in names.split(",")}
    return meanings


def settings_page() -> str:
    """Every keyword of `fit`."""
    keywords, meanings = inspect.signature(vs.fit).parameters, arguments_of(vs.fit)
    rows = [
        [f"`{name}`", meanings[name], "" if one.default in (None, one.empty) else f"`{one.default}`"]
        for name, one in keywords.items()
    ]
    introduction = (
        "# Settings of a fit\n\nThe keywords of `vs.fit`. `vs.fit_many` takes those that members share as "
        "`vs.FitOptions`; `vaescope fit` has the same as options, and `--set KEY=VALUE` for all others; sweep files "
        "have them as [keys](sweep-file.md). Options of parts are listed in [the family](../family.md)."
    )
    return f"{introduction}\n\n{table(['keyword', 'meaning', 'default'], rows)}\n"


def sweep_page() -> str:
    """Every key of a sweep file."""
    meanings = arguments_of(vs.fit) | {f"measure.{name}": text for name, text in arguments_of(MeasurementSpec).items()}
    free = {
        "data": "`name`, which is a data set or a path, and the options of `vs.open_dataset`.",
        "objective": "`name`, and the strengths of the objective, such as `beta`.",
        "grid": "Any key of the other sections, with a list of values: `latents`, `seed`, `data`, or an option of a "
        'part, such as `"objective.beta"`, `"net.kernels"` or `"data.size"`. One run for each combination.',
    }
    parts = [
        "# Keys of a sweep file",
        "A sweep file is TOML. Sections are optional except `data`. A mistake is reported with its line.",
    ]
    defaults = {one.name: one.default for one in dataclasses.fields(vs.FitOptions)}
    measured = {one.name: one.default for one in dataclasses.fields(MeasurementSpec)}
    members = dict.fromkeys(MEMBER_KEYS) | {
        "learning_rate": inspect.signature(vs.fit).parameters["learning_rate"].default
    }
    for section, keys in SCHEMA.items():
        parts.append(f"## [{section}]")
        if section in free:
            parts.append(free[section])
            continue
        known: Mapping[str, object] = measured if section == "measure" else defaults | members
        prefix = "measure." if section == "measure" else ""
        rows = [
            [f"`{key}`", meanings[prefix + key], "" if known.get(key) in (None, ()) else f"`{known[key]}`"]
            for key in keys
        ]
        parts.append(table(["key", "meaning", "default"], rows))
    return "\n\n".join(parts) + "\n"


def api_pages() -> dict[str, str]:
    """A page for each package, with its public names; the docstrings are put in when the site is built."""
    pages = {
        "index.md": "# API\n\n"
        + table(["package", "what it has"], [[f"[`{name}`]({_file(name)})", text] for name, text in PACKAGES.items()])
        + "\n"
    }
    for package, text in PACKAGES.items():
        lines = [f"# {package}", text]
        for name, where in sorted(_public(package).items()):
            lines.append(f"::: {where}.{name}\n    options:\n      heading_level: 2")
        pages[_file(package)] = "\n\n".join(lines) + "\n"
    return pages


def _file(package: str) -> str:
    return f"{package.replace('.', '-')}.md"


def _public(package: str) -> dict[str, str]:
    """The public classes and functions of a package, with the module that defines each."""
    module = importlib.import_module(package)
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    found = {}
    for name in names:
        value = getattr(module, name)
        documented = inspect.isclass(value) or inspect.isfunction(value)
        where = getattr(value, "__module__", "")
        # A name of a package below is documented there, unless this is the public face.
        if documented and (package == "vaescope" or where == package or where.startswith(f"{package}.")):
            found[name] = where
    return found


def write_reference(folder: Path) -> None:
    """Write all generated pages into the folder of the reference."""
    (folder / "api").mkdir(parents=True, exist_ok=True)
    pages = {"commands.md": commands_page(), "fit.md": settings_page(), "sweep-file.md": sweep_page()}
    pages |= {f"api/{name}": text for name, text in api_pages().items()}
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
