"""Diagnoses and comparisons of models, with a headline and cards that explain the findings."""

from vaescope.diagnosis.cards import Card
from vaescope.diagnosis.claims import Claim
from vaescope.diagnosis.compare import Comparison, compare
from vaescope.diagnosis.diagnose import Diagnosis, GroupedDiagnosis, diagnose
from vaescope.diagnosis.headline import Headline
from vaescope.diagnosis.reconstruction import Reconstruction

__all__ = [
    "Card",
    "Claim",
    "Comparison",
    "Diagnosis",
    "GroupedDiagnosis",
    "Headline",
    "Reconstruction",
    "compare",
    "diagnose",
]
