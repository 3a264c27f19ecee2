"""How many latents a model needs (Bonheme, chapter 8 and appendix D)."""

from vaescope.studies.bonheme.chapter8 import dimensions, elbows, tables
from vaescope.studies.study import Study

STUDIES: tuple[Study, ...] = (*dimensions.STUDIES, *tables.STUDIES, *elbows.STUDIES)
