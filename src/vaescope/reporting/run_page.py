"""The page of one model: verdict, cards, latents, live decoding, plots, and what is missing."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from vaescope.diagnosis.diagnose import Diagnosis
from vaescope.diagnosis.subject import Subject
from vaescope.encoding import traversals
from vaescope.markup import Markup, element, join
from vaescope.reporting import sections
from vaescope.reporting.decoder import NotExported
from vaescope.reporting.heatmaps import own_layers_plot
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
from vaescope.reporting.page import page
from vaescope.reporting.plots import Plot
from vaescope.reporting.sizing_plots import elbow_plot, fondue_plot
from vaescope.runs import Run, summary
from vaescope.runs.columns import drop_constant_settings
from vaescope.sizing import Elbow, Fondue
from vaescope.sizing.axes import LATENTS
from vaescope.sizing.store import load_checks, load_results

# Columns of a run's row that the page shows elsewhere.
SHOWN_ELSEWHERE = ("id", "status", "steps", "active", "mixed", "passive")


def run_page(subject: Subject, diagnosis: Diagnosis, *, layers: bool = True, seed: int = 0) -> str:
    """The whole page.

    Args:
        subject: The model.
        diagnosis: Its diagnosis.
        layers: Whether to compare the layers of the network.
        seed: The random seed of the codes drawn from the prior.
    """
    missing = dict(subject.missing)
    try:
        live = [("decoding", "Live decoding", _decoding(subject, diagnosis, seed))]
    except NotExported as reason:
        live, missing["Live decoding"] = [], str(reason)
    results = [] if subject.run is None else _saved_results(subject.run, load_results)
    searches = [Fondue.from_plain(table) for table in results]
    plots = [plot for plot in _plots(subject, diagnosis, searches, layers) if plot is not None]
    parts = [
        ("cards", "Findings", sections.cards(diagnosis.cards)),
        ("latents", "Latents", _latents(subject, diagnosis)),
        *live,
        ("plots", "Plots", sections.plots(plots)),
    ]
    return page(
        f"{subject.name}: {diagnosis.types.summary()}",
        element("h1", f"vaescope report of {subject.name}"),
        element("p", _verdict(subject, diagnosis, searches), class_="verdict"),
        None if subject.run is None else sections.facts(_facts(subject.run, subject)),
        *[sections.section(*part) for part in parts],
        sections.missing_parts({**missing, **_missing(subject, diagnosis, searches)}),
        navigation=[(identity, title) for identity, title, _ in parts],
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
    known = {
        name: value
        for name, value in row.items()
        if name not in SHOWN_ELSEWHERE and not name.startswith(("train_", "test_"))
    }
    return {**known, "test_loss": row.get("test_loss"), "encoded": encoded}


def _missing(subject: Subject, diagnosis: Diagnosis, searches: Sequence[Fondue]) -> dict[str, str]:
    """Part -> why the page does not contain it."""
    reasons = {}
    if diagnosis.meaning is None:
        reasons["Factors"] = "the data have no factors, so the page cannot say what a latent encodes."
    if subject.items is None:
        reasons["Pictures"] = "only codes were given, not the items they belong to."
    if subject.run is not None and not searches:
        source = subject.run.provenance.source or subject.run.configuration.data["name"]
        command = f"vaescope fondue {shlex.quote(str(source))}"
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


def _decoding(subject: Subject, diagnosis: Diagnosis, seed: int) -> Markup:
    words = element("p", "Drag a slider: the decoder runs in this page.", class_="quiet")
    return join(words, live_section(subject, diagnosis.types, seed))
