"""Public data sets, one module per family; `ENTRIES` lists them all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from vaescope.data import cache
from vaescope.data.dataset import Dataset, DatasetEntry
from vaescope.data.dsprites import NAMES
from vaescope.data.public import mnist, objects, pictures


def _entry(
    published: cache.PublicSet,
    opener: Callable[..., Dataset],
    summary: str,
    source: str,
    items: int,
    shape: tuple[int, ...],
    factors: tuple[str, ...] = (),
    licence: str = "",
) -> DatasetEntry:
    return DatasetEntry(
        published.name,
        summary,
        source,
        items,
        shape,
        factors,
        open=partial(opener, published),
        locate=partial(cache.locate, published),
        how_to_get="downloads on first use" if published.downloadable else f"manual download: {published.origin}",
        licence=licence,
        published=published,
    )


ENTRIES = (
    _entry(
        mnist.MNIST,
        mnist.open_idx_set,
        "handwritten digits",
        "LeCun et al., 1998",
        60000,
        (1, 28, 28),
        licence="CC BY-SA 3.0, as the documentation of Keras says; the page of the data names none",
    ),
    _entry(
        mnist.FASHION_MNIST,
        mnist.open_idx_set,
        "articles of clothing",
        "Xiao et al., 2017",
        60000,
        (1, 28, 28),
        licence="MIT",
    ),
    DatasetEntry(
        "digits",
        "small handwritten digits, offline",
        "Alpaydin and Kaynak, 1998",
        1797,
        (1, 8, 8),
        (),
        mnist.open_digits,
        mnist.locate_digits,
        "comes with the package scikit-learn",
        licence="CC BY 4.0",
    ),
    _entry(
        objects.DSPRITES,
        objects.open_dsprites,
        "a square, an ellipse or a heart (published file)",
        "Matthey et al., 2017",
        737280,
        (1, 64, 64),
        NAMES,
        licence="Apache 2.0",
    ),
    _entry(
        objects.SMALLNORB,
        objects.open_smallnorb,
        "photographs of toys",
        "LeCun et al., 2004",
        48600,
        (1, 64, 64),
        objects.NORB_FACTORS,
        licence="for research only; it cannot be sold",
    ),
    _entry(
        objects.CARS3D,
        objects.open_cars3d,
        "renderings of cars from all sides",
        "Reed et al., 2015",
        17568,
        (3, 64, 64),
        objects.CAR_FACTORS,
    ),
    _entry(
        pictures.SYMSOL,
        pictures.open_symsol,
        "rotated solids: tetrahedron, cube, icosahedron, cone, cylinder",
        "Murphy et al., 2021, reduced by Bonheme",
        112791,
        (1, 64, 64),
        ("shape",),
    ),
    _entry(
        pictures.CELEBA,
        pictures.open_celeba,
        "faces of celebrities",
        "Liu et al., 2015",
        202599,
        (3, 64, 64),
        licence="for non-commercial research only; it cannot be redistributed",
    ),
)
