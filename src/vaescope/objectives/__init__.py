"""What training minimises: named per-example terms and their weights."""

from vaescope.objectives.annealed import Annealed
from vaescope.objectives.beta import Beta
from vaescope.objectives.beta_tc import BetaTC
from vaescope.objectives.decomposition import Decomposition
from vaescope.objectives.dip import DIPI, DIPII
from vaescope.objectives.factor import Factor
from vaescope.objectives.maximum_entropy import MaximumEntropy
from vaescope.objectives.objective import Context, Objective, Terms
from vaescope.objectives.registry import OBJECTIVES
from vaescope.objectives.scheduled import ScheduledObjective
from vaescope.objectives.strengths import form, in_words, strengths, strengths_in_use, with_strengths

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
