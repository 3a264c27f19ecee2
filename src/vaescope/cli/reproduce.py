"""`vaescope reproduce`: a table or figure of the literature, from runs to a comparison with the published numbers."""

from __future__ import annotations

import sys
import time
from collections import Counter
from itertools import groupby
from json import loads as read_json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from vaescope.checks import finite_number
from vaescope.cli import options
from vaescope.cli.output import print_json, print_rows
from vaescope.cli.sweep import engine_options
from vaescope.errors import ConfigurationError
from vaescope.registry import lookup
from vaescope.terminal import print_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from vaescope.studies import Reproduction, StudyPlan, StudyUnfinished
    from vaescope.studies.settings import SettingsOptions

MAX_SHOWN_ROWS = 40  # on a terminal; files and --json have all
UNFINISHED = 3  # the exit code when pieces are missing


def reproduce(
    names: Annotated[list[str] | None, Argument(help="Studies by name; --list shows them.")] = None,
    list_all: Annotated[
        bool, Option("--list", help="List all studies: verdicts of their claims, minutes on an H200, state.")
    ] = False,
    scale: Annotated[str, Option(help="quick (seconds on a CPU) or paper (as published).")] = "quick",
    seeds: Annotated[int | None, Option(help="Number of seeds. Default: the study's own.")] = None,
    share: Annotated[
        list[str] | None,
        Option(help="Share of the study's training: 0.1, or NAME=0.1 for each data set."),
    ] = None,
    data: Annotated[
        list[str] | None,
        Option(help="Use only this data set; files are then named after it. Repeatable."),
    ] = None,
    plan: Annotated[
        bool, Option("--plan", help="Show the pieces that are done and missing, and exit. Trains nothing.")
    ] = False,
    minutes: Annotated[
        float | None,
        Option(
            help="Time limit: run whole pieces (at most 10 minutes each) until the next would not fit, then exit with "
            f"code {UNFINISHED}. Results are kept and the same command continues. Default: no limit."
        ),
    ] = None,
    piece: Annotated[
        str | None,
        Option(
            help="Do only one share of the pieces, such as 3/8 (third of eight), to divide a study among machines. "
            f"Exits with code {UNFINISHED} while shares of others are missing."
        ),
    ] = None,
    results: Annotated[
        list[str] | None,
        Option(
            help="Folder of results (small JSON files). Repeatable: results of further folders, from other machines, "
            "are verified and copied into the first. Default: results in the folder of runs."
        ),
    ] = None,
    runs: options.Runs = "runs",
    output: Annotated[str, Option("--output", "-o", help="Folder for NAME.html, .csv and .json.")] = "studies",
    figures: Annotated[
        str | None,
        Option(help="Also draw every chart as a file: svg, pdf or png. Needs matplotlib. Default: none."),
    ] = None,
    device: options.Device = None,
    engine: options.Engine = "local",
    address: options.Address = None,
    json: options.Json = False,
) -> None:
    """Train what is missing of a study, measure it, and compare our numbers with the published ones.

    Reuses finished runs and results, and resumes interrupted ones.
    """
    from vaescope.studies import STUDIES, StudySettings, parse_share
    from vaescope.studies import plan as plan_study
    from vaescope.studies import reproduce as reproduce_study
    from vaescope.studies.pages import make_output
    from vaescope.studies.pages.figures import check_kind

    if list_all:
        _print_list(json)
        return
    if not names:
        raise ConfigurationError("name a study to reproduce, or ask for all names with --list.")
    # Checked first, because it would otherwise fail after hours of training.
    for name in names:
        lookup(STUDIES, name, "study")
    if piece is not None:
        parse_share(piece)
    if figures is not None:
        check_kind(figures)
    chosen: SettingsOptions = {
        "seeds": seeds,
        "share": _shares(share or []),
        "data": tuple(data or ()),
        "runs": Path(runs),
        "results": tuple(Path(folder) for folder in results or ()),
        "device": device,
        "engine": engine,
        "engine_options": engine_options(engine, address=address),
    }
    StudySettings(scale, **chosen)
    if plan:
        _print_plans([plan_study(name, scale, piece=piece, **chosen) for name in names], json)
        return
    make_output(output)
    end = None if minutes is None else time.monotonic() + 60 * finite_number("minutes", minutes, above=0)

    def reproduced(name: str) -> Reproduction:
        # All studies share the time limit; it is nearly zero once used up.
        left = None if end is None else max(1e-6, (end - time.monotonic()) / 60)
        return reproduce_study(name, scale, minutes=left, piece=piece, **chosen)

    unfinished = _write_all(names, reproduced, output, figures, json)
    for study in unfinished:
        print_line(f"unfinished: {study}", sys.stderr)
    if unfinished:
        raise typer.Exit(UNFINISHED)


def _write_all(
    names: list[str], reproduced: Callable[[str], Reproduction], output: str, figures: str | None, json: bool
) -> list[StudyUnfinished]:
    """Reproduce, write and print one study after another; returns why some are unfinished."""
    from vaescope.studies import StudyUnfinished
    from vaescope.studies.pages import write_study
    from vaescope.studies.pages.figures import write_figures

    printed: list[dict[str, object]] = []
    unfinished: list[StudyUnfinished] = []
    try:
        for name in names:
            try:
                found = reproduced(name)
            except StudyUnfinished as stopped:
                unfinished.append(stopped)
                continue
            written = write_study(found, output)
            if figures is not None:
                kept = read_json(written["json"].read_text(encoding="utf-8"))
                drawn = write_figures(kept, output, figures, written["json"].stem)
                written |= {f"figure {number}": path for number, path in enumerate(drawn, 1)}
            files = {kind: str(path) for kind, path in written.items()}
            printed.append({**found.plain(), "files": files})
            if not json:
                _print_study(found, files)
    finally:
        # The results of earlier studies stay if one fails or is stopped.
        if json and printed:
            print_json(printed)
    return unfinished


def _print_list(json: bool) -> None:
    from vaescope.studies import STUDIES
    from vaescope.studies.claims import tally
    from vaescope.studies.kept import command_in_full, cost_of, state_of, verdicts_of

    known, shown = [], []
    for study in STUDIES.values():
        cost, verdicts = cost_of(command_in_full(study.name)), verdicts_of(study.name)
        row = {
            "name": study.name,
            "state": state_of(study.name),
            "h200_minutes": None if cost is None else cost.minutes,
            "source": study.source,
            "question": study.question,
        }
        known.append({**row, "verdicts": verdicts})
        shown.append({**row, "verdicts": tally(Counter(verdicts).elements())})
    if json:
        print_json(known)
        return
    names = ("name", "state", "h200_minutes", "verdicts", "source", "question")
    print_rows(shown, names, first=names, more="`--list --json` has all columns")
    print_line("h200_minutes: estimated time to train the whole study as published, on one H200.")


def _shares(given: list[str]) -> float | dict[str, float]:
    """One number for all data, or one for each by name."""
    must = "--share must be one number such as 0.1, or one for each set of data as NAME=0.1"
    try:
        if len(given) == 1 and "=" not in given[0]:
            return float(given[0])
        pairs = [(name, float(value)) for name, _, value in (text.rpartition("=") for text in given)]
    except ValueError as error:
        raise ConfigurationError(f"{must}, got {given}.") from error
    names = [name for name, _ in pairs]
    if "" in names or len(set(names)) < len(names):
        raise ConfigurationError(f"{must}, got {given}.")
    return dict(pairs) or 1.0


def _print_plans(plans: list[StudyPlan], json: bool) -> None:
    if json:
        print_json([plan.plain() for plan in plans])
        return
    for plan in plans:
        if plan.pieces:
            print_rows(plan.rows(), title=plan.study)
        print_line(f"{plan.summary()}.")


def _print_study(found: Reproduction, files: dict[str, str]) -> None:
    from vaescope.studies.pages import rows_for_people

    rows = rows_for_people(found.rows())
    if rows:
        print_rows(rows[:MAX_SHOWN_ROWS], title=found.study.name)
    if len(rows) > MAX_SHOWN_ROWS:
        print_line(f"{len(rows) - MAX_SHOWN_ROWS} more rows are in {files['csv']}")
    print_line(f"{found.summary()}.")
    for why, judged in groupby(found.judged(), key=lambda one: one.why):
        for one in judged:
            print_line(f"{one.verdict}: {one.claim.says}")
        print_line(f"  {why}")
    for note in found.findings.notes:
        print_line(f"note: {note}")
    print_line(f"written: {', '.join(files.values())}")
