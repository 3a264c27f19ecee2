"""The plots of a model, of codes or of a result, by name: those that a report shows, to be saved or changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from vaescope.data import DataLike
from vaescope.diagnosis.compare import Comparison
from vaescope.diagnosis.diagnose import Diagnosis, diagnose_subject
from vaescope.diagnosis.subject import Subject, load_subject
from vaescope.errors import ConfigurationError
from vaescope.metrics import Meaning
from vaescope.metrics.inputs import count_varying
from vaescope.numerics.polarised import ALPHA
from vaescope.reporting.heatmaps import layer_plots, map_plot, own_layers_plot, positions_plot, similarity_plot
from vaescope.reporting.history_plots import history_plot, rate_distortion_plot, types_over_training_plot
from vaescope.reporting.latent_plots import (
    correlation_plot,
    factor_plot,
    histograms_plot,
    importance_plot,
    information_plot,
)
from vaescope.reporting.plots import Plot
from vaescope.reporting.rate_plots import rates_over_training_plot
from vaescope.reporting.sizing_plots import elbow_plot, fondue_plot
from vaescope.runs import Run
from vaescope.runs.store import MAX_ITEMS
from vaescope.similarity import SimilarityMap
from vaescope.sizing import Elbow, Fondue
from vaescope.sizing.store import load_checks, load_results

DEFAULT_METRICS = ("mig", "dci")  # quick and well known


def draw(
    subject: object,
    data: DataLike | None = None,
    *,
    metrics: str | Sequence[str] | None = None,
    alpha: float = ALPHA,
    items: int = MAX_ITEMS,
    layers: bool = False,
    seed: int = 0,
    runs: str | Path | None = None,
) -> dict[str, Plot]:
    """Draw the plots that a report has; each can be saved as .svg, .pdf, .png, .html or .csv.

    Args:
        subject: A model or codes in any form that `diagnose` accepts, or the result of `fondue`, of `compare`, of the
            elbow check, of `meaning`, or a map of similarities.
        data: The items to encode; default: the data that the run was trained on.
        metrics: Names from `vaescope.metrics.METRICS`, or 'all'; default: MIG and DCI if the data have factors.
        alpha: The threshold of the variable types.
        items: The maximum number of items to encode.
        layers: Whether to compare the layers of the network.
        seed: The random seed for sampling and item selection.
        runs: The folder that contains the runs; default: 'runs'.

    Returns:
        The plots by their titles in small letters, in the order of the report.
    """
    if isinstance(subject, list):
        raise ConfigurationError("draw takes one model or result. For several models, draw the result of vs.compare.")
    found = _plots_of_result(subject)
    if found is None:
        loaded = load_subject(subject, data, items=items, seed=seed, runs=runs)
        diagnosis = diagnose_subject(loaded, alpha=alpha, metrics=chosen_metrics(loaded, metrics), seed=seed)
        searches = [] if loaded.run is None else saved_searches(loaded.run)
        found = [plot for plot in plots_of(loaded, diagnosis, searches, layers) if plot is not None]
    return {plot.title.lower(): plot for plot in found}


def _plots_of_result(result: object) -> list[Plot] | None:
    """The plots of a result; None if it is a subject of a diagnosis."""
    if isinstance(result, Fondue):
        return [fondue_plot(result)]
    if isinstance(result, Elbow):
        return [elbow_plot(result)]
    if isinstance(result, SimilarityMap):
        return [map_plot(result)]
    if isinstance(result, Meaning):
        return [factor_plot(result)]
    if isinstance(result, Comparison):
        return [similarity_plot(result), *layer_plots(result)]
    return None


def chosen_metrics(subject: Subject, metrics: str | Sequence[str] | None) -> str | Sequence[str]:
    """The metrics of a page: those that were named, else the default if the items have factors."""
    default = DEFAULT_METRICS if count_varying(subject.codes.factors, None) > 1 else ()
    return default if metrics is None else metrics


def saved_searches(run: Run) -> list[Fondue]:
    """The searches of FONDUE on the same data in the folder of the run."""
    return [Fondue.from_plain(found) for found in saved_results(run, load_results)]


def saved_results(run: Run, load: Callable[[Path], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The saved search results for the same data in the folder of the run."""
    data = run.configuration.data["fingerprint"]
    return [table for table in load(run.path.parent) if table["data"].get("fingerprint") == data]


def plots_of(subject: Subject, diagnosis: Diagnosis, searches: Sequence[Fondue], layers: bool) -> Iterator[Plot | None]:
    """Every plot for which there are data."""
    codes, types = subject.codes, diagnosis.types
    if subject.history:
        yield rates_over_training_plot(subject.history)
        yield history_plot(subject.history)
        yield rate_distortion_plot(subject.history)
        yield types_over_training_plot(subject.history, types)
    yield histograms_plot(codes, types)
    if codes.positions is not None:
        yield positions_plot(codes)
    if diagnosis.meaning is not None:
        yield factor_plot(diagnosis.meaning)
    for score in diagnosis.scores:
        yield importance_plot(score)
    yield correlation_plot(codes, types)
    yield information_plot(codes)
    for search in searches:
        yield fondue_plot(search)
    if subject.run is not None:
        for table in saved_results(subject.run, load_checks):
            yield elbow_plot(Elbow.from_plain(table))
        if layers and subject.items is not None:
            yield own_layers_plot(subject.run.model, subject.items)
