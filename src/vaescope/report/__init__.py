"""What people read: cards and diagnoses."""

from vaescope.report.cards import Card
from vaescope.report.comparison import Comparison, compare
from vaescope.report.diagnosis import Diagnosis, diagnose

__all__ = ["Card", "Comparison", "Diagnosis", "compare", "diagnose"]
