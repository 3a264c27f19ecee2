"""Bonheme, The polarised regime of variational autoencoders: chapters 5 to 8 and appendices B to D."""

from vaescope.studies.bonheme import chapter5, chapter6, chapter7, chapter8
from vaescope.studies.study import Study

STUDIES: tuple[Study, ...] = (*chapter5.STUDIES, *chapter6.STUDIES, *chapter7.STUDIES, *chapter8.STUDIES)
