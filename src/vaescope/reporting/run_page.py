"""The story of one model as a page: verdict, cards, latents, live decoding, plots, and what is missing."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from vaescope.diagnosis.diagnose import Diagnosis
from vaescope.diagnosis.subject import Material
from vaescope.encoding import traversals
from vaescope.markup import Markup, element, join
from vaescope.reporting import sections
from vaescope.reporting.history_plots import history_plot, rate_distortion_plot, types_over_training_plot
from vaescope.reporting.latent_plots import (
    correlation_plot,
    factor_plot,
    histograms_plot,
    importance_plot,
    information_plot,
    layers_plot,
)
from vaescope.reporting.latents import latent_rows, latents_table, pictured
from vaescope.reporting.live import Live, live, live_section
from vaescope.reporting.page import page
from vaescope.reporting.plots import Plot
from vaescope.reporting.sizing_plots import elbow_plot, fondue_plot
from vaescope.runs import summary
from vaescope.runs.columns import drop_constant_settings
from vaescope.sizing import Elbow, Fondue
from vaescope.sizing.axes import LATENTS
from vaescope.sizing.store import kept_checks, kept_results

# Of the row about a run, what the page says elsewhere.
ELSEWHERE = ("id", "status", "steps", "active", "mixed", "passive")


def story_page(material: Material, diagnosis: Diagnosis, *, layers: bool = True, seed: int = 0) -> str:
    """The whole page."""
    reasons = dict(material.left_out)
    found = live(material, diagnosis.types, seed)
    if isinstance(found, str):
        reasons["Live decoding"] = found
    if diagnosis.meaning is None:
        reasons["Factors"] = "the data come without factors: what a latent carries cannot be named."
    if material.items is None:
        reasons["Pictures"] = "there are codes without the items they are of."
    searches = searches_of(material)
    if material.run is not None and not searches:
        command = f"vaescope fondue {_source(material)}"
        reasons["FONDUE"] = f"no search over these data is kept beside the run; `{command}` makes one."
    drawn = [plot for plot in plots_of(material, diagnosis, searches, layers) if plot is not None]
    parts = [
        ("cards", "What it means", sections.cards(diagnosis.cards)),
        ("latents", "Latents", _latents(material, diagnosis)),
        *([("decoding", "Live decoding", _decoding(found, material))] if isinstance(found, Live) else []),
        ("plots", "Plots", sections.plots(drawn)),
    ]
    navigation = [(identity, title) for identity, title, _ in parts]
    return page(
        f"{material.name}: {diagnosis.types.summary()}",
        element("h1", f"vaescope report of {material.name}"),
        element("p", verdict(material, diagnosis, searches), class_="verdict"),
        None if material.run is None else sections.facts(facts_of(material)),
        *[sections.section(*part) for part in parts],
        sections.left_out(reasons),
        navigation=navigation,
    )


def verdict(material: Material, diagnosis: Diagnosis, searches: tuple[Fondue, ...]) -> str:
    """One sentence: types, collapse, and what FONDUE suggests where it was asked with the same model and objective."""
    text, suggested = diagnosis.summary(), sorted({one.latents for one in searches if _is_of(one, material)})
    return f"{text[:-1]}; FONDUE suggests {' or '.join(map(str, suggested))}." if suggested else text


def _is_of(found: Fondue, material: Material) -> bool:
    """Whether a search over latents trained what the run is one of."""
    assert material.run is not None
    table = material.run.configuration.plain()
    wanted = {**table["architecture"], "objective": table["member"]["objective"]}
    return found.over == LATENTS and all(found.settings.get(name) == value for name, value in wanted.items())


def facts_of(material: Material) -> dict[str, Any]:
    """What the run is, in a few words each."""
    assert material.run is not None
    if not material.history:
        configuration = material.run.configuration
        own = {"data": configuration.data["name"], "model": configuration.architecture.model}
        return {**own, "latents": configuration.member.latents, "encoded": len(material.codes)}
    (known,) = drop_constant_settings([summary(material.run)])
    told = {name: value for name, value in known.items() if name not in ELSEWHERE}
    own = {name: value for name, value in told.items() if not name.startswith(("train_", "test_"))}
    return {**own, "test_loss": told.get("test_loss"), "encoded": len(material.codes)}


def searches_of(material: Material) -> tuple[Fondue, ...]:
    """What FONDUE found on the same data, in searches that are kept beside the run."""
    if material.run is None:
        return ()
    mine = material.run.configuration.data["fingerprint"]
    tables = [table for table in kept_results(material.run.path.parent) if table["data"].get("fingerprint") == mine]
    return tuple(Fondue.from_plain(table) for table in tables)


def checks_of(material: Material) -> tuple[Elbow, ...]:
    """The elbow checks on the same data that are kept beside the run."""
    if material.run is None:
        return ()
    mine = material.run.configuration.data["fingerprint"]
    tables = [table for table in kept_checks(material.run.path.parent) if table["data"].get("fingerprint") == mine]
    return tuple(Elbow.from_plain(table) for table in tables)


def plots_of(
    material: Material, diagnosis: Diagnosis, searches: tuple[Fondue, ...], layers: bool
) -> Iterator[Plot | None]:
    """Every plot that there is material for."""
    codes, types = material.codes, diagnosis.types
    if material.history:
        yield history_plot(material.history)
        yield rate_distortion_plot(material.history)
        yield types_over_training_plot(material.history)
    yield histograms_plot(codes, types)
    if diagnosis.meaning is not None:
        yield factor_plot(diagnosis.meaning)
    for score in diagnosis.scores:
        yield importance_plot(score)
    yield correlation_plot(codes, types)
    yield information_plot(codes)
    for found in searches:
        yield fondue_plot(found)
    for check in checks_of(material):
        yield elbow_plot(check)
    if layers and material.run is not None and material.items is not None:
        yield layers_plot(material.model, material.items)


def _latents(material: Material, diagnosis: Diagnosis) -> Markup:
    """The table, with what each latent does to a decoded item where there is a decoder."""
    rows = latent_rows(diagnosis, material.codes)
    moved = None
    if material.run is not None and material.items is not None:
        moved = traversals(material.model, material.items, material.codes, latents=pictured(rows))
    return latents_table(rows, traversals=moved, items=material.items, name="latent-rows")


def _decoding(found: Live, material: Material) -> Markup:
    words = "Move a latent, and the decoder, which this page holds, draws what becomes of the item."
    return join(element("p", words, class_="quiet"), live_section(found, material.items))


def _source(material: Material) -> str:
    """What to name to a command that works on the run's data."""
    assert material.run is not None
    return shlex.quote(str(material.run.record.get("source") or material.run.configuration.data["name"]))
