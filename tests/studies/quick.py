"""Studies at quick scale for tests: each done once, from runs in one folder."""

from __future__ import annotations

from pathlib import Path

from vaescope.studies import STUDIES
from vaescope.studies.study import Findings, Scale


class Quick:
    """Findings by the name of their study, made when asked for."""

    def __init__(self, runs: Path) -> None:
        self.scale = Scale(runs=runs, progress=False)
        self.found: dict[str, Findings] = {}

    def __call__(self, name: str) -> Findings:
        if name not in self.found:
            self.found[name] = STUDIES[name].work(self.scale)
        return self.found[name]

    def values(self, name: str, **of: object) -> list[float]:
        """The values of the cells that are of this, in their order."""
        cells = [cell for cell in self(name).cells if of.items() <= cell.of.items()]
        return [cell.value for cell in cells if cell.value is not None]

    def value(self, name: str, **of: object) -> float:
        """The value of the one cell that is of this."""
        (value,) = self.values(name, **of)
        return value
