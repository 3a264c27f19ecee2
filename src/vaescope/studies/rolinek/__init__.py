"""Rolinek et al., Variational autoencoders pursue PCA directions (by accident)."""

from vaescope.studies.rolinek import tables, toy
from vaescope.studies.study import Study

STUDIES: tuple[Study, ...] = (*toy.STUDIES, *tables.STUDIES)
