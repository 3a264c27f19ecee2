"""Identifiable VAEs (Bonheme, chapter 5)."""

from vaescope.studies.bonheme.chapter5 import signatures
from vaescope.studies.study import Study

STUDIES: tuple[Study, ...] = (*signatures.STUDIES,)
