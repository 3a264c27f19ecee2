"""What training minimises: named per-example terms and their weights."""

from typing import Any

from vaescope.objectives.beta import Beta
from vaescope.objectives.context import Context
from vaescope.objectives.objective import Objective
from vaescope.objectives.strengths import in_words, strengths, with_strengths
from vaescope.objectives.terms import Terms

OBJECTIVES: dict[str, type[Any]] = {"beta": Beta}

__all__ = ["OBJECTIVES", "Beta", "Context", "Objective", "Terms", "in_words", "strengths", "with_strengths"]
