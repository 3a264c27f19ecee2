"""Studies: every table and figure of the five documents by its name, from runs to a comparison with the published."""

from __future__ import annotations

from typing import Unpack

from vaescope.errors import ConfigurationError
from vaescope.registry import lookup
from vaescope.studies import bonheme, clapham, mathieu, pastrana, rolinek
from vaescope.studies.charts import Histograms, Lines, Matrix, Pictures
from vaescope.studies.context import (
    Comparison,
    Measurement,
    SettingsOptions,
    StudyContext,
    StudyRun,
    StudySettings,
    Task,
    Values,
)
from vaescope.studies.pieces import StudyPlan, parse_share
from vaescope.studies.published import published_cells
from vaescope.studies.running import StudyUnfinished, find
from vaescope.studies.running import plan as plan_pieces
from vaescope.studies.study import Cell, Findings, Reproduction, Study

STUDIES: dict[str, Study] = {
    study.name: study for document in (bonheme, clapham, mathieu, pastrana, rolinek) for study in document.STUDIES
}

__all__ = [
    "STUDIES",
    "Cell",
    "Comparison",
    "Findings",
    "Histograms",
    "Lines",
    "Matrix",
    "Measurement",
    "Pictures",
    "Reproduction",
    "Study",
    "StudyContext",
    "StudyPlan",
    "StudyRun",
    "StudySettings",
    "StudyUnfinished",
    "Task",
    "Values",
    "parse_share",
    "plan",
    "reproduce",
]


def reproduce(
    name: str,
    scale: str = "quick",
    *,
    minutes: float | None = None,
    piece: str | None = None,
    **settings: Unpack[SettingsOptions],
) -> Reproduction:
    """Train what is missing of a study, measure it, and compare our numbers with the published ones.

    Results are kept as they are measured: the same call continues after a stop.

    Args:
        name: A study of `STUDIES`.
        scale: 'quick' or 'paper'.
        minutes: Time limit. Whole pieces are done until the next would not fit, then `StudyUnfinished` is raised.
        piece: The share of the pieces that is done here, such as '3/8'. Default: all.
        settings: Those of `StudySettings`: seeds, share, data, runs, results, device, engine, engine_options, progress.
    """
    study = lookup(STUDIES, name, "study")
    chosen = StudySettings(scale, **settings)
    share = None if piece is None else parse_share(piece)
    findings, words = find(study, chosen, minutes=minutes, share=share)
    if not findings.cells:
        why = "data must name some that" if chosen.data else "some of the data must be there that"
        raise ConfigurationError(f"{why} {name} is about. {' '.join(findings.notes)}")
    return Reproduction(study, chosen, findings, published_cells(name), words)


def plan(
    name: str, scale: str = "quick", *, piece: str | None = None, **settings: Unpack[SettingsOptions]
) -> StudyPlan:
    """The pieces of a study that are done and those that are missing, with an estimate of their minutes.

    The arguments are those of `reproduce`. Nothing is trained.
    """
    study = lookup(STUDIES, name, "study")
    return plan_pieces(study, StudySettings(scale, **settings), None if piece is None else parse_share(piece))
