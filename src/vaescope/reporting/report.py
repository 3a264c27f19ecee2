"""`vaescope.report`: everything about one model, or several models compared, in one HTML file."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from vaescope.data import DataLike
from vaescope.diagnosis.compare import MAX_COMPARED_ITEMS, Comparison, compare
from vaescope.diagnosis.diagnose import Diagnosis, diagnose_subject
from vaescope.diagnosis.subject import MAX_ITEMS, NOT_A_RUN, History, Subject, history_of, load_subject
from vaescope.encoding import traversals
from vaescope.errors import ConfigurationError
from vaescope.markup import Markup, element, join
from vaescope.metrics.inputs import count_varying
from vaescope.numerics.confidence import student_interval
from vaescope.numerics.polarised import ALPHA
from vaescope.progress import progress_bar
from vaescope.reporting import page
from vaescope.reporting.comparison_plots import losses_plot, rates_plot, types_over_strength_plot, types_plot
from vaescope.reporting.decoder import NotExported
from vaescope.reporting.heatmaps import layer_plots, own_layers_plot, similarity_plot
from vaescope.reporting.history_plots import history_plot, rate_distortion_plot, types_over_training_plot
from vaescope.reporting.latent_plots import (
    correlation_plot,
    factor_plot,
    histograms_plot,
    importance_plot,
    information_plot,
)
from vaescope.reporting.latent_table import latent_rows, latent_table, pictured_latents
from vaescope.reporting.live import live_section
from vaescope.reporting.plots import Plot
from vaescope.reporting.sizing_plots import elbow_plot, fondue_plot
from vaescope.runs import Run, summary
from vaescope.runs.rows import drop_constant_settings
from vaescope.runs.store import run_of
from vaescope.sizing import Elbow, Fondue
from vaescope.sizing.axes import LATENTS
from vaescope.sizing.store import load_checks, load_results
from vaescope.tables import table

DEFAULT_PATH = "report.html"
STAGES = 3
DEFAULT_METRICS = ("mig", "dci")  # quick and well known
# Columns of a run's row that its page shows elsewhere.
SHOWN_ELSEWHERE = ("id", "status", "steps", "active", "mixed", "passive")
# Columns that are results of a run rather than settings.
RESULTS = ("active", "mixed", "passive", "rate", "test_loss", "test_reconstruction")
SPLITS = ("train_", "test_")  # how other columns of results begin
IDENTITY = ("name", "id", "seed", "status", "step", "rate_low", "rate_high")
ALWAYS_SHOWN = ("model", "objective", "latents")

Row = Mapping[str, object]


def report(
    subject: object,
    path: str | Path = DEFAULT_PATH,
    data: DataLike | None = None,
    *,
    metrics: str | Sequence[str] | None = None,
    alpha: float = ALPHA,
    items: int = MAX_ITEMS,
    layers: bool = True,
    seed: int = 0,
    runs: str | Path | None = None,
    progress: bool | None = None,
) -> Path:
    """Write a self-contained HTML report: verdict, findings, latents, live decoding and plots.

    The page says which parts are missing, and why.

    Args:
        subject: A model in any form that `diagnose` accepts; a list of several models is compared.
        path: The file to write.
        data: The items to encode; default: the data that the run was trained on.
        metrics: Names from `vaescope.metrics.METRICS`, or 'all'; default: MIG and DCI if the data have factors.
        alpha: The threshold of the variable types.
        items: The maximum number of items to encode.
        layers: Whether to compare the layers of the network.
        seed: The random seed for sampling and item selection.
        runs: The folder that contains the runs; default: 'runs'.
        progress: Whether to show a progress bar; default: on a terminal.

    Returns:
        The path of the file.
    """
    subjects = list(subject) if isinstance(subject, list) else [subject]
    if not subjects:
        raise ConfigurationError("report needs a run or codes, got an empty list. Pass at least one.")
    with progress_bar("report", STAGES, progress) as advance:
        if len(subjects) > 1:
            found_runs = [run_of(one, runs) for one in subjects]
            advance(0, "comparing")
            both = layers and None not in found_runs[:2]
            found = compare(subjects, data, items=min(items, MAX_COMPARED_ITEMS), layers=both, seed=seed, runs=runs)
            advance(1, "drawing")
            return page.write_page(path, comparison_page(found, found_runs))
        advance(0, "encoding")
        loaded = load_subject(subjects[0], data, items=items, seed=seed, runs=runs)
        advance(1, "diagnosing")
        default = DEFAULT_METRICS if count_varying(loaded.codes.factors, None) > 1 else ()
        diagnosis = diagnose_subject(loaded, alpha=alpha, metrics=default if metrics is None else metrics, seed=seed)
        advance(2, "drawing")
        return page.write_page(path, run_page(loaded, diagnosis, layers=layers, seed=seed))


def run_page(subject: Subject, diagnosis: Diagnosis, *, layers: bool = True, seed: int = 0) -> str:
    """The whole page.

    Args:
        subject: The model.
        diagnosis: Its diagnosis.
        layers: Whether to compare the layers of the network.
        seed: The random seed of the codes drawn from the prior.
    """
    results = [] if subject.run is None else _saved_results(subject.run, load_results)
    searches = [Fondue.from_plain(found) for found in results]
    plots = [plot for plot in _plots(subject, diagnosis, searches, layers) if plot is not None]
    parts = [
        ("cards", "Findings", page.cards(diagnosis.cards)),
        ("latents", "Latents", _latents(subject, diagnosis)),
        ("plots", "Plots", page.plots(plots)),
    ]
    missing = dict(subject.missing)
    try:
        words = element("p", "Drag a slider: the decoder runs in this page.", class_="quiet")
        live = join(words, live_section(subject, diagnosis.types, seed))
        parts.insert(2, ("decoding", "Live decoding", live))
    except NotExported as reason:
        missing["Live decoding"] = str(reason)
    return page.page(
        f"{subject.name}: {diagnosis.types.summary()}",
        element("h1", f"vaescope report of {subject.name}"),
        element("p", _verdict(subject, diagnosis, searches), class_="verdict"),
        None if subject.run is None else page.facts(_facts(subject.run, subject)),
        parts=parts,
        missing=missing | _missing(subject, diagnosis, searches),
    )


def _verdict(subject: Subject, diagnosis: Diagnosis, searches: Sequence[Fondue]) -> str:
    """Types, collapse, and the size that FONDUE suggests, if it searched with this model and objective."""
    text = diagnosis.summary()
    if subject.run is None:
        return text
    table = subject.run.configuration.plain()
    settings = {**table["architecture"], "objective": table["member"]["objective"]}
    sizes = {
        search.latents
        for search in searches
        if search.over == LATENTS and all(search.settings.get(name) == value for name, value in settings.items())
    }
    return f"{text[:-1]}; FONDUE suggests {' or '.join(map(str, sorted(sizes)))}." if sizes else text


def _facts(run: Run, subject: Subject) -> dict[str, object]:
    """The most important settings and results of a run."""
    configuration, encoded = run.configuration, len(subject.codes)
    if not subject.history:
        names = {"data": configuration.data["name"], "model": configuration.architecture.model}
        return {**names, "latents": configuration.member.latents, "encoded": encoded}
    (row,) = drop_constant_settings([summary(run)])
    known = {name: value for name, value in row.items() if name not in SHOWN_ELSEWHERE and not name.startswith(SPLITS)}
    return {**known, "test_loss": row.get("test_loss"), "encoded": encoded}


def _missing(subject: Subject, diagnosis: Diagnosis, searches: Sequence[Fondue]) -> dict[str, str]:
    """Part -> why the page does not contain it."""
    reasons = {}
    if diagnosis.meaning is None:
        reasons["Factors"] = "the data have no factors, so the page cannot say what a latent encodes."
    if subject.items is None:
        reasons["Pictures"] = "only codes were given, not the items they belong to."
    if subject.run is not None and not searches:
        # Not the source: a path may have bytes that no page can hold.
        command = f"vaescope fondue {shlex.quote(subject.run.configuration.data['name'])}"
        reasons["FONDUE"] = f"this folder has no search on these data; `{command}` runs one."
    return reasons


def _saved_results(run: Run, load: Callable[[Path], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The saved results in the folder of the run that are about the same data."""
    data = run.configuration.data["fingerprint"]
    return [table for table in load(run.path.parent) if table["data"].get("fingerprint") == data]


def _plots(subject: Subject, diagnosis: Diagnosis, searches: Sequence[Fondue], layers: bool) -> Iterator[Plot | None]:
    """Every plot for which there are data."""
    codes, types = subject.codes, diagnosis.types
    if subject.history:
        yield history_plot(subject.history)
        yield rate_distortion_plot(subject.history)
        yield types_over_training_plot(subject.history)
    yield histograms_plot(codes, types)
    if diagnosis.meaning is not None:
        yield factor_plot(diagnosis.meaning)
    for score in diagnosis.scores:
        yield importance_plot(score)
    yield correlation_plot(codes, types)
    yield information_plot(codes)
    for search in searches:
        yield fondue_plot(search)
    if subject.run is not None:
        for table in _saved_results(subject.run, load_checks):
            yield elbow_plot(Elbow.from_plain(table))
        if layers and subject.items is not None:
            yield own_layers_plot(subject.run.model, subject.items)


def _latents(subject: Subject, diagnosis: Diagnosis) -> Markup:
    """The table of latents, with traversals if there is a decoder."""
    rows = latent_rows(diagnosis, subject.codes)
    found = None
    if subject.run is not None and subject.items is not None:
        found = traversals(subject.run.model, subject.items, subject.codes, latents=pictured_latents(rows))
    return latent_table(rows, traversals=found, items=subject.items, name="latent-rows")


def comparison_page(found: Comparison, runs: Sequence[Run | None]) -> str:
    """The whole page; `runs` are the runs of the compared models, None for codes."""
    reasons: dict[str, str] = {}
    histories: list[tuple[str, History]] = []
    rows: list[Row] = []
    for name, run, row in zip(found.names, runs, found.rows(), strict=True):
        history, reason = ([], f"{NOT_A_RUN}.") if run is None else history_of(run)
        histories.append((name, history))
        rows.append({**(summary(run) if run is not None and history else {}), **row})
        if reason:
            reasons[f"History of {name}"] = reason
    plots = [
        types_plot(rows),
        types_over_strength_plot(rows),
        rates_plot(rows),
        losses_plot(histories),
        similarity_plot(found),
        *layer_plots(found),
    ]
    models = table(found.rows(), "One row per model; the rate with its 95% interval over the encoded items")
    parts = [("cards", "Findings", page.cards(found.cards)), ("models", "Models", models)]
    over_seeds = seed_rows(rows)
    if over_seeds:
        caption = "Means over runs that differ only in their seed, with Student's 95% interval"
        parts.append(("seeds", "Over seeds", table(over_seeds, caption)))
    parts.append(("plots", "Plots", page.plots([plot for plot in plots if plot is not None])))
    return page.page(
        f"{len(found.names)} models compared",
        element("h1", f"vaescope report of {len(found.names)} models"),
        element("p", f"{found.summary()}.", class_="verdict"),
        parts=parts,
        missing=reasons,
    )


def seed_rows(rows: Sequence[Row]) -> list[dict[str, object]]:
    """One row per setting that was trained with several seeds: its results as means with Student's 95% intervals."""
    groups: dict[tuple[tuple[str, object], ...], list[Row]] = {}
    for row in rows:
        settings = tuple(
            (name, value)
            for name, value in row.items()
            if name not in (*IDENTITY, *RESULTS) and not name.startswith(SPLITS)
        )
        groups.setdefault(settings, []).append(row)
    differing = {name for row in rows for name in row if len({other.get(name) for other in rows}) > 1}
    found = []
    for settings, members in groups.items():
        if len(members) < 2 or len({row.get("seed") for row in members}) < 2:
            continue
        shown = {name: value for name, value in settings if name in ALWAYS_SHOWN}
        shown |= {name: value for name, value in settings if name in differing}
        shown["seeds"] = len(members)
        for name in RESULTS:
            values = [value for row in members if isinstance(value := row.get(name), int | float)]
            if len(values) == len(members):
                low, high = student_interval(values)
                shown[name] = f"{fmean(values):.4g} ({low:.4g} to {high:.4g})"
        found.append(shown)
    return found
