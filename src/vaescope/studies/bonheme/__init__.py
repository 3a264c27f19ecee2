"""Bonheme, The polarised regime of variational autoencoders: chapters 5 to 8 and appendices B to D."""

from vaescope.studies.bonheme import (
    bisection,
    correlation,
    dimensions,
    elbows,
    epochs,
    signatures,
    similarity,
    tables,
    types,
)

STUDIES = (
    *signatures.STUDIES,
    *types.STUDIES,
    *correlation.STUDIES,
    *similarity.STUDIES,
    *epochs.STUDIES,
    *dimensions.STUDIES,
    *tables.STUDIES,
    *bisection.STUDIES,
    *elbows.STUDIES,
)
