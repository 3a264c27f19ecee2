"""Clapham and Grzes, Posterior collapse in variational gradient origin networks."""

from vaescope.studies.clapham import codes, collapse
from vaescope.studies.study import Study

STUDIES: tuple[Study, ...] = (*collapse.STUDIES, *codes.STUDIES)
