"""What people read: cards, diagnoses, comparisons, and the report in one file.

The package is also its main function: `vaescope.report(run, path)` is `vaescope.report.reporting.report(run, path)`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from vaescope.report.cards import Card
from vaescope.report.comparison import Comparison, compare
from vaescope.report.diagnosis import Diagnosis, diagnose
from vaescope.report.plots import Plot
from vaescope.report.reporting import report

__all__ = ["Card", "Comparison", "Diagnosis", "Plot", "compare", "diagnose", "report"]


class _Callable(ModuleType):
    """What people ask for is `vaescope.report(run)`, and importing a part of a package binds its name to it."""

    def __call__(self, subject: Any, *given: Any, **settings: Any) -> Path:
        return report(subject, *given, **settings)


sys.modules[__name__].__class__ = _Callable
