"""Studies at quick scale for tests: each run once, from runs in one folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from vaescope.studies import STUDIES, Findings, Study, StudySettings
from vaescope.studies.running import find, plan_pieces

ALONE = {"workers": 1}  # loading torch in other processes takes longer than training


def found_once(study: Study, settings: StudySettings) -> Findings:
    """The findings of a study. Its first plan must be complete: a study requests pieces before it reads them."""
    before = plan_pieces(study, replace(settings, results=(Path(settings.runs) / "no-results",)))
    findings, _ = find(study, settings)
    after = plan_pieces(study, settings)
    columns = ("what", "models", "steps")
    first, last = ([[row[name] for name in columns] for row in one.rows()] for one in (before, after))
    assert first == last
    assert not after.missing
    return findings


class Quick:
    """Findings by the name of their study, computed on first access."""

    def __init__(self, runs: Path, seeds: int | None = 1) -> None:
        self.settings = StudySettings(runs=runs, engine_options=ALONE, progress=False, seeds=seeds)
        self.found: dict[str, Findings] = {}

    def __call__(self, name: str) -> Findings:
        if name not in self.found:
            self.found[name] = found_once(STUDIES[name], self.settings)
        return self.found[name]

    def values(self, name: str, **of: object) -> list[float]:
        """The values of the cells with these coordinates, in order."""
        cells = [cell for cell in self(name).cells if of.items() <= cell.of.items()]
        return [cell.value for cell in cells if cell.value is not None]

    def value(self, name: str, **of: object) -> float:
        """The value of the only cell with these coordinates."""
        (value,) = self.values(name, **of)
        return value
