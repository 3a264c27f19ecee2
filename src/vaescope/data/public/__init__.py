"""Public data sets, one module per family; `SOURCES` lists them all."""

from vaescope.data.public import cars3d, celeba, digits, dsprites_file, mnist, smallnorb, symsol
from vaescope.data.source import Source

SOURCES: tuple[Source, ...] = (
    *mnist.SOURCES,
    *digits.SOURCES,
    *dsprites_file.SOURCES,
    *smallnorb.SOURCES,
    *cars3d.SOURCES,
    *symsol.SOURCES,
    *celeba.SOURCES,
)
