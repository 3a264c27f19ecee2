"""Symmetric solids (Murphy et al., 2021) as reduced by Bonheme: grey 64x64 images, no duplicates."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import numpy as np
import torch

from vaescope.data import cache
from vaescope.data.arrays import ArrayDataset
from vaescope.data.cache import PublicFile, PublicSet
from vaescope.data.dataset import Factors
from vaescope.data.public.pictures import list_pictures, prepared
from vaescope.data.source import Source
from vaescope.errors import DataError

SHAPES = ("tet", "cube", "icosa", "cone", "cyl")
SHAPE = re.compile("|".join(SHAPES))

SYMSOL = PublicSet(
    "symsol_reduced",
    "https://data.kent.ac.uk/436/1/symsol_reduced.zip",
    (PublicFile(("symsol_reduced.zip", "symsol_reduced"), pictures=".png"),),
)


def open_symsol(published: PublicSet = SYMSOL) -> ArrayDataset:
    """The images sorted by file name, from the zip or from a folder of its PNG files; the label is the shape.

    A file name (without its folders) must hold exactly one of tet, cube, icosa, cone and cyl, as in
    `cone_00012.png` or `00012_cone.png`; labels 0 to 4 follow that order.
    """
    pictures = list_pictures(cache.obtain(published, published.files[0]), ".png")
    labels = torch.tensor([_label(name, pictures.path) for name in pictures.names])
    items, digest = prepared(published.name, pictures, "L", _unchanged, "grey")
    table = Factors(("shape",), (len(SHAPES),))
    codes = labels[:, None].to(torch.int16)
    return ArrayDataset(published.name, items, items.shape[1:], digest, labels, table, codes)


def _label(name: str, path: Path) -> int:
    shapes = set(SHAPE.findall(name.removesuffix(".png")))
    if len(shapes) != 1:
        raise DataError(
            f"{path}: each file name must hold exactly one of {', '.join(SHAPES)}, as in cone_00012.png; "
            f"got {name!r}. Remove or rename that file."
        )
    return SHAPES.index(shapes.pop())


def _unchanged(pixels: np.ndarray) -> np.ndarray:
    return pixels


SOURCES = (
    Source(
        SYMSOL.name,
        "rotated solids: tetrahedron, cube, icosahedron, cone, cylinder",
        112791,
        (1, 64, 64),
        ("shape",),
        open_symsol,
        partial(cache.locate, SYMSOL),
    ),
)
