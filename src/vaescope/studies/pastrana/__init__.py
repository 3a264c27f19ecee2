"""Pastrana, Disentangling variational autoencoders."""

from vaescope.studies.pastrana import curves, pictures
from vaescope.studies.study import Study

STUDIES: tuple[Study, ...] = (*curves.STUDIES, *pictures.STUDIES)
