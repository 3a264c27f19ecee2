"""The plots, cards and tables that results show in notebooks; importing this module registers them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from vaescope.codes import Representation
from vaescope.data import Dataset
from vaescope.diagnosis import Card, Comparison, Diagnosis
from vaescope.diagnosis.diagnose import GroupedDiagnosis
from vaescope.markup import Markup, element
from vaescope.metrics import Meaning
from vaescope.notebook import register_view
from vaescope.reporting import page
from vaescope.reporting.forms import codes_form, dataset_form, history_form, store_form
from vaescope.reporting.heatmaps import map_plot, similarity_plot
from vaescope.reporting.history_plots import history_plot
from vaescope.reporting.latent_plots import factor_plot
from vaescope.reporting.plots import Plot
from vaescope.reporting.sizing_plots import elbow_plot, fondue_plot
from vaescope.runs import Run, Store
from vaescope.runs.history import History
from vaescope.similarity import SimilarityMap
from vaescope.sizing import Elbow, Fondue
from vaescope.tables import table

Result = TypeVar("Result")


@register_view(Card)
def _card(card: Card) -> Markup:
    return page.for_notebook(page.card(card))


@register_view(Diagnosis)
def _diagnosis(found: Diagnosis) -> Markup:
    verdict = element("p", element("strong", found.summary()))
    return page.for_notebook(verdict, page.cards(found.cards), table(found.rows(), f"Latents of {found.name}"))


@register_view(GroupedDiagnosis)
def _grouped(found: GroupedDiagnosis) -> Markup:
    verdict = element("p", element("strong", found.card.meaning))
    return page.for_notebook(verdict, page.cards(found.cards), table(found.rows(), f"Latents of {found.name}"))


def _register_plot(kind: type[Result], draw: Callable[[Result], Plot | None]) -> None:
    @register_view(kind)
    def view(result: Result) -> Markup | None:
        plot = draw(result)
        return None if plot is None else Markup(plot._repr_html_())


_register_plot(Meaning, factor_plot)
_register_plot(Comparison, similarity_plot)
_register_plot(SimilarityMap, map_plot)
_register_plot(Fondue, fondue_plot)
_register_plot(Elbow, elbow_plot)
_register_plot(Run, lambda run: history_plot(run.history))

register_view(Store)(store_form)
register_view(Dataset)(dataset_form)  # type: ignore[type-abstract]
register_view(Representation)(codes_form)
register_view(History)(history_form)
