"""MNIST (LeCun et al., 1998) and Fashion-MNIST (Xiao et al., 2017) from IDX files, and the digits of scikit-learn."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from vaescope.data import cache
from vaescope.data.arrays import ArrayDataset, from_array
from vaescope.data.cache import PublicFile, PublicSet
from vaescope.data.dataset import BUILT_IN
from vaescope.data.images import resize
from vaescope.data.public.matrices import parse_idx
from vaescope.errors import DataError
from vaescope.registry import lookup

IMAGES, LABELS = "images-idx3-ubyte.gz", "labels-idx1-ubyte.gz"
PARTS = {"train": ("train",), "test": ("t10k",), "all": ("train", "t10k")}
GREY_LEVELS_OF_DIGITS = 16


def idx_set(
    name: str, origin: str, mirror: str, digests: tuple[tuple[str, int], ...], folders: tuple[Path, ...] = ()
) -> PublicSet:
    """The four files of a data set in the layout of MNIST.

    `digests` contains the SHA-256 of each file's uncompressed content and the CRC-32 of its first 4096 bytes.
    """
    names = [f"{prefix}-{ending}" for prefix in ("train", "t10k") for ending in (IMAGES, LABELS)]
    files = tuple(
        PublicFile((file, file.removesuffix(".gz")), mirror + file, content=f"sha256:{digest}", prefix_crc32=crc)
        for file, (digest, crc) in zip(names, digests, strict=True)
    )
    return PublicSet(name, origin, files, folders)


def open_idx_set(published: PublicSet, part: str = "train", size: int | None = None) -> ArrayDataset:
    """Images and labels of a part ("train", "test" or "all"), resized to size x size; default: 28 x 28."""
    files = {file.names[0]: file for file in published.files}
    digest = hashlib.sha256(f"{published.name}/{part}/{size}".encode())
    images, labels = [], []
    for prefix in lookup(PARTS, part, "part"):
        pixels, classes = (cache.read(published, files[f"{prefix}-{ending}"]) for ending in (IMAGES, LABELS))
        digest.update(hashlib.sha256(pixels).digest() + hashlib.sha256(classes).digest())
        images.append(parse_idx(pixels, f"{published.name}: {prefix}-{IMAGES}", dimensions=3))
        labels.append(parse_idx(classes, f"{published.name}: {prefix}-{LABELS}", dimensions=1))
        if len(images[-1]) != len(labels[-1]):
            raise DataError(
                f"{published.name}: there must be one label for each of the {len(images[-1])} {prefix} images, "
                f"got {len(labels[-1])}. The files do not belong together; download them again."
            )
    if len(shapes := {part.shape[1:] for part in images}) > 1:
        raise DataError(f"{published.name}: train and test images must have the same shape, got {sorted(shapes)}.")
    items = (images[0] if len(images) == 1 else np.concatenate(images))[:, None]
    items = items if size is None else resize(items, size)
    codes = torch.from_numpy(np.concatenate(labels).astype(np.int64))
    return ArrayDataset(published.name, items, items.shape[1:], digest.hexdigest(), codes)


def open_digits() -> ArrayDataset:
    """1797 images of 8 x 8 (Alpaydin and Kaynak, 1998), labelled by digit; grey levels 0..16 become 0..255."""
    grey, labels = _read_digits()
    pixels = np.rint(grey * (255 / GREY_LEVELS_OF_DIGITS)).astype(np.uint8)
    return from_array(pixels.reshape(-1, 1, 8, 8), "digits", labels=labels)


def _read_digits() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The grey levels and labels that scikit-learn ships, from its file: importing it takes longer than this."""
    spec = importlib.util.find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise DataError("digits needs the package scikit-learn, which is not installed. Install it.")
    file = Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"
    if not file.is_file():  # a version that keeps it elsewhere
        from sklearn.datasets import load_digits

        grey, labels = load_digits(return_X_y=True)
        return grey, labels.astype(np.int64)
    with gzip.open(file, "rt") as lines:
        table = np.loadtxt(lines, delimiter=",")
    return table[:, :-1], table[:, -1].astype(np.int64)


def locate_digits() -> str | None:
    """`BUILT_IN` if scikit-learn is installed."""
    return None if importlib.util.find_spec("sklearn") is None else BUILT_IN


MNIST = idx_set(
    "mnist",
    "http://yann.lecun.com/exdb/mnist/",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    (
        ("ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db", 0xA8E40FDC),
        ("65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5", 0x4F349A0F),
        ("0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7", 0xBB57D16E),
        ("ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2", 0x68DE2EC5),
    ),
)

FASHION_MNIST = idx_set(
    "fashion-mnist",
    "https://github.com/zalandoresearch/fashion-mnist",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    (
        ("c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888", 0xEAD75EC1),
        ("bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9", 0x64A1BAD9),
        ("5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b", 0xB5E2CE10),
        ("0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34", 0xC7AC101B),
    ),
    # The Debian package dataset-fashion-mnist installs the files here.
    (Path("/usr/share/datasets/fashion-mnist"),),
)
