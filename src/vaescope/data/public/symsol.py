"""Symmetric solids (Murphy et al., 2021) as reduced by Bonheme: grey 64 x 64 images without duplicates."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from vaescope.data import cache
from vaescope.data.arrays import ArrayDataset
from vaescope.data.cache import PublicFile, PublicSet
from vaescope.data.dataset import Factors
from vaescope.data.public.pictures import decode_all, list_pictures
from vaescope.errors import DataError

SHAPES = ("tet", "cube", "icosa", "cone", "cyl")
SHAPE_PATTERN = re.compile("|".join(SHAPES))

SYMSOL = PublicSet(
    "symsol_reduced",
    "https://data.kent.ac.uk/436/1/symsol_reduced.zip",
    (PublicFile(("symsol_reduced.zip", "symsol_reduced"), pictures=".png"),),
)


def open_symsol(published: PublicSet = SYMSOL) -> ArrayDataset:
    """The images sorted by file name, from the zip or a folder of its PNG files; the label is the shape.

    A file name (without its folders) must contain exactly one of tet, cube, icosa, cone and cyl, as in
    `cone_00012.png` or `00012_cone.png`; labels 0 to 4 follow that order.
    """
    pictures = list_pictures(cache.obtain(published, published.files[0]), ".png")
    labels = torch.tensor([_label(name, pictures.path) for name in pictures.names])
    items, digest = decode_all(published.name, pictures, "L", lambda pixels: pixels, "grey")
    table = Factors(("shape",), (len(SHAPES),))
    codes = labels[:, None].to(torch.int16)
    return ArrayDataset(published.name, items, items.shape[1:], digest, labels, table, codes)


def _label(name: str, path: Path) -> int:
    shapes = set(SHAPE_PATTERN.findall(name.removesuffix(".png")))
    if len(shapes) != 1:
        raise DataError(
            f"{path}: each file name must contain exactly one of {', '.join(SHAPES)}, as in cone_00012.png, "
            f"got {name!r}. Rename or remove that file."
        )
    return SHAPES.index(shapes.pop())
