"""The plots, cards and tables that results show in notebooks; importing this module registers them."""

from __future__ import annotations

from vaescope.diagnosis import Card, Comparison, Diagnosis
from vaescope.markup import Markup, element
from vaescope.metrics import Meaning
from vaescope.notebook import register_view
from vaescope.reporting import sections
from vaescope.reporting.heatmaps import map_plot, similarity_plot
from vaescope.reporting.history_plots import run_plot
from vaescope.reporting.latent_plots import factor_plot
from vaescope.reporting.plots import Plot
from vaescope.reporting.sizing_plots import elbow_plot, fondue_plot
from vaescope.runs import Run
from vaescope.similarity import SimilarityMap
from vaescope.sizing import Elbow, Fondue
from vaescope.tables import table


@register_view(Card)
def _card(card: Card) -> Markup:
    return sections.for_notebook(sections.card(card))


@register_view(Diagnosis)
def _diagnosis(found: Diagnosis) -> Markup:
    verdict = element("p", element("strong", found.summary()))
    return sections.for_notebook(verdict, sections.cards(found.cards), table(found.rows(), f"Latents of {found.name}"))


@register_view(Meaning)
def _meaning(found: Meaning) -> Markup | None:
    return _html(factor_plot(found))


@register_view(Comparison)
def _comparison(found: Comparison) -> Markup | None:
    return _html(similarity_plot(found))


@register_view(SimilarityMap)
def _similarity_map(found: SimilarityMap) -> Markup | None:
    return _html(map_plot(found))


@register_view(Fondue)
def _fondue(found: Fondue) -> Markup | None:
    return _html(fondue_plot(found))


@register_view(Elbow)
def _elbow(found: Elbow) -> Markup | None:
    return _html(elbow_plot(found))


@register_view(Run)
def _run(run: Run) -> Markup | None:
    return _html(run_plot(run))


def _html(plot: Plot | None) -> Markup | None:
    return None if plot is None else Markup(plot._repr_html_())
