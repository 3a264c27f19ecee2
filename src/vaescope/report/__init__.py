"""What people read: cards and diagnoses."""

from vaescope.report.cards import Card
from vaescope.report.diagnosis import Diagnosis, diagnose

__all__ = ["Card", "Diagnosis", "diagnose"]
