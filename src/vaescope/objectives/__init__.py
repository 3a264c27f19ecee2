"""What training minimises: named per-example terms and their weights."""

from vaescope.objectives.annealed import Annealed
from vaescope.objectives.beta import Beta
from vaescope.objectives.beta_tc import BetaTC
from vaescope.objectives.context import Context
from vaescope.objectives.decomposition import Decomposition
from vaescope.objectives.dip import DIPI, DIPII
from vaescope.objectives.factor import Factor
from vaescope.objectives.maximum_entropy import MaximumEntropy
from vaescope.objectives.objective import Objective
from vaescope.objectives.registry import OBJECTIVES
from vaescope.objectives.strengths import in_words, strengths, with_strengths
from vaescope.objectives.terms import Terms

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
    "Terms",
    "in_words",
    "strengths",
    "with_strengths",
]
