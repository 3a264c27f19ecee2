"""Similarity of representations (Bonheme, chapter 7 and appendix C)."""

from vaescope.studies.bonheme.chapter7 import classifier, similarity
from vaescope.studies.study import Study

STUDIES: tuple[Study, ...] = (*similarity.STUDIES, *classifier.STUDIES)
