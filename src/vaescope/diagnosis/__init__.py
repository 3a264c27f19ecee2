"""What is true of a model and what to say about it: diagnoses, comparisons and their cards."""

from vaescope.diagnosis.cards import Card
from vaescope.diagnosis.compare import Comparison, compare
from vaescope.diagnosis.diagnose import Diagnosis, diagnose

__all__ = ["Card", "Comparison", "Diagnosis", "compare", "diagnose"]
