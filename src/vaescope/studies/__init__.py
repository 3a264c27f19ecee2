"""Studies: every table and figure of the five documents by its name, from runs to numbers beside the published ones."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

from vaescope.errors import ConfigurationError
from vaescope.registry import lookup
from vaescope.runs.options import choose_device
from vaescope.studies.charts import Histograms, Lines, Matrix, Pictures
from vaescope.studies.published import published_cells
from vaescope.studies.study import Cell, Findings, Reproduction, Scale, Study
from vaescope.sweeps.execute import single_thread

# Each holds studies of one document, as `STUDIES`; adding one is a file and a line.
MODULES = (
    "bonheme_classifier",
    "bonheme_correlation",
    "bonheme_dependence",
    "bonheme_identifiable",
    "bonheme_similarity",
    "bonheme_sizes_dimensions",
    "bonheme_sizes_elbows",
    "bonheme_sizes_tables",
    "bonheme_types",
    "clapham_codes",
    "clapham_collapse",
    "mathieu_pinwheel",
    "mathieu_priors",
    "mathieu_sparsity",
    "pastrana_curves",
    "pastrana_pictures",
    "rolinek_figures",
    "rolinek_tables",
    "rolinek_toy",
)
STUDIES: dict[str, Study] = {
    study.name: study for module in MODULES for study in import_module(f"vaescope.studies.{module}").STUDIES
}

__all__ = [
    "STUDIES",
    "Cell",
    "Findings",
    "Histograms",
    "Lines",
    "Matrix",
    "Pictures",
    "Reproduction",
    "Scale",
    "Study",
    "reproduce",
]


def reproduce(name: str, scale: str = "quick", **options: Any) -> Reproduction:
    """Train what is missing of a study, measure, and set our numbers beside the published ones.

    `options` are those of `Scale`: seeds, share, data, runs, device, by, options, progress.
    """
    study = lookup(STUDIES, name, "study")
    chosen = Scale(scale, **options)
    # Small nets gain nothing from more threads, and lose much to them.
    with single_thread(choose_device(chosen.device)):
        findings = study.work(chosen)
    if not findings.cells:
        why = "data must name some that" if chosen.data else "some of the data must be there that"
        raise ConfigurationError(f"{why} {name} is about. {' '.join(findings.notes)}")
    findings = replace(findings, notes=(*findings.notes, *chosen.check_names(name)))
    return Reproduction(study, chosen, findings, published_cells(name))
