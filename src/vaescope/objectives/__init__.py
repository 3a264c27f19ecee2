"""Training objectives: named per-example terms and their weights."""

from vaescope.objectives.aggregate import DIPI, DIPII, Decomposition
from vaescope.objectives.objective import (
    OBJECTIVES,
    Context,
    Objective,
    ScheduledObjective,
    Terms,
    form,
    in_words,
    strengths,
    strengths_in_use,
    with_strengths,
)
from vaescope.objectives.rate import Annealed, Beta, MaximumEntropy
from vaescope.objectives.total_correlation import BetaTC, Factor

__all__ = [
    "DIPI",
    "DIPII",
    "OBJECTIVES",
    "Annealed",
    "Beta",
    "BetaTC",
    "Context",
    "Decomposition",
    "Factor",
    "MaximumEntropy",
    "Objective",
    "ScheduledObjective",
    "Terms",
    "form",
    "in_words",
    "strengths",
    "strengths_in_use",
    "with_strengths",
]
