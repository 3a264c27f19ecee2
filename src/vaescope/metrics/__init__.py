"""How well codes separate, order and keep the factors of the data; every result has a score."""

from vaescope.metrics.labelled import Labelled, labelled
from vaescope.metrics.mig import mig, mig_sup
from vaescope.metrics.score import Score

__all__ = ["Labelled", "Score", "labelled", "mig", "mig_sup"]
