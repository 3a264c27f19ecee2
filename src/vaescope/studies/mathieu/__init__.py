"""Mathieu et al., Disentangling disentanglement."""

from vaescope.studies.mathieu import pinwheel, priors, sparsity
from vaescope.studies.study import Study

STUDIES: tuple[Study, ...] = (*priors.STUDIES, *pinwheel.STUDIES, *sparsity.STUDIES)
