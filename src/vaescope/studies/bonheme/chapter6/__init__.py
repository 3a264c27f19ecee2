"""Types of latents and the dependence between them (Bonheme, chapter 6 and appendix B)."""

from vaescope.studies.bonheme.chapter6 import correlation, dependence, types
from vaescope.studies.study import Study

STUDIES: tuple[Study, ...] = (*types.STUDIES, *dependence.STUDIES, *correlation.STUDIES)
